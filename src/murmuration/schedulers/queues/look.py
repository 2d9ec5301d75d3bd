"""One look at a queue: which of the waiting jobs start now.

Jobs are asked about in the order of the queue. Each either starts or waits, and what that means for
those behind it is kept in a `QueueLook`: nobody may pass the first that waits (strict), whoever
leaves it its reservation may (easy), or everybody has a reservation (conservative). The simulation
compiles these functions, the live master calls them as they are; finding nodes for a job that may
start is the caller's part, and a job that has room by amounts but finds no nodes waits.

The two kinds of backfilling are one: a profile of what will be free, from which room is taken for
the first job that waits, or for every job. A job may overtake if the profile has room for it from
now on for as long as it asks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from murmuration.base.arrays import Amounts, Indices, Records, Times
from murmuration.schedulers.queues.backfill import (
    add_point,
    find_start,
    fits_now,
    has_room,
    make_profile,
    take_out,
)

# Who may overtake: nobody; whoever does not delay the first; whoever delays nobody before it.
STRICT, EASY, CONSERVATIVE = range(3)

#: A job that takes no time holds up whoever would run at that moment: its reservation lasts this
#: long.
SHORTEST_S = 1e-6

#: `blocked`: some job waits already; `profiled`: the profile is made, with so many points.
LOOK = np.dtype(
    [
        ("now", "f8"),
        ("overtaking", "i8"),
        ("points", "i8"),
        ("blocked", "?"),
        ("profiled", "?"),
    ],
    align=True,
)


class QueueLook(NamedTuple):
    """What a look knows: its state, what is free, and the profile."""

    state: Records
    free: Amounts
    times: Times
    room: Amounts


def begin_look(look: QueueLook, now: float, overtaking: int) -> None:
    """Start over."""
    state = look.state[0]
    state.now = now
    state.overtaking = overtaking
    state.points = 0
    state.blocked = False
    state.profiled = False


def set_profile(look: QueueLook, running: tuple[Times, Amounts, Indices], count: int) -> None:
    """Make the profile from what runs: (ends, amounts, order by end)."""
    state = look.state[0]
    state.points = make_profile(look.times, look.room, state.now, look.free, running, count)
    state.profiled = True


def keep_for_others(look: QueueLook, start: float, end: float, amounts: Amounts) -> None:
    """Take a window out of the profile: it is promised to somebody else."""
    state = look.state[0]
    if end > state.now:
        place, points = add_point(look.times, look.room, state.points, max(start, state.now))
        state.points = take_out(look.times, look.room, points, place, end, amounts)


def is_over(look: QueueLook) -> bool:
    """Whether nobody else can start."""
    return bool(look.state[0].blocked and look.state[0].overtaking == STRICT)


def may_start(look: QueueLook, need: Amounts, lasts: float) -> bool:
    """Whether the next job has room from now on, beside everything that is promised to others."""
    state = look.state[0]
    if state.overtaking == CONSERVATIVE:
        return reserve_earliest(look, need, lasts)
    if not has_room(look.free, need):
        return False
    return not state.profiled or fits_now(look.times, look.room, state.points, need, lasts)


def reserve_earliest(look: QueueLook, need: Amounts, lasts: float) -> bool:
    """Give a job the earliest reservation that the profile has room for; returns whether it is for
    now. By the plan there may be room while one that overran its time is still in the way."""
    state = look.state[0]
    start = find_start(look.times, look.room, state.points, need, lasts)
    if start == state.points:
        return False
    due = bool(look.times[start] == state.now and has_room(look.free, need))
    end = look.times[start] + lasts
    state.points = take_out(look.times, look.room, state.points, start, end, need)
    return due


def note_start(look: QueueLook, need: Amounts, lasts: float) -> None:
    """The job that was asked about has started."""
    state = look.state[0]
    for r in range(need.shape[0]):
        look.free[r] -= need[r]
    if state.profiled and state.overtaking != CONSERVATIVE:
        end = state.now + lasts
        state.points = take_out(look.times, look.room, state.points, 0, end, need)


def note_wait(look: QueueLook, need: Amounts, lasts: float) -> None:
    """The job that was asked about waits. The first that does gets a reservation, if jobs behind it
    may overtake; the profile must have been made."""
    state = look.state[0]
    if not state.blocked and state.overtaking == EASY:
        reserve_earliest(look, need, max(lasts, SHORTEST_S))
    state.blocked = True
