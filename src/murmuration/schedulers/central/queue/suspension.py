"""Tasks that make way without ending: suspended, they keep their node, their memory and everything
else but CPU, and go on from where they were when there is CPU for them on that node.

A simulation lets a suspended job go on anywhere and gives its memory back, as a checkpoint would.
A process cannot do that: its memory is where it is. So only CPU is given away, and a job finds room
again only where it is.

That a run is suspended is a fact (`TaskSuspended`) before its node hears of it, and its room is
free from then on: what is started in it is ordered after the suspension, on the same connection. An
agent that was away is told again when it joins, by what the master knows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from murmuration.base.arrays import Amounts
from murmuration.schedulers.central.jobs import (
    CentralTaskState,
    JobRecord,
    JobTable,
    TaskRecord,
    run_name,
)
from murmuration.schedulers.central.messages import TaskSuspended, TaskWentOn
from murmuration.schedulers.offers.messages import Vector


def given_away(request: Vector) -> Vector:
    """What a task gives away while it is suspended: CPU, the first of all resources."""
    return (request[0], *(0 for _ in request[1:]))


def held(job: JobRecord, task: TaskRecord) -> Vector:
    """What a run holds of its node."""
    return (0, *job.request[1:]) if task.is_suspended else job.request


def missing(job: JobRecord, task: TaskRecord) -> Vector:
    """What a waiting task needs in order to run."""
    return given_away(job.request) if task.is_suspended else job.request


def missing_of_all(job: JobRecord, tasks: Iterable[TaskRecord]) -> Amounts:
    """What waiting tasks of a job need together."""
    amounts: Amounts = np.array([missing(job, task) for task in tasks], dtype=np.int64).sum(axis=0)
    return amounts


def since_s(task: TaskRecord) -> float:
    """From when on the current run counts: its start, or when it last went on."""
    return max(task.started_s or task.placed_s, task.resumed_s)


def left_s(job: JobRecord, tasks: Iterable[TaskRecord]) -> float:
    """What is left of the run time that tasks of a job ask for, at most."""
    limit, done_s = job.spec.time_limit_s, min((task.done_s for task in tasks), default=0.0)
    return math.inf if limit is None else max(limit - done_s, 0.0)


def suspend(jobs: JobTable, job: JobRecord, task: TaskRecord, what_for: str, now: float) -> str:
    """A run makes way; its name."""
    if jobs.on_release is not None:
        jobs.on_release(job, max(task.placed_s, task.resumed_s), now)
    task.done_s += now - since_s(task)
    task.state, task.reason, task.healthy_s = CentralTaskState.SUSPENDED, what_for, None
    jobs.enqueue(job, task)
    jobs.facts.append(
        TaskSuspended(job.name, task.index, task.run, task.node, what_for, task.done_s)
    )
    return run_name(job, task)


def resume(jobs: JobTable, job: JobRecord, task: TaskRecord, now: float) -> str:
    """A run goes on; its name."""
    jobs.unwait(job, task)
    task.resumed_s, task.reason = now, ""
    task.state = CentralTaskState.RUNNING if task.started_s else CentralTaskState.STARTING
    jobs.facts.append(TaskWentOn(job.name, task.index, task.run, task.node))
    return run_name(job, task)
