"""What the master knows of a framework beside what it holds: whether it wants offers, and which."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from murmuration.schedulers.offers.ledger import fits
from murmuration.schedulers.offers.messages import Filters, Slice, Vector

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
