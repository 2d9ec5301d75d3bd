"""When a job could start, given what runs, what is free and until when: the arithmetic of
backfilling, as plain functions that kernels compile and the live master calls.

Room is counted in amounts of the whole cluster, as batch systems count processors. A *profile* is
what will be free from now on if everything ends when it is expected to: `room[k]` is free from
`times[k]` to the next point, and after the last one without end.
"""

from __future__ import annotations

from murmuration.base.arrays import Amounts, Indices, Times


def has_room(free: Amounts, need: Amounts) -> bool:
    """Whether this much is free. What is not asked for may be short."""
    enough = True
    for r in range(need.shape[0]):
        enough &= need[r] <= free[r] or need[r] == 0
    return enough


def make_profile(
    times: Times,
    room: Amounts,
    now: float,
    free: Amounts,
    running: tuple[Times, Amounts, Indices],
    count: int,
) -> int:
    """Write the profile of what is free now and what runs, which is given as (ends, amounts, order
    by end) with `count` entries; returns the number of points. What should have ended by now ends
    at any moment, and counts as free from now on."""
    ends, amounts, order = running
    points = 1
    times[0] = now
    for r in range(free.shape[0]):
        room[0, r] = free[r]
    for k in range(count):
        if ends[order[k]] > times[points - 1]:
            times[points] = ends[order[k]]
            for r in range(free.shape[0]):
                room[points, r] = room[points - 1, r]
            points += 1
        for r in range(free.shape[0]):
            room[points - 1, r] += amounts[order[k], r]
    return points


def fits_now(times: Times, room: Amounts, points: int, need: Amounts, lasts: float) -> bool:
    """Whether there is room from the first point of a profile on for this long."""
    for k in range(points):
        if times[k] >= times[0] + lasts:
            return True
        if not has_room(room[k], need):
            return False
    return True


def find_start(times: Times, room: Amounts, points: int, need: Amounts, lasts: float) -> int:
    """The first point of a profile from which there is room for this long; the number of points if
    there never is."""
    start = 0
    for k in range(points):
        if k > start and times[k] >= times[start] + lasts:
            return start
        if not has_room(room[k], need):
            start = k + 1
    return start


def add_point(times: Times, room: Amounts, points: int, at: float) -> tuple[int, int]:
    """Make sure that a profile has a point at this time, which is not before its first; returns
    its place and the number of points."""
    place = 0
    while place < points and times[place] < at:
        place += 1
    if place < points and times[place] == at:
        return place, points
    for k in range(points, place, -1):
        times[k] = times[k - 1]
        for r in range(room.shape[1]):
            room[k, r] = room[k - 1, r]
    times[place] = at
    for r in range(room.shape[1]):
        room[place, r] = room[place - 1, r]
    return place, points + 1


def take_out(
    times: Times, room: Amounts, points: int, start: int, end: float, need: Amounts
) -> int:
    """Take room out of a profile from one of its points until a time; returns its new number of
    points."""
    if end <= times[start]:
        return points
    stop, points = add_point(times, room, points, end)
    for k in range(start, stop):
        for r in range(need.shape[0]):
            room[k, r] -= need[r]
    return points
