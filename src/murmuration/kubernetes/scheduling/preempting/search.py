"""Whom a pod may drive out: the fewest and least important pods of one node, and never more than
their disruption budgets allow.

The rule is Kubernetes': on the node that is chosen the highest priority that goes is as low as
possible, then as few go as possible. Read literally that means trying out every node with every pod
on it. Two bounds spare nearly all of that. For each row the sums by priority (`levels.py`) say the
lowest priority up to which everybody must go before there is room, and, divided by the largest
request there is, how few could be enough. Both are lower bounds on the cost of the row, so rows are
looked at in their order, and the search ends when the best set costs no more than the bound of the
next row: no later row can be cheaper. Sums know of room alone; rules between pods and budgets can
make a row dearer than its bound, never cheaper.

On a row all that may go are taken away and then put back one by one, the most important first,
wherever the pod still fits. What could not be put back are the victims: each of them is needed, and
where there is a choice the more important pod stays. It is not always the smallest set, as it is
not in Kubernetes, but it drives out no pod for nothing.

Where who lies on a node changes whether the pod may go there (`_by_rules`), the table itself is
asked: pods are taken off and put on it for the question. Every one of them is back when it is
answered, so that the answer leaves no trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from murmuration.assignment.snapshots.builder import TaskEntry
from murmuration.base.arrays import Amounts, Flags
from murmuration.kubernetes.scheduling.preempting.budgets import NEVER
from murmuration.kubernetes.scheduling.preempting.levels import NOWHERE, Levels, has_room
from murmuration.kubernetes.scheduling.table import LiveTable
from murmuration.schedulers.pods.cluster import Victims

#: Nodes that are looked at pod by pod, those that may cost the least first.
NODES_MAX = 100
#: What driving out costs: the highest priority that goes, how many go, and the row.
Cost = tuple[int, int, int]


@dataclass(frozen=True)
class Lying:
    """A pod that lies on a row and could be evicted."""

    key: str
    uid: str
    task: TaskEntry
    #: The budget that covers it, `NONE` or `NEVER`.
    budget: int = -1


@dataclass(frozen=True)
class Preemption:
    """A pod that looks for somebody to drive out."""

    table: LiveTable
    #: What pods hold by priority.
    levels: Levels
    task: TaskEntry
    #: Rows where nobody is to be driven out.
    taken: Flags
    #: The pods on a row, but for those that are leaving or only on their way to it.
    lying: Callable[[int], list[Lying]]
    #: What a budget allows.
    allowed: Callable[[int], int]

    def find(self) -> Victims | None:
        """The node where driving out pods of lower priority would make room, at the least cost:
        the lowest of the highest priorities that go, then the fewest pods, then the first node."""
        if (self.task.source.get("spec") or {}).get("preemptionPolicy") == "Never":
            return None
        best: tuple[Cost, list[Lying]] | None = None
        looked = 0
        for bound in self._rows():
            if looked == NODES_MAX or (best is not None and best[0] <= bound):
                break
            row = bound[2]
            pods = [p for p in self.lying(row) if self._may_go(p)]
            victims = self._victims(row, pods) if pods else []
            looked += bool(pods)
            if victims:
                cost = (max(v.task.priority for v in victims), len(victims), row)
                best = min(best or (cost, victims), (cost, victims), key=lambda each: each[0])
        if best is None:
            return None
        (_, _, row), victims = best
        return Victims(self.table.names[row], tuple((v.key, v.uid) for v in victims))

    def _may_go(self, pod: Lying) -> bool:
        return pod.task.priority < self.task.priority and pod.budget != NEVER

    def _rows(self) -> Iterator[Cost]:
        """The rows that would have room if all of lower priority went, each with what it costs at
        least; the cheapest first."""
        table, task = self.table, self.task
        highest, fewest = self.levels.bounds(table.free, table.request(task), task.priority)
        rows = np.flatnonzero((highest != NOWHERE) & table.open_to(task) & ~self.taken)
        order = rows[np.lexsort((rows, fewest[rows], highest[rows]))]
        return ((int(highest[row]), int(fewest[row]), int(row)) for row in order)

    def _victims(self, row: int, pods: Sequence[Lying]) -> list[Lying]:
        """Whom of a row to drive out, the least important first; none if even all would not do, or
        a budget would be broken."""
        gone = sorted(pods, key=lambda pod: -pod.task.priority)
        choose = self._by_room if self.table.is_simple(self.task) else self._by_rules
        victims = choose(row, gone)
        used = Counter(pod.budget for pod in victims if pod.budget >= 0)
        kept = all(count <= self.allowed(budget) for budget, count in used.items())
        return victims[::-1] if kept else []

    def _by_room(self, row: int, gone: list[Lying]) -> list[Lying]:
        """All go, and come back one by one, the most important first, where there is room for them
        too."""
        request = self.table.request(self.task)
        requests = [self.table.request(pod.task) for pod in gone]
        free: Amounts = self.table.free[row] + sum(requests)
        if not has_room(free, request):
            return []
        victims = []
        for pod, asked in zip(gone, requests, strict=True):
            if has_room(free - asked, request):
                free = free - asked
            else:
                victims.append(pod)
        return victims

    def _by_rules(self, row: int, gone: list[Lying]) -> list[Lying]:
        """The same where who is there changes where the pod may go: the table tries it out."""
        for pod in gone:
            self.table.place(pod.task, row, -1, leaving=False)
        victims: list[Lying] = []
        fits = self._fits(row)
        for pod in gone:
            self.table.place(pod.task, row, 1, leaving=False)
            if fits and not self._fits(row):
                self.table.place(pod.task, row, -1, leaving=False)
                victims.append(pod)
        for pod in victims:
            self.table.place(pod.task, row, 1, leaving=False)
        return victims

    def _fits(self, row: int) -> bool:
        room = bool(has_room(self.table.free[row], self.table.request(self.task)))
        return room and bool(self.table.allowed(self.task)[row])
