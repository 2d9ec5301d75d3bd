"""Candidate nodes: which nodes could take a task, how well, and a draw among them in which better ones are likelier.

Plain functions over arrays that kernels compile as they are (`cluster.jit.tree`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.placement.allocation_scores import SIAS, SIAS_GAIN, node_score
from murmuration.schedulers.negotiation.rules import accepts, fits_at_all

Array = NDArray[Any]
UNSUITABLE, SUITABLE, FORCED = range(3)


def score_level(
    kind: int, total: Array, used: Array, required: Array, tasks: int, use: Array, request: Array, after: Array,
    before: Array,
) -> float:  # fmt: skip
    """The score of one node as if it had the task: an initial score reads requests, the other what is in use (5.2)."""
    initial = kind in (SIAS, SIAS_GAIN)
    for r in range(total.shape[0]):
        held, more = (required[r], request[r]) if initial else (used[r], use[r])
        before[r] = held / total[r] if total[r] > 0 else -1.0
        after[r] = (held + more) / total[r] if total[r] > 0 else -1.0
    return node_score(kind, after, before, tasks == 0)


def score_nodes(
    kind: int, total: Array, used: Array, required: Array, guaranteed: Array, tasks: Array, allowed: Array,
    order: Array, use: Array, request: Array, production: bool, limit: int, score: Array, fit: Array, after: Array,
    before: Array,
) -> int:  # fmt: skip
    """Score nodes in the order given until `limit` suitable ones are found; returns how many were.

    `fit` says which are suitable, which could take the task by force, and which not; `allowed` are those that meet the
    task's constraints.
    """
    count = 0
    for n in range(order.shape[0]):
        i = order[n]
        fit[i] = UNSUITABLE
        if count >= limit or not allowed[i] or not fits_at_all(total[i], request):
            continue
        if accepts(total[i], used[i], guaranteed[i], use, request, production):
            fit[i] = SUITABLE
            score[i] = score_level(kind, total[i], used[i], required[i], tasks[i], use, request, after, before)
            count += 1
        else:
            fit[i] = FORCED
            score[i] = 0.0
    return count


def draw(weights: Array, count: int, rng: np.random.Generator) -> Array:
    """Places of `count` weights, or of all if there are fewer, drawn without repetition; those of no weight last."""
    drawn = rng.random(len(weights))
    with np.errstate(divide="ignore"):
        keys = np.where(weights > 0, np.log(drawn) / np.maximum(weights, 1e-300), -np.inf)
    # Among those without weight the draw itself decides.
    return np.lexsort((-drawn, -keys))[:count]
