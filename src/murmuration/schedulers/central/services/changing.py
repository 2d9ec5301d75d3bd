"""Changes of jobs that run: how many tasks, and what they run.

The job manager's tables (`jobs.py`) are changed here by what clients ask and by what `rolling.py`
decides; both give the runs to stop, which the master ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from murmuration.cluster.constraints import Constraint
from murmuration.schedulers.central.jobs import (
    ACTIVE,
    SCALED,
    CentralTaskState,
    JobRecord,
    JobTable,
    TaskRecord,
)
from murmuration.schedulers.central.messages import JobChanged, Rollout
from murmuration.schedulers.central.services import rolling
from murmuration.schedulers.offers.messages import Vector
from murmuration.workload.job_spec import JobSpec

#: What a specification asks for, in exact amounts and parsed constraints.
Check = Callable[[JobSpec], tuple[Vector, tuple[Constraint, ...]]]


@dataclass
class JobChanges:
    """All changes of jobs, and the updates that are under way."""

    table: JobTable
    check: Check
    #: Whether a node is connected: what runs elsewhere is not counted on.
    is_up: Callable[[str], bool]
    _progress: dict[str, rolling.Progress] = field(default_factory=dict)
    _due_s: float = math.inf
    #: Something changed for tasks that wait, since somebody last asked.
    makes_room: bool = False

    @property
    def due(self) -> float:
        """When an update wants to be looked at again."""
        return self._due_s if self.table.rolling else math.inf

    def scale(self, job: JobRecord, count: int, now: float) -> list[str]:
        """A job has so many tasks from now on, whichever version it goes to; the runs to stop."""
        if job.status or job.killed or job.spec.count == count:
            return []
        rollout, previous = job.rollout, job.rollout.previous
        if previous is not None:
            before = msgspec.structs.replace(previous, count=count)
            rollout = msgspec.structs.replace(rollout, previous=before)
        return self._change(job, msgspec.structs.replace(job.spec, count=count), rollout, now)

    def update(self, job: JobRecord, spec: JobSpec, now: float) -> list[str]:
        """A service has another specification from now on; the runs to stop at once."""
        if job.spec == spec:
            return []
        is_same = rolling.is_same_run(job.spec, spec)
        return self._change(job, spec, job.rollout if is_same else rolling.begin(job), now)

    def roll_back(self, job: JobRecord, reason: str, now: float) -> list[str]:
        """A service goes back to the version before."""
        if job.status or job.killed or job.rollout.previous is None:
            return []
        return self._change(job, *rolling.turn_back(job, reason), now)

    def advance(self, now: float) -> list[str]:
        """Take every update one step further; the runs to stop."""
        self._due_s, stopped = math.inf, []
        for job in list(self.table.rolling.values()):
            if job.status or job.killed:
                del self.table.rolling[job.name]
            else:
                stopped += self._advance(job, now)
        return stopped

    def _advance(self, job: JobRecord, now: float) -> list[str]:
        progress = self._progress.get(job.name)
        if progress is None or progress.version != job.rollout.version:
            progress = self._progress[job.name] = rolling.Progress(job.rollout.version, now)
        step, rollout = rolling.next_step(job, progress, self.is_up, now), job.rollout
        error = job.update_error or step.error
        if error and rollout.phase == rolling.UPDATING and job.spec.update.rollback:
            return self.roll_back(job, error, now) + self._advance(job, now)
        if step.is_over:
            self._set(job, job.spec, msgspec.structs.replace(rollout, phase=""))
            return []
        self._due_s = min(self._due_s, step.due_s if not step.error else math.inf)
        reason = f"{rolling.REPLACED}{rollout.version}"
        return [self.table.stop(job, task, reason) for task in step.replaced]

    def _set(self, job: JobRecord, spec: JobSpec, rollout: Rollout) -> None:
        """The job is so from now on, and that is a fact."""
        job.spec, job.rollout, job.update_error = spec, rollout, ""
        self.table.facts.append(JobChanged(job.name, spec, rollout))
        if rollout.phase:
            self.table.rolling[job.name] = job
        else:
            self.table.rolling.pop(job.name, None)

    def _change(self, job: JobRecord, spec: JobSpec, rollout: Rollout, now: float) -> list[str]:
        """Another specification, and as many tasks as it says."""
        job.request, job.constraints = self.check(spec)
        if rollout.version != job.rollout.version:
            # What waited for its turn after a failure has something else to run now.
            for index in job.waiting:
                job.tasks[index].ready_s = now
        self._set(job, spec, rollout)
        self.makes_room = True
        for index in range(len(job.tasks), spec.count):
            job.tasks.append(TaskRecord(index, CentralTaskState.KILLED, job.first_run))
            job.tasks[index].reason = SCALED
        for task in job.tasks[: spec.count]:
            # One that still stops is run again when it has; others that were taken away come back.
            if job.comes_back(task):
                job.open_tasks += 1
                task.reason, task.ready_s = "", now
                self.table.wait(job, task)
        taken = [self._take_away(job, task, now) for task in job.tasks[spec.count :]]
        return [run for run in taken if run is not None]

    def _take_away(self, job: JobRecord, task: TaskRecord, now: float) -> str | None:
        """The job has this task no longer: the run to stop, if there is one."""
        if task.state in ACTIVE:
            return self.table.stop(job, task, SCALED)
        if task.state is CentralTaskState.WAITING:
            task.reason = SCALED
            self.table.close(job, task, CentralTaskState.KILLED, now)
        return None
