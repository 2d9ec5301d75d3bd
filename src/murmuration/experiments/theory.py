"""Closed formulas that the simulations are compared with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class DecisionStream:
    """A Poisson stream of jobs whose decision time is job time + task time × tasks, exponential and
    rounded up."""

    rate: float
    tasks: float
    job_time_s: float
    task_time_s: float

    def moments(self) -> tuple[float, float]:
        """First and second moment of the decision time. An exponential rounded up is geometric."""
        stay = math.exp(-1.0 / self.tasks)
        mean, variance = 1.0 / (1.0 - stay), stay / (1.0 - stay) ** 2
        first = self.job_time_s + self.task_time_s * mean
        return first, first**2 + self.task_time_s**2 * variance


def load(streams: Sequence[DecisionStream]) -> float:
    """The share of time one scheduler is busy with these streams."""
    return sum(s.rate * s.moments()[0] for s in streams)


def mean_wait(streams: Sequence[DecisionStream]) -> float:
    """Pollaczek–Khinchine: the mean wait in an M/G/1 queue; infinite when it is saturated."""
    rho = load(streams)
    if rho >= 1.0:
        return math.inf
    return sum(s.rate * s.moments()[1] for s in streams) / (2.0 * (1.0 - rho))
