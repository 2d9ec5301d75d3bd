"""What users used of late, from the spans in which tasks held their room.

A span of constant use has a closed form under a half-life, so nothing has to be added up while time
passes, and a master that starts again has the same figures from the spans it remembers.
"""

from __future__ import annotations

import math
from collections import defaultdict


class RecentUse:
    """The use of each user that has ended, decayed to one moment."""

    def __init__(self, half_life_s: float) -> None:
        self._half_life_s = half_life_s
        self._at_s = 0.0
        self._ended: defaultdict[str, float] = defaultdict(float)

    def add(self, user: str, amount: float, start_s: float, end_s: float) -> None:
        """A span is over."""
        self._move_to(max(end_s, self._at_s))
        self._ended[user] += self.span(amount, start_s, end_s, self._at_s)

    def span(self, amount: float, start_s: float, end_s: float, now: float) -> float:
        """What this much, held from start to end, counts now."""
        rate = math.log(2.0) / self._half_life_s
        first, last = max(now - end_s, 0.0), max(now - start_s, 0.0)
        return amount / rate * (math.exp(-rate * first) - math.exp(-rate * last))

    def ended(self, user: str, now: float) -> float:
        """What the spans of a user that are over count now."""
        age_s = max(now - self._at_s, 0.0)
        return float(self._ended.get(user, 0.0) * 0.5 ** (age_s / self._half_life_s))

    def _move_to(self, now: float) -> None:
        left = 0.5 ** ((now - self._at_s) / self._half_life_s)
        for user in self._ended:
            self._ended[user] *= left
        self._at_s = now
