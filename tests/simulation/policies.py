"""Plain Python policies for the slow path, named by module path."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from murmuration.placement.plain import FirstFit, RankedPolicy
from murmuration.placement.scores import (
    balanced,
    best_fit,
    least_allocated,
    most_allocated,
    worst_fit,
)
from murmuration.placement.view import JobView, View


class InOrder:
    """Each task to the first node by number that has room: it draws nothing, and the order of its
    view is free."""

    def decide(self, view: View, job: JobView, rng: np.random.Generator) -> list[int]:
        rows: list[int] = []
        free = view.free.copy()
        for row in sorted(
            range(len(view.names)), key=lambda row: int(view.names[row].rpartition("-")[2])
        ):
            while len(rows) < job.tasks and view.allowed[row] and (free[row] >= job.request).all():
                free[row] -= job.request
                rows.append(row)
        return rows + [-1] * (job.tasks - len(rows))


class InOrderOffers(InOrder):
    architecture = "offers"


class SlowFirstFit(FirstFit):
    """The built-in first fit, asked through Python."""


class SlowRanked:
    """A built-in ranking, asked through Python."""

    score = staticmethod(best_fit)

    def decide(self, view: View, job: JobView, rng: np.random.Generator) -> NDArray[np.int64]:
        return RankedPolicy(self.score).decide(view, job, rng)


class SlowWorstFit(SlowRanked):
    score = staticmethod(worst_fit)


class SlowLeastAllocated(SlowRanked):
    score = staticmethod(least_allocated)


class SlowMostAllocated(SlowRanked):
    score = staticmethod(most_allocated)


class SlowBalanced(SlowRanked):
    score = staticmethod(balanced)


#: The slow twin of each built-in placement.
TWINS = {
    "first-fit": "SlowFirstFit",
    "best-fit": "SlowRanked",
    "worst-fit": "SlowWorstFit",
    "least-allocated": "SlowLeastAllocated",
    "most-allocated": "SlowMostAllocated",
    "balanced": "SlowBalanced",
}
