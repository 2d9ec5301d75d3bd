"""How evenly a cluster is filled, and into how many useless pieces its free room is cut."""

from __future__ import annotations

import math

from murmuration.base.arrays import Amounts


def imbalance(total: Amounts, free: Amounts) -> float:
    """Standard deviation of the nodes' loads; a node's load is the share of its fullest
    resource. 0: every node is as full as any other."""
    nodes, mean, squares = 0, 0.0, 0.0
    for i in range(total.shape[0]):
        load, there = 0.0, False
        for r in range(total.shape[1]):
            if total[i, r] > 0:
                there = True
                load = max(load, 1.0 - free[i, r] / total[i, r])
        if there:
            # Welford's update: a sum of squares would cancel where all loads are nearly equal.
            nodes += 1
            away = load - mean
            mean += away / nodes
            squares += away * (load - mean)
    return math.sqrt(squares / nodes) if nodes > 0 else 0.0


def fragmentation(total: Amounts, free: Amounts, sums: Amounts, running: int) -> float:
    """How much of the free room is in pieces that are too small or of the wrong shape: the share of
    average tasks that would fit if all of it were one node, and do not fit as it lies.

    The average task is that of what runs now, so that no size has to be chosen for the measure.
    """
    pooled, fits = math.inf, 0.0
    for r in range(total.shape[1]):
        if sums[0, r] > 0:
            room = 0.0
            for i in range(total.shape[0]):
                room += max(free[i, r], 0)
            pooled = min(pooled, math.floor(room * running / sums[0, r]))
    if running == 0 or pooled <= 0.0 or pooled == math.inf:
        return 0.0
    for i in range(total.shape[0]):
        here = math.inf
        for r in range(total.shape[1]):
            if sums[0, r] > 0:
                here = min(here, math.floor(max(free[i, r], 0) * running / sums[0, r]))
        fits += here
    return 1.0 - fits / pooled
