"""Jobs that run after others: `after` if these end well, `after_any` however they end.

A name stands for the job that had it when the dependent was submitted. Nothing of this is kept on
disk but the jobs themselves. A job waits for a name as long as a job that was submitted before it
has that name and has not ended. One that ended otherwise than well ends its dependents in the same
turn; so whoever still waits, and finds its name given to a later job or forgotten, had no reason
not to run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from murmuration.schedulers.central.jobs import CentralTaskState, JobRecord
from murmuration.workload.job_spec import FieldError, JobSpec


def check_after(spec: JobSpec, jobs: Mapping[str, JobRecord]) -> None:
    """Refuse names that nobody has, and those after which the job could never run."""
    for field_name in ("after", "after_any"):
        for k, name in enumerate(getattr(spec, field_name)):
            other = jobs.get(name)
            if other is None:
                raise FieldError(f"{field_name}[{k}]", f"there is no job {name!r} to run after")
            if field_name == "after":
                _check_can_end_well(other, f"{field_name}[{k}]")


def _check_can_end_well(other: JobRecord, key: str) -> None:
    if other.status and other.status != CentralTaskState.FINISHED:
        raise FieldError(key, f"job {other.name!r} has {_describe(other)}")
    if other.spec.kind == "service":
        raise FieldError(
            key, f"{other.name!r} is a service, which does not end by itself; see after_any"
        )


def _describe(job: JobRecord) -> str:
    was_killed = job.status == CentralTaskState.KILLED
    return "been killed" if was_killed else f"failed with code {job.code}"


@dataclass
class Dependencies:
    """Who waits for whom to end."""

    jobs: Mapping[str, JobRecord]
    _dependents: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    #: Jobs that have ended and whose dependents have not been told.
    _ended: list[JobRecord] = field(default_factory=list)

    def add(self, job: JobRecord) -> None:
        """A job is there: find out what it waits for."""
        for name in (*job.spec.after, *job.spec.after_any):
            other = self.jobs.get(name)
            if other is None or other.serial >= job.serial:
                continue
            if not other.status:
                job.pending.add(name)
                self._dependents[name].add(job.name)
            elif self._is_failed(job, other):
                self._ended.append(other)
                self._dependents[name].add(job.name)

    def note_end(self, job: JobRecord) -> None:
        if job.name in self._dependents:
            self._ended.append(job)

    def settle(self, give_up: Callable[[JobRecord, str], None]) -> bool:
        """Tell the dependents of what has ended; whether one of them may run now. One that never
        will is given up, and its own dependents in turn."""
        is_free = False
        while self._ended:
            ended = self._ended.pop()
            for name in sorted(self._dependents.pop(ended.name, ())):
                job = self.jobs.get(name)
                if job is None or job.status or job.serial <= ended.serial:
                    continue
                job.pending.discard(ended.name)
                if self._is_failed(job, ended):
                    give_up(job, f"it was to run after {ended.name}, which has {_describe(ended)}")
                else:
                    is_free |= not job.pending
        return is_free

    def _is_failed(self, job: JobRecord, other: JobRecord) -> bool:
        return other.name in job.spec.after and other.status != CentralTaskState.FINISHED
