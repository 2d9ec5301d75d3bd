"""Queue disciplines: which waiting job is next, and who may overtake it.

A discipline is a value: how jobs are ordered, and a rule for overtaking. Under every discipline a
job starts whole or not at all. Without backfilling a job that does not fit holds up all behind it;
the two kinds of backfilling let later jobs go first where that delays nobody who has a reservation
(`look`). A new discipline is a line in `BUILT_IN`, or an entry point of the group
`murmuration.queues` whose object is the value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from murmuration.base.arrays import Floats, Integers, Times
from murmuration.base.errors import unknown
from murmuration.schedulers.queues.look import CONSERVATIVE, EASY, STRICT

ENTRY_POINTS = "murmuration.queues"
# How jobs are ordered: by a rank that never changes; by what their owners used of late; by a sum of
# factors that change all the time.
BY_RANK, BY_USE, BY_FACTORS = range(3)


class FactorWeights(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What each factor of a job's priority counts (`multifactor`)."""

    age: float = 1000.0
    size: float = 0.0
    fair_share: float = 10_000.0
    priority: float = 1.0


class QueueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the disciplines need to know beside the jobs."""

    #: What jobs ask for: their run time, what the trace says they asked for, or their run time and
    #: up to so many times more, drawn evenly.
    estimate: Literal["exact", "trace"] | float = "exact"
    #: … times this; not where the trace says what they asked for.
    estimate_factor: float = 1.0
    #: Priority that a job gains in an hour of waiting.
    ageing_per_h: float = 0.0
    #: Past use of the cluster counts half after this time (fair share).
    half_life_s: float = 7 * 86_400.0
    #: The shares that users are promised, in any unit; 1 for who is not named.
    shares: dict[str, float] = {}
    weights: FactorWeights = FactorWeights()
    #: The age at which a job's age counts in full.
    age_max_s: float = 7 * 86_400.0
    #: Whether a job that is next takes the room of running jobs of lower priority: these start
    #: from the start, or go on where they were.
    preempt: Literal["no", "requeue", "suspend"] = "no"
    #: How many jobs and CPUs of one user may run at a time; 0: any number.
    user_jobs_max: int = 0
    user_cpu_max: float = 0.0


class AdvanceReservation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Room that nobody but these users may use for a while, and nobody at all without users: a
    share of everything, or amounts."""

    from_s: float
    until_s: float
    share: float = 0.0
    resources: dict[str, str | int | float] = {}
    users: list[str] = []


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
    order: int = BY_RANK


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
            "the user who used least of late first, with the backfilling of easy",
            rank_by_arrival,
            EASY,
            BY_USE,
        ),
        QueueDiscipline(
            "multifactor",
            "by age, size, fair share and priority, each with a weight; with the backfilling of "
            "easy",
            rank_by_arrival,
            EASY,
            BY_FACTORS,
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
