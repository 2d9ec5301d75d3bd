"""Allocators: who gets the next offer. Plain leaf functions on arrays: a master calls them, kernels
compile them.

Row f of `allocated` and `offered` is what framework f holds and has been offered; `wants[f]` says
whether it would use more. Each answers with a framework, or −1 for nobody. `draw` is a number in
[0, 1) that only the lottery uses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Allocator = Callable[[Array, Array, Array, Array, Array, float], int]


def drf(
    allocated: Array, offered: Array, total: Array, weight: Array, wants: Array, draw: float
) -> int:
    """Dominant-resource fairness: the framework whose largest share, offers included, is smallest
    for its weight."""
    chosen, lowest = -1, 0.0
    for f in range(wants.shape[0]):
        if not wants[f]:
            continue
        share = 0.0
        for r in range(total.shape[0]):
            if total[r] > 0:
                share = max(share, (allocated[f, r] + offered[f, r]) / total[r])
        share /= weight[f]
        if chosen < 0 or share < lowest:
            chosen, lowest = f, share
    return chosen


def find_shares(amounts: Array, total: Array) -> Array:
    """The dominant share of each row of amounts."""
    has = total > 0
    shares: Array = (amounts[:, has] / total[has]).max(axis=1, initial=0.0)
    return shares


def drf_of_shares(shares: Array, weight: Array, wants: Array, offers: Array) -> int:
    """`drf` for a caller that knows the dominant shares. Of frameworks with equal shares, the one
    that was made the fewest offers so far.

    Where there is room for one task only, everybody's share is zero whenever there is something to
    offer. If the first of equals were chosen, nobody else would ever run a task.
    """
    if not wants.any():
        return -1
    weighted = np.where(wants, shares / weight, np.inf)
    equals = np.flatnonzero(weighted == weighted.min())
    return int(equals[offers[equals].argmin()])


def priority(
    allocated: Array, offered: Array, total: Array, weight: Array, wants: Array, draw: float
) -> int:
    """Strict priority: the framework with the highest weight that wants something; the first of
    equals."""
    chosen = -1
    for f in range(wants.shape[0]):
        if wants[f] and (chosen < 0 or weight[f] > weight[chosen]):
            chosen = f
    return chosen


def lottery(
    allocated: Array, offered: Array, total: Array, weight: Array, wants: Array, draw: float
) -> int:
    """Lottery scheduling (4.7): a framework is drawn with a probability in proportion to its
    weight."""
    tickets = 0.0
    for f in range(wants.shape[0]):
        if wants[f]:
            tickets += weight[f]
    left, chosen = draw * tickets, -1
    for f in range(wants.shape[0]):
        if wants[f]:
            chosen = f
            left -= weight[f]
            if left < 0.0:
                return f
    return chosen


ALLOCATORS: dict[str, Allocator] = {"drf": drf, "priority": priority, "lottery": lottery}


def keep_entitled(allocated: Array, total: Array, guaranteed: Array, wants: Array) -> bool:
    """Frameworks whose dominant share is below their guarantee go before all others: if there are
    any, keep only them in `wants` and say so."""
    owed = False
    for only in range(2):
        for f in range(wants.shape[0]):
            share = 0.0
            for r in range(total.shape[0]):
                if total[r] > 0:
                    share = max(share, allocated[f, r] / total[r])
            below = share < guaranteed[f]
            if only == 0:
                owed = owed or (wants[f] and below)
            elif owed:
                wants[f] = wants[f] and below
    return owed


def find_revocable(allocated: Array, total: Array, guaranteed: Array) -> int:
    """The framework furthest above its guaranteed share, from which tasks may be revoked (5.2.3),
    or −1."""
    chosen, highest = -1, 0.0
    for f in range(guaranteed.shape[0]):
        share = 0.0
        for r in range(total.shape[0]):
            if total[r] > 0:
                share = max(share, allocated[f, r] / total[r])
        if share - guaranteed[f] > highest:
            chosen, highest = f, share - guaranteed[f]
    return chosen
