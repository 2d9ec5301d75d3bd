"""How long a master may believe that it leads.

A master leads while its lease in the store lasts. It counts the lease from *before* it asked for
it, so that it ends here no later than in the store, and stops a margin earlier, because two clocks
need not run at quite the same rate. Only when the lease has ended in the store can another master
take its place. So no two masters believe at the same moment that they lead.

What rests on a fact needs no clock: the store refuses it in a later epoch. The lease is for what
rests on none, above all the answer to a heartbeat, which keeps the tasks of a node alive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

#: The share of a lease that the leader does not use.
MARGIN = 0.1
#: Renewals per lease.
RENEWALS = 6


@dataclass
class LeaderLease:
    """The lease of one master, by its own clock."""

    until_s: float = -math.inf

    def is_leading(self, now: float) -> bool:
        return now < self.until_s

    def renew(self, asked_s: float, lasts_s: float) -> None:
        """The store has answered what was asked then: the lease lasts so long from when it did, 0
        if it is over. One that the store has ended stays ended, whatever this clock says."""
        self.until_s = asked_s + (1.0 - MARGIN) * lasts_s

    def resign(self) -> None:
        self.until_s = -math.inf
