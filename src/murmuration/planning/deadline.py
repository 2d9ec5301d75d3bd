"""How long a plan may take: seconds of the clock, seconds of the processor, or both.

A search that ends after a number of evaluations repeats exactly; a deadline only stops it. The
clock is what a person waits for. On a busy machine the processor's seconds say how far a search
comes, so that a figure measured there can be compared with one from an idle machine.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

#: The share of the time after which a search stops: the moves have to be put in order, rehearsed
#: and written yet.
SEARCH_SHARE = 0.75
#: The share after which no further placement is tried in place of one whose moves are impossible.
CHOICE_SHARE = 0.85


@dataclass(frozen=True)
class Deadline:
    """The time allowed, counted from when the deadline was made."""

    seconds: float = np.inf
    cpu_seconds: float = np.inf
    began: float = field(default_factory=time.perf_counter)
    cpu_began: float = field(default_factory=time.process_time)

    def spent(self) -> float:
        """The share of the time allowed that is gone, by whichever bound is nearer."""
        wall, cpu = time.perf_counter() - self.began, time.process_time() - self.cpu_began
        return max(wall / self.seconds, cpu / self.cpu_seconds)

    def is_over(self, share: float = 1.0) -> bool:
        """Whether this share of the time is gone."""
        return self.spent() >= share

    def left(self, share: float = 1.0) -> float:
        """Seconds of the clock until this share of them is gone; never below zero."""
        return max(share * self.seconds - (time.perf_counter() - self.began), 0.0)
