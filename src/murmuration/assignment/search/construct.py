"""Placements made greedily, one task after the other: Kubernetes' scores, first fit, and what a
search starts from.

Every one takes what is pinned as it is and puts the other tasks on nodes by its rule, from nothing;
a node is used only where capacity, constraints and rules allow it, as Kubernetes' filters do. Ties
go to the first node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmuration.assignment.packed import Packed, Placement, Work
from murmuration.assignment.state import (
    State,
    enter,
    fits,
    gap_with,
    load,
    may_use,
    new_state,
    ruled_out,
    watts,
)
from murmuration.base.jit import inlined, loop_kernel

Array = NDArray[Any]
LEAST, MOST, BALANCED, FIRST, BEST, POWER, FEWEST, GAP = range(8)


class Recipe(NamedTuple):
    """Which node a task gets, and whether large tasks come first."""

    rule: int
    decreasing: bool


#: The first four stand beside every plan.
RECIPES = {
    "kubernetes": Recipe(LEAST, False),
    "most-allocated": Recipe(MOST, False),
    "balanced": Recipe(BALANCED, False),
    "first-fit-decreasing": Recipe(FIRST, True),
    "kubernetes-decreasing": Recipe(LEAST, True),
    "best-fit-decreasing": Recipe(BEST, True),
    "least-power": Recipe(POWER, True),
    "fewest-tasks": Recipe(FEWEST, True),
    "smallest-gap": Recipe(GAP, True),
}
BASELINES = ("kubernetes", "most-allocated", "balanced", "first-fit-decreasing")
LABELS = {
    "kubernetes": "Kubernetes (LeastRequested)",
    "most-allocated": "Kubernetes (MostAllocated)",
    "balanced": "Kubernetes (BalancedAllocation)",
    "first-fit-decreasing": "first-fit decreasing",
    "pymoo": "pymoo's NSGA-III",
}


def construct(work: Work, name: str) -> Placement:
    """The placement a recipe makes."""
    packed, recipe = work.packed, RECIPES[name]
    state = new_state(packed)
    start = packed.start.astype(np.int32)
    start[packed.movable] = -1
    load(packed, state, start)
    fill(packed, state, _order(work, recipe.decreasing), recipe.rule)
    return state.x


def _order(work: Work, decreasing: bool) -> Array:
    """Movable tasks as they stand in the snapshot, or the largest first, by the largest share of an
    average node."""
    movable = work.packed.movable
    movable = movable[np.argsort(work.order[movable], kind="stable")]
    # The important come first, as they do in Kubernetes' queue.
    urgency = -work.problem.priority[work.order[movable]]
    if not decreasing:
        return movable[np.argsort(urgency, kind="stable")]
    mean = np.maximum(work.packed.total.mean(axis=0), 1.0)
    size = (work.packed.request[movable] / mean).max(axis=1)
    return movable[np.lexsort((-size, urgency))]


@loop_kernel
def fill(p: Packed, s: State, order: Array, rule: int) -> int:
    """Put tasks on nodes in turn; returns how many found none."""
    left = 0
    for k in range(order.shape[0]):
        t = order[k]
        best, most = -1, 0.0
        for n in range(p.total.shape[0]):
            if not (fits(p, s, t, n) and may_use(p, t, n)):
                continue
            value = score(p, s, t, n, rule)
            if (best < 0 or value > most) and not ruled_out(p, s, t, n):
                best, most = n, value
                if rule == FIRST:
                    break
        if best >= 0:
            enter(p, s, t, best)
        else:
            left += 1
    return left


@inlined
def score(p: Packed, s: State, t: int, n: int, rule: int) -> float:
    """How good a node is for a task; the first three in Kubernetes' whole numbers."""
    found = 0.0
    if rule in (LEAST, MOST):
        points, had = 0, 0
        for r in range(2):
            if p.total[n, r] > 0:
                free = max(s.free[n, r] - p.request[t, r], 0)
                points += ((free if rule == LEAST else p.total[n, r] - free) * 100) // p.total[n, r]
                had += 1
        found = float(points // max(had, 1))
    elif rule == BALANCED:
        cpu = (p.total[n, 0] - s.free[n, 0] + p.request[t, 0]) * p.inverse[n, 0]
        memory = (p.total[n, 1] - s.free[n, 1] + p.request[t, 1]) * p.inverse[n, 1]
        found = np.floor((1.0 - abs(min(cpu, 1.0) - min(memory, 1.0)) / 2.0) * 100.0)
    elif rule == BEST:
        for r in range(s.free.shape[1]):
            found -= (s.free[n, r] - p.request[t, r]) * p.inverse[n, r]
    elif rule == POWER:
        found = -watts(p, t, n)
    elif rule == FEWEST:
        found = -float(s.tasks[n])
    elif rule == GAP:
        found = -gap_with(p, s, n, p.request[t, 0], p.request[t, 1])
    return found
