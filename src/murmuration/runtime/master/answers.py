"""What the API answers with: rows for listings, each with a reason. The types are the OpenAPI
document."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import msgspec

from murmuration.base.resources import Resources
from murmuration.cluster.reasons import Explanation, PickedNode, ScoredNode
from murmuration.runtime.master.usage import NodeMeasures, UsageMeter
from murmuration.schedulers.central.explain import (
    Trial,
    Why,
    explain,
    job_state,
    last_reason,
    waiting_reason,
)
from murmuration.schedulers.central.forecast import MoveForecast, TaskForecast
from murmuration.schedulers.central.jobs import ACTIVE, CentralTaskState, JobRecord, TaskRecord
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.placing import is_simple
from murmuration.schedulers.central.queue.preemption import made_way_for
from murmuration.schedulers.central.services.rolling import describe
from murmuration.schedulers.offers.messages import Vector
from murmuration.workload.job_spec import task_name


class JobRow(msgspec.Struct):
    job: str
    kind: str
    state: str
    #: How many tasks are in each state.
    tasks: dict[str, int]
    count: int
    reason: str
    priority: int
    user: str
    submit_s: float
    age_s: float
    ended_s: float | None
    code: int | None
    #: Of its specification: how often a service was changed.
    version: int


class TaskRow(msgspec.Struct):
    task: str
    job: str
    state: str
    node: str
    run: int
    reason: str
    code: int | None
    started_s: float | None
    ended_s: float | None
    age_s: float
    cpu_s: float | None
    memory: int | None
    #: CPUs it used between the last two measurements, and what it asked for.
    cpu: float | None
    request: dict[str, float]
    #: Whether it is well, by the check of its job: "healthy", "not yet", or nothing without one.
    health: str
    version: int


class NodeRow(msgspec.Struct):
    node: str
    state: str
    reason: str
    tasks: int
    total: dict[str, float]
    required: dict[str, float]
    #: Measured: CPUs in use and bytes of memory.
    used: dict[str, float]
    attributes: dict[str, str | float]


class FrameworkRow(msgspec.Struct):
    framework: str
    tasks: int
    needs_offers: bool
    offers: int


class Listing(msgspec.Struct):
    """The index is the number of the last fact in the log when this was so."""

    index: int
    #: Rows there are, where only some were asked for.
    total: int | msgspec.UnsetType = msgspec.UNSET
    jobs: list[JobRow] | msgspec.UnsetType = msgspec.UNSET
    tasks: list[TaskRow] | msgspec.UnsetType = msgspec.UNSET
    nodes: list[NodeRow] | msgspec.UnsetType = msgspec.UNSET


class StatusAnswer(msgspec.Struct):
    index: int
    version: str
    scheduler: str
    placement: str
    isolation: str
    api: str
    uptime_s: float
    epoch: int
    #: Empty if all is well; e.g. a full disk.
    trouble: str
    nodes: list[NodeRow]
    jobs: dict[str, int]
    tasks: dict[str, int]
    frameworks: list[FrameworkRow]


class Submitted(msgspec.Struct):
    job: str
    tasks: int
    index: int
    #: Of the job's specification; more than 0 if it took the place of one before.
    version: int = 0


class OutputAnswer(msgspec.Struct):
    """A part of what a task has written; go on from `next` until `ended`."""

    task: str
    run: int
    text: str
    next: int
    ended: bool


class JobResult(msgspec.Struct):
    job: str
    state: str
    ended: bool
    code: int | None
    reason: str


class Verdict(msgspec.Struct):
    """Why not all tasks were placed; `wakes_on` if some event may change it."""

    reason: str
    wakes_on: str | msgspec.UnsetType = msgspec.UNSET


class Decision(msgspec.Struct):
    """One decision: nodes considered, ruled out and why, the best of them, what was chosen, what
    would help."""

    job: str
    workload: str
    attempt: int
    at_s: float
    tasks: int
    request: str
    considered: int
    filtered: dict[str, int]
    feasible: int
    best: list[ScoredNode]
    chosen: list[tuple[str, int]]
    placed: int
    verdict: Verdict | None
    unblock: list[str]
    queued_behind: int
    notes: list[str]
    how: str
    picked: list[PickedNode]
    verdict_kind: Literal["wait", "never"] | None


class WhyAnswer(msgspec.Struct):
    job: str
    state: str
    tasks: dict[str, int]
    tier: str
    reason: str
    position: int
    ahead: list[str]
    wakes_on: str
    closed: dict[str, int]
    decision: Decision | None


class TrialAnswer(msgspec.Struct):
    job: str
    placed: list[tuple[str, str]]
    unplaced: int
    decision: Decision
    note: str


class MoveAnswer(msgspec.Struct):
    """Where a task would go from its node; an empty target: no other node has room."""

    task: str
    origin: str
    target: str
    decision: Decision


class DrainForecast(msgspec.Struct):
    """What would become of each task on a node: it moves, waits for room, or stays until it
    ends."""

    node: str
    at_s: float
    tasks: list[TaskForecast]


def render_explanation(explanation: Why | Trial | MoveForecast) -> Any:
    """An explanation as it is answered: `verdict_kind` says whether it waits or never can."""
    document = msgspec.to_builtins(explanation)
    if explanation.decision is not None:
        document["decision"] = render_decision(explanation.decision)
    return document


def render_decision(decision: Explanation) -> Any:
    kind = None if decision.verdict is None else type(decision.verdict).__name__.lower()
    return msgspec.to_builtins(decision) | {"verdict_kind": kind}


def natural(resources: Resources, amounts: Vector) -> dict[str, float]:
    """Exact amounts in CPUs, bytes and so on."""
    return {
        name: a / resources.unit(name) for name, a in zip(resources.names, amounts, strict=True)
    }


class Reasons:
    """Why tasks wait, worked out once per job and once for jobs that are alike."""

    def __init__(self, master: CentralMaster, now: float) -> None:
        self._master, self._now = master, now
        self.resources = master.settings.resources
        self._known: dict[object, str] = {}
        self._by_job: dict[str, str] = {}
        self._awaited = {made_way_for(task) for _, task in master.jobs.runs.values()}

    def of(self, job: JobRecord) -> str:
        if job.name not in self._by_job:
            self._by_job[job.name] = self._waiting(job) if job.waiting else last_reason(job)
        return self._by_job[job.name]

    def _waiting(self, job: JobRecord) -> str:
        tasks = [job.tasks[index] for index in job.waiting]
        waits = any(task.ready_s > self._now or made_way_for(task) for task in tasks)
        waits |= job.name in self._awaited or bool(job.pending)
        alike = is_simple(job) and not waits and job.name not in self._master.policy_errors
        kind = (job.spec.user, job.request, job.constraints, len(job.waiting))
        key: object = kind if alike else job.name
        if key not in self._known:
            decision = explain(self._master, job, self._now)
            tier, reason, _ = waiting_reason(self._master, job, self._now, decision)
            self._known[key] = f"{tier}: {reason}"
        return self._known[key]


def job_row(job: JobRecord, reasons: Reasons, now: float) -> JobRow:
    counts = {str(state): count for state, count in job.counts().items()}
    ended = job.ended_s if job.status else None
    return JobRow(
        job=job.name,
        kind=job.spec.kind,
        state=job_state(job),
        tasks=counts,
        count=job.spec.count,
        reason=describe(job, now) or reasons.of(job),
        version=job.rollout.version,
        priority=job.spec.priority,
        user=job.spec.user,
        submit_s=job.submit_s,
        age_s=now - job.submit_s,
        ended_s=ended,
        code=job.code if job.status else None,
    )


def task_row(
    job: JobRecord, task: TaskRecord, reasons: Reasons, meter: UsageMeter, now: float
) -> TaskRow:
    reason = task.reason
    if task.state is CentralTaskState.WAITING:
        reason = (
            f"runs again in {task.ready_s - now:.1f} s: {reason}"
            if task.ready_s > now
            else reasons.of(job)
        )
    node = "" if task.state is CentralTaskState.WAITING else task.node
    run = f"{job.name}.{task.index}.{task.run}" if task.state in ACTIVE else ""
    used = meter.runs.get(run)
    return TaskRow(
        task=task_name(job.spec, task.index),
        job=job.name,
        state=str(task.state),
        node=node,
        run=task.run,
        reason=reason,
        code=task.code,
        started_s=task.started_s or None,
        ended_s=task.ended_s or None,
        age_s=now - (task.started_s or job.submit_s),
        cpu_s=None if used is None else used[0],
        memory=None if used is None else used[1],
        cpu=meter.rates.get(run),
        request=natural(reasons.resources, job.request),
        health=_health(job, task),
        version=task.version,
    )


def _health(job: JobRecord, task: TaskRecord) -> str:
    if job.spec_of(task).health is None or task.state is not CentralTaskState.RUNNING:
        return ""
    return "not yet" if task.healthy_s is None else "healthy"


def node_rows(
    master: CentralMaster, used: NodeMeasures, lease_left: dict[str, float]
) -> list[NodeRow]:
    resources, rows = master.settings.resources, []
    for name, node in sorted(master.nodes.items()):
        row = master.resource_manager.ledger.nodes.get(name)
        free = row.available if row else node.total
        held = tuple(map(int.__sub__, node.total, free))
        state, reason = "up", ""
        if not node.up:
            state, reason = (
                "unreachable",
                f"given up in {lease_left.get(name, 0.0):.0f} s unless it comes back",
            )
        elif name in master.draining:
            state, reason = "draining", "takes no new tasks"
        elif name in master.resting:
            state, reason = "unwell", f"could not start a task: {node.unwell}"
        rows.append(
            NodeRow(
                name,
                state,
                reason,
                len(row.tasks) if row else 0,
                natural(resources, node.total),
                natural(resources, held),
                used.get(name),
                dict(node.attributes),
            )
        )
    return rows


def framework_rows(master: CentralMaster) -> list[FrameworkRow]:
    tasks = Counter(framework for framework, _ in master.resource_manager.ledger.tasks)
    offers = Counter(offer.framework for offer in master.resource_manager.offers.values())
    return [
        FrameworkRow(name, tasks[name], client.needs, offers[name])
        for name, client in master.resource_manager.clients.items()
    ]
