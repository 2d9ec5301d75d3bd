"""All nodes as columns, for pages that draw every one of them.

A listing of 100,000 nodes as objects costs more than a second of a core; a page wants a new one
each second. So there is one table of arrays, and a tick changes only the rows that something
happened to: those of new facts, and a slice of the others in turn (tasks of schedulers from outside
leave no facts). What was measured is columns already, and taken over whole. A picture is then one
byte per node, worked out for all at once and kept for everybody who asks before the next tick.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from murmuration.cluster.allocation_types import FULL, TIGHT
from murmuration.runtime.master.usage import UsageMeter
from murmuration.schedulers.central.master import CentralMaster

#: Rows that are looked at again at every tick though nothing is known to have happened to them.
SLICE = 1000
STATES = ("up", "draining", "unreachable", "unwell")
#: Bytes of a picture: 0 to 100 % in steps of half a percent, and what is above.
SHARE_FULL, SHARE_MAX = 200, 254
SHOWS = ("required", "guaranteed", "used", "type", "state")

Bytes = NDArray[np.uint8]
NO_ROWS = np.zeros((0, 2), np.int64)
Shares = NDArray[np.float64]


class NodeColumns:
    """The table. `version` rises when nodes come or go, and with it the meaning of every row."""

    def __init__(self, master: CentralMaster, meter: UsageMeter) -> None:
        self._master, self._meter = master, meter
        self._resources = master.settings.resources
        self.version = 0
        self.names: list[str] = []
        self._row: dict[str, int] = {}
        self._next = 0
        #: The row here and the row of the meter of every node that was measured, and how many rows
        #: of the meter were looked at for that.
        self._measured, self._matched = NO_ROWS, 0
        self._kept: dict[tuple[str, str], bytes] = {}
        self._allocate(0)

    def _allocate(self, count: int) -> None:
        # One column after the other in memory: sums and pictures go through columns.
        shape = count, len(self._resources)
        self.total = np.zeros(shape, order="F")
        self.required = np.zeros(shape, order="F")
        self.guaranteed = np.zeros(shape, order="F")
        self.used = np.zeros(shape, order="F")
        self.tasks = np.zeros(count, np.int64)
        self.state = np.zeros(count, np.uint8)

    def tick(self, touched: Iterable[str]) -> None:
        """Bring the table up to date; `touched` are nodes that facts spoke of."""
        self._kept.clear()
        known, nodes = self._row, self._master.nodes
        concerned = set(touched) - {""}
        # A node that comes or goes leaves a fact, so that 100,000 names need not be compared.
        if len(known) != len(nodes) or any((n in known) != (n in nodes) for n in concerned):
            self._rebuild()
            return
        self.measure()
        count = len(self.names)
        turn = range(self._next, min(self._next + SLICE, count))
        self._next = turn.stop if turn.stop < count else 0
        concerned.update(self.names[turn.start : turn.stop])
        self._read([name for name in concerned if name in known])

    def _rebuild(self) -> None:
        self.version += 1
        self.names = sorted(self._master.nodes, key=natural_key)
        self._row = {name: row for row, name in enumerate(self.names)}
        self._next = 0
        self._measured, self._matched = NO_ROWS, 0
        self._allocate(len(self.names))
        self._read(self.names)
        self.measure()

    def measure(self) -> None:
        """Take over what was measured on all nodes; one assignment for each resource."""
        measures = self._meter.nodes
        if self._matched < len(measures.names):
            self._match(measures.names)
        rows, theirs = self._measured.T
        for k, resource in enumerate(self._resources.names):
            if resource in measures.columns:
                amounts = np.frombuffer(measures.columns[resource])[theirs]
                self.used[rows, k] = amounts * self._resources.unit(resource)

    def _match(self, names: Sequence[str]) -> None:
        """Find the rows of nodes that were measured for the first time."""
        new = enumerate(names[self._matched :], self._matched)
        pairs = [(self._row[name], row) for row, name in new if name in self._row]
        found = np.array(pairs, np.int64).reshape(-1, 2)
        self._measured = np.concatenate([self._measured, found])
        self._matched = len(names)

    def _read(self, names: Sequence[str]) -> None:
        """Take over what the master knows of these nodes."""
        if not names:
            return
        count, on_node = len(self._resources), self._master.jobs.on_node
        rows = [self._row[name] for name in names]
        nodes = [self._master.nodes[name] for name in names]
        ledger = self._master.resource_manager.ledger.nodes
        held = [ledger.get(name) for name in names]
        total = np.array([node.total for node in nodes], float)
        free = [h.available[:count] if h else n.total for h, n in zip(held, nodes, strict=True)]
        self.total[rows] = total
        self.required[rows] = total - np.array(free, float)
        self.tasks[rows] = [len(row.tasks) if row else 0 for row in held]
        self.state[rows] = [
            self._state_of(name, node.up) for name, node in zip(names, nodes, strict=True)
        ]
        self.guaranteed[rows] = 0.0
        for name in on_node.keys() & set(names):
            self._add_guaranteed(name, self._row[name])

    def _add_guaranteed(self, name: str, row: int) -> None:
        jobs = self._master.jobs
        for job, tasks in jobs.on_node[name].items():
            if jobs.jobs[job].spec.kind == "service":
                self.guaranteed[row] += np.multiply(jobs.jobs[job].request, tasks)

    def _state_of(self, name: str, up: bool) -> int:
        if not up:
            return STATES.index("unreachable")
        if name in self._master.draining:
            return STATES.index("draining")
        return STATES.index("unwell") if name in self._master.resting else 0

    # Pictures.

    def picture(self, show: str, resource: str) -> bytes:
        """One byte per node: a share in steps of half a percent, or a kind."""
        key = show, resource
        if key not in self._kept:
            self._kept[key] = self._draw(show, resource).tobytes()
        return self._kept[key]

    def _draw(self, show: str, resource: str) -> Bytes:
        if show == "state":
            return self.state
        if show == "type":
            return self.types()
        amounts = {"required": self.required, "guaranteed": self.guaranteed, "used": self.used}
        share = shares(amounts[show], self.total)
        column = _columns(self._resources.names, resource)
        largest = reduce(np.maximum, share.T[column])
        steps: Bytes = np.minimum(np.rint(largest * SHARE_FULL), SHARE_MAX).astype(np.uint8)
        return steps

    def types(self) -> Bytes:
        """The allocation type of every node, by what is required of it."""
        return allocation_types(self.total, self.required, self.guaranteed, self.tasks == 0)

    def totals(self) -> dict[str, list[float]]:
        """Of each resource what all nodes have, and what of it is required, guaranteed, used."""
        columns = (self.total, self.required, self.guaranteed, self.used)
        sums = [column.sum(axis=0) for column in columns]
        return {
            name: [float(part[k]) / self._resources.unit(name) for part in sums]
            for k, name in enumerate(self._resources.names)
        }


def shares(amounts: Shares, total: Shares) -> Shares:
    """Amounts as shares of what there is; of what a node does not have, none."""
    return np.divide(amounts, total, out=np.zeros_like(amounts), where=total > 0)


def _columns(names: Iterable[str], resource: str) -> list[int]:
    known = list(names)
    return [known.index(resource)] if resource in known else list(range(len(known)))


def allocation_types(
    total: Shares, used: Shares, guaranteed: Shares, idle: NDArray[np.bool_]
) -> Bytes:
    """`cluster.allocation_types.allocation_type` of all nodes at once."""
    share, has = shares(used, total), total > 0
    overloaded = _of_any((used > total) | (guaranteed > total))
    full = _of_any((share > FULL) & has)
    tight = _of_any((share >= TIGHT) & (share <= FULL) & has)
    loose = _of_any((share < TIGHT) & has)
    kinds = np.where(loose, 4, 2)
    kinds = np.where(tight, kinds, 3)
    kinds = np.where(full, 1, kinds)
    kinds = np.where(overloaded, 5, kinds)
    return np.where(idle, 0, kinds).astype(np.uint8)


def _of_any(holds: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether it holds of any resource; by columns, of which there are few."""
    return reduce(np.logical_or, holds.T)


def natural_key(name: str) -> tuple[object, ...]:
    """`node-2` before `node-10`."""
    parts, digits = [], ""
    for character in f"{name}\0":
        if character.isascii() and character.isdigit():
            digits += character
            continue
        if digits:
            parts.append((1, int(digits), ""))
            digits = ""
        parts.append((0, 0, character))
    return tuple(parts)
