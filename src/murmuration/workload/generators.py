"""Job lists drawn from distributions. Each function is given a random generator; the same seed
gives the same list."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from murmuration.base.arrays import Amounts, Flags, Floats
from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.cluster.constraints import Constraint
from murmuration.workload.jobs import TASKS_MAX, JobList, job_list

PICKY_MASKS = 8


@dataclass(frozen=True)
class Stream:
    """One workload of independent exponential draws (Table 3.1): gaps between jobs, tasks of a job
    rounded up, and a duration that all tasks of the job share."""

    name: str
    arrivals_per_s: float
    tasks_per_job: float
    task_duration_s: float
    request: Amounts
    priority: int = 0
    gang: bool = False
    production: bool = False
    constraints: tuple[Constraint, ...] = ()
    #: Tasks that are there at time 0, as jobs of their own with what is left of their time.
    initial: int = 0
    #: How much the sizes of jobs differ: the standard deviation of their logarithm.
    spread: float = 0.0


@dataclass(frozen=True)
class Tables:
    """Observed values to draw from instead of exponentials; an empty table keeps the
    exponential."""

    gaps_s: Floats = field(default_factory=lambda: np.empty(0))
    tasks: Floats = field(default_factory=lambda: np.empty(0))
    durations_s: Floats = field(default_factory=lambda: np.empty(0))
    #: Rows of requests (exact amounts), drawn whole so that CPU and memory stay together.
    requests: Amounts = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))


def generate(
    stream: Stream, resources: Resources, seconds: float, rng: np.random.Generator, tables: Tables
) -> JobList:
    """The jobs of one workload up to a horizon."""
    later = arrivals(stream.arrivals_per_s, seconds, rng, tables.gaps_s)
    submit = np.concatenate([np.zeros(first_jobs(stream)), later])
    count = len(submit)
    tasks = (
        np.ceil(draw(stream.tasks_per_job, count, rng, tables.tasks))
        .clip(1, TASKS_MAX)
        .astype(np.int64)
    )
    duration = draw(stream.task_duration_s, count, rng, tables.durations_s)
    request = sizes(stream, count, rng)
    if len(tables.requests):
        request = tables.requests[rng.integers(0, len(tables.requests), count)]
    sets = ((), stream.constraints) if stream.constraints else ((),)
    return job_list(
        resources,
        [stream.name],
        workload=np.zeros(count, dtype=np.int64),
        submit_s=submit,
        tasks=tasks,
        duration_s=duration,
        request=request,
        job_id=[f"{stream.name}-{j}" for j in range(count)],
        priority=stream.priority,
        gang=stream.gang,
        production=stream.production,
        constraint=1 if stream.constraints else 0,
        constraint_sets=sets,
    )


def first_jobs(stream: Stream) -> int:
    """How many jobs make up the tasks of time 0: of exponential tasks rounded up, a job has 1 ÷ (1
    − e^(−1/mean))."""
    return round(stream.initial * float(1.0 - np.exp(-1.0 / stream.tasks_per_job)))


def sizes(stream: Stream, count: int, rng: np.random.Generator) -> Amounts:
    """The request of each job: alike, or spread log-normally about the same mean, resources half
    together."""
    alike = np.broadcast_to(stream.request, (count, len(stream.request)))
    if stream.spread == 0.0:
        return alike
    common, separate = (
        rng.standard_normal((count, 1)),
        rng.standard_normal((count, len(stream.request))),
    )
    factor = np.exp(stream.spread * (0.7 * common + 0.714 * separate) - stream.spread**2 / 2.0)
    return np.maximum(alike * factor, (alike > 0).astype(np.float64)).astype(np.int64)


def arrivals(rate: float, seconds: float, rng: np.random.Generator, gaps: Floats) -> Floats:
    """Submission times before the horizon: a Poisson process, or gaps drawn from a table."""
    times: list[Floats] = []
    if len(gaps):
        if not gaps.any():
            raise InputError(
                "expected gaps between jobs to draw from, got zeros alone, which let no time pass"
            )
        rate = 1.0 / float(gaps.mean())
    last = 0.0
    while last < seconds:
        block = draw(1.0 / rate, max(64, int((seconds - last) * rate * 1.1)), rng, gaps)
        times.append(last + np.cumsum(block))
        last = float(times[-1][-1])
    every = np.concatenate(times) if times else np.empty(0)
    return every[every < seconds]


def draw(mean: float, count: int, rng: np.random.Generator, table: Floats) -> Floats:
    """Exponential values of this mean, or values of the table with replacement."""
    if len(table) == 0:
        return rng.exponential(mean, count)
    return table[rng.integers(0, len(table), count)]


def picky_masks(nodes: int, share: float, rng: np.random.Generator) -> Flags:
    """A few random sets of usable nodes, each without this share of all nodes (2.2: pickiness)."""
    masks = np.ones((PICKY_MASKS, nodes), dtype=np.bool_)
    for mask in masks:
        mask[rng.permutation(nodes)[: round(share * nodes)]] = False
    return masks
