"""The event queue: a binary heap of (time, order, what) in one array of records.

Equal times keep the order in which they were scheduled: `order` is a serial number, so no two
events compare equal and the heap has one result, whatever shape it has inside. `what` is the kind
of event in its low bits and the subject (a scheduler, a run, a job) above them; `state.scheduled`
counts the events that are in the queue.

A kernel cannot enlarge the array. Whoever schedules relies on `needs_room`, which is asked
before each event whether the next step could need more room than there is.
"""

from __future__ import annotations

from typing import Any

from murmuration.base.arrays import Records
from murmuration.base.jit import helper
from murmuration.simulation.engine.world import (
    AGENTS_ACT,
    KIND_BITS,
    KIND_MASK,
    NODE_CHANGES,
)

#: Room in the event queue that one step may need.
EVENTS_MAX = 8


@helper
def precedes(event_queue: Records, a: int, b: int) -> bool:
    """Whether the event at one place comes before that at another."""
    if event_queue[a].time != event_queue[b].time:
        return bool(event_queue[a].time < event_queue[b].time)
    return bool(event_queue[a].order < event_queue[b].order)


@helper
def swap(event_queue: Records, a: int, b: int) -> None:
    """Exchange two events, field by field: a record cannot be held as a value in a kernel."""
    x, y = event_queue[a], event_queue[b]
    x.time, y.time = y.time, x.time
    x.order, y.order = y.order, x.order
    x.what, y.what = y.what, x.what


@helper
def schedule(event_queue: Records, state: Records, time: float, kind: int, subject: int) -> None:
    """Put an event into the queue: at the end, then up while it is earlier than its parent."""
    at = state[0].scheduled
    state[0].scheduled += 1
    event_queue[at].time = time
    event_queue[at].order = state[0].order
    event_queue[at].what = (subject << KIND_BITS) | kind
    state[0].order += 1
    while at > 0:
        parent = (at - 1) // 2
        if not precedes(event_queue, at, parent):
            return
        swap(event_queue, at, parent)
        at = parent


@helper
def pop(event_queue: Records, state: Records) -> Any:
    """Take the next event off the queue; returns what it is about. The last event takes the place
    of the first, then goes down while a child is earlier."""
    what = event_queue[0].what
    state[0].scheduled -= 1
    size = state[0].scheduled
    swap(event_queue, 0, size)
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            return what
        if child + 1 < size and precedes(event_queue, child + 1, child):
            child += 1
        if not precedes(event_queue, child, at):
            return what
        swap(event_queue, at, child)
        at = child


@helper
def needs_room(state: Records, runs: Records, event_queue: Records, tasks: int) -> bool:
    """Whether a step that starts this many tasks could outgrow the arrays.

    Asked before every event, because a kernel cannot make room in the middle of one. It may say yes
    too early, never too late: growing changes no result.
    """
    # Two unused runs must be left: one for this step, and one more so that the list has a head.
    spare = state[0].run_free
    needed = state[0].scheduled + EVENTS_MAX
    if state[0].scheduled > 0 and event_queue[0].what & KIND_MASK == NODE_CHANGES:
        # Every run may lose tasks that its job places again, and each of these jobs returns by an
        # event of its own.
        needed += state[0].scheduled
    return bool(
        state[0].slots_left < tasks
        or needed > event_queue.shape[0]
        or spare < 0
        or runs[spare].slot < 0
    )


@helper
def agents_need_room(state: Records, event_queue: Records, slots: Records) -> bool:
    """Whether a step in which every task moves could outgrow the event queue."""
    if state[0].scheduled == 0 or event_queue[0].what & KIND_MASK != AGENTS_ACT:
        return False
    return bool(
        state[0].scheduled + slots.shape[0] - state[0].slots_left + EVENTS_MAX
        > event_queue.shape[0]
    )
