"""Who makes way for a job of higher priority: the same choice in a simulation, which compiles it,
and live.

What runs is a list of *units* that end together (a task, a gang, a whole job), each with the room
it holds on one or more rows. Units are taken in order, those that have to go first in front, until
there is room for the job; if all of them are not enough, nobody goes. Then those whose room is not
needed after all are spared, beginning with the last: the one of the highest priority that has run
the longest. So nobody goes in vain, and nobody goes for whom somebody of lower priority could have
gone alone.
"""

from __future__ import annotations

from typing import NamedTuple

from murmuration.base.arrays import Amounts, Indices

#: In the order of those who make way: this one is spared.
SPARED = -1


class HeldRoom(NamedTuple):
    """What units hold, one entry for each unit and row."""

    unit: Indices
    row: Indices
    amounts: Amounts


def count_fits(free: Amounts, request: Amounts, row_max: int) -> int:
    """How many tasks of a size fit on one row, at most `row_max`."""
    count = row_max
    for r in range(request.shape[0]):
        if request[r] > 0:
            count = min(count, free[r] // request[r])
    return max(count, 0)


def change_room(
    room: Amounts, held: HeldRoom, entry: int, sign: int, request: Amounts, row_max: int
) -> int:
    """Give an entry's room back (+1) or take it again (−1); returns how many tasks more fit."""
    row = held.row[entry]
    before = count_fits(room[row], request, row_max)
    for r in range(request.shape[0]):
        room[row, r] += sign * held.amounts[entry, r]
    return count_fits(room[row], request, row_max) - before


def choose_victims(
    room: Amounts,
    request: Amounts,
    missing: int,
    held: HeldRoom,
    order: Indices,
    row_max: int,
) -> int:
    """Choose who makes way so that `missing` more tasks of a size fit, at most `row_max` on a row.

    `order` has entries of `held`, those of one unit side by side. Returns how many of them were
    looked at, 0 if all would not be enough; those that are spared are `SPARED` in `order`, and
    `room` is what there will be.
    """
    count, gained, taken = order.shape[0], 0, 0
    while taken < count and (
        gained < missing or held.unit[order[taken]] == held.unit[order[taken - 1]]
    ):
        gained += change_room(room, held, order[taken], 1, request, row_max)
        taken += 1
    if gained < missing:
        return 0
    last = taken
    while last > 0:
        first = last - 1
        while first > 0 and held.unit[order[first - 1]] == held.unit[order[last - 1]]:
            first -= 1
        for k in range(first, last):
            gained += change_room(room, held, order[k], -1, request, row_max)
        is_spared = gained >= missing
        for k in range(first, last):
            if is_spared:
                order[k] = SPARED
            else:
                gained += change_room(room, held, order[k], 1, request, row_max)
        last = first
    return taken
