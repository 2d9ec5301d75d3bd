"""Framework schedulers as state machines over the master's messages: what to run on what they are
offered.

`ElasticFramework` (Hadoop, Spark) takes any slot as soon as it is offered and shares fairly between
its own jobs; it can wait a while for nodes that have a task's data (delay scheduling, 5.2.2).
`GangFramework` (MPI, Torque) hoards slots until it has all that a job needs (4.5, 5.4.2). Both
are agents of the contract (`schedulers/agent.py`) that note nothing; that a job has finished is an
act, told to whoever submitted it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from murmuration.schedulers.agent import Do, Effect, Message, Send, Wake
from murmuration.schedulers.offers.ledger import fits
from murmuration.schedulers.offers.messages import (
    MASTER,
    FromFramework,
    GetGuaranteedShare,
    GuaranteedShare,
    JobFinished,
    KillTask,
    ReplyToOffer,
    ResourceOffer,
    SetNeedsOffers,
    Slice,
    Status,
    StatusUpdate,
    Submit,
    Task,
    Vector,
)

#: A refusal that ends when the wait for data does may end a rounding error early.
TIME_ERROR_S = 1e-9


class Framework(Protocol):
    """A framework scheduler: an agent with a name."""

    name: str

    @property
    def due(self) -> float: ...

    def handle(self, event: Message, now: float) -> list[Effect]: ...


def to_master(message: FromFramework) -> Send:
    return Send(MASTER, message)


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A task before it has a node. `nodes` have its data; where there are none, any node is as good
    as another."""

    request: Vector
    payload: object = None
    nodes: frozenset[str] = frozenset()
    short: bool = False


@dataclass(frozen=True)
class Job:
    """A bag of tasks, or several: a stage begins when the one before it has ended (reduces after
    maps, iterations)."""

    name: str
    stages: tuple[tuple[TaskSpec, ...], ...]


@dataclass(frozen=True)
class GangJob:
    """Tasks that start together and run for `duration_s`."""

    name: str
    tasks: int
    request: Vector
    duration_s: float


class OpenJob:
    """A job of an elastic framework that has not ended."""

    def __init__(self, job: Job) -> None:
        self.name = job.name
        self.running = 0
        self.pending: dict[int, TaskSpec] = {}
        #: Since when it has passed over nodes without its data; None if it has not since it last
        #: got one with them.
        self.waits_since: float | None = None
        self._stages = deque(job.stages)
        #: Pending tasks by node that has their data, and all of them under None. Those taken since
        #: are skipped.
        self._queues: dict[str | None, deque[int]] = {None: deque()}
        self._serial = 0
        self.begin_stage()

    def begin_stage(self) -> bool:
        """Begin the next stage that has tasks; False if the job has ended."""
        while self._stages and not self.pending:
            for spec in self._stages.popleft():
                self.add(spec)
        return bool(self.pending)

    def add(self, spec: TaskSpec) -> None:
        self._serial += 1
        self.pending[self._serial] = spec
        self._queues[None].append(self._serial)
        for node in spec.nodes:
            self._queues.setdefault(node, deque()).append(self._serial)

    def first(self, node: str | None) -> int | None:
        """The first pending task with data on this node, or of all for None."""
        queue = self._queues.get(node)
        while queue:
            if queue[0] in self.pending:
                return queue[0]
            queue.popleft()
        return None

    def choose(self, node: str, now: float, delay_s: float) -> int | None:
        """Delay scheduling: a task that is local here; another one only after `delay_s` without
        any."""
        local = self.first(node)
        if local is not None:
            self.waits_since = None
            return local
        head = self.first(None)
        if head is None or not self.pending[head].nodes or delay_s <= 0.0:
            return head
        if self.waits_since is None:
            self.waits_since = now
        return head if now + TIME_ERROR_S >= self.waits_since + delay_s else None


@dataclass
class _Room:
    """What is left of an offered slice while tasks are chosen for it."""

    amount: list[int]
    unlimited: list[int]

    def take(self, spec: TaskSpec) -> bool:
        if not fits(spec.request, self.amount) or not (
            spec.short or fits(spec.request, self.unlimited)
        ):
            return False
        self.amount = list(map(int.__sub__, self.amount, spec.request))
        if not spec.short:
            self.unlimited = list(map(int.__sub__, self.unlimited, spec.request))
        return True


class ElasticFramework:
    """Jobs as bags of tasks. The job with the fewest running tasks is next to get a slot."""

    def __init__(self, name: str, delay_s: float = 0.0, refuse_s: float = 5.0) -> None:
        self.name = name
        self.delay_s = delay_s
        self.refuse_s = refuse_s
        self.jobs: dict[str, OpenJob] = {}
        self._launched: dict[str, tuple[OpenJob, TaskSpec]] = {}
        self._serial = 0

    @property
    def due(self) -> float:
        """Never: the end of a wait for data is the end of a refusal, and the master's next
        offer."""
        return math.inf

    def handle(self, event: Message, now: float) -> list[Effect]:
        if isinstance(event, ResourceOffer):
            return self._on_offer(event, now)
        if isinstance(event, StatusUpdate):
            return self._on_status(event)
        if isinstance(event, Submit) and isinstance(event.job, Job):
            return self._on_submit(event.job)
        return []

    def _on_submit(self, job: Job) -> list[Effect]:
        self.jobs[job.name] = OpenJob(job)
        return self._advance(self.jobs[job.name])

    def _on_offer(self, offer: ResourceOffer, now: float) -> list[Effect]:
        tasks = tuple(task for part in offer.slices for task in self._use(part, now))
        out: list[Effect] = []
        if not any(job.pending for job in self.jobs.values()):
            out.append(self._ask(False))
        reply = ReplyToOffer(self.name, offer.offer, tasks, self._patience_s(now))
        return [*out, to_master(reply)]

    def _use(self, part: Slice, now: float) -> Iterator[Task]:
        room = _Room(list(part.amount), list(part.unlimited))
        while (chosen := self._choose(part.node, room, now)) is not None:
            job, spec = chosen
            self._serial += 1
            task = Task(
                f"{self.name}-{self._serial}", part.node, spec.request, spec.short, spec.payload
            )
            self._launched[task.task] = chosen
            job.running += 1
            yield task

    def _choose(self, node: str, room: _Room, now: float) -> tuple[OpenJob, TaskSpec] | None:
        for job in sorted(
            (job for job in self.jobs.values() if job.pending), key=lambda job: job.running
        ):
            serial = job.choose(node, now, self.delay_s)
            if serial is not None and room.take(job.pending[serial]):
                return job, job.pending.pop(serial)
        return None

    def _patience_s(self, now: float) -> float:
        """How long not to be offered what was left: until the first job stops waiting for its
        data."""
        waits = [
            job.waits_since + self.delay_s - now
            for job in self.jobs.values()
            if job.waits_since is not None
        ]
        return max(min(waits), 0.0) if waits and min(waits) > TIME_ERROR_S else self.refuse_s

    def _on_status(self, update: StatusUpdate) -> list[Effect]:
        if update.status is Status.RUNNING or update.task not in self._launched:
            return []
        job, spec = self._launched.pop(update.task)
        job.running -= 1
        if update.status is not Status.FINISHED:
            # Lost work is done again. A task that was killed no longer claims to be short, or it
            # would be killed again and again.
            job.add(
                TaskSpec(
                    spec.request,
                    spec.payload,
                    spec.nodes,
                    spec.short and update.status is not Status.KILLED,
                )
            )
            return [self._ask(True)]
        return [] if job.pending or job.running else self._advance(job)

    def _advance(self, job: OpenJob) -> list[Effect]:
        if job.pending or job.begin_stage():
            return [self._ask(True)]
        del self.jobs[job.name]
        return [Do(JobFinished(self.name, job.name))]

    def _ask(self, needs: bool) -> Send:
        return to_master(SetNeedsOffers(self.name, needs))


@dataclass
class Ring:
    """The tasks of one gang job: daemons that hold their slots until the whole job has run
    (5.4.2)."""

    job: GangJob
    tasks: set[str] = field(default_factory=set)
    up: set[str] = field(default_factory=set)
    ends: float = math.inf

    @property
    def lacks(self) -> bool:
        return len(self.tasks) < self.job.tasks


class GangFramework:
    """Gang jobs in order of arrival. It never holds more than its guaranteed share, so that no task
    is revoked (5.4.3)."""

    def __init__(self, name: str, refuse_s: float = 5.0) -> None:
        self.name = name
        self.refuse_s = refuse_s
        self.rings: list[Ring] = []
        self._limit: Vector = ()
        #: What every launched task holds, until it is known to have ended.
        self._held: dict[str, Vector] = {}
        self._needs = False
        self._serial = 0

    @property
    def due(self) -> float:
        return min((ring.ends for ring in self.rings), default=math.inf)

    def handle(self, event: Message, now: float) -> list[Effect]:
        out: list[Effect] = []
        if isinstance(event, Submit) and isinstance(event.job, GangJob):
            self.rings.append(Ring(event.job))
            return [to_master(GetGuaranteedShare(self.name))]
        if isinstance(event, GuaranteedShare):
            self._limit = event.amount
        elif isinstance(event, StatusUpdate):
            self._on_status(event, now)
        elif isinstance(event, ResourceOffer):
            tasks = tuple(task for part in event.slices for task in self._use(part))
            out = [to_master(ReplyToOffer(self.name, event.offer, tasks, self.refuse_s))]
        elif isinstance(event, Wake):
            out = self._end_jobs(now)
        return self._say_needs() + out

    def _say_needs(self) -> list[Effect]:
        needs = self._next_ring() is not None
        if needs == self._needs:
            return []
        self._needs = needs
        return [to_master(SetNeedsOffers(self.name, needs))]

    def _next_ring(self) -> Ring | None:
        """The first job that lacks tasks, if the guaranteed share has room for one more."""
        ring = next((ring for ring in self.rings if ring.lacks), None)
        if ring is None:
            return None
        held = map(sum, zip(ring.job.request, *self._held.values(), strict=True))
        return ring if self._limit and fits(held, self._limit) else None

    def _use(self, part: Slice) -> Iterator[Task]:
        left = list(part.unlimited)
        while (ring := self._next_ring()) is not None and fits(ring.job.request, left):
            left = list(map(int.__sub__, left, ring.job.request))
            self._serial += 1
            task = Task(f"{self.name}-{self._serial}", part.node, ring.job.request)
            ring.tasks.add(task.task)
            self._held[task.task] = task.request
            yield task

    def _on_status(self, update: StatusUpdate, now: float) -> None:
        ring = next((ring for ring in self.rings if update.task in ring.tasks), None)
        if update.status is Status.RUNNING:
            if ring is not None:
                ring.up.add(update.task)
                if len(ring.up) == ring.job.tasks:
                    ring.ends = now + ring.job.duration_s
            return
        self._held.pop(update.task, None)
        if ring is not None:
            # A gang that loses a member begins again when it is whole.
            ring.tasks.discard(update.task)
            ring.up.discard(update.task)
            ring.ends = math.inf

    def _end_jobs(self, now: float) -> list[Effect]:
        ended = [ring for ring in self.rings if ring.ends <= now]
        self.rings = [ring for ring in self.rings if ring.ends > now]
        kills: list[Effect] = [
            to_master(KillTask(self.name, task)) for ring in ended for task in sorted(ring.tasks)
        ]
        return kills + [Do(JobFinished(self.name, ring.job.name)) for ring in ended]
