"""Who leads, by a lease in the cluster: at most one of several schedulers decides.

Clocks differ, so nobody compares points in time of two hosts. Whoever waits measures by its own
clock how long the lease has not changed; after `lease_s` it may write itself in, if the lease still
has the version it saw. Whoever leads counts from when it *sent* its last renewal that was accepted,
and stops after `renew_s`, which is shorter. A request is given up after `lease_s − renew_s`. So
nothing a former leader sent is under way when the next one begins: that is the fence.

Somebody may ask for the lease by writing its name beside the holder's. That changes the lease, so
the holder's next renewal is refused; it sees who asks and waits, as everybody does. A candidate
that takes over asks whenever somebody else holds the lease, also after it has lost it. It does not
ask whom it gave way to itself: two of them would take turns for ever.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from murmuration.schedulers.agent import Do, Effect
from murmuration.schedulers.pods.messages import (
    AskForLease,
    LeaseSeen,
    LeaseWritten,
    ReadLease,
    WriteLease,
)


@dataclass
class Leadership:
    """One candidate for a lease."""

    identity: str
    lease_s: float = 15.0
    renew_s: float = 10.0
    retry_s: float = 2.0
    #: Whether whoever leads is asked to let us.
    takes_over: bool = False
    #: Counts the changes of leader; a binding carries it, so that one sees who made it.
    epoch: int = 0
    _sent_s: float = -math.inf
    _held_until: float = -math.inf
    _next_s: float = -math.inf
    #: The version of the lease that we have written or may write over.
    version: str = ""
    #: The lease as it was last seen, and since when it has been so.
    _seen: LeaseSeen | None = None
    _since_s: float = -math.inf
    _asked: bool = False
    #: Who asked us for the lease when we held it last.
    _gave_way_to: str = ""

    def leads_until(self) -> float:
        """Until when we lead, if nothing more is heard."""
        return self._held_until

    def leads(self, now: float) -> bool:
        return now < self._held_until

    @property
    def due(self) -> float:
        return math.inf if self._asked else self._next_s

    def wake(self, now: float) -> list[Effect]:
        """Ask for the lease, or renew it, if it is time."""
        if self._asked or now < self._next_s:
            return []
        self._asked = True
        if self.leads(now):
            return self._write(now, self.epoch, renewal=True)
        return [Do(ReadLease())]

    def see(self, lease: LeaseSeen, now: float) -> list[Effect]:
        """The lease was read: take it if nobody holds it, or whoever does has been silent."""
        self._asked = False
        self._next_s = now + self.retry_s
        if not lease.readable:
            return []
        if self._seen is None or lease != self._seen:
            self._seen, self._since_s = lease, now
        if lease.holder == self.identity:
            self._gave_way_to = lease.asked_by
        mine = lease.holder in ("", self.identity) and lease.asked_by in ("", self.identity)
        free = not lease.exists or mine
        if not free and now < self._since_s + self.lease_s:
            self._next_s = min(self._next_s, self._since_s + self.lease_s)
            asks = self.takes_over and not lease.asked_by and lease.holder != self._gave_way_to
            return [Do(AskForLease())] if asks else []
        self._asked, self.version = True, lease.version
        changed = lease.holder != self.identity
        return self._write(now, lease.transitions + int(changed), renewal=False)

    def on_written(self, answer: LeaseWritten, now: float) -> list[Effect]:
        self._asked = False
        self._next_s = now + self.retry_s
        if answer.outcome == "written":
            self.version = answer.version
            self._held_until = self._sent_s + self.renew_s
        elif answer.outcome == "refused":
            # Somebody else has written: what we held is theirs now.
            self._held_until, self._seen = -math.inf, None
        return []

    def _write(self, now: float, transitions: int, renewal: bool) -> list[Effect]:
        self._sent_s, self.epoch = now, transitions
        return [Do(WriteLease(self.identity, transitions, self.version, renewal))]


class AlwaysLeads(Leadership):
    """The only scheduler there is."""

    def __init__(self) -> None:
        super().__init__("")
        self._held_until, self._next_s = math.inf, math.inf
