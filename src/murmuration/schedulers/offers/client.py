"""What the master knows of a framework beside what it holds: whether it wants offers, and which."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from murmuration.schedulers.offers.ledger import fits
from murmuration.schedulers.offers.messages import Filters, Slice, Vector

Wanting = NDArray[np.bool_]
NO_FILTERS = Filters()


@dataclass(slots=True)
class Client:
    """One framework."""

    filters: Filters = NO_FILTERS
    needs: bool = False
    #: What it refused of each node, and until when.
    refused: dict[str, tuple[float, Vector]] = field(default_factory=dict)
    #: When it last asked for offers, was made one, or had tasks revoked for it.
    served: float = 0.0
    #: The offer it has replied to last, and its last transaction with the names of its tasks: a
    #: message that comes twice is carried out once.
    replied: int = 0
    commit: tuple[int, tuple[str, ...]] | None = None

    @property
    def takes_any(self) -> bool:
        """Whether it needs offers, and of whatever nodes."""
        return self.needs and self.filters is NO_FILTERS

    def forget_refusal(self, node: str, now: float) -> bool:
        """Drop what it refused of a node if that does not count any more; whether it does not."""
        if node in self.refused and now < self.refused[node][0]:
            return False
        self.refused.pop(node, None)
        return True

    def looks_at(self, part: Slice, now: float) -> bool:
        """Whether it would look at an offer of this slice; a filtered resource is as good as a
        rejected one (5.2.5)."""
        if not self.needs or (
            self.filters.nodes is not None and part.node not in self.filters.nodes
        ):
            return False
        if not fits(self.filters.at_least, part.amount):
            return False
        until, amount = self.refused.get(part.node, (-math.inf, part.amount))
        return now >= until or not fits(part.amount, amount)


class Demand:
    """Which of many frameworks would look at a slice, without asking each of them about each.

    Most take whatever they have not refused; they are found once. The others, who have filters, are
    asked about each slice, and of those that ever refused something of its node, each again.
    """

    def __init__(self, clients: dict[str, Client]) -> None:
        self._clients = clients
        self._refusers: dict[str, set[str]] = {}
        #: Who needs offers of whatever nodes, and by its row who has to be asked.
        self._takes_any: Wanting | None = None
        self._asked: list[tuple[int, Client]] = []
        self._row: dict[str, int] = {}

    def change(self) -> None:
        """A framework came, or its needs or filters are others."""
        self._takes_any = None

    def refuse(self, framework: str, node: str, until: float, left: Vector) -> None:
        self._clients[framework].refused[node] = until, left
        self._refusers.setdefault(node, set()).add(framework)

    def _sort(self) -> Wanting:
        if self._takes_any is None:
            clients = list(enumerate(self._clients.values()))
            self._row = {name: row for row, name in enumerate(self._clients)}
            self._asked = [(f, c) for f, c in clients if c.needs and not c.takes_any]
            self._takes_any = np.array([c.takes_any for _, c in clients], bool)
        return self._takes_any

    def is_any(self) -> bool:
        """Whether anybody needs offers."""
        return bool(self._sort().any()) or bool(self._asked)

    def find(self, part: Slice, now: float) -> Wanting:
        """Which frameworks would look at an offer of this slice."""
        wants = self._sort().copy()
        for row, client in self._asked:
            wants[row] = client.looks_at(part, now)
        refusers = self._refusers.get(part.node, set())
        for name in list(refusers):
            client = self._clients[name]
            if client.forget_refusal(part.node, now):
                refusers.discard(name)
            wants[self._row[name]] = client.looks_at(part, now)
        return wants
