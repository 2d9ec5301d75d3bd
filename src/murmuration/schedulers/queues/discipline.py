"""Queue disciplines: which waiting job is next, and who may overtake it.

A discipline is a value: a rank by which jobs are ordered, and a rule for overtaking. Under every
discipline a job starts whole or not at all. Without backfilling a job that does not fit holds up
all behind it; the two kinds of backfilling let later jobs go first where that delays nobody who has
a reservation (`backfill`). A new discipline is a line in `BUILT_IN`, or an entry point of the group
`murmuration.queues` whose object is the value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import NamedTuple

import msgspec
import numpy as np

from murmuration.base.arrays import Floats, Integers, Times
from murmuration.base.errors import unknown

ENTRY_POINTS = "murmuration.queues"
# Who may overtake: nobody; whoever does not delay the first; whoever delays nobody before it.
STRICT, EASY, CONSERVATIVE = range(3)


class QueueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the disciplines need to know beside the jobs."""

    #: Jobs ask for their run time times this.
    estimate_factor: float = 1.0
    #: Priority that a job gains in an hour of waiting.
    ageing_per_h: float = 0.0
    #: Past use of the cluster counts half after this time (fair share).
    half_life_s: float = 7 * 86_400.0


class QueuedJobs(NamedTuple):
    """What a discipline reads of jobs, one row each."""

    submit_s: Times
    #: The run time they ask for.
    estimate_s: Times
    priority: Integers


@dataclass(frozen=True)
class QueueDiscipline:
    """How a queue is ordered. Jobs of a smaller rank go first, jobs of one rank as they came."""

    name: str
    summary: str
    rank: Callable[[QueuedJobs, QueueSettings], Floats]
    overtaking: int = STRICT
    #: Ranks are those of workloads by their recent use, and change all the time.
    fair: bool = False


def rank_by_arrival(jobs: QueuedJobs, settings: QueueSettings) -> Floats:
    return np.asarray(jobs.submit_s, dtype=np.float64)


def rank_by_length(jobs: QueuedJobs, settings: QueueSettings) -> Floats:
    return np.asarray(jobs.estimate_s, dtype=np.float64)


def rank_by_reverse_length(jobs: QueuedJobs, settings: QueueSettings) -> Floats:
    return -np.asarray(jobs.estimate_s, dtype=np.float64)


def rank_by_priority(jobs: QueuedJobs, settings: QueueSettings) -> Floats:
    """All waiting jobs age alike, so the difference of two priorities never changes: a job is as
    good as one that came later with more priority from the start."""
    per_s = settings.ageing_per_h / 3600.0
    return np.asarray(per_s * jobs.submit_s - jobs.priority, dtype=np.float64)


BUILT_IN = {
    discipline.name: discipline
    for discipline in (
        QueueDiscipline("fcfs", "first come, first served", rank_by_arrival),
        QueueDiscipline("sjf", "the shortest job first", rank_by_length),
        QueueDiscipline("ljf", "the longest job first", rank_by_reverse_length),
        QueueDiscipline("priority", "the highest priority first, with ageing", rank_by_priority),
        QueueDiscipline(
            "easy",
            "first come, first served; others start if that does not delay the first",
            rank_by_arrival,
            EASY,
        ),
        QueueDiscipline(
            "priority-easy",
            "by priority with ageing, with the backfilling of easy",
            rank_by_priority,
            EASY,
        ),
        QueueDiscipline(
            "conservative",
            "every job has a reservation that no later one delays",
            rank_by_arrival,
            CONSERVATIVE,
        ),
        QueueDiscipline(
            "fair-share",
            "the workload that used least of late first, with backfilling of easy",
            rank_by_arrival,
            EASY,
            fair=True,
        ),
    )
}


@cache
def disciplines() -> dict[str, QueueDiscipline]:
    """Every discipline a scenario may name."""
    installed = {point.name: point.load() for point in entry_points(group=ENTRY_POINTS)}
    return {**BUILT_IN, **installed}


def find_discipline(name: str) -> QueueDiscipline:
    """The discipline of this name."""
    if name not in disciplines():
        raise unknown("queue", name, tuple(disciplines()))
    return disciplines()[name]
