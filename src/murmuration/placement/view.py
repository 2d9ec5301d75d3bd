"""What a policy sees: the rows it may use as they are now, and the job to place. Arrays are exact
integers, to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from murmuration.base.arrays import Amounts, Flags, Integers
from murmuration.base.resources import Resources
from murmuration.cluster.constraints import Attributes


@dataclass(frozen=True)
class View:
    """The cluster as a scheduler reads it."""

    resources: Resources
    names: tuple[str, ...]
    attributes: tuple[Attributes, ...]
    total: Amounts
    free: Amounts
    #: The rows the job may use.
    allowed: Flags
    now_s: float = 0.0

    def feasible(self, request: Amounts) -> Flags:
        """The rows that can take one more task of this size."""
        fits = self.allowed.copy()
        for r in range(len(request)):
            fits &= self.free[:, r] >= request[r]
        return fits


@dataclass(frozen=True)
class JobView:
    """The job to place: `tasks` of them are left, each asking for `request`."""

    id: str
    workload: str
    tasks: int
    request: Amounts
    duration_s: float
    priority: int = 0
    gang: bool = False
    production: bool = False
    submit_s: float = 0.0
    attempt: int = 1


class Policy(Protocol):
    """A plain Python policy: one row per task, −1 for a task it does not place."""

    def decide(
        self, view: View, job: JobView, rng: np.random.Generator
    ) -> Sequence[int] | Integers: ...
