"""What pods of each priority hold on each row: where room could be made, found without a look at
every pod.

A cluster has thousands of nodes and tens of thousands of pods, but few priorities. So what pods
hold is kept as one table for each priority and changed by one row when a pod comes or goes; whether
there would be room if everybody below some priority went is then a few additions of whole columns.
`largest` only grows: it is a bound, and a bound that is too generous costs a look and no mistake.
"""

from __future__ import annotations

import numpy as np

from murmuration.base.arrays import Amounts, Counts, Flags, Integers, resize

#: Stands for a row where no priority that may go makes room.
NOWHERE = np.iinfo(np.int64).max


class Level:
    """The pods of one priority."""

    def __init__(self, rows: int, columns: int) -> None:
        self.amounts: Amounts = np.zeros((rows, columns), dtype=np.int64)
        self.counts: Counts = np.zeros(rows, dtype=np.int64)
        #: The most that one of them has ever asked for.
        self.largest: Amounts = np.zeros(columns, dtype=np.int64)


class Levels:
    """Pods by priority."""

    def __init__(self, rows: int, columns: int) -> None:
        self._rows, self._columns = rows, columns
        self._levels: dict[int, Level] = {}

    def resize(self, gone: int | None) -> None:
        self._rows += 1 if gone is None else -1
        for level in self._levels.values():
            level.amounts, level.counts = resize(level.amounts, gone), resize(level.counts, gone)

    def place(self, priority: int, row: int, request: Amounts, sign: int) -> None:
        """A pod lies on a row now (+1), or does no more (−1)."""
        level = self._levels.get(priority)
        if level is None:
            level = self._levels[priority] = Level(self._rows, self._columns)
        level.amounts[row] += sign * request
        level.counts[row] += sign
        np.maximum(level.largest, request, out=level.largest)

    def bounds(self, free: Amounts, request: Amounts, below: int) -> tuple[Integers, Counts]:
        """For each row the lowest priority such that there is room once everybody up to it has
        gone, of those below the one that asks (`NOWHERE`: there is none); and how many must go
        there at least. The first is the highest priority that goes if nothing but room counts."""
        room, some = free.copy(), np.zeros(len(free), dtype=np.bool_)
        highest: Integers = np.full(len(free), NOWHERE, dtype=np.int64)
        largest = np.zeros_like(request)
        for priority in sorted(self._levels):
            if priority >= below:
                break
            level = self._levels[priority]
            room += level.amounts
            some |= level.counts > 0
            np.maximum(largest, level.largest, out=largest)
            highest[(highest == NOWHERE) & some & has_room(room, request)] = priority
        fewest: Counts = np.ones(len(free), dtype=np.int64)
        for column in np.flatnonzero(request):
            missing = request[column] - free[:, column]
            np.maximum(fewest, -(-missing // max(int(largest[column]), 1)), out=fewest)
        return highest, fewest


def has_room(room: Amounts, request: Amounts) -> Flags:
    """The rows with room for a pod; who asks for none of something does not mind how much there
    is of it."""
    fits = np.ones(room.shape[:-1], dtype=np.bool_)
    # Column by column: several times faster than all at once.
    for column in np.flatnonzero(request):
        fits &= room[..., column] >= request[column]
    return fits
