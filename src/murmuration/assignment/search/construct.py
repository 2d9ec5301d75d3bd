"""Placements made greedily, one task after the other: Kubernetes' scores, first fit, and what a
search starts from.

Every one takes what is pinned as it is and puts the other tasks on nodes by its rule, as if they
had none; a node is used only where capacity, constraints and rules allow it, as Kubernetes' filters
do. Ties go to the first node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from murmuration.assignment.packed import Packed, Work
from murmuration.assignment.state import (
    PlacementState,
    breaks_rule,
    fits,
    gap_with,
    load,
    may_use,
    new_state,
    place_task,
    watts,
)
from murmuration.base.arrays import Indices, Placement
from murmuration.base.jit import inlined, loop_kernel

#: The rules by which a node is chosen, as `score` knows them.
(
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    BALANCED,
    FIRST,
    BEST_FIT,
    LEAST_POWER,
    FEWEST_TASKS,
    SMALLEST_GAP,
) = range(8)


class Recipe(NamedTuple):
    """Which node a task gets, and whether large tasks come first."""

    rule: int
    decreasing: bool


#: The first four stand beside every plan.
RECIPES = {
    "kubernetes": Recipe(LEAST_ALLOCATED, False),
    "most-allocated": Recipe(MOST_ALLOCATED, False),
    "balanced": Recipe(BALANCED, False),
    "first-fit-decreasing": Recipe(FIRST, True),
    "kubernetes-decreasing": Recipe(LEAST_ALLOCATED, True),
    "best-fit-decreasing": Recipe(BEST_FIT, True),
    "least-power": Recipe(LEAST_POWER, True),
    "fewest-tasks": Recipe(FEWEST_TASKS, True),
    "smallest-gap": Recipe(SMALLEST_GAP, True),
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
    fill(packed, state, _order_tasks(work, recipe.decreasing), recipe.rule)
    return state.x


def _order_tasks(work: Work, decreasing: bool) -> Indices:
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
def fill(p: Packed, s: PlacementState, order: Indices, rule: int) -> int:
    """Put tasks on nodes in turn; returns how many have none.

    Rules between tasks are asked about only for a node that would be the best so far: they cost
    more than the score.
    """
    unplaced = 0
    for k in range(order.shape[0]):
        t = order[k]
        best, best_value = -1, 0.0
        for n in range(p.total.shape[0]):
            if not (fits(p, s, t, n) and may_use(p, t, n)):
                continue
            value = score(p, s, t, n, rule)
            if (best < 0 or value > best_value) and not breaks_rule(p, s, t, n):
                best, best_value = n, value
                if rule == FIRST:
                    break
        if best >= 0:
            place_task(p, s, t, best)
        else:
            unplaced += 1
    return unplaced


@inlined
def score(p: Packed, s: PlacementState, t: int, n: int, rule: int) -> float:
    """How good a node is for a task; the first three in Kubernetes' whole numbers."""
    value = 0.0
    if rule in (LEAST_ALLOCATED, MOST_ALLOCATED):
        points, had = 0, 0
        for r in range(2):
            if p.total[n, r] > 0:
                free = max(s.free[n, r] - p.request[t, r], 0)
                part = free if rule == LEAST_ALLOCATED else p.total[n, r] - free
                points += (part * 100) // p.total[n, r]
                had += 1
        value = float(points // max(had, 1))
    elif rule == BALANCED:
        cpu = (p.total[n, 0] - s.free[n, 0] + p.request[t, 0]) * p.inverse[n, 0]
        memory = (p.total[n, 1] - s.free[n, 1] + p.request[t, 1]) * p.inverse[n, 1]
        value = np.floor((1.0 - abs(min(cpu, 1.0) - min(memory, 1.0)) / 2.0) * 100.0)
    elif rule == BEST_FIT:
        for r in range(s.free.shape[1]):
            value -= (s.free[n, r] - p.request[t, r]) * p.inverse[n, r]
    elif rule == LEAST_POWER:
        value = -watts(p, t, n)
    elif rule == FEWEST_TASKS:
        value = -float(s.tasks[n])
    elif rule == SMALLEST_GAP:
        value = -gap_with(p, s, n, p.request[t, 0], p.request[t, 1])
    return value
