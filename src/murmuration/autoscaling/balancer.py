"""The two-level load balancer: the entry point sends a request to a worker, full workers send it on
to a neighbour.

Routing takes no time here, so the oldest request of a queue is the one that arrived first.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from murmuration.base.random import next_double

Array = NDArray[Any]


def admits(queued: int, running: int, capacity: int, queue_max: float) -> bool:
    """A worker takes a request it can start at once, or while its queue is below the limit per unit
    of capacity.

    The paper's section III-A says "higher than a threshold"; then nothing would ever be queued.
    """
    return running < capacity or queued < queue_max * capacity


def draw_weighted(
    candidates: Array, count: int, capacity: Array, capacity_max: int, rng: Array
) -> int:
    """Where in a list a node stands that was drawn with a probability in proportion to its
    capacity.

    By rejection: the whole part of a draw names a candidate, its fraction accepts it;
    `capacity_max` is the largest capacity of all candidates.
    """
    while True:
        draw = next_double(rng) * count
        at = int(draw)
        if (draw - at) * capacity_max < capacity[candidates[at]]:
            return at


def forget(candidates: Array, at: int, count: int) -> int:
    """Take one out of a list; returns how many are left."""
    candidates[at] = candidates[count - 1]
    return count - 1


def draw_some(live: Array, count: int, wanted: int, known: Array, rng: Array) -> int:
    """As many nodes as wanted, drawn without repeats, into `known`; selection sampling, so `live`
    keeps its order."""
    taken = 0
    for k in range(count):
        if next_double(rng) * (count - k) < wanted - taken:
            known[taken] = live[k]
            taken += 1
    return taken
