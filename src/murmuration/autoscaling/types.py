"""Node types, and the rules that choose which one to add, given the types on offer and the
time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class NodeType:
    """A kind of node that can be rented: requests it runs in parallel, price per hour, and when it
    is on offer."""

    name: str
    capacity: int
    price: float = 1.0
    from_s: float = 0.0
    until_s: float = math.inf

    def offered(self, time_s: float) -> bool:
        return self.from_s <= time_s < self.until_s


Rule = Callable[[Sequence[NodeType], float], NodeType]


def cheapest(types: Sequence[NodeType], time_s: float) -> NodeType:
    """The lowest price per unit of capacity; of equals the smaller node, which follows the load
    more closely."""
    return min(types, key=lambda kind: (kind.price / kind.capacity, kind.capacity))


def largest(types: Sequence[NodeType], time_s: float) -> NodeType:
    return max(types, key=lambda kind: (kind.capacity, -kind.price))


def smallest(types: Sequence[NodeType], time_s: float) -> NodeType:
    return min(types, key=lambda kind: (kind.capacity, kind.price))


RULES: dict[str, Rule] = {"cheapest": cheapest, "largest": largest, "smallest": smallest}


def offers(types: Sequence[NodeType], rule: Rule) -> list[tuple[float, int]]:
    """From when on which type is added: the rule is asked whenever a type comes or goes.

    Raises `LookupError` with the time at which nothing is on offer, or at which the rule's answer
    is not on offer.
    """
    times = sorted(
        {0.0, *(kind.from_s for kind in types), *(kind.until_s for kind in types)} - {math.inf}
    )
    chosen = []
    for time_s in times:
        offered = [kind for kind in types if kind.offered(time_s)]
        if not offered:
            raise LookupError(f"no type is on offer at second {time_s:g}")
        answer = rule(offered, time_s)
        if answer not in offered:
            raise LookupError(
                f"the rule chose {getattr(answer, 'name', answer)!r} at second {time_s:g}, which "
                "is not on offer"
            )
        chosen.append((time_s, list(types).index(answer)))
    return chosen
