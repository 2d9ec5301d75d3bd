"""How often each client may ask: a bucket for each that fills at a steady rate.

A bucket holds a burst; each request takes one out of it, and one that finds it empty is told when
the next will be there. The cluster's own token and masters have no bucket. Unknown callers share
one with everybody at the same address, so that guessing tokens is slow.
"""

from __future__ import annotations

import time
from collections.abc import Callable

#: Buckets that are kept; who has not asked for longest is forgotten first, and starts afresh.
BUCKETS_MAX = 10_000
#: Seconds of the rate that may be asked for at once.
BURST_S = 2.0


class RateLimit:
    """One rate, and a bucket for each client."""

    def __init__(self, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s, self._clock = per_s, clock
        self._burst = max(1.0, per_s * BURST_S)
        #: What each has left, and when that was so; the one that asked last is the last.
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, client: str) -> float:
        """Let a client ask once: 0, or how many seconds it has to wait for that."""
        now = self._clock()
        left, then = self._buckets.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._per_s)
        is_allowed = left >= 1.0
        self._buckets[client] = (left - 1.0 if is_allowed else left), now
        self._forget()
        return 0.0 if is_allowed else (1.0 - left) / self._per_s

    def _forget(self) -> None:
        while len(self._buckets) > BUCKETS_MAX:
            del self._buckets[next(iter(self._buckets))]
