"""The master's ledger: what each node has left, what each framework holds and has been offered, and
which tasks run.

A row has one column per resource and, where a share of each node is reserved for short tasks (4.8),
a second set of columns for what tasks without a limit may take; a short task costs nothing there.
What is available, on offer and held adds up to the row's total in every column at all times
(`check`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from murmuration.schedulers.offers.allocators import find_shares
from murmuration.schedulers.offers.messages import Slice, Task, Vector

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Held:
    """A task that holds resources."""

    framework: str
    task: Task
    cost: Vector


@dataclass(slots=True)
class LedgerRow:
    columns: Vector
    available: list[int]
    tasks: dict[Key, Held] = field(default_factory=dict)
    #: Raised by every task that is assigned to it, and by no release.
    sequence: int = 0
    #: Whether it takes new tasks.
    open: bool = True
    #: Its place in the order of nodes.
    serial: int = 0


@dataclass
class Ledger:
    """Rows change only through the methods below; the arrays have one row per framework."""

    resources: int
    short_share: float = 0.0
    nodes: dict[str, LedgerRow] = field(default_factory=dict)
    tasks: dict[Key, Held] = field(default_factory=dict)
    #: Nodes that have something left of the first resource, or never had any of it: of no other can
    #: anything be offered. Kept so that nobody has to look at all of them.
    with_room: set[str] = field(default_factory=set)
    #: The row of each framework in the arrays, and who has each row.
    position: dict[str, int] = field(default_factory=dict)
    frameworks: list[str] = field(default_factory=list)
    _added: int = 0
    total: NDArray[np.int64] = field(init=False)
    #: One number changes at a time, and lists are quicker for that than arrays.
    _allocated: list[list[int]] = field(default_factory=list)
    _offered: list[list[int]] = field(default_factory=list)
    #: The sums of both, and the dominant share of each framework; None when the total has changed.
    _taken: NDArray[np.int64] = field(init=False)
    _shares: NDArray[np.float64] | None = None
    #: The total as of those shares.
    _totals: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.total = np.zeros(self.resources, dtype=np.int64)
        self._taken = np.zeros((0, self.resources), dtype=np.int64)

    @property
    def allocated(self) -> NDArray[np.int64]:
        """What each framework holds."""
        return np.array(self._allocated, dtype=np.int64).reshape(-1, self.resources)

    @property
    def offered(self) -> NDArray[np.int64]:
        """What each framework has been offered and has not answered."""
        return np.array(self._offered, dtype=np.int64).reshape(-1, self.resources)

    @property
    def shares(self) -> NDArray[np.float64]:
        """The dominant share of each framework, offers included."""
        if self._shares is None:
            self._shares = find_shares(self._taken, self.total)
            self._totals = [float(total) for total in self.total.tolist()]
        return self._shares

    def add_framework(self, framework: str) -> None:
        self.position[framework] = len(self.position)
        self.frameworks.append(framework)
        self._allocated.append([0] * self.resources)
        self._offered.append([0] * self.resources)
        self._taken = np.concatenate([self._taken, np.zeros((1, self.resources), np.int64)])
        self._shares = None

    def add_node(self, node: str, total: Vector, is_open: bool = True) -> None:
        columns = self._columns(total)
        self._added += 1
        self.nodes[node] = LedgerRow(columns, list(columns), open=is_open, serial=self._added)
        self.total += np.array(total)
        self._shares = None
        self.with_room.add(node)

    def drop_node(self, node: str) -> list[Held]:
        """The node is gone, and with it the tasks that are returned. Offers of it must have been
        taken back before."""
        lost = [self.end(key) for key in list(self.nodes[node].tasks)]
        self.total -= np.array(self.nodes.pop(node).columns[: self.resources])
        self._shares = None
        self.with_room.discard(node)
        return lost

    def available(self, node: str) -> Slice:
        """What may be offered of a node. One that has come back smaller than what runs on it has
        nothing to offer until enough of that has ended."""
        left, count = [max(0, amount) for amount in self.nodes[node].available], self.resources
        amount = tuple(left[:count])
        unlimited = tuple(map(min, amount, left[count:])) if self.short_share else amount
        return Slice(node, amount, unlimited)

    def hold(self, framework: str, part: Slice) -> None:
        """A slice is on offer: it counts toward the framework's share and is out of everyone else's
        reach."""
        self._change(part.node, self._both(part), -1)
        self._count(self._offered, framework, part.amount, +1)

    def give_back(self, framework: str, part: Slice) -> None:
        """A slice is no longer on offer."""
        self._change(part.node, self._both(part), +1)
        self._count(self._offered, framework, part.amount, -1)

    def start(self, framework: str, task: Task) -> None:
        held = Held(framework, task, self.cost(task))
        row = self.nodes[task.node]
        row.tasks[framework, task.task] = self.tasks[framework, task.task] = held
        row.sequence += 1
        self._change(task.node, held.cost, -1)
        self._count(self._allocated, framework, task.request, +1)

    def end(self, key: Key) -> Held:
        held = self.tasks.pop(key)
        row = self.nodes[held.task.node]
        del row.tasks[key]
        self._change(held.task.node, held.cost, +1)
        self._count(self._allocated, held.framework, held.task.request, -1)
        return held

    def resize(self, key: Key, request: Vector) -> str:
        """A task holds another amount from now on; its node. One that takes more than there is
        must have been asked about before."""
        held = self.end(key)
        self.start(held.framework, msgspec.structs.replace(held.task, request=request))
        return held.task.node

    def cost(self, task: Task) -> Vector:
        """What a task takes in every column."""
        if not self.short_share:
            return task.request
        return task.request + ((0,) * self.resources if task.short else task.request)

    def room(self, part: Slice) -> list[int]:
        """The columns of a slice, to launch tasks against."""
        return list(self._both(part))

    def check(self, on_offer: Iterable[tuple[str, Slice]]) -> None:
        """Assert that everything adds up, given the slices that are on offer and to whom."""
        left = {node: list(row.columns) for node, row in self.nodes.items()}
        allocated, offered = np.zeros_like(self.allocated), np.zeros_like(self.offered)
        for held in self.tasks.values():
            _add(left[held.task.node], held.cost, -1)
            allocated[self.position[held.framework]] += np.array(held.task.request)
        for framework, part in on_offer:
            _add(left[part.node], self._both(part), -1)
            offered[self.position[framework]] += np.array(part.amount)
        for node, row in self.nodes.items():
            assert row.available == left[node], f"{node}: available, offered and held do not add up"
            assert min(row.available) >= 0, f"{node} is over-committed"
            has_room = row.available[0] > 0 or row.columns[0] == 0
            assert has_room == (node in self.with_room), f"{node}: its room is not known"
        assert (allocated == self.allocated).all(), "a framework's tasks do not add up"
        shares = find_shares(allocated + offered, self.total)
        assert (shares == self.shares).all(), "a framework's share is not that of its amounts"
        assert (offered == self.offered).all(), "a framework's offers do not add up"

    def in_order(self) -> list[str]:
        """The nodes with room, in the order in which they were added."""
        return sorted(self.with_room, key=lambda node: self.nodes[node].serial)

    def _change(self, node: str, amount: Vector, sign: int) -> None:
        row = self.nodes[node]
        _add(row.available, amount, sign)
        if row.available[0] > 0 or row.columns[0] == 0:
            self.with_room.add(node)
        else:
            self.with_room.discard(node)

    def _columns(self, total: Vector) -> Vector:
        if not self.short_share:
            return total
        return total + tuple(int(amount * (1.0 - self.short_share)) for amount in total)

    def _both(self, part: Slice) -> Vector:
        return part.amount + part.unlimited if self.short_share else part.amount

    def _count(self, table: list[list[int]], framework: str, amount: Vector, sign: int) -> None:
        at = self.position[framework]
        _add(table[at], amount, sign)
        taken = [*map(int.__add__, self._allocated[at], self._offered[at])]
        self._taken[at] = taken
        if self._shares is not None:
            # As `find_shares` does it, for one row.
            share = 0.0
            for held, total in zip(taken, self._totals, strict=True):
                if total > 0.0 and held / total > share:
                    share = held / total
            self._shares[at] = share


def _add(row: list[int], amount: Vector, sign: int) -> None:
    for r, value in enumerate(amount):
        row[r] += sign * value


def fits(request: Iterable[int], room: Iterable[int]) -> bool:
    """Whether a request fits in what is there, in every column."""
    return all(map(int.__le__, request, room))
