"""Nodes that are kept for the first job that waits while others pass it.

A queue discipline counts in amounts of the whole cluster, as a simulation does. Live that is not
enough: two halves of two nodes are no room for a task that needs a whole one, and a job that
overtakes must not sit on the node that the first one waits for. So the first that waits is given
nodes, at the earliest time at which it finds them if everything ends when its time limit says.
Whoever is still there at that time may use what it leaves; whoever has gone by then, everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from murmuration.base.arrays import Amounts
from murmuration.schedulers.central.jobs import JobRecord, TaskRecord
from murmuration.schedulers.central.placing import NodeMask, Round, is_simple

#: What is given back, when, and on which row.
ExpectedEnd = tuple[float, int, Amounts]
#: How many times are tried for a job that has rules about other tasks.
TRIES = 20


def count_all_fits(room: Amounts, request: Amounts, row_max: int) -> int:
    """How many tasks of a size fit on all rows, at most `row_max` on each."""
    return int(count_fits_by_row(room, request, row_max).sum())


def count_fits_by_row(room: Amounts, request: Amounts, row_max: int) -> Amounts:
    """The same for each row."""
    asked = request > 0
    if not asked.any():
        return np.full(len(room), row_max, dtype=np.int64)
    fits: Amounts = (room[:, asked] // request[asked]).min(axis=1)
    return fits.clip(0, row_max)


#: What a job takes of each row, if so much is free now and so much then.
Choice = Callable[[Amounts, Amounts], Amounts]


@dataclass
class KeptNodes:
    """From when on a job has its nodes, and what is free beside it then. Which nodes these are is
    chosen again for everybody who asks, where a job can be content with any: whoever has started
    since may sit on others than were thought of, and be gone by then."""

    from_s: float
    later: Amounts
    choose: Choice | None = None

    def place(
        self, round_: Round, job: JobRecord, tasks: list[TaskRecord], until_s: float
    ) -> list[tuple[TaskRecord, int]]:
        """The rows for all tasks of a job that lasts until then, or none."""
        if until_s <= self.from_s:
            return round_.place(job, tasks, whole=True)
        free = round_.rows.free
        before = free.copy()
        beside = self.later if self.choose is None else self.later - self.choose(free, self.later)
        free[:] = np.minimum(before, beside)
        usable = free.copy()
        placements = round_.place(job, tasks, whole=True)
        taken = usable - free
        free[:] = before - taken
        self.later -= taken
        return placements


def keep_nodes(
    round_: Round,
    job: JobRecord,
    tasks: list[TaskRecord],
    ends: Sequence[ExpectedEnd],
    earliest_s: float,
) -> KeptNodes | None:
    """The nodes that a job will find first, by the ends that are expected and not before
    `earliest_s`; None if by these it finds none."""
    if earliest_s == math.inf:
        return None
    times = sorted({max(earliest_s, round_.now), *(e[0] for e in ends if e[0] > earliest_s)})
    request, usable = np.array(job.request, dtype=np.int64), round_.allowed(job)

    ends = sorted(ends, key=lambda end: end[0])
    at_s = np.array([end[0] for end in ends])
    row = np.array([end[1] for end in ends], dtype=np.int64)
    amounts = np.array([end[2] for end in ends], dtype=np.int64).reshape(-1, len(request))

    def free_at(time: float) -> Amounts:
        free, count = round_.rows.free.copy(), int(np.searchsorted(at_s, time, side="right"))
        np.add.at(free, row[:count], amounts[:count])
        return free

    def has_room(time: float) -> bool:
        return count_all_fits(free_at(time)[usable], request, len(tasks)) >= len(tasks)

    # What is suspended has its nodes already, and is simply tried.
    is_anywhere = not any(task.is_suspended for task in tasks)
    # Room only grows from end to end, so the first time is found by halving.
    low, high = 0, len(times) if is_anywhere else 0
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if has_room(times[middle]) else (middle + 1, high)
    for time in times[low : low + TRIES]:
        later = free_at(time)
        if is_anywhere and is_simple(job):
            return KeptNodes(time, later, partial(_choose, usable, request, len(tasks)))
        trial = round_.twin(later)
        if trial.place(job, tasks, whole=True):
            return KeptNodes(time, trial.rows.free)
    return None


def _choose(
    usable: NodeMask, request: Amounts, tasks: int, free: Amounts, later: Amounts
) -> Amounts:
    """What tasks take of each row then. They need not end up there; but it should leave others as
    much as can be of what is free now. So first what only then comes free, then the fullest."""
    coming = count_fits_by_row(later - free, request, tasks) * usable
    most = count_fits_by_row(later, request, tasks) * usable
    taken = _take_in_order(coming, tasks)
    rest = most - taken
    fullest = np.argsort(count_fits_by_row(free, request, tasks), kind="stable")
    taken[fullest] += _take_in_order(rest[fullest], tasks - int(taken.sum()))
    return taken[:, None] * request


def _take_in_order(counts: Amounts, wanted: int) -> Amounts:
    """From each in turn, so many in all."""
    before = np.cumsum(counts) - counts
    taken: Amounts = np.minimum(counts, np.maximum(wanted - before, 0))
    return taken
