"""The cluster table: one row per node, and everything that may be done to it.

For each resource a row has *total*, *required* (all tasks' requests; kept as its complement *free*,
which is what every decision reads), *guaranteed* (production tasks' requests) and *used* (measured;
required where nothing is measured), and a sequence number that each assignment raises and no
release does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import groupby

import numpy as np

from murmuration.base.arrays import Amounts, Counts, Flags, Indices
from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.cluster.constraints import Attributes, Constraint, node_mask
from murmuration.cluster.transactions import commit


class ConflictMode(StrEnum):
    RESOURCE = "resource"
    MACHINE = "machine"


class TransactionMode(StrEnum):
    INCREMENTAL = "incremental"
    ALL_OR_NOTHING = "all-or-nothing"


@dataclass(frozen=True)
class Assignment:
    """One task on one node."""

    task: str
    node: int
    request: tuple[int, ...]
    production: bool = False


@dataclass(frozen=True)
class Transaction:
    """The assignments of one job, and the sequence number of each one's row when the scheduler read
    it."""

    assignments: tuple[Assignment, ...]
    seen: tuple[int, ...]


@dataclass(frozen=True)
class Outcome:
    """The result of a transaction: what was accepted, and what was refused."""

    accepted: tuple[Assignment, ...]
    refused: tuple[Assignment, ...]


@dataclass
class ClusterState:
    """The table. Rows change only through `adopt`, `commit`, `assign`, `release`, `begin_` and
    `end_migration`."""

    resources: Resources
    names: tuple[str, ...]
    total: Amounts
    attributes: tuple[Attributes, ...]
    free: Amounts = field(init=False)
    guaranteed: Amounts = field(init=False)
    sequence: Counts = field(init=False)
    #: How far below zero a row may be: by what was adopted, and no further.
    floor: Amounts = field(init=False)
    #: The measured use of each row, or None while nothing is measured.
    measured: Amounts | None = None
    #: All and only the tasks that hold resources, by name.
    running: dict[str, Assignment] = field(init=False, default_factory=dict)
    #: Where a migrating task is going; it counts on both rows until the migration ends.
    migrating: dict[str, Assignment] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if self.total.shape != (len(self.names), len(self.resources)) or len(
            self.attributes
        ) != len(self.names):
            raise InputError("cluster: expected one row of totals and attributes for each node")
        self.free = self.total.copy()
        self.guaranteed = np.zeros_like(self.total)
        self.floor = np.zeros_like(self.total)
        self.sequence = np.zeros(len(self.names), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def required(self) -> Amounts:
        return self.total - self.free

    @property
    def used(self) -> Amounts:
        return self.required if self.measured is None else self.measured

    def mask(self, constraints: Sequence[Constraint]) -> Flags:
        """The nodes that meet the constraints."""
        return node_mask(constraints, self.attributes)

    def transaction(self, assignments: Iterable[Assignment]) -> Transaction:
        """A transaction against the table as it is now."""
        chosen = tuple(assignments)
        return Transaction(chosen, tuple(int(self.sequence[a.node]) for a in chosen))

    def commit(
        self,
        transaction: Transaction,
        conflict: ConflictMode = ConflictMode.RESOURCE,
        mode: TransactionMode = TransactionMode.INCREMENTAL,
    ) -> Outcome:
        """Accept what does not conflict; a refused assignment changes nothing, sequence numbers
        included."""
        self._check_new(transaction.assignments)
        nodes = np.array([a.node for a in transaction.assignments], dtype=np.int64)
        seen = np.array(transaction.seen, dtype=np.int64)
        for request, rows in _runs(transaction.assignments):
            part = nodes[rows]
            commit(
                self.free,
                self.sequence,
                part,
                seen[rows],
                len(rows),
                np.array(request, dtype=np.int64),
                conflict is ConflictMode.MACHINE,
                False,
            )
            seen = _count_accepted(seen, transaction.assignments, nodes[rows[part >= 0]])
            nodes[rows] = part
        accepted = tuple(
            a for a, node in zip(transaction.assignments, nodes, strict=True) if node >= 0
        )
        refused = tuple(
            a for a, node in zip(transaction.assignments, nodes, strict=True) if node < 0
        )
        if refused and mode is TransactionMode.ALL_OR_NOTHING:
            self._take_back(accepted)
            return Outcome((), transaction.assignments)
        for assignment in accepted:
            self.running[assignment.task] = assignment
            self._guarantee(assignment, +1)
        self._check_bounds(accepted)
        return Outcome(accepted, refused)

    def adopt(self, assignments: Sequence[Assignment]) -> None:
        """Take what runs already as it is, whether there is room or not: a cluster may be overfull
        before anything is planned."""
        self._check_new(assignments)
        for assignment in assignments:
            self._hold(assignment)
        self.running.update((assignment.task, assignment) for assignment in assignments)
        np.minimum(self.free, self.floor, out=self.floor)

    def assign(self, assignment: Assignment) -> bool:
        """Put one new task on its row; False, and nothing changed, if it does not fit there."""
        self._check_new([assignment])
        if not self.fits(assignment):
            return False
        self._hold(assignment)
        self.running[assignment.task] = assignment
        self._check_bounds([assignment])
        return True

    def fits(self, assignment: Assignment) -> bool:
        """Whether a row has room for a task; one that asks for none of a resource does not mind
        that it is short."""
        request = np.array(assignment.request)
        return bool(((request <= self.free[assignment.node]) | (request == 0)).all())

    def release(self, task: str) -> None:
        """A task ended: its node gets back exactly what was assigned."""
        self.free[self._find_assignment(task).node] += np.array(self._find_assignment(task).request)
        self._guarantee(self.running.pop(task), -1)
        if task in self.migrating:
            self._drop_target(self.migrating.pop(task))

    def begin_migration(self, task: str, node: int) -> bool:
        """Reserve the task's request on the target too; False, and nothing changed, if it does not
        fit there."""
        target = replace(self._find_assignment(task), node=node)
        self._check_rows([target])
        if task in self.migrating or node == self._find_assignment(task).node:
            return False
        if not self.fits(target):
            return False
        self._hold(target)
        self.migrating[task] = target
        self._check_bounds([target])
        return True

    def end_migration(self, task: str, moved: bool) -> None:
        """The task runs on the target (`moved`) or stayed at the source; the other row is given
        back."""
        if task not in self.migrating:
            raise InputError(f"task {task!r} is not migrating")
        target, source = self.migrating.pop(task), self._find_assignment(task)
        self._drop_target(source if moved else target)
        self.running[task] = target if moved else source

    def check(self) -> None:
        """Assert that the columns are the sums of the tasks that hold them and never leave their
        bounds."""
        required, guaranteed = np.zeros_like(self.total), np.zeros_like(self.total)
        for assignment in [*self.running.values(), *self.migrating.values()]:
            required[assignment.node] += np.array(assignment.request)
            if assignment.production:
                guaranteed[assignment.node] += np.array(assignment.request)
        assert (required == self.required).all(), "required is not the sum of the assignments"
        assert (guaranteed == self.guaranteed).all(), (
            "guaranteed is not the sum of the production assignments"
        )
        assert (self.required >= 0).all() and (self.free >= self.floor).all(), (
            "a column left its bounds"
        )

    def _find_assignment(self, task: str) -> Assignment:
        if task not in self.running:
            raise InputError(f"task {task!r} holds nothing")
        return self.running[task]

    def _check_new(self, assignments: Sequence[Assignment]) -> None:
        names: set[str] = set()
        for assignment in assignments:
            if assignment.task in self.running or assignment.task in names:
                raise InputError(f"task {assignment.task!r} is assigned already")
            names.add(assignment.task)
        self._check_rows(assignments)

    def _check_rows(self, assignments: Sequence[Assignment]) -> None:
        for a in assignments:
            if not 0 <= a.node < len(self):
                raise InputError(
                    f"task {a.task!r}: expected a row from 0 to {len(self) - 1}, got {a.node}"
                )
            if len(a.request) != len(self.resources) or min(a.request) < 0:
                names = ", ".join(self.resources.names)
                raise InputError(
                    f"task {a.task!r}: expected amounts of {names} from zero, got {a.request}"
                )

    def _check_bounds(self, assignments: Sequence[Assignment]) -> None:
        """Assert that the rows just written hold no more than they may."""
        for assignment in assignments:
            row, asked = assignment.node, np.array(assignment.request) > 0
            assert (self.free[row] >= self.floor[row])[asked].all(), "a row is below its floor"

    def _take_back(self, accepted: tuple[Assignment, ...]) -> None:
        for assignment in accepted:
            self.free[assignment.node] += np.array(assignment.request)
            self.sequence[assignment.node] -= 1

    def _hold(self, assignment: Assignment) -> None:
        self.free[assignment.node] -= np.array(assignment.request)
        self.sequence[assignment.node] += 1
        self._guarantee(assignment, +1)

    def _drop_target(self, assignment: Assignment) -> None:
        self.free[assignment.node] += np.array(assignment.request)
        self._guarantee(assignment, -1)

    def _guarantee(self, assignment: Assignment, sign: int) -> None:
        if assignment.production:
            self.guaranteed[assignment.node] += sign * np.array(assignment.request)


def _runs(
    assignments: tuple[Assignment, ...],
) -> Iterator[tuple[tuple[int, ...], Indices]]:
    """Positions of neighbouring assignments with the same request, so that all are looked at in
    their order."""
    for request, run in groupby(
        range(len(assignments)), key=lambda position: assignments[position].request
    ):
        yield request, np.array(list(run), dtype=np.int64)


def _count_accepted(seen: Counts, assignments: tuple[Assignment, ...], taken: Indices) -> Counts:
    """A transaction does not conflict with itself: add the assignments just accepted to the
    sequence numbers it saw."""
    rows = np.array([a.node for a in assignments], dtype=np.int64)
    accepted = np.array([int((taken == row).sum()) for row in rows], dtype=np.int64)
    return seen + accepted
