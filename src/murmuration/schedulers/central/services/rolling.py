"""Rolling updates: a service gets another specification task by task, and gets the old one back if
the new one does not do well.

A *version* is a number for a specification. Each run has the version it was placed with, so a
service is up to date when all its tasks run the version of its job. What may differ without a new
version (how many tasks, priority, restarts, this policy) changes nothing about a run.

- *updating*: tasks of another version are stopped, no more at a time than may be missing, and each
  is placed again with the version of the job. When all are available the update is over. If one
  fails by itself, or nothing gets on for too long, the service is rolled back.
- *rolling back*: the same, to the version before; nothing follows on that.

A task is *available* if it runs on a node that is connected, is healthy where its service has a
check, and has been so for `min_healthy_s` if it is of the new version. An update stops an available
task only if, without it, no more than `max_unavailable` are missing; one that has not started yet
may go at any time, and so may one that is not healthy and of a version that is given up. Another
that runs and is not healthy is left alone: it may be well, and nobody has looked since its node
agent started again; or it is not, and will be ended for it.

What was decided is a fact (`JobChanged`) with both specifications in it, and the version of a run
stands in its placement: a master that starts again goes on where the other was. When progress was
last made is not kept; it counts from zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from murmuration.schedulers.central.jobs import CentralTaskState, JobRecord, TaskRecord
from murmuration.schedulers.central.messages import Rollout
from murmuration.workload.job_spec import JobSpec

RUNNING = CentralTaskState.RUNNING
UPDATING, ROLLING_BACK = "updating", "rolling back"
#: What a run is stopped for that gives way to another version.
REPLACED = "replaced by version "
#: Fields that are no part of what a run is.
OUTSIDE = ("count", "priority", "restart", "update")


def is_same_run(one: JobSpec, other: JobSpec) -> bool:
    """Whether two specifications make the same runs."""
    changed = {name: getattr(one, name) for name in OUTSIDE}
    return msgspec.structs.replace(other, **changed) == one


def begin(job: JobRecord) -> Rollout:
    """A new version, and the way back. An update on top of one that is not over leads back to where
    that began."""
    now = job.rollout
    version = max(now.version, now.previous_version) + 1
    if now.phase == UPDATING and now.previous is not None:
        return Rollout(version, now.previous_version, now.previous, UPDATING)
    return Rollout(version, now.version, job.spec, UPDATING)


def turn_back(job: JobRecord, reason: str) -> tuple[JobSpec, Rollout]:
    """The version before, with the one that is given up as the way back from it."""
    now = job.rollout
    assert now.previous is not None
    return now.previous, Rollout(now.previous_version, now.version, job.spec, ROLLING_BACK, reason)


@dataclass
class Progress:
    """How far an update has come, and when it last got on."""

    version: int
    at_s: float
    available: int = -1


@dataclass(frozen=True)
class Step:
    """What an update does next: runs that give way; whether it is over; why it cannot go on."""

    replaced: tuple[TaskRecord, ...] = ()
    is_over: bool = False
    error: str = ""
    #: When to look again if nothing happens.
    due_s: float = math.inf


def next_step(job: JobRecord, progress: Progress, is_up: Callable[[str], bool], now: float) -> Step:
    """Decide about a service that is being updated; notes progress."""
    current = [task for task in job.tasks if not job.is_excess(task)]
    available = [task for task in current if is_up(task.node) and is_available(job, task, now)]
    done = [task for task in available if task.version == job.rollout.version]
    if len(done) == len(current):
        return Step(is_over=True)
    if len(done) != progress.available:
        progress.at_s, progress.available = now, len(done)
    deadline_s = progress.at_s + job.spec.update.deadline_s
    if job.rollout.phase == UPDATING and now >= deadline_s:
        return Step(error=f"no task became available within {job.spec.update.deadline_s:g} s")
    due_s = min([deadline_s if job.rollout.phase == UPDATING else math.inf, *_settling(job, now)])
    return Step(tuple(_choose(job, current, available)), due_s=due_s)


def _choose(
    job: JobRecord, current: list[TaskRecord], available: list[TaskRecord]
) -> Iterator[TaskRecord]:
    """The runs to stop now: those that have not started, what a version that is given up has that
    is not healthy, and others as far as they may be missing."""
    is_given_up = job.rollout.phase == ROLLING_BACK
    room = job.spec.update.max_unavailable - (len(current) - len(available))
    for task in current:
        if task.version == job.rollout.version:
            continue
        is_useless = is_given_up and ready_since(job, task) is None
        if task.state is CentralTaskState.STARTING or (task.state is RUNNING and is_useless):
            yield task
        elif task in available and room > 0:
            room -= 1
            yield task


def is_available(job: JobRecord, task: TaskRecord, now: float) -> bool:
    """Whether a task does its work; of the new version, for long enough."""
    since_s = ready_since(job, task)
    if since_s is None:
        return False
    is_new = task.version == job.rollout.version
    return not is_new or now >= since_s + job.spec.update.min_healthy_s


def ready_since(job: JobRecord, task: TaskRecord) -> float | None:
    """Since when a task has been running, and healthy where it is looked at; None if it is not."""
    if task.state is not RUNNING:
        return None
    return task.started_s if job.spec_of(task).health is None else task.healthy_s


def _settling(job: JobRecord, now: float) -> Iterator[float]:
    """When runs of the new version will have been ready for long enough."""
    for task in job.tasks:
        since_s = ready_since(job, task)
        if since_s is not None and task.version == job.rollout.version:
            at_s = since_s + job.spec.update.min_healthy_s
            if at_s > now:
                yield at_s


def describe(job: JobRecord, now: float) -> str:
    """How an update stands, in words; nothing if there is none."""
    rollout = job.rollout
    if not rollout.phase:
        return f"rolled back: {rollout.reason}" if rollout.reason else ""
    current = [task for task in job.tasks if not job.is_excess(task)]
    done = sum(task.version == rollout.version and is_available(job, task, now) for task in current)
    words = f"{rollout.phase} to version {rollout.version}, {done} of {len(current)} tasks done"
    return f"{words}: {rollout.reason}" if rollout.reason else words
