"""The job manager: every job and its tasks, and what becomes of a task whose run has ended.

A service keeps `count` tasks running and restarts them with back-off; a task of a terminating job
runs until it ends well or has no retries left. A run that was lost or moved is run again and counts
as no failure; losses are counted apart. The first is made good at once, and those that follow it
before the task has run for a while wait as failures do: whatever kills every run of a task, from
outside or by its own doing, must not keep a cluster busy with nothing else.

Why a run is told to stop is a fact (`TaskStopping`) that is noted before the run hears of it.

A job that is scaled down ends its newest tasks, those whose index is no longer below its count.
Their records stay, because a task that comes back when the job is scaled up must not use a number
of a run again; listings and the outcome of the job leave them out once they have ended.

Runs are numbered, and a number is never used twice for a task, not even by a later job of the same
name (`first_run`). Everything that arrives late is told from what is current by that number: an end
of run 3 says nothing about run 4. `runs` has exactly the runs that hold a place on a node, from the
proposal until the end is known; whoever is not in it cannot end, start or be stopped.

The tables beside it (`on_node`, `ports`, `queue`, `ended`) say nothing new. They are indexes that
placing and listing need, and `_hold`, `_release`, `unwait` and `_close` are the only ones to
change them.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from murmuration.cluster.constraints import Constraint
from murmuration.schedulers.central.endings import backoff_s, exit_reason, lost_backoff_s
from murmuration.schedulers.central.messages import (
    Ended,
    Fact,
    JobEnded,
    JobForgotten,
    JobKilled,
    JobSubmitted,
    Rollout,
    StoredJob,
    StoredRun,
    SubmitJob,
    TaskEnded,
    TaskHealth,
    TaskPlaced,
    TaskStarted,
    TaskStopping,
)
from murmuration.schedulers.central.queue.bounds import EndedJobs
from murmuration.schedulers.offers.messages import Status, Vector
from murmuration.workload.job_spec import JobSpec


class CentralTaskState(StrEnum):
    """Of a task; a job shows the first of these that one of its tasks is in."""

    RUNNING = "running"
    STARTING = "starting"
    STOPPING = "stopping"
    SUSPENDED = "suspended"
    WAITING = "waiting"
    FAILED = "failed"
    KILLED = "killed"
    FINISHED = "finished"


#: It holds a place on a node; a task that is suspended holds less of it, and waits for the rest.
ACTIVE = tuple(CentralTaskState)[:4]
#: States in which a run can be moved, and what it is then told to stop for: the node follows.
MOVABLE = (CentralTaskState.RUNNING, CentralTaskState.STARTING, CentralTaskState.SUSPENDED)
MOVED_OFF = "moved: it was wanted off "
#: The exit code of a job that was killed: 128 and SIGTERM.
KILLED_CODE = 143
#: What a run is stopped for that somebody asked to be killed.
KILLED = "killed"
#: What a run is stopped for whose task the job has no longer.
SCALED = "scaled down"


@dataclass(slots=True)
class TaskRecord:
    """One task and its current or last run."""

    index: int
    state: CentralTaskState = CentralTaskState.WAITING
    run: int = 0
    node: str = ""
    reason: str = ""
    code: int | None = None
    failures: int = 0
    #: How often in a row it was lost.
    losses: int = 0
    #: Not to be placed before.
    ready_s: float = 0.0
    placed_s: float = 0.0
    started_s: float = 0.0
    ended_s: float = 0.0
    #: What its master told it to stop for; such an end is no failure.
    stopped_for: str = ""
    #: The version of the specification of its current or last run.
    version: int = 0
    #: Since when the current run has been healthy; None if it is not, or nobody looks.
    healthy_s: float | None = None
    #: How long the current run had run when it was last suspended, and when it last went on.
    done_s: float = 0.0
    resumed_s: float = 0.0

    @property
    def is_suspended(self) -> bool:
        return self.state is CentralTaskState.SUSPENDED


@dataclass(slots=True)
class JobRecord:
    """One job. `waiting` has the tasks without a run, in order."""

    spec: JobSpec
    serial: int
    submit_s: float
    request: Vector
    constraints: tuple[Constraint, ...]
    first_run: int
    duration_s: float | None
    tasks: list[TaskRecord]
    waiting: dict[int, None]
    open_tasks: int
    killed: bool = False
    rollout: Rollout = field(default_factory=Rollout)
    #: Why a run of a version that it is being updated to has failed.
    update_error: str = ""
    #: Empty while it has tasks to run.
    status: str = ""
    code: int = 0
    ended_s: float = 0.0
    #: Jobs that must end before it starts.
    pending: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def order(self) -> tuple[int, int]:
        """Its place in the queue: by priority, then by submission."""
        return -self.spec.priority, self.serial

    def can_become(self, spec: JobSpec) -> bool:
        """Whether it can be given another specification while it runs."""
        is_service = self.spec.kind == spec.kind == "service"
        return is_service and not (self.killed or self.spec.gang or spec.gang)

    def listed(self) -> list[TaskRecord]:
        """Its tasks. Of those it was scaled down by, only what still runs."""
        if len(self.tasks) == self.spec.count:
            return self.tasks
        return [task for task in self.tasks if not self.is_excess(task) or task.state in ACTIVE]

    def is_excess(self, task: TaskRecord) -> bool:
        """Whether it was scaled down by this task."""
        return task.index >= self.spec.count

    def spec_of(self, task: TaskRecord) -> JobSpec:
        """The specification that a run was placed with."""
        previous, is_new = self.rollout.previous, task.version == self.rollout.version
        return self.spec if is_new or previous is None else previous

    def comes_back(self, task: TaskRecord) -> bool:
        """Whether it was taken away and belongs to the job again."""
        is_away = task.state is CentralTaskState.KILLED
        return is_away and not self.is_excess(task) and SCALED in (task.reason, task.stopped_for)

    def counts(self) -> Counter[CentralTaskState]:
        return Counter(task.state for task in self.listed())

    def ready(self, now: float) -> list[TaskRecord]:
        """The waiting tasks that may be placed now."""
        if self.pending:
            return []
        return [task for index in self.waiting if (task := self.tasks[index]).ready_s <= now]


def new_job(
    event: SubmitJob,
    serial: int,
    request: Vector,
    constraints: tuple[Constraint, ...],
    first_run: int,
    now: float,
) -> JobRecord:
    """A job of which no task has run yet."""
    count = event.spec.count
    tasks = [TaskRecord(index, run=first_run) for index in range(count)]
    return JobRecord(
        spec=event.spec,
        serial=serial,
        submit_s=now,
        request=request,
        constraints=constraints,
        first_run=first_run,
        duration_s=event.duration_s,
        tasks=tasks,
        waiting=dict.fromkeys(range(count)),
        open_tasks=count,
    )


def run_name(job: JobRecord, task: TaskRecord) -> str:
    return f"{job.name}.{task.index}.{task.run}"


def next_run_name(job: JobRecord, task: TaskRecord) -> str:
    """What the next run of a task will be called. A number is used up when the run is placed, so
    that a proposal which is refused leaves no trace."""
    return f"{job.name}.{task.index}.{task.run + 1}"


@dataclass
class JobTable:
    """All jobs, and the facts that come of what is done to them (in `facts`, for the caller to
    take)."""

    jobs: dict[str, JobRecord] = field(default_factory=dict)
    #: The runs that hold a place on a node.
    runs: dict[str, tuple[JobRecord, TaskRecord]] = field(default_factory=dict)
    #: How many tasks of each job are on each node, and which of its ports they hold.
    on_node: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    _runs_on: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    ports: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    #: Jobs with waiting tasks.
    queue: dict[str, JobRecord] = field(default_factory=dict)
    #: Tasks among those that wait that have their place, by job and index.
    suspended: set[tuple[str, int]] = field(default_factory=set)
    #: Services that are being updated.
    rolling: dict[str, JobRecord] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    #: Jobs that have ended and whose names are still theirs, in the order of their ends.
    ended: EndedJobs = field(default_factory=EndedJobs)
    #: Who wants to know how long a run held its place: the job, from when, until when.
    on_release: Callable[[JobRecord, float, float], None] | None = None
    #: Who wants to know that a job has ended.
    on_end: Callable[[JobRecord], None] | None = None
    #: The ports of each run, by the specification it was placed with.
    _held_ports: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _timers: list[float] = field(default_factory=list)
    _serial: int = 0
    #: No run of a job that was forgotten has a higher number.
    _forgotten_run: int = 0

    def take_facts(self) -> list[Fact]:
        facts, self.facts = self.facts, []
        return facts

    def in_order(self) -> list[JobRecord]:
        return sorted(self.queue.values(), key=lambda job: job.order)

    def due(self, now: float) -> float:
        """When the next task's back-off ends."""
        while self._timers and self._timers[0] <= now:
            heapq.heappop(self._timers)
        return self._timers[0] if self._timers else math.inf

    # What clients ask.

    def submit(
        self, event: SubmitJob, request: Vector, constraints: tuple[Constraint, ...], now: float
    ) -> JobRecord:
        """A new job takes the place of an ended one of its name; its runs are numbered on from
        there."""
        before = self.jobs.get(event.spec.name)
        runs = [] if before is None else [before.first_run, *(task.run for task in before.tasks)]
        first = max(runs, default=self._forgotten_run)
        self._serial += 1
        job = new_job(event, self._serial, request, constraints, first, now)
        self.jobs.pop(job.name, None)
        self.ended.discard(job.name)
        self.jobs[job.name] = self.queue[job.name] = job
        self.facts.append(JobSubmitted(job.name, job.serial, first, event.spec, event.duration_s))
        return job

    def kill(self, job: JobRecord, now: float) -> Iterator[str]:
        """End a job: what waits is dropped at once; the runs to stop are returned."""
        if job.status:
            return
        if not job.killed:
            job.killed = True
            self.facts.append(JobKilled(job.name))
        for task in job.tasks:
            if task.state in ACTIVE:
                yield self.stop(job, task, KILLED)
            elif task.index in job.waiting:
                self.close(job, task, CentralTaskState.KILLED, now)

    def kill_task(self, job: JobRecord, task: TaskRecord, now: float) -> str | None:
        """End one task. The run to stop is returned, if there is one; a task of a terminating job
        that waits will not run."""
        if task.state in ACTIVE:
            return self.stop(job, task, KILLED)
        if task.state is CentralTaskState.WAITING and job.spec.kind != "service":
            task.reason, task.ended_s = "killed before it ran", now
            self._note_end(job, task, Status.KILLED, CentralTaskState.KILLED)
            self.close(job, task, CentralTaskState.KILLED, now)
        return None

    def give_up(self, job: JobRecord, reason: str, now: float) -> None:
        """A job that has not begun never will: each of its tasks has failed for this reason."""
        for task in [job.tasks[index] for index in job.waiting]:
            task.reason, task.ended_s = reason, now
            self._note_end(job, task, Status.FAILED, CentralTaskState.FAILED)
            self.close(job, task, CentralTaskState.FAILED, now)

    def stop(self, job: JobRecord, task: TaskRecord, what_for: str) -> str:
        """A run is told to stop; it holds its place until it has. An order to kill it counts above
        every other."""
        if task.stopped_for != what_for and task.stopped_for != KILLED:
            task.stopped_for = what_for
            self.facts.append(TaskStopping(job.name, task.index, task.run, what_for))
        self.unwait(job, task)
        self._set_stopping(task)
        return run_name(job, task)

    def _set_stopping(self, task: TaskRecord) -> None:
        task.state = CentralTaskState.STOPPING
        task.reason = "being killed" if task.stopped_for == KILLED else task.stopped_for

    # What becomes of runs.

    def place(self, job: JobRecord, task: TaskRecord, node: str, now: float) -> None:
        """The next run of a task goes to a node: the ledger has accepted it, so this is a fact, and
        the run holds its place there from now on."""
        assert task.state is CentralTaskState.WAITING, f"{run_name(job, task)} does not wait"
        task.run += 1
        task.state, task.node, task.placed_s, task.code = CentralTaskState.STARTING, node, now, None
        task.reason = task.stopped_for = ""
        task.started_s = task.ended_s = 0.0
        task.healthy_s, task.version = None, job.rollout.version
        task.done_s = task.resumed_s = 0.0
        self.unwait(job, task)
        self._hold(job, task)
        version = None if job.rollout.previous is None else task.version
        self.facts.append(TaskPlaced(job.name, task.index, task.run, node, version))

    def postpone(self, task: TaskRecord, ready_s: float) -> None:
        """A task waits on and is not tried again before `ready_s`."""
        task.ready_s = ready_s
        heapq.heappush(self._timers, ready_s)

    def start(self, run: str, now: float) -> None:
        job, task = self.runs.get(run, (None, None))
        if job is None or task is None or task.started_s:
            return
        if task.state is CentralTaskState.STARTING or task.is_suspended:
            task.state = task.state if task.is_suspended else CentralTaskState.RUNNING
            task.started_s = now
            self.facts.append(TaskStarted(job.name, task.index, task.run, task.node))

    def set_health(self, run: str, is_healthy: bool, reason: str, now: float) -> None:
        """A run has become healthy, or is unhealthy; told twice it is one fact."""
        job, task = self.runs.get(run, (None, None))
        if job is None or task is None:
            return
        if (task.healthy_s is not None) == is_healthy and not reason:
            return
        task.healthy_s = now if is_healthy else None
        self.facts.append(TaskHealth(job.name, task.index, task.run, task.node, is_healthy, reason))

    def end(self, ended: Ended, now: float) -> None:
        """A run ended; an end told twice changes nothing."""
        if ended.run not in self.runs:
            return
        job, task = self.runs[ended.run]
        self._release(job, task)
        if self.on_release is not None and not task.is_suspended:
            self.on_release(job, max(task.placed_s, task.resumed_s), now)
        task.healthy_s = None
        task.ended_s, task.code = now, ended.code if ended.signal is None else 128 + ended.signal
        task.reason = ended.reason or exit_reason(ended)
        state = self._state_after(job, task, ended.status, now)
        self._note_end(job, task, ended.status, state)
        if state is CentralTaskState.WAITING:
            self.wait(job, task)
        else:
            self.close(job, task, state, now)

    def _note_end(
        self, job: JobRecord, task: TaskRecord, status: Status, state: CentralTaskState
    ) -> None:
        self.facts.append(
            TaskEnded(
                job=job.name,
                index=task.index,
                run=task.run,
                node=task.node,
                status=status,
                code=task.code,
                reason=task.reason,
                failures=task.failures,
                state=state,
                losses=task.losses,
            )
        )

    def _state_after(
        self, job: JobRecord, task: TaskRecord, status: Status, now: float
    ) -> CentralTaskState:
        service = job.spec.kind == "service"
        if self._is_run_again(job, task, status, now):
            return CentralTaskState.WAITING
        if job.killed or (task.stopped_for == KILLED and status is not Status.FINISHED):
            return CentralTaskState.KILLED
        if task.stopped_for == SCALED and (service or status is not Status.FINISHED):
            return CentralTaskState.KILLED
        return CentralTaskState.FINISHED if status is Status.FINISHED else CentralTaskState.FAILED

    def lose(self, run: str, reason: str, now: float) -> None:
        self.end(Ended("", run, Status.LOST, reason=reason), now)

    def _is_run_again(self, job: JobRecord, task: TaskRecord, status: Status, now: float) -> bool:
        """Decide, and note failures and when the task may be placed again."""
        service = job.spec.kind == "service"
        if job.killed or (task.stopped_for == SCALED and job.is_excess(task)):
            return False
        if task.stopped_for and (service or status is not Status.FINISHED):
            task.ready_s = now
            return service or task.stopped_for != KILLED
        has_lasted = task.started_s and now - task.started_s >= job.spec.restart.backoff_max_s
        if status in (Status.LOST, Status.REVOKED):
            task.losses = (0 if has_lasted else task.losses) + (status is Status.LOST)
            task.ready_s = now + lost_backoff_s(job.spec, task.losses)
            return True
        task.losses = 0
        if status is Status.FINISHED and not service:
            return False
        if service and has_lasted:
            task.failures = 0
        task.failures += 1
        if job.rollout.phase and task.version == job.rollout.version:
            job.update_error = f"{job.name}.{task.index}: {task.reason or status}"
        task.ready_s = now + backoff_s(job.spec, task.failures)
        retries = job.spec.restart.retries
        return task.failures <= (retries if retries is not None else math.inf if service else 0)

    def wait(self, job: JobRecord, task: TaskRecord) -> None:
        task.state = CentralTaskState.WAITING
        self.enqueue(job, task)
        heapq.heappush(self._timers, task.ready_s)

    def enqueue(self, job: JobRecord, task: TaskRecord) -> None:
        """A task waits: for a place, or for what it gave away of the place it has."""
        job.waiting[task.index] = None
        self.queue[job.name] = job
        change = self.suspended.add if task.is_suspended else self.suspended.discard
        change((job.name, task.index))

    def unwait(self, job: JobRecord, task: TaskRecord) -> None:
        job.waiting.pop(task.index, None)
        self.suspended.discard((job.name, task.index))
        if not job.waiting:
            self.queue.pop(job.name, None)

    def close(self, job: JobRecord, task: TaskRecord, state: CentralTaskState, now: float) -> None:
        """The task will not run again; with its last task the job has ended."""
        task.state = state
        if state is CentralTaskState.KILLED and not task.reason:
            task.reason = "killed before it ran"
        self.unwait(job, task)
        job.open_tasks -= 1
        if job.open_tasks == 0:
            job.status, job.code = job_outcome(job)
            job.ended_s = now
            self.facts.append(JobEnded(job.name, job.status, job.code))
            if self.on_end is not None:
                self.on_end(job)
            self._forget_oldest(job)

    def _forget_oldest(self, ended: JobRecord) -> None:
        self.ended.add(ended.name, len(ended.tasks))
        for oldest in self.ended.forget_oldest():
            runs = [task.run for task in self.jobs.pop(oldest).tasks]
            self._forgotten_run = max(self._forgotten_run, *runs)
            self.facts.append(JobForgotten(oldest))

    def _hold(self, job: JobRecord, task: TaskRecord) -> None:
        self.runs[run := run_name(job, task)] = job, task
        self._runs_on[task.node][run] = None
        self.on_node[task.node][job.name] += 1
        ports = tuple(port for port in job.spec_of(task).ports if port)
        self._held_ports[run_name(job, task)] = ports
        self.ports[task.node].update(ports)

    def _release(self, job: JobRecord, task: TaskRecord) -> None:
        del self.runs[run := run_name(job, task)], self._runs_on[task.node][run]
        self.on_node[task.node] -= Counter([job.name])
        self.ports[task.node] -= Counter(self._held_ports.pop(run_name(job, task)))

    def runs_on(self, node: str) -> list[str]:
        return list(self._runs_on.get(node, ()))

    # A master that starts again.

    def recover(
        self, stored: Iterable[tuple[StoredJob, Vector, tuple[Constraint, ...]]], now: float
    ) -> None:
        """Take up what the store has. Runs that had not ended hold their place until their node is
        heard of."""
        for job, request, constraints in stored:
            self._serial = max(self._serial, job.serial)
            self._forgotten_run = max(self._forgotten_run, job.first_run)
            self._recover_job(job, request, constraints, now)

    def _recover_job(
        self, stored: StoredJob, request: Vector, constraints: tuple[Constraint, ...], now: float
    ) -> None:
        size = max([stored.spec.count, *(run.index + 1 for run in stored.runs)])
        tasks = [TaskRecord(index, run=stored.first_run) for index in range(size)]
        job = JobRecord(
            spec=stored.spec,
            serial=stored.serial,
            submit_s=stored.submit_s,
            request=request,
            constraints=constraints,
            first_run=stored.first_run,
            duration_s=stored.duration_s,
            tasks=tasks,
            waiting={},
            open_tasks=size,
            killed=stored.killed,
            rollout=stored.rollout,
        )
        self.jobs[job.name] = job
        if job.rollout.phase and not job.killed:
            self.rolling[job.name] = job
        for run in stored.runs:
            _fill(tasks[run.index], run, job.spec, now)
            if self.on_release is not None and run.ended_s > run.placed_s > 0.0:
                self.on_release(job, run.placed_s, run.ended_s)
        for task in tasks:
            if task.state in ACTIVE:
                self._hold(job, task)
                if job.is_excess(task) and not task.stopped_for:
                    task.stopped_for = SCALED
                if job.killed or task.stopped_for:
                    task.stopped_for = KILLED if job.killed else task.stopped_for
                    self._set_stopping(task)
                elif task.is_suspended:
                    self.enqueue(job, task)
            elif task.state is not CentralTaskState.WAITING and not job.comes_back(task):
                job.open_tasks -= 1
            elif job.is_excess(task):
                task.state, job.open_tasks = CentralTaskState.KILLED, job.open_tasks - 1
                task.reason = SCALED
            elif job.killed:
                # It was killed while it waited, and the master went before it had said so.
                task.state, job.open_tasks = CentralTaskState.KILLED, job.open_tasks - 1
            else:
                self.wait(job, task)
        if job.open_tasks == 0:
            job.status, job.code = job_outcome(job)
            job.ended_s = max((task.ended_s for task in tasks), default=stored.submit_s)
            self.ended.add(job.name, len(job.tasks))


def _fill(task: TaskRecord, run: StoredRun, spec: JobSpec, now: float) -> None:
    task.state, task.run, task.node, task.reason = (
        CentralTaskState(run.status),
        # A task that was killed before it ran has no number in the store.
        max(task.run, run.run),
        run.node,
        run.reason,
    )
    task.code, task.failures, task.losses = run.code, run.failures, run.losses
    task.stopped_for, task.version = run.stopped_for, run.version
    task.placed_s, task.started_s, task.ended_s = run.placed_s, run.started_s, run.ended_s
    task.done_s, task.resumed_s = run.done_s, run.resumed_s
    # The clock may have been set back since: nobody waits longer than from now.
    task.ready_s = min(run.ended_s, now)
    if task.state is CentralTaskState.WAITING and not run.stopped_for:
        lost = lost_backoff_s(spec, run.losses)
        task.ready_s += lost if run.losses or not run.failures else backoff_s(spec, run.failures)


def job_outcome(job: JobRecord) -> tuple[str, int]:
    """How a job whose tasks are done has ended, and the exit code that stands for it."""
    counts = job.counts()
    if job.killed or (counts[CentralTaskState.KILLED] and not counts[CentralTaskState.FAILED]):
        return CentralTaskState.KILLED, KILLED_CODE
    failed = [task for task in job.listed() if task.state is CentralTaskState.FAILED]
    if failed:
        return CentralTaskState.FAILED, next((task.code for task in failed if task.code), 1)
    return CentralTaskState.FINISHED, 0


def moved_off(task: TaskRecord) -> str:
    """The node that a waiting task was moved away from, and is not to go back to if another one has
    room; empty for none."""
    node = task.stopped_for.removeprefix(MOVED_OFF)
    return node if node != task.stopped_for else ""
