"""Whom a pod may drive out: the fewest and least important pods of one node, and never more than
their disruption budgets allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from murmuration.assignment.snapshots.builder import TaskEntry
from murmuration.base.arrays import Flags
from murmuration.kubernetes.disruption import Budgets
from murmuration.kubernetes.labels import LabelIndex
from murmuration.kubernetes.objects import Object
from murmuration.kubernetes.scheduling.table import LiveTable
from murmuration.schedulers.pods.cluster import Victims

BUDGET = "PodDisruptionBudget"
#: Nodes that are looked at pod by pod, the cheapest by what all their pods would cost first.
NODES_MAX = 100


@dataclass(frozen=True)
class Lying:
    """A pod that lies on a row."""

    key: str
    uid: str
    task: TaskEntry
    row: int
    leaving: bool
    #: How many pods its budget lets go, and which budget that is (−1: none).
    budget: int = -1


def budgets_of_pods(
    kinds: Mapping[str, list[Object]], tasks: Sequence[TaskEntry]
) -> tuple[list[int], list[int]]:
    """The budget of each pod (−1: none; −2: it may not be evicted at all), and what each budget
    allows."""
    if not kinds.get(BUDGET):
        return [-1] * len(tasks), []
    copies = [replace(task, budget=-1, pinned="") for task in tasks]
    allowed, _ = Budgets(kinds, copies, LabelIndex(copies)).apply()
    return [-2 if copy.pinned else copy.budget for copy in copies], allowed


def find_victims(
    table: LiveTable, task: TaskEntry, lying: Sequence[Lying], allowed: Sequence[int]
) -> Victims | None:
    """The node where driving out pods of lower priority would make room for a pod, at the least
    cost: the lowest of the highest priorities that go, then the fewest pods, then the first
    node."""
    if (task.source.get("spec") or {}).get("preemptionPolicy") == "Never":
        return None
    by_row: dict[int, list[Lying]] = {}
    for pod in lying:
        if pod.task.priority < task.priority and not pod.leaving and pod.budget != -2:
            by_row.setdefault(pod.row, []).append(pod)
    best: tuple[tuple[int, int, int], list[Lying]] | None = None
    rows = np.flatnonzero(_could_fit(table, task, by_row)).tolist()
    rows.sort(key=lambda row: (max(p.task.priority for p in by_row[row]), len(by_row[row]), row))
    for row in rows[:NODES_MAX]:
        victims = _victims_on(table, task, row, by_row[row], allowed)
        if victims:
            cost = (max(v.task.priority for v in victims), len(victims), row)
            if best is None or cost < best[0]:
                best = (cost, victims)
    if best is None:
        return None
    (_, _, row), victims = best
    return Victims(table.names[row], tuple((v.key, v.uid) for v in victims))


def _could_fit(table: LiveTable, task: TaskEntry, by_row: Mapping[int, Sequence[Lying]]) -> Flags:
    """The rows that would have room if all who may go went."""
    free = table.free.copy()
    some = np.zeros(len(table.names), dtype=np.bool_)
    for row, pods in by_row.items():
        some[row] = True
        for pod in pods:
            free[row] += table.request(pod.task)
    request = table.request(task)
    room: Flags = ((free >= request) | (request == 0)).all(axis=1)
    return some & table.open_to(task) & room


def _victims_on(
    table: LiveTable, task: TaskEntry, row: int, pods: Sequence[Lying], allowed: Sequence[int]
) -> list[Lying]:
    """Whom of a row to drive out: all go, and come back one by one, the most important first, where
    there is room for them too. None if even all would not do, or a budget would be broken."""
    gone = sorted(pods, key=lambda pod: -pod.task.priority)
    for pod in gone:
        table.place(pod.task, row, -1, pod.leaving)
    victims: list[Lying] = []
    back: list[Lying] = []
    if _fits(table, task, row):
        for pod in gone:
            table.place(pod.task, row, 1, pod.leaving)
            if _fits(table, task, row):
                back.append(pod)
            else:
                table.place(pod.task, row, -1, pod.leaving)
                victims.append(pod)
    for pod in gone:
        if pod not in back:
            table.place(pod.task, row, 1, pod.leaving)
    used = Counter(pod.budget for pod in victims if pod.budget >= 0)
    kept = all(count <= allowed[budget] for budget, count in used.items())
    return victims[::-1] if kept else []


def _fits(table: LiveTable, task: TaskEntry, row: int) -> bool:
    request = table.request(task)
    room = bool(((table.free[row] >= request) | (request == 0)).all())
    return room and bool(table.allowed(task)[row])
