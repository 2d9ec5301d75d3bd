"""The live master: the books and offers of `schedulers/offers/master.py`, and the job manager as
its first client.

One door in, messages and facts out. The job manager commits transactions on all open rows
(monolithic, shared state) or takes offers like any framework (offers); schedulers from outside do
either. What it decides depends on nothing but the events it was told, so the log of a cluster gives
the same decisions again in virtual time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from murmuration.base.errors import InputError, did_you_mean
from murmuration.base.random import generator
from murmuration.base.resources import Resources
from murmuration.cluster.constraints import Attributes, Constraint, node_mask, parse_constraint
from murmuration.cluster.reasons import Never
from murmuration.placement.registry import Placement
from murmuration.schedulers import agent
from murmuration.schedulers.admission import never
from murmuration.schedulers.agent import Wake
from murmuration.schedulers.central.jobs import ACTIVE, JobRecord, JobTable, State
from murmuration.schedulers.central.messages import (
    JOBS,
    AgentJoined,
    AgentLost,
    Drain,
    Ended,
    EndRecorded,
    Fact,
    KillJob,
    Launch,
    LeaseEnded,
    NodeDraining,
    NodeIsLost,
    NodeIsUp,
    NodeUnreachable,
    Order,
    Recover,
    RunEnded,
    Running,
    RunStarted,
    Send,
    Stop,
    SubmitJob,
)
from murmuration.schedulers.central.placing import Planned, Round, Rows
from murmuration.schedulers.offers.master import Master, Rules
from murmuration.schedulers.offers.messages import (
    Callback,
    CommitTasks,
    KillTask,
    LaunchTask,
    NodeJoined,
    NodeLeft,
    ReplyToOffer,
    ResourceOffer,
    SetNeedsOffers,
    SetOpen,
    Status,
    StopTask,
    Task,
    TaskReport,
    Unregister,
    Vector,
)
from murmuration.workload.job_spec import FieldError, JobSpec

Out = Fact | Send | Callback
#: What the job manager left of an offer it does not want to see again before something changes.
REFUSE_S = 3600.0


@dataclass(frozen=True)
class Settings:
    """What the operator decides."""

    resources: Resources
    placement: Placement
    rules: Rules = field(default_factory=Rules)
    #: The job manager waits for offers like any other framework.
    by_offers: bool = False


@dataclass
class NodeRecord:
    """A node agent as the master knows it."""

    session: int
    total: Vector
    attributes: Attributes
    up: bool = True


class LiveMaster:
    """The state machine. `handle` is told one event; `due` says when it next wants a `Wake`."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self.settings = settings
        self.nodes: dict[str, NodeRecord] = {}
        self.draining: set[str] = set()
        self.jobs = JobTable()
        self.wrong: dict[str, str] = {}
        self._begin(seed, 0)
        self._now = 0.0
        self._changed = False
        self._out: list[Out] = []

    def _begin(self, seed: int, epoch: int) -> None:
        """Fresh books, and generators that depend on the seed and on how often a master has started
        before."""
        path = (str(epoch),) if epoch else ()
        self.rng = generator(seed, "scheduler", "all", *path)
        self.books = Master(
            len(self.settings.resources), self.settings.rules, generator(seed, "offers", *path)
        )

    def handle(self, event: Any, now: float) -> list[Out]:
        """Take one event; return what it causes, in order."""
        self._now, self._out = now, []
        on = _ON.get(type(event))
        if on is None:
            self._tell_books(event)
        else:
            on(self, event)
        # What is placed waits for the next `Wake`, so that events that come together are decided on
        # together.
        self._changed |= type(event) in _MAKES_ROOM and bool(self.jobs.queue)
        self._out += self.jobs.take_facts()
        return self._out

    @property
    def due(self) -> float:
        """When it next wants a `Wake`: at once if something changed for tasks that wait."""
        return self._now if self._changed else min(self.jobs.due(self._now), self.books.due)

    # Jobs.

    def check(self, spec: JobSpec) -> tuple[Vector, tuple[Constraint, ...]]:
        """What a job asks for, in exact amounts; a field that cannot be read is refused."""
        return requirements(self.settings.resources, spec)

    def never(self, spec: JobSpec) -> Never | None:
        """Why a job can never run on the nodes that are known, or None. Without nodes nothing can
        be said."""
        if not self.nodes:
            return None
        request, constraints = self.check(spec)
        total = np.array([node.total for node in self.nodes.values()], dtype=np.int64)
        allowed = node_mask(constraints, [node.attributes for node in self.nodes.values()])
        asked = np.array(request, dtype=np.int64)
        return never(self.settings.resources, total, allowed, asked, spec.count, spec.gang)

    def _on_submit(self, event: SubmitJob) -> None:
        request, constraints = self.check(event.spec)
        self.jobs.submit(event, request, constraints, self._now)

    def _on_kill(self, event: KillJob) -> None:
        job = self.jobs.jobs.get(event.job)
        if job is None or job.status:
            return
        if event.index is None:
            runs = list(self.jobs.kill(job, self._now))
        else:
            task = job.tasks[event.index]
            runs = [self.jobs.stop(job, task, "killed")] if task.state in ACTIVE else []
        for run in runs:
            self._tell_books(KillTask(JOBS, run))

    def _on_recover(self, event: Recover) -> None:
        self._begin(event.seed, event.epoch)
        self.jobs.recover((job, *self.check(job.spec)) for job in event.jobs)
        self.draining = set(event.draining)

    # Node agents.

    def _on_joined(self, event: AgentJoined) -> None:
        known = self.nodes.get(event.node)
        if known is not None and event.session <= known.session:
            return
        total = tuple(event.total.get(name, 0) for name in self.settings.resources.names)
        self.nodes[event.node] = NodeRecord(event.session, total, event.attributes)
        running = tuple(
            (run.framework, Task(run.run, event.node, run.request)) for run in event.running
        )
        self._tell_books(NodeJoined(event.node, total, running))
        self._tell_books(SetOpen(event.node, event.node not in self.draining))
        if known is None or not known.up:
            self._out.append(NodeIsUp(event.node))
        self._compare(event.node, event.running, event.ended)
        if event.node in self.draining:
            self._move_from(event.node, everything=False)

    def _compare(self, node: str, running: tuple[Running, ...], ended: tuple[Ended, ...]) -> None:
        """What the job manager believes of a node against what its agent says; the agent is
        right."""
        there = {run.run for run in running if run.framework == JOBS}
        expected = self.jobs.runs_on(node)
        for run in there - set(expected):
            self._tell_books(KillTask(JOBS, run))
        for end in ended:
            self._on_end(node, end)
        for run in expected:
            if run in there:
                self._confirm(run)
            elif run in self.jobs.runs:
                self.jobs.lose(run, f"{node} never got it", self._now)

    def _confirm(self, run: str) -> None:
        self.jobs.start(run, self._now)
        if self.jobs.runs[run][1].state is State.STOPPING:
            self._tell_books(KillTask(JOBS, run))

    def _on_lost(self, event: AgentLost) -> None:
        node = self.nodes.get(event.node)
        if node is not None and node.up:
            node.up = False
            self._tell_books(SetOpen(event.node, False))
            self._out.append(NodeUnreachable(event.node))

    def _on_lease_ended(self, event: LeaseEnded) -> None:
        """The agent has ended its tasks by now, so that they may run elsewhere."""
        self.nodes.pop(event.node, None)
        self._tell_books(NodeLeft(event.node))
        for run in self.jobs.runs_on(event.node):
            self.jobs.lose(run, f"{event.node} was lost", self._now)
        self._out.append(NodeIsLost(event.node))

    def _on_drain(self, event: Drain) -> None:
        if event.on == (event.node in self.draining) and not event.now:
            return
        (self.draining.add if event.on else self.draining.discard)(event.node)
        self._out.append(NodeDraining(event.node, event.on))
        node = self.nodes.get(event.node)
        if node is not None and node.up:
            self._tell_books(SetOpen(event.node, not event.on))
        if event.on:
            self._move_from(event.node, event.now)

    def _move_from(self, node: str, everything: bool) -> None:
        for run in self.jobs.runs_on(node):
            job, task = self.jobs.runs[run]
            if task.state is not State.STOPPING and (everything or job.spec.kind == "service"):
                self._tell_books(
                    KillTask(JOBS, self.jobs.stop(job, task, f"moved: {node} is draining"))
                )

    def _on_started(self, event: RunStarted) -> None:
        self._tell_books(TaskReport(event.framework, event.run, Status.RUNNING))
        if event.framework == JOBS:
            self.jobs.start(event.run, self._now)

    def _on_ended(self, event: RunEnded) -> None:
        self._on_end(event.node, event.ended)

    def _on_end(self, node: str, ended: Ended) -> None:
        self._tell_books(TaskReport(ended.framework, ended.run, ended.status, ended.reason))
        if ended.framework == JOBS:
            self.jobs.end(ended, self._now)
        self._send(node, lambda session: EndRecorded(session, ended.framework, ended.run))

    # The books.

    def _tell_books(self, event: Any) -> None:
        """Hand an event to the books and pass on what they answer; the job manager's replies to
        offers go in again."""
        waiting = deque([event])
        while waiting:
            for effect in self.books.handle(waiting.popleft(), self._now):
                assert isinstance(effect, agent.Send)
                message: Any = effect.message
                if isinstance(message, LaunchTask):
                    self._launch(message)
                elif isinstance(message, StopTask):
                    self._stop(message)
                elif message.framework != JOBS:
                    self._out.append(message)
                elif isinstance(message, ResourceOffer):
                    reply = self._reply(message)
                    # Said before the reply, lest what it leaves is offered once more.
                    waiting += [reply] if self.jobs.queue else [SetNeedsOffers(JOBS, False), reply]

    def _launch(self, message: LaunchTask) -> None:
        task, order = message.task, message.task.payload
        # What came over a wire or out of a log is not typed yet: payloads belong to the frameworks.
        told = order if isinstance(order, Order) else msgspec.convert(order, Order)
        self._send(
            task.node,
            lambda session: Launch(session, message.framework, task.task, task.request, told),
        )

    def _stop(self, message: StopTask) -> None:
        entry = self.jobs.runs.get(message.task) if message.framework == JOBS else None
        if entry is not None and not entry[1].stopped_for:
            self.jobs.stop(*entry, "revoked: another scheduler was promised its room")
        reason = entry[1].stopped_for if entry is not None else "killed"
        self._send(
            message.node, lambda session: Stop(session, message.framework, message.task, reason)
        )

    def _send(self, node: str, message: Callable[[int], Any]) -> None:
        record = self.nodes.get(node)
        if record is not None:
            self._out.append(Send(node, message(record.session)))

    # Placing.

    def rows(self) -> Rows:
        """The open rows of the table, with a copy of what is free."""
        open_rows = {name: row for name, row in self.books.ledger.nodes.items() if row.open}
        count = len(self.settings.resources)
        free = np.array(
            [row.available[:count] for row in open_rows.values()], dtype=np.int64
        ).reshape(-1, count)
        total = np.array(
            [row.columns[:count] for row in open_rows.values()], dtype=np.int64
        ).reshape(-1, count)
        return Rows(
            tuple(open_rows), tuple(self.nodes[name].attributes for name in open_rows), total, free
        )

    def round(self, rows: Rows, rng: np.random.Generator) -> Round:
        return Round(
            self.settings.resources, self.settings.placement, self.jobs, rows, rng, self._now
        )

    def _place(self) -> None:
        """Place what waits: each job is one transaction on the open rows."""
        round_ = self.round(self.rows(), self.rng)
        planned = round_.plan(self.jobs.in_order())
        self.wrong = round_.wrong
        for part in planned:
            tasks = self._orders(part, round_.rows)
            seen = tuple(self.books.ledger.nodes[task.node].sequence for task in tasks)
            self._tell_books(
                CommitTasks(JOBS, part.job.serial, tasks, seen, atomic=part.job.spec.gang)
            )

    def _reply(self, offer: ResourceOffer) -> ReplyToOffer:
        """Use an offer as the policy decides; it sees no more than the rows on offer."""
        names = tuple(part.node for part in offer.slices)
        total = np.array([self.nodes[name].total for name in names], dtype=np.int64)
        free = np.array([part.unlimited for part in offer.slices], dtype=np.int64)
        rows = Rows(names, tuple(self.nodes[name].attributes for name in names), total, free)
        round_ = self.round(rows, self.rng)
        planned = round_.plan(self.jobs.in_order())
        self.wrong = round_.wrong
        tasks = tuple(task for part in planned for task in self._orders(part, rows))
        return ReplyToOffer(JOBS, offer.offer, tasks, REFUSE_S)

    def _orders(self, part: Planned, rows: Rows) -> tuple[Task, ...]:
        job, tasks = part.job, []
        for record, row in part.tasks:
            run = self.jobs.place(job, record, rows.names[row], self._now)
            tasks.append(
                Task(
                    run,
                    record.node,
                    job.request,
                    payload=_order(job, record.index, record.run, record.node),
                )
            )
        return tuple(tasks)

    def _on_wake(self, event: Wake) -> None:
        self._changed = False
        self._tell_books(event)
        if self.jobs.queue and self.settings.by_offers:
            self._tell_books(SetNeedsOffers(JOBS, True))
        elif self.jobs.queue:
            self._place()


def _order(job: JobRecord, index: int, run: int, node: str) -> Order:
    spec = job.spec
    told = {
        "MURMUR_JOB": job.name,
        "MURMUR_TASK": f"{job.name}.{index}",
        "MURMUR_INDEX": str(index),
        "MURMUR_COUNT": str(spec.count),
        "MURMUR_RUN": str(run - job.first_run),
        "MURMUR_NODE": node,
    }
    command = (*spec.command, *spec.arguments)
    return Order(
        command, {**spec.environment, **told}, spec.time_limit_s, tuple(spec.ports), job.duration_s
    )


def requirements(resources: Resources, spec: JobSpec) -> tuple[Vector, tuple[Constraint, ...]]:
    """What a job asks for, in exact amounts and parsed constraints; a field that cannot be read is
    refused."""
    for name in spec.resources:
        if name not in resources.names:
            raise FieldError(
                f"resources.{name}", f"unknown resource; {did_you_mean(name, resources.names)}"
            )
    request = tuple(_amount(resources, name, spec) for name in resources.names)
    return request, tuple(_constraint(k, text) for k, text in enumerate(spec.constraints))


def _amount(resources: Resources, name: str, spec: JobSpec) -> int:
    with _about(f"resources.{name}") as field:
        return resources.exact(name, spec.resources.get(name, 0), field)


def _constraint(k: int, text: str) -> Constraint:
    with _about(f"constraints[{k}]") as field:
        return parse_constraint(text, field)


@contextmanager
def _about(name: str) -> Iterator[str]:
    """What is said against bad input in here is said of this field."""
    try:
        yield name
    except InputError as error:
        raise FieldError(name, str(error).removeprefix(f"{name}: ")) from error


#: The events after which a task that waits may find a node. Others are woken for by a time of their
#: own.
_MAKES_ROOM = (
    SubmitJob,
    KillJob,
    Recover,
    AgentJoined,
    Drain,
    RunEnded,
    LeaseEnded,
    ReplyToOffer,
    SetNeedsOffers,
    Unregister,
)
_ON: dict[type, Callable[[LiveMaster, Any], None]] = {
    SubmitJob: LiveMaster._on_submit,
    KillJob: LiveMaster._on_kill,
    Recover: LiveMaster._on_recover,
    AgentJoined: LiveMaster._on_joined,
    AgentLost: LiveMaster._on_lost,
    LeaseEnded: LiveMaster._on_lease_ended,
    Drain: LiveMaster._on_drain,
    RunStarted: LiveMaster._on_started,
    RunEnded: LiveMaster._on_ended,
    Wake: LiveMaster._on_wake,
}
