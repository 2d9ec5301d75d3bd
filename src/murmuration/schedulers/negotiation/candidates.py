"""Candidate nodes: which nodes could take a task, how well, and a draw among them in which better
ones are likelier.

Plain functions over arrays that kernels compile as they are (`base.jit.tree`); the bulk round calls
the same ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.placement.allocation_scores import (
    base_score,
    compare_scores,
    is_initial,
    weight,
)
from murmuration.schedulers.negotiation.rules import fits_at_all

Array = NDArray[Any]
UNSUITABLE, SUITABLE, FORCED = range(3)
#: The value of a node that a task does not suit: below every score and every gain.
UNSUITED = -9.0


def holds(request: int, total: int, unreserved: int, production: bool) -> bool:
    """Whether a node has enough of one resource for a task if it were emptier; a production task
    needs its full request of what no other production task may claim (goal IV)."""
    return request <= total and (not production or request <= unreserved)


def suits(total: Array, guaranteed: Array, request: Array, production: bool) -> bool:
    """The same for all resources."""
    for r in range(total.shape[0]):
        if not holds(request[r], total[r], total[r] - guaranteed[r], production):
            return False
    return True


def rate_scores(kind: int, with_task: float, without: float, idle: bool) -> float:
    """A node's value for a task, by its scores with and without it: the score, or the gain;
    `UNSUITED` where it would be super-tight or worse."""
    if with_task <= 0.0:
        return UNSUITED
    return compare_scores(kind, with_task, without, idle)


def rate(
    kind: int,
    total: Array,
    used: Array,
    tasks: int,
    use: Array,
    request: Array,
    after: Array,
    before: Array,
) -> float:
    """How likely a node is drawn for a task, relative to others; 0 where it would be super-tight or
    worse.

    An initial score adds what the task requests to what the node's tasks use, the other what the
    task uses (5.2).
    """
    initial = is_initial(kind)
    for r in range(total.shape[0]):
        more = request[r] if initial else use[r]
        before[r] = used[r] / total[r] if total[r] > 0 else -1.0
        after[r] = (used[r] + more) / total[r] if total[r] > 0 else -1.0
    idle = tasks == 0
    without = 0.0 if idle else base_score(kind, before)
    value = rate_scores(kind, base_score(kind, after), without, idle)
    return weight(value, kind) if value > UNSUITED else 0.0


def rate_nodes(
    kind: int,
    total: Array,
    used: Array,
    guaranteed: Array,
    tasks: Array,
    allowed: Array,
    order: Array,
    use: Array,
    request: Array,
    production: bool,
    limit: int,
    weights: Array,
    fit: Array,
    after: Array,
    before: Array,
) -> int:
    """Rate nodes in the order given until `limit` of them are suitable; returns how many were.

    `fit` says which are suitable, which could be forced to take the task, and which not; `allowed`
    are those that meet the task's constraints.
    """
    count = 0
    for n in range(order.shape[0]):
        i = order[n]
        fit[i] = UNSUITABLE
        weights[i] = 0.0
        if count >= limit or not allowed[i] or not fits_at_all(total[i], request):
            continue
        if suits(total[i], guaranteed[i], request, production):
            weights[i] = rate(kind, total[i], used[i], tasks[i], use, request, after, before)
        fit[i] = SUITABLE if weights[i] > 0.0 else FORCED
        count += fit[i] == SUITABLE
    return count


def draw(weights: Array, count: int, rng: np.random.Generator) -> Array:
    """Places of `count` weights, or of all if there are fewer, drawn without repetition; those of
    no weight last."""
    drawn = rng.random(len(weights))
    with np.errstate(divide="ignore"):
        keys = np.where(weights > 0, np.log(drawn) / np.maximum(weights, 1e-300), -np.inf)
    # Among those without weight the draw itself decides.
    return np.lexsort((-drawn, -keys))[:count]
