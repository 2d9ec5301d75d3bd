"""What every export is brought to: nodes and jobs in natural units, and the lists made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.cluster.constraints import Attributes, Constraint, parse_constraint
from murmuration.workload.formats.sizes import amounts
from murmuration.workload.jobs import TASKS_MAX, JobList, job_list
from murmuration.workload.nodes import NodeTable

#: Tasks that nobody expects to end: ten years.
ENDLESS_S = 3650 * 86_400.0


@dataclass(frozen=True)
class ExportedNode:
    """A node: CPUs, bytes and counts of further resources, and its attributes."""

    name: str
    amounts: Mapping[str, float]
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True)
class ExportedJob:
    """A job. `submit_s` is a time of the system's own clock; what a task asks for is in CPUs, bytes
    and counts."""

    name: str
    workload: str
    submit_s: float
    tasks: int
    duration_s: float
    request: Mapping[str, float]
    priority: int = 0
    gang: bool = False
    production: bool = False
    constraints: tuple[str, ...] = ()
    user: str = ""
    requested_s: float = 0.0


def node_table(nodes: Sequence[ExportedNode]) -> NodeTable:
    """The nodes; one that lacks a resource of another has none of it."""
    names = _resource_names([node.amounts for node in nodes])
    columns = [np.array([node.amounts.get(name, 0.0) for node in nodes]) for name in names]
    return NodeTable(
        Resources(names),
        tuple(node.name for node in nodes),
        amounts(columns[0], columns[1], *columns[2:]),
        tuple(dict(node.attributes) for node in nodes),
    )


def jobs_of(jobs: Sequence[ExportedJob], where: str) -> JobList:
    """The jobs, with the first submission as time 0."""
    if not jobs:
        raise InputError(f"{where}: expected jobs that have run, run or wait; found none")
    for job in jobs:
        _check(job, where)
    names = _resource_names([job.request for job in jobs])
    columns = [np.array([job.request.get(name, 0.0) for job in jobs]) for name in names]
    workloads = sorted({job.workload for job in jobs})
    users = tuple(sorted({job.user for job in jobs if job.user}))
    sets = _constraint_sets(jobs, where)
    first = min(job.submit_s for job in jobs)
    return job_list(
        Resources(names),
        workloads,
        workload=np.array([workloads.index(job.workload) for job in jobs]),
        submit_s=np.array([job.submit_s - first for job in jobs]),
        tasks=np.array([job.tasks for job in jobs]),
        duration_s=np.array([job.duration_s for job in jobs]),
        request=amounts(columns[0], columns[1], *columns[2:]),
        job_id=_unique([job.name for job in jobs]),
        priority=np.array([job.priority for job in jobs]),
        gang=np.array([job.gang for job in jobs]),
        production=np.array([job.production for job in jobs]),
        constraint=np.array([list(sets).index(job.constraints) for job in jobs]),
        constraint_sets=tuple(sets.values()),
        user=np.array([users.index(job.user) if job.user else -1 for job in jobs]),
        users=users,
        requested_s=np.array([job.requested_s for job in jobs]),
    )


def _check(job: ExportedJob, where: str) -> None:
    """One sentence about the first figure that no cluster can have written."""
    if not 1 <= job.tasks <= TASKS_MAX:
        raise InputError(
            f"{where}: job {job.name}: expected 1 to {TASKS_MAX:,} tasks, got {job.tasks:,}"
        )
    if not 0.0 <= job.duration_s < math.inf:
        raise InputError(f"{where}: job {job.name}: it ended before it started")
    for name, amount in job.request.items():
        if not 0.0 <= amount < math.inf:
            raise InputError(
                f"{where}: job {job.name}: {name}: expected a number from 0, got {amount:g}"
            )


def _constraint_sets(
    jobs: Sequence[ExportedJob], where: str
) -> dict[tuple[str, ...], tuple[Constraint, ...]]:
    """Each set of constraints once, the empty one first."""
    texts = dict.fromkeys([(), *(job.constraints for job in jobs)])
    return {each: tuple(parse_constraint(text, where) for text in each) for each in texts}


def _resource_names(rows: Sequence[Mapping[str, float]]) -> tuple[str, ...]:
    extra = sorted({name for row in rows for name in row} - {"cpu", "memory"})
    return ("cpu", "memory", *extra)


def _unique(names: Sequence[str]) -> list[str]:
    """Names of jobs that were used again get a number."""
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name}~{seen[name]}")
    return unique


def seconds_of(text: str, where: str) -> float:
    """A time such as `2026-03-01T12:00:00Z` in seconds; without a zone all times of a file are of
    one."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(
            f"{where}: expected a time such as 2026-03-01T12:00:00, got {text!r}"
        ) from error
    if moment.tzinfo is None:
        return (moment - datetime(1970, 1, 1)).total_seconds()
    return moment.timestamp()
