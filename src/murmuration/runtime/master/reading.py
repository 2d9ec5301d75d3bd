"""The read model of a live cluster: everything that is listed or explained, and nothing that
changes anything.

It looks at the master's state machine, at its log and at what was measured, and answers with the
rows of `answers`. The HTTP API renders them; so can a dashboard. It knows neither connections nor
HTTP.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Hashable
from itertools import islice

import msgspec

from murmuration.base.errors import InputError, did_you_mean
from murmuration.base.version import __version__
from murmuration.runtime.master import answers as an
from murmuration.runtime.master.usage import UsageMeter
from murmuration.runtime.options import MasterOptions
from murmuration.runtime.store.log import EventRow, FactLog
from murmuration.schedulers.central.explain import Trial, Why, dry_run, job_state, last_reason, why
from murmuration.schedulers.central.forecast import MoveForecast, forecast_drain, forecast_move
from murmuration.schedulers.central.jobs import ACTIVE, JobRecord, TaskRecord
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.messages import SubmitJob
from murmuration.workload.job_spec import split_task

#: How many facts are read at once.
EVENTS_MAX = 1000
#: A follower hears something at least this often, so that it can tell silence from a broken line.
QUIET_S = 15.0
#: How long an answer may be given again, and how many are kept.
RECENT_S, RECENT_MAX = 0.1, 64


class Missing(InputError):  # noqa: N818 - it is an answer
    """There is nothing of that name."""


class RecentAnswers:
    """Answers that many clients ask for, as they were worked out last. One is given again while the
    master has been told nothing since, so that nobody misses what it did itself, and for a moment
    only: measurements and ages go on."""

    def __init__(self, log: FactLog, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = log, clock
        self._answers: dict[Hashable, bytes] = {}
        self._index, self._since_s = -1, 0.0

    def find(self, key: Hashable) -> bytes | None:
        if self._log.index != self._index or self._clock() > self._since_s + RECENT_S:
            self._answers.clear()
        return self._answers.get(key)

    def keep(self, key: Hashable, answer: bytes) -> bytes:
        if not self._answers:
            self._index, self._since_s = self._log.index, self._clock()
        if self._index == self._log.index and len(self._answers) < RECENT_MAX:
            self._answers[key] = answer
        return answer


class ReadModel:
    """What can be seen of a cluster."""

    def __init__(
        self,
        master: CentralMaster,
        log: FactLog,
        meter: UsageMeter,
        clock: Callable[[], float],
        options: MasterOptions,
    ) -> None:
        self._master, self.log, self._meter = master, log, meter
        self._clock, self._options = clock, options
        self._started_s = clock()
        #: Known when the master has started to listen.
        self.url = ""
        self.epoch = 0

    @property
    def trouble(self) -> str:
        """What keeps the store from being written; empty if nothing does."""
        return self.log.trouble

    # One of them.

    def job(self, name: str) -> JobRecord:
        jobs = self._master.jobs.jobs
        if name not in jobs:
            hint = did_you_mean(name, jobs) if jobs else "there are none"
            raise Missing(f"no job {name!r}; {hint}")
        return jobs[name]

    def task(self, name: str) -> tuple[JobRecord, TaskRecord]:
        job, index = split_task(name)
        if index is None:
            raise Missing(f"no task {name[:100]!r}; expected JOB.NUMBER such as hello.0")
        record = self.job(job)
        if index >= len(record.tasks):
            raise Missing(f"job {job!r} has tasks 0 to {len(record.tasks) - 1}, not {index}")
        return record, record.tasks[index]

    def earlier_run(self, job: JobRecord, task: TaskRecord, number: int) -> int:
        """The number that a run of a task has in the whole cluster; 1 is the first of this job."""
        last = task.run - job.first_run
        if not 1 <= number <= last:
            name = f"{job.name}.{task.index}"
            had = f"has had runs 1 to {last}" if last else "has not run yet"
            raise Missing(f"{name} {had}, so there is no run {number}")
        return job.first_run + number

    def check_run(self, job: JobRecord, task: TaskRecord, run: int) -> int:
        """The number of a run in the whole cluster, if it is of this job: lower ones were of jobs
        that had its name before, maybe another user's."""
        if not (job.first_run < run <= task.run or run == task.run):
            raise Missing(f"no output of {job.name}.{task.index}.{run} is kept")
        return run

    def check_node(self, node: str) -> None:
        nodes = self._master.nodes
        if node not in nodes:
            raise Missing(f"no node {node!r}; {did_you_mean(node, nodes) or 'there are none'}")

    # Listings.

    def status(self) -> an.StatusAnswer:
        tasks: dict[str, int] = {}
        states: dict[str, int] = {}
        for job in self._master.jobs.jobs.values():
            states[job_state(job)] = states.get(job_state(job), 0) + 1
            for state, count in job.counts().items():
                tasks[str(state)] = tasks.get(str(state), 0) + count
        return an.StatusAnswer(
            index=self.log.index,
            version=__version__,
            scheduler=self._options.scheduler,
            placement=self._options.placement,
            isolation=self._options.isolation,
            api=self.url,
            uptime_s=self._clock() - self._started_s,
            epoch=self.epoch,
            trouble=self.log.trouble,
            nodes=self._node_rows(),
            jobs=states,
            tasks=tasks,
            frameworks=an.framework_rows(self._master),
        )

    def jobs(self, open_only: bool, only: str | None = None) -> an.Listing:
        now = self._clock()
        reasons = an.Reasons(self._master, now)
        chosen = [self.job(only)] if only else self._master.jobs.jobs.values()
        jobs = [job for job in chosen if not (open_only and job.status)]
        return an.Listing(self.log.index, jobs=[an.job_row(job, reasons, now) for job in jobs])

    def tasks(
        self, job: str | None, active_only: bool, limit: int, node: str | None = None
    ) -> an.Listing:
        now = self._clock()
        reasons = an.Reasons(self._master, now)
        jobs = [self.job(job)] if job else self._jobs_on(node)
        tasks = [
            (record, task)
            for record in jobs
            for task in record.listed()
            if (not active_only or task.state in ACTIVE) and node in (None, task.node)
        ]
        rows = [
            an.task_row(record, task, reasons, self._meter, now) for record, task in tasks[:limit]
        ]
        return an.Listing(self.log.index, tasks=rows, total=len(tasks))

    def _jobs_on(self, node: str | None) -> list[JobRecord]:
        """All jobs, or those with tasks on a node."""
        jobs = self._master.jobs
        if node is None:
            return list(jobs.jobs.values())
        return [jobs.jobs[name] for name in jobs.on_node.get(node, ())]

    def nodes(self, only: str | None = None) -> an.Listing:
        rows = [row for row in self._node_rows() if only is None or row.node == only]
        return an.Listing(self.log.index, nodes=rows)

    def _node_rows(self) -> list[an.NodeRow]:
        now = self._clock()
        leases = self._master.leases
        left = {node: leases.left_s(node, now) for node in leases.members}
        return an.node_rows(self._master, self._meter.nodes, left)

    # Explanations.

    def why(self, job: str) -> Why:
        return why(self._master, self.job(job), self._clock())

    def try_job(self, event: SubmitJob) -> Trial:
        """Where the tasks of a job would go now; nothing is reserved."""
        return dry_run(self._master, event, self._clock())

    def forecast_move(self, job: JobRecord, task: TaskRecord) -> MoveForecast:
        """Where a running task would go if it were moved now."""
        return forecast_move(self._master, job, task, self._clock())

    def forecast_drain(self, node: str, everything: bool) -> an.DrainForecast:
        """What would become of the tasks of a node if it were drained now."""
        now = self._clock()
        return an.DrainForecast(node, now, forecast_drain(self._master, node, everything, now))

    # Waiting.

    async def job_result(self, name: str, wait_s: float) -> an.JobResult:
        """How a job stands, as soon as it has ended or so much time has passed."""
        job = self.job(name)
        until_s = self._clock() + wait_s
        while not job.status and (left_s := until_s - self._clock()) > 0:
            await self.log.wait(left_s)
        code = job.code if job.status else None
        return an.JobResult(job.name, job_state(job), bool(job.status), code, last_reason(job))

    def events(self, after: int) -> list[EventRow]:
        return self.log.after(after, EVENTS_MAX)

    def last_events(self, count: int, kind: str, job: str, node: str) -> list[EventRow]:
        """The last facts of a kind, a job and a node (each may be empty), in order."""
        rows = (row for row in self.log.newest() if row.kind.startswith(kind))
        if job or node:
            rows = (row for row in rows if _concerns(row, job, node))
        return list(islice(rows, count))[::-1]

    async def follow(self, after: int) -> AsyncIterator[EventRow | None]:
        """The facts after an index as they come, without end; None when it was quiet for long."""
        while True:
            rows = self.events(after)
            for row in rows:
                after = row.index
                yield row
            if not rows and not await self.log.wait(QUIET_S):
                yield None


class Concerned(msgspec.Struct):
    """What a fact is about, if it says so."""

    job: str = ""
    node: str = ""


def _concerns(row: EventRow, job: str, node: str) -> bool:
    fact = msgspec.json.decode(row.fact, type=Concerned)
    return (not job or fact.job == job) and (not node or fact.node == node)
