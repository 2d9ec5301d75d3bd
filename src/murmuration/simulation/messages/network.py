"""A network in virtual time that loses, delays, doubles and reorders messages and falls apart.

It knows nothing of what is sent: the driver asks when a message arrives (never, once, or more
often). What goes wrong is a `Faults` value, written by hand or drawn from a seed, so that any run
can be repeated. Connections, which deliver in order or break, are in `connections.py`.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

if TYPE_CHECKING:
    from murmuration.simulation.messages.drive import Driver


class Partition(msgspec.Struct, frozen=True):
    """For a while nothing passes between one side and all others."""

    start_s: float
    end_s: float
    side: frozenset[str]


class Crash(msgspec.Struct, frozen=True):
    """An agent is down for a while, and then starts again from its disk; for infinity: the whole
    node is gone."""

    at_s: float
    name: str
    down_s: float


class Pause(msgspec.Struct, frozen=True):
    """An agent stands still for a while and does not know it."""

    at_s: float
    name: str
    seconds: float


class Jump(msgspec.Struct, frozen=True):
    """An agent's clock jumps, forwards or back."""

    at_s: float
    name: str
    seconds: float


class Faults(msgspec.Struct, frozen=True):
    """What goes wrong, until `end_s`; from then on only the least delay remains."""

    loss: float = 0.0
    duplication: float = 0.0
    #: Every message takes at least this; and on top a random time with this mean, so that messages
    #: overtake.
    delay_s: float = 0.01
    jitter_s: float = 0.0
    partitions: tuple[Partition, ...] = ()
    crashes: tuple[Crash, ...] = ()
    end_s: float = math.inf
    pauses: tuple[Pause, ...] = ()
    jumps: tuple[Jump, ...] = ()


def draw_faults(
    rng: np.random.Generator,
    mortal: Sequence[str],
    others: Sequence[str],
    end_s: float,
    deaths: int = 1,
) -> Faults:
    """A random schedule: from nearly calm to very bad. Only `mortal` agents may be down for
    good."""
    names = [*mortal, *others]
    partitions, crashes = [], []
    for _ in range(int(rng.integers(0, 4))):
        start = float(rng.uniform(0, end_s))
        side = frozenset(name for name in names if rng.random() < 0.4)
        partitions.append(Partition(start, min(start + float(rng.exponential(60)), end_s), side))
    for _ in range(int(rng.integers(0, 7))):
        down = float(rng.exponential(40)) + 0.5
        crashes.append(
            Crash(float(rng.uniform(0, end_s)), names[int(rng.integers(len(names)))], down)
        )
    for name in rng.permutation(list(mortal))[: int(rng.integers(0, deaths + 1))]:
        crashes.append(Crash(float(rng.uniform(0, end_s)), str(name), math.inf))
    return Faults(
        loss=float(rng.choice([0.0, 0.02, 0.1, 0.3])),
        duplication=float(rng.choice([0.0, 0.05, 0.3])),
        jitter_s=float(rng.choice([0.0, 0.5, 5.0, 30.0])),
        partitions=tuple(partitions),
        crashes=tuple(crashes),
        end_s=end_s,
    )


class Network:
    """When messages arrive."""

    def __init__(self, faults: Faults, rng: np.random.Generator) -> None:
        self.faults, self._rng = faults, rng
        self.sent = self.lost = 0

    def attach(self, driver: Driver) -> None:
        """The driver that asks; for networks that have something to tell it."""

    def line(self, sender: str, to: str) -> int:
        """The connection a message takes; what is under way arrives only if it is still the same
        then. Here there are none, and everything takes line 0."""
        return 0

    def drop(self, name: str) -> None:
        """A party has crashed, and its connections with it."""

    def arrivals(self, sender: str, to: str, now: float) -> list[float]:
        """The times at which a message arrives: none if it is lost, several if it is doubled."""
        faults = self.faults
        self.sent += 1
        if now >= faults.end_s or not (
            faults.loss or faults.duplication or faults.jitter_s or faults.partitions
        ):
            return [now + faults.delay_s]
        if self.cut(sender, to, now) or self._rng.random() < faults.loss:
            self.lost += 1
            return []
        copies = 2 if self._rng.random() < faults.duplication else 1
        return [
            now + faults.delay_s + faults.jitter_s * float(self._rng.exponential())
            for _ in range(copies)
        ]

    def cut(self, sender: str, to: str, now: float) -> bool:
        """Whether a partition lies between both."""
        for part in self.faults.partitions:
            if part.start_s <= now < part.end_s and (sender in part.side) != (to in part.side):
                return True
        return False


class Timeline:
    """What happens when: calls in the order of their times, equal times in the order they were
    noted."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._noted = 0

    def post(self, at: float, call: Callable[..., None], *arguments: Any) -> None:
        self._noted += 1
        heapq.heappush(self._events, (at, self._noted, call, arguments))

    def run(self, until: float) -> None:
        """Let everything happen up to a time, and that time come."""
        events = self._events
        while events and events[0][0] <= until:
            self.now, _, call, arguments = heapq.heappop(events)
            call(*arguments)
        self.now = until
