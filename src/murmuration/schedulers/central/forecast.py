"""What an order would do to running tasks, before it is given: where each would go, or how long it
may stay. The same round as the master's decides, on a copy; nothing is reserved."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import numpy as np

from murmuration.cluster.reasons import Explanation
from murmuration.schedulers.central.explain import explain_placing
from murmuration.schedulers.central.jobs import (
    MOVABLE,
    MOVED_OFF,
    CentralTaskState,
    JobRecord,
    TaskRecord,
)
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.placing import Round, Rows

#: What becomes of a task: it goes elsewhere, finds no room and waits, or stays until it ends.
MOVES, WAITS, STAYS = "moves", "waits", "stays"


@dataclass(frozen=True)
class TaskForecast:
    """What becomes of one task; where it would go, and when it ends at the latest if it stays and
    has a time limit."""

    task: str
    kind: str
    fate: str
    target: str = ""
    ends_by_s: float | None = None


@dataclass(frozen=True)
class MoveForecast:
    """A task that would be moved: from where, to where (empty: no other node has room), and the
    decision behind it."""

    task: str
    origin: str
    target: str
    decision: Explanation


def forecast_move(
    master: CentralMaster, job: JobRecord, task: TaskRecord, now: float
) -> MoveForecast:
    """Where a running task would go: as one that waits and is wanted off its node."""
    decision = explain_placing(_round_without(master, task.node), job, [task.index], now)
    # Who chooses at random chooses anew among other rows: what is told is the choice below.
    decision = replace(decision, chosen=(), picked=())
    round_ = _copy_round(master, master.rows())
    waiting = replace(task, state=CentralTaskState.WAITING, stopped_for=f"{MOVED_OFF}{task.node}")
    found = round_.place(job, [waiting])
    target = round_.rows.names[found[0][1]] if found else task.node
    name = f"{job.name}.{task.index}"
    return MoveForecast(name, task.node, "" if target == task.node else target, decision)


def forecast_drain(
    master: CentralMaster, node: str, everything: bool, now: float
) -> list[TaskForecast]:
    """What would become of each task on a node that is drained: those of services move, and what is
    suspended; with `everything` the others too."""
    round_ = _round_without(master, node)
    forecasts = []
    for run in master.jobs.runs_on(node):
        job, task = master.jobs.runs[run]
        name, kind = f"{job.name}.{task.index}", job.spec.kind
        is_moved = everything or kind == "service" or task.is_suspended
        if not is_moved or task.state not in MOVABLE:
            forecasts.append(TaskForecast(name, kind, STAYS, "", _ends_by_s(job, task, now)))
            continue
        found = round_.place(job, [replace(task, state=CentralTaskState.WAITING)])
        target = round_.rows.names[found[0][1]] if found else ""
        forecasts.append(TaskForecast(name, kind, MOVES if target else WAITS, target))
    return forecasts


def _round_without(master: CentralMaster, node: str) -> Round:
    """A round on all open nodes but one."""
    rows = master.rows()
    keep = [k for k, name in enumerate(rows.names) if name != node]
    others = Rows(
        tuple(rows.names[k] for k in keep),
        tuple(rows.attributes[k] for k in keep),
        rows.total[keep],
        np.array(rows.free[keep]),
    )
    return _copy_round(master, others)


def _copy_round(master: CentralMaster, rows: Rows) -> Round:
    """A round that decides as the next one would, for tasks that run: what users may start is no
    question."""
    round_ = master.round(rows, copy.deepcopy(master.rng))
    round_.quotas = None
    return round_


def _ends_by_s(job: JobRecord, task: TaskRecord, now: float) -> float | None:
    limit_s = job.duration_s or job.spec.time_limit_s
    return None if limit_s is None else (task.started_s or now) + limit_s
