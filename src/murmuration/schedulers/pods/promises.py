"""Rooms that are being made: pods of lower priority were asked to go, and until they have gone
nobody of lower priority takes their room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Promise:
    """A node on which pods were asked to go, for one of this priority."""

    node: str
    priority: int
    #: Who has not gone yet.
    victims: set[str]


@dataclass
class Promises:
    """All of them, by the pod each is made for."""

    of: dict[str, Promise] = field(default_factory=dict)
    #: For whom a pod was asked to go.
    _asked_for: dict[str, str] = field(default_factory=dict)
    #: How many rooms are made on each node for each priority.
    _nodes: dict[int, Counter[str]] = field(default_factory=dict)

    def make(self, waiting: str, promise: Promise) -> None:
        self.of[waiting] = promise
        self._nodes.setdefault(promise.priority, Counter())[promise.node] += 1
        self._asked_for |= dict.fromkeys(promise.victims, waiting)

    def end(self, waiting: str) -> None:
        """Nobody waits for this room any more."""
        promise = self.of.pop(waiting, None)
        if promise is None:
            return
        nodes = self._nodes[promise.priority]
        nodes[promise.node] -= 1
        if not nodes[promise.node]:
            del nodes[promise.node]
        for victim in promise.victims:
            self._asked_for.pop(victim, None)

    def go(self, victim: str) -> str:
        """A pod has gone, or will not: for whom all have gone now, empty if for nobody."""
        waiting = self._asked_for.pop(victim, "")
        promise = self.of.get(waiting)
        if promise is None:
            return ""
        promise.victims.discard(victim)
        return "" if promise.victims else waiting

    def is_kept_waiting(self, waiting: str) -> bool:
        """Whether somebody who was asked to go for a pod is still on the way."""
        promise = self.of.get(waiting)
        return promise is not None and bool(promise.victims)

    def nodes(self) -> Collection[str]:
        """The nodes where room is being made."""
        return {node for nodes in self._nodes.values() for node in nodes}

    def nodes_closed_to(self, priority: int) -> Collection[str]:
        """The nodes where room is being made for pods that matter more."""
        above = [nodes for other, nodes in self._nodes.items() if other > priority]
        return {node for nodes in above for node in nodes}
