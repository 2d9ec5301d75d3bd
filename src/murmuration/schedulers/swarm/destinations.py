"""Where a container may go: never to a node that would be overloaded, and when packing only to a
fuller one.

Amounts on a node are those after all queued migrations, n − Q + R (eq. 18), so that a decision
counts at once.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


#: What a source that spreads asks for in place of its fullness: any node with room will do.
SPREADING = -1.0


def may_take(
    used: Array,
    capacity: Array,
    request: Array,
    counted: Array,
    overload: float,
    fuller_than: float,
) -> bool:
    """Whether a node may take a container: it is not overloaded with it and, unless the source
    spreads (a negative `fuller_than`), fuller with it than the source is now."""
    if not has_room(used, capacity, request, overload):
        return False
    return fuller_than < 0.0 or is_fuller(used, capacity, request, counted, fuller_than)


def has_room(used: Array, capacity: Array, request: Array, overload: float) -> bool:
    """Eqs. 20 and 26: with the container, no resource is above the threshold."""
    for r in range(used.shape[0]):
        if request[r] > 0 and used[r] + request[r] > overload * capacity[r]:
            return False
    return True


def is_fuller(used: Array, capacity: Array, request: Array, counted: Array, than: float) -> bool:
    """Eqs. 21 and 27: with the container, the smallest share taken is above what it is on the
    source now.

    Compared by fullness, not by pheromone: then the sorted list of fullnesses only ever grows, and
    every cluster comes to rest.
    """
    some = False
    for r in range(used.shape[0]):
        if counted[r] and capacity[r] > 0:
            some = True
            if (used[r] + request[r]) / capacity[r] <= than:
                return False
    return some
