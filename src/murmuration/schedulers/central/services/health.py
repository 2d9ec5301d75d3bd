"""Whether the runs of a node are well: when each is looked at, and what the answers come to.

The host looks (`CheckHealth`) and tells what it saw (`HealthSeen`); here it is decided when to look
again and when a run is healthy or no longer is. A run begins as neither. Until it is healthy for
the first time it is looked at every second or oftener, so that readiness is known soon; if that
takes longer than its patience, it is unhealthy. Later, so many failures in a row make it so. A run
that is unhealthy is ended, so nothing follows after that.

| state | answer | becomes |
|---|---|---|
| new | well | healthy |
| new | not well, patience over | unhealthy |
| healthy | well | healthy, failures forgotten |
| healthy | not well, the n-th in a row | unhealthy |
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from murmuration.schedulers.central.messages import CentralMessage
from murmuration.workload.service_spec import HealthCheck

#: A run that was never healthy is looked at so often.
FIRST_LOOKS_S = 1.0


class CheckHealth(CentralMessage, frozen=True):
    """An act: see whether a run is well, by the check of its order."""

    run: str
    number: int


class HealthSeen(CentralMessage, frozen=True):
    """What the host saw: why the run is not well, or nothing."""

    run: str
    number: int
    error: str = ""


@dataclass(slots=True)
class Watched:
    """One run that is looked at. `number` is that of the look that is under way, 0 if none is."""

    check: HealthCheck
    since_s: float
    healthy: bool = False
    failures: int = 0
    number: int = 0


@dataclass
class HealthTable:
    """All runs of a node that have a check."""

    watched: dict[str, Watched] = field(default_factory=dict)
    _looks: list[tuple[float, str]] = field(default_factory=list)
    _count: int = 0

    def begin(self, run: str, check: HealthCheck, now: float) -> None:
        """A run has started, or was found."""
        self.watched[run] = Watched(check, now)
        heapq.heappush(self._looks, (now + min(FIRST_LOOKS_S, check.interval_s) / 2, run))

    def end(self, run: str) -> None:
        """It is not looked at any more."""
        self.watched.pop(run, None)

    def is_healthy(self, run: str) -> bool:
        return run in self.watched and self.watched[run].healthy

    @property
    def due(self) -> float:
        while self._looks and self._looks[0][1] not in self.watched:
            heapq.heappop(self._looks)
        return self._looks[0][0] if self._looks else math.inf

    def take_due(self, now: float) -> Iterator[CheckHealth]:
        """The looks that are due. A run has one at a time: the next waits for the answer."""
        while self.due <= now:
            _, run = heapq.heappop(self._looks)
            watched = self.watched[run]
            if not watched.number:
                self._count += 1
                watched.number = self._count
                yield CheckHealth(run, watched.number)

    def answer(self, event: HealthSeen, now: float) -> bool | None:
        """Take what was seen: True if the run has become healthy, False if it is unhealthy, None
        if nothing has changed."""
        watched = self.watched.get(event.run)
        if watched is None or watched.number != event.number:
            return None
        watched.number = 0
        was_healthy = watched.healthy
        if event.error:
            watched.failures += 1
            if self._is_unhealthy(watched, now):
                return False
        else:
            watched.healthy, watched.failures = True, 0
        pace = watched.check.interval_s
        pace = pace if watched.healthy else min(pace, FIRST_LOOKS_S)
        heapq.heappush(self._looks, (now + pace, event.run))
        return True if watched.healthy and not was_healthy else None

    def _is_unhealthy(self, watched: Watched, now: float) -> bool:
        if watched.healthy:
            return watched.failures >= watched.check.failures
        return now >= watched.since_s + watched.check.patience_s
