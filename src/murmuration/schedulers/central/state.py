"""What a central master knows, and what it would decide on it: its tables, the rows that it may
use, and the transactions or the answer to an offer that follow from them.

Nothing here is told to anybody: the events, and what they cause, are the part of
`schedulers/central/master.py`. Whoever explains a decision (`schedulers/central/explain.py`) needs
no more than this.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from murmuration.base.random import generator
from murmuration.base.resources import Resources
from murmuration.cluster.constraints import Attributes, Constraint, node_mask
from murmuration.cluster.reasons import Never
from murmuration.placement.registry import Placement
from murmuration.schedulers.admission import explain_never, explain_unmet
from murmuration.schedulers.central.access import AccessTable
from murmuration.schedulers.central.jobs import (
    CentralTaskState,
    JobRecord,
    JobTable,
    TaskRecord,
    next_run_name,
)
from murmuration.schedulers.central.leases import Leases
from murmuration.schedulers.central.messages import JOBS
from murmuration.schedulers.central.orders import make_order, requirements
from murmuration.schedulers.central.placing import Planned, Round, Rows
from murmuration.schedulers.central.queue.dependencies import Dependencies
from murmuration.schedulers.central.queue.ordering import make_queue
from murmuration.schedulers.central.queue.suspension import held, resume, suspend
from murmuration.schedulers.central.services.changing import JobChanges
from murmuration.schedulers.offers.master import Master, Rules
from murmuration.schedulers.offers.messages import (
    CommitTasks,
    KillTask,
    ReplyToOffer,
    ResizeTask,
    ResourceOffer,
    Task,
    Vector,
)
from murmuration.schedulers.queues.discipline import (
    AdvanceReservation,
    QueueDiscipline,
    QueueSettings,
)
from murmuration.workload.job_spec import JobSpec

#: What the job manager left of an offer it does not want to see again before something changes.
REFUSE_S = 3600.0


@dataclass(frozen=True)
class CentralSettings:
    """What the operator decides."""

    resources: Resources
    placement: Placement
    rules: Rules = field(default_factory=Rules)
    #: The job manager waits for offers like any other framework.
    by_offers: bool = False
    #: In which order jobs start, whole; without a discipline by priority, and no job holds up
    #: another.
    queue: QueueDiscipline | None = None
    queue_settings: QueueSettings = field(default_factory=QueueSettings)
    reservations: tuple[AdvanceReservation, ...] = ()
    #: A node agent ends its tasks when it was without a master for so long; the master gives them
    #: up a margin later.
    agent_timeout_s: float = 60.0
    margin_s: float = 10.0


@dataclass
class NodeRecord:
    """A node agent as the master knows it."""

    session: int
    total: Vector
    attributes: Attributes
    up: bool = True
    #: Why it could not start a task, if none has started since; and for how long it got none.
    unwell: str = ""
    unwell_s: float = 0.0


class Proposal(NamedTuple):
    """The next run of a task, and the node it shall go to."""

    job: JobRecord
    task: TaskRecord
    node: str


class MasterState:
    """The tables of a master, and the decisions that follow from them."""

    def __init__(self, settings: CentralSettings, seed: int) -> None:
        assert settings.queue is None or not settings.by_offers, "offers have no queue to order"
        self.settings = settings
        self.nodes: dict[str, NodeRecord] = {}
        self.draining: set[str] = set()
        #: Nodes that cannot start tasks, and when each is tried again.
        self.resting: dict[str, float] = {}
        self.jobs = JobTable()
        self.changes = JobChanges(self.jobs, self.check, self._is_up)
        self.access = AccessTable()
        self._transactions = 0
        #: Runs that the ledger was asked to accept and has not answered yet.
        self._proposed: dict[str, Proposal] = {}
        self.queue = make_queue(
            settings.queue, settings.queue_settings, self.jobs, settings.reservations
        )
        self.dependencies = Dependencies(self.jobs.jobs)
        self.jobs.on_end = self.dependencies.note_end
        self.leases = Leases(settings.agent_timeout_s, settings.margin_s)
        self.policy_errors: dict[str, str] = {}
        self._begin(seed, 0)
        self._now = 0.0
        #: Something changed for tasks that wait.
        self._changed = False

    def _begin(self, seed: int, epoch: int) -> None:
        """An empty ledger, and generators that depend on the seed and on how many masters have
        started before."""
        path = (str(epoch),) if epoch else ()
        self.rng = generator(seed, "scheduler", "all", *path)
        self.resource_manager = Master(
            len(self.settings.resources), self.settings.rules, generator(seed, "offers", *path)
        )

    def check(self, spec: JobSpec) -> tuple[Vector, tuple[Constraint, ...]]:
        """What a job asks for, in exact amounts; a field that cannot be read is refused."""
        return requirements(self.settings.resources, spec)

    def never(self, spec: JobSpec) -> Never | None:
        """Why a job can never run on the nodes that are known, or None. Without nodes nothing can
        be said. A field that cannot be read is refused, as by `check`."""
        request, constraints = self.check(spec)
        if not self.nodes:
            return None
        total = np.array([node.total for node in self.nodes.values()], dtype=np.int64)
        attributes = [node.attributes for node in self.nodes.values()]
        allowed = node_mask(constraints, attributes)
        if allowed is not None and not allowed.any():
            return Never(explain_unmet(constraints, attributes))
        asked = np.array(request, dtype=np.int64)
        return explain_never(self.settings.resources, total, allowed, asked, spec.count, spec.gang)

    def _is_up(self, name: str) -> bool:
        """Whether a node is connected."""
        node = self.nodes.get(name)
        return node is not None and node.up

    def _is_open(self, name: str) -> bool:
        """Whether a node takes new tasks."""
        return self._is_up(name) and name not in self.draining and name not in self.resting

    def rows(self) -> Rows:
        """The open rows of the table, with a copy of what is free for tasks without a time
        limit."""
        ledger, count = self.resource_manager.ledger, len(self.settings.resources)
        open_rows = {name: row for name, row in ledger.nodes.items() if row.open}
        free = np.array(
            [ledger.available(name).unlimited for name in open_rows], dtype=np.int64
        ).reshape(-1, count)
        total = np.array(
            [row.columns[:count] for row in open_rows.values()], dtype=np.int64
        ).reshape(-1, count)
        return Rows(
            tuple(open_rows), tuple(self.nodes[name].attributes for name in open_rows), total, free
        )

    def round(self, rows: Rows, rng: np.random.Generator) -> Round:
        settings = self.settings
        quotas = self.access.start_round(
            settings.resources, self.jobs, self.resource_manager.ledger
        )
        return Round(
            settings.resources, settings.placement, self.jobs, rows, rng, self._now, quotas
        )

    def in_order(self) -> list[JobRecord]:
        """The jobs with waiting tasks, the next one first."""
        return self.queue.in_order(self._now, self.rows().total.sum(axis=0))

    def _proposals(self) -> Iterator[CommitTasks | KillTask | ResizeTask]:
        """Place what waits: each job is one transaction on the open rows. One is made when the one
        before it has been answered, for it says which rows it has seen. Before them those give
        their room away that are suspended; after them those are told to stop that make way."""
        round_ = self.round(self.rows(), self.rng)
        planned = self.queue.plan(round_)
        self.policy_errors = round_.policy_errors
        for job, task, what_for in round_.pauses:
            yield ResizeTask(
                JOBS, suspend(self.jobs, job, task, what_for, self._now), held(job, task)
            )
        for part in planned:
            for record in [each for each, _ in part.tasks if each.is_suspended]:
                run = resume(self.jobs, part.job, record, self._now)
                yield ResizeTask(JOBS, run, part.job.request)
            tasks = self._orders(part, round_.rows)
            if not tasks:
                continue
            seen = tuple(self.resource_manager.ledger.nodes[task.node].sequence for task in tasks)
            atomic = self.queue.whole or part.job.spec.gang
            # A number of its own: what was refused and is asked for again was not heard twice.
            self._transactions += 1
            yield CommitTasks(JOBS, self._transactions, tasks, seen, atomic=atomic)
        self._changed |= round_.again
        for job, task, what_for in round_.stops:
            yield KillTask(JOBS, self.jobs.stop(job, task, what_for))

    def _reply(self, offer: ResourceOffer) -> ReplyToOffer:
        """Use an offer as the policy decides; it sees no more than the rows on offer."""
        names = tuple(part.node for part in offer.slices)
        total = np.array([self.nodes[name].total for name in names], dtype=np.int64)
        free = np.array([part.unlimited for part in offer.slices], dtype=np.int64)
        rows = Rows(names, tuple(self.nodes[name].attributes for name in names), total, free)
        round_ = self.round(rows, self.rng)
        planned = self.queue.plan(round_)
        self.policy_errors = round_.policy_errors
        tasks = tuple(task for part in planned for task in self._orders(part, rows))
        return ReplyToOffer(JOBS, offer.offer, tasks, REFUSE_S)

    def _orders(self, part: Planned, rows: Rows) -> tuple[Task, ...]:
        """What the ledger is asked for. Nothing of it is in the job table before it is accepted."""
        job, tasks = part.job, []
        for record, row in part.tasks:
            if record.state is not CentralTaskState.WAITING:
                continue
            run, node = next_run_name(job, record), rows.names[row]
            self._proposed[run] = Proposal(job, record, node)
            order = make_order(job, record.index, record.run + 1, node)
            tasks.append(Task(run, node, job.request, payload=order))
        return tuple(tasks)

    def _has_more(self) -> bool:
        """Whether a task waits that is not proposed."""
        waiting = sum(len(job.waiting) for job in self.jobs.queue.values())
        return waiting > len(self._proposed)
