"""When a job could start, given what runs, what is free and until when: the arithmetic of
backfilling, as plain functions that kernels compile.

Room is counted in amounts of the whole cluster, as batch systems count processors. `order` lists
what runs by its expected end, `ends` are those ends and `amounts` what each gives back.
"""

from __future__ import annotations

from murmuration.base.arrays import Amounts, Indices, Times


def has_room(free: Amounts, need: Amounts) -> bool:
    """Whether this much is free."""
    enough = True
    for r in range(need.shape[0]):
        enough &= need[r] <= free[r]
    return enough


def find_shadow(
    need: Amounts,
    free: Amounts,
    ends: Times,
    amounts: Amounts,
    order: Indices,
    count: int,
    extra: Amounts,
) -> float:
    """When a job will find room at the latest, if everything ends when it is expected to; `extra`
    becomes what will be free then beside it. Infinite, and nothing extra, if never."""
    for r in range(need.shape[0]):
        extra[r] = free[r]
    shadow, k = 0.0, 0
    while not has_room(extra, need):
        if k == count:
            for r in range(need.shape[0]):
                extra[r] = 0
            return 1e300
        shadow = ends[order[k]]
        # Whatever ends at that moment has ended before anything starts.
        while k < count and ends[order[k]] == shadow:
            for r in range(need.shape[0]):
                extra[r] += amounts[order[k], r]
            k += 1
    for r in range(need.shape[0]):
        extra[r] -= need[r]
    return shadow


def find_start(times: Times, room: Amounts, points: int, need: Amounts, lasts: float) -> int:
    """The first point of a profile from which there is room for this long. `room[k]` is free from
    `times[k]` to the next point, and after the last one for ever."""
    start = 0
    for k in range(points):
        if k > start and times[k] >= times[start] + lasts:
            return start
        if not has_room(room[k], need):
            start = k + 1
    return start


def reserve(
    times: Times, room: Amounts, points: int, start: int, lasts: float, need: Amounts
) -> int:
    """Take room out of a profile from one of its points on; returns its new number of points."""
    end = times[start] + lasts
    stop = start
    while stop < points and times[stop] < end:
        stop += 1
    if stop == points or times[stop] > end:
        for k in range(points, stop, -1):
            times[k] = times[k - 1]
            for r in range(need.shape[0]):
                room[k, r] = room[k - 1, r]
        times[stop] = end
        for r in range(need.shape[0]):
            room[stop, r] = room[stop - 1, r]
        points += 1
    for k in range(start, stop):
        for r in range(need.shape[0]):
            room[k, r] -= need[r]
    return points
