"""Candidate nodes: which nodes could take a task, how well, and a draw among them in which better
ones are likelier.

Plain functions over arrays that kernels compile as they are (`cluster.jit.tree`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.placement.allocation_scores import SIAS, SIAS_GAIN, SRAS, node_score, weight
from murmuration.schedulers.negotiation.rules import fits_at_all

Array = NDArray[Any]
UNSUITABLE, SUITABLE, FORCED = range(3)


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
    """How likely a node is drawn for a task, by its score as if it had it; 0 where it would be
    super-tight or worse.

    An initial score adds what the task requests to what the node's tasks use, the other what the
    task uses (5.2).
    """
    initial = kind in (SIAS, SIAS_GAIN)
    for r in range(total.shape[0]):
        more = request[r] if initial else use[r]
        before[r] = used[r] / total[r] if total[r] > 0 else -1.0
        after[r] = (used[r] + more) / total[r] if total[r] > 0 else -1.0
    if node_score(SIAS if initial else SRAS, after, before, False) <= 0.0:
        return 0.0
    return weight(node_score(kind, after, before, tasks == 0), kind)


def holds_production(total: Array, guaranteed: Array, request: Array) -> bool:
    """Whether one more production task fits at its full request (goal IV)."""
    for r in range(total.shape[0]):
        if guaranteed[r] + request[r] > total[r]:
            return False
    return True


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
    """Rate nodes in the order given until `limit` suitable ones are found; returns how many were.

    `fit` says which are suitable, which could take the task by force, and which not; `allowed` are
    those that meet the task's constraints.
    """
    count = 0
    for n in range(order.shape[0]):
        i = order[n]
        fit[i] = UNSUITABLE
        weights[i] = 0.0
        if count >= limit or not allowed[i] or not fits_at_all(total[i], request):
            continue
        if not production or holds_production(total[i], guaranteed[i], request):
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
