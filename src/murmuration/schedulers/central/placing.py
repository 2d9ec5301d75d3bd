"""One round of the built-in job manager: which waiting tasks go where, on the rows it may use,
deducting as it goes.

The policy is the one a simulation would run, by the same name. What a policy cannot see, such as
the tasks of other jobs on a node, becomes the mask of rows a job may use.

A round works on a copy of the free amounts and deducts as it plans, because nothing is decided yet:
the plan goes to the ledger as one transaction for each job, and only what the ledger accepts
becomes a fact. Between plan and answer the table cannot change, so a refusal is a rule of the
ledger that the plan did not know (a share that is kept for short tasks, say), and the tasks simply
wait on.

In which order jobs are placed is decided by the queue (`queue/ordering.py`); a round knows where
the tasks of one job may go, and what the plan has taken so far.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from murmuration.base.errors import InputError
from murmuration.base.resources import Amounts, Resources
from murmuration.cluster.constraints import Attributes
from murmuration.placement.decide import decide
from murmuration.placement.registry import Placement
from murmuration.placement.view import JobView, View
from murmuration.schedulers.central.access import QuotaRound
from murmuration.schedulers.central.jobs import JobRecord, JobTable, TaskRecord, moved_off
from murmuration.schedulers.central.queue.suspension import missing

NodeMask = NDArray[np.bool_]


@dataclass
class Rows:
    """The rows of nodes a scheduler may use now. `free` is its own copy."""

    names: tuple[str, ...]
    attributes: tuple[Attributes, ...]
    total: Amounts
    free: Amounts


@dataclass
class Planned:
    """Where tasks of one job go: each with the row of its node."""

    job: JobRecord
    tasks: list[tuple[TaskRecord, int]]


@dataclass
class Round:
    """The plan under way: what the table has, and what was planned on top."""

    resources: Resources
    placement: Placement
    jobs: JobTable
    rows: Rows
    rng: np.random.Generator
    now: float
    #: What users may still start; without it, anything.
    quotas: QuotaRound | None = None
    #: Tasks of each job on each row, and ports held there, the planned ones included.
    present: list[Counter[str]] = field(init=False)
    ports: list[Counter[int]] = field(init=False)
    #: Sizes and constraints that no row has room for: jobs alike need not ask again.
    infeasible: set[object] = field(default_factory=set)
    #: Errors of a policy of the user's own, by job.
    policy_errors: dict[str, str] = field(default_factory=dict)
    #: Running tasks that the plan ends, those that it suspends, and what for.
    stops: list[tuple[JobRecord, TaskRecord, str]] = field(default_factory=list)
    pauses: list[tuple[JobRecord, TaskRecord, str]] = field(default_factory=list)
    #: Jobs of which tasks are planned; and whether another round would find more.
    planned: set[str] = field(default_factory=set)
    again: bool = False

    def __post_init__(self) -> None:
        names = self.rows.names
        self.present = [Counter(self.jobs.on_node.get(name, ())) for name in names]
        held = _ports_by_host(self.jobs, self.rows)
        self.ports = [
            held[_host(attributes, name)]
            for name, attributes in zip(names, self.rows.attributes, strict=True)
        ]

    def ready(self, job: JobRecord, whole: bool = False) -> list[TaskRecord]:
        """The waiting tasks of a job that may start now, if there is room for them."""
        tasks = job.ready(self.now)
        if self.quotas is None:
            return tasks
        # What is suspended counts as used all the time.
        paused = [task for task in tasks if task.is_suspended]
        fresh = [task for task in tasks if not task.is_suspended]
        admitted = self.quotas.admit(job, fresh, whole)
        return [] if whole and len(admitted) < len(fresh) else [*paused, *admitted]

    def twin(self, free: Amounts) -> Round:
        """A round on the same tables and plan but other amounts, to try something: what it decides
        and draws is nobody's but its own."""
        twin = Round(
            self.resources,
            self.placement,
            self.jobs,
            replace(self.rows, free=free),
            copy.deepcopy(self.rng),
            self.now,
        )
        twin.present, twin.ports = copy.deepcopy(self.present), copy.deepcopy(self.ports)
        return twin

    def place(
        self, job: JobRecord, tasks: list[TaskRecord], whole: bool = False
    ) -> list[tuple[TaskRecord, int]]:
        """The rows for the tasks of one job; of a gang, and where it is asked for, all or none."""
        # Only such a job is ever taken back, so only that pays for the copy.
        whole |= job.spec.gang
        before = self.rows.free.copy() if whole else self.rows.free
        paused = [task for task in tasks if task.is_suspended]
        fresh = [task for task in tasks if not task.is_suspended] if paused else tasks
        placements = self._go_on(job, paused)
        resumed = len(placements)
        try:
            # Rules about a job's own tasks change with each one placed, so those are decided one by
            # one.
            for group in _groups(job, fresh):
                rows = self._decide(job, len(group), moved_off(group[0]))
                placements += zip(group, rows, strict=False)
                if len(rows) < len(group):
                    break
        except InputError as error:
            self.policy_errors[job.name] = str(error)
        if whole and len(placements) < len(tasks):
            self._undo(job, placements[resumed:], before)
            return []
        if self.quotas is not None:
            self.quotas.take(job, len(placements) - resumed)
        if placements:
            self.planned.add(job.name)
        return placements

    def _go_on(self, job: JobRecord, paused: list[TaskRecord]) -> list[tuple[TaskRecord, int]]:
        """The rows of suspended tasks that have what they gave away: each can go on only there."""
        rows = {name: row for row, name in enumerate(self.rows.names)} if paused else {}
        placements: list[tuple[TaskRecord, int]] = []
        for task in paused:
            row, amount = rows.get(task.node, -1), np.array(missing(job, task), dtype=np.int64)
            if row >= 0 and (self.rows.free[row] >= amount).all():
                self.rows.free[row] -= amount
                placements.append((task, row))
        return placements

    def _decide(self, job: JobRecord, count: int, off: str = "") -> list[int]:
        view = self._view_off(job, off) if off else self.view(job)
        if not view.feasible(np.array(job.request, dtype=np.int64)).any():
            return []
        rows = [int(row) for row in decide(self.placement, view, job_view(job, count), self.rng)]
        request = np.array(job.request, dtype=np.int64)
        # A policy of the user's own may answer anything. It is checked here, once for all tasks of
        # the answer: the ledger would refuse the whole transaction without saying whose fault it
        # is.
        taken = np.bincount(rows, minlength=len(view.names))[:, None] * request
        if (taken > self.rows.free).any():
            node = view.names[int((taken > self.rows.free).any(axis=1).argmax())]
            raise InputError(
                f"{self.placement.name}: job {job.name}: node {node} has no room for this task"
            )
        self.rows.free -= taken
        for row in rows:
            self.present[row][job.name] += 1
            self.ports[row].update(port for port in job.spec.ports if port)
        return rows

    def _undo(
        self, job: JobRecord, placements: list[tuple[TaskRecord, int]], before: Amounts
    ) -> None:
        self.rows.free[:] = before
        for _, row in placements:
            self.present[row] -= Counter([job.name])
            self.ports[row].subtract(port for port in job.spec.ports if port)

    def view(self, job: JobRecord) -> View:
        rows = self.rows
        return View(
            self.resources,
            rows.names,
            rows.attributes,
            rows.total,
            rows.free,
            self.allowed(job),
            self.now,
        )

    def _view_off(self, job: JobRecord, node: str) -> View:
        """All rows but this node's; all of them if no other has room."""
        view = self.view(job)
        others = replace(view, allowed=view.allowed & _mask(name != node for name in view.names))
        return others if others.feasible(np.array(job.request, np.int64)).any() else view

    def allowed(self, job: JobRecord) -> NodeMask:
        """The rows a job may use now."""
        mask = np.ones(len(self.rows.names), dtype=np.bool_)
        for _, rule in self.rules(job):
            mask &= rule
        return mask

    def rules(self, job: JobRecord) -> list[tuple[str, NodeMask]]:
        """Each rule of a job and the rows that keep it, so that a reason can be given for every
        node left out."""
        spec, attributes = job.spec, self.rows.attributes
        rules = [
            (f"not {test}", _mask(test.meets(node) for node in attributes))
            for test in job.constraints
        ]
        for other in spec.affinity:
            # The first task of a job that wants to be beside its own has nobody to be beside.
            if other != job.name or any(here[other] for here in self.present):
                rules.append(
                    (f"no task of {other} on it", _mask(here[other] > 0 for here in self.present))
                )
        for other in spec.anti_affinity:
            rules.append(
                (f"a task of {other} on it", _mask(here[other] == 0 for here in self.present))
            )
        fixed = [port for port in spec.ports if port]
        if fixed:
            rules.append(
                ("its port is taken", _mask(not any(held[p] for p in fixed) for held in self.ports))
            )
        # Last: the fewest tasks are counted among the rows that all other rules leave, or a value
        # that the job cannot use would keep all others waiting for it.
        if spec.spread:
            rules.append(
                (f"spread over {spec.spread}", self._spread(job, _all(rules, len(attributes))))
            )
        return rules

    def _spread(self, job: JobRecord, mask: NodeMask) -> NodeMask:
        """The rows of those values of the attribute that have the fewest tasks of the job, of those
        with room."""
        fits = mask & (self.rows.free >= np.array(job.request, dtype=np.int64)).all(axis=1)
        values = [
            name if job.spec.spread == "node" else str(attributes.get(job.spec.spread, ""))
            for name, attributes in zip(self.rows.names, self.rows.attributes, strict=True)
        ]
        tasks: Counter[str] = Counter()
        for value, here in zip(values, self.present, strict=True):
            tasks[value] += here[job.name]
        open_values = {value for value, fit in zip(values, fits, strict=True) if fit}
        fewest = min((tasks[value] for value in open_values), default=0)
        return _mask(tasks[value] <= fewest for value in values)


def _groups(job: JobRecord, tasks: list[TaskRecord]) -> Iterator[list[TaskRecord]]:
    """Tasks that are decided on together: all, or each alone where rules or an operator part
    them."""
    alone = [task for task in tasks if moved_off(task)]
    together = [task for task in tasks if not moved_off(task)] if alone else tasks
    if together:
        yield from [together] if is_simple(job) else [[task] for task in together]
    yield from ([task] for task in alone)


def is_simple(job: JobRecord) -> bool:
    """Whether its tasks can be decided on together."""
    spec = job.spec
    return not (spec.affinity or spec.anti_affinity or spec.spread or any(spec.ports))


def job_view(job: JobRecord, count: int) -> JobView:
    """The job as a policy sees it."""
    return JobView(
        id=job.name,
        workload=job.spec.user or job.spec.kind,
        tasks=count,
        request=np.array(job.request, dtype=np.int64),
        duration_s=float("nan") if job.duration_s is None else job.duration_s,
        priority=job.spec.priority,
        gang=job.spec.gang,
        production=job.spec.kind == "service",
        submit_s=job.submit_s,
    )


def _mask(values: Iterable[bool]) -> NodeMask:
    return np.fromiter(values, dtype=np.bool_)


def _all(rules: list[tuple[str, NodeMask]], count: int) -> NodeMask:
    mask = np.ones(count, dtype=np.bool_)
    for _, rule in rules:
        mask &= rule
    return mask


def _host(attributes: Attributes, name: str) -> str:
    """Nodes on one host share its ports."""
    return str(attributes.get("host", name))


def _ports_by_host(jobs: JobTable, rows: Rows) -> dict[str, Counter[int]]:
    held: dict[str, Counter[int]] = {}
    for name, attributes in zip(rows.names, rows.attributes, strict=True):
        held.setdefault(_host(attributes, name), Counter()).update(jobs.ports.get(name, ()))
    return held
