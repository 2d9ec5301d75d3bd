"""The agenda: a binary heap of (time, order, what). Equal times keep the order in which they were
noted."""

from __future__ import annotations

from typing import Any

from murmuration.base.jit import helper
from murmuration.simulation.engine.world import KIND_BITS, Array


@helper
def earlier(agenda: Array, a: int, b: int) -> bool:
    if agenda[a].time != agenda[b].time:
        return bool(agenda[a].time < agenda[b].time)
    return bool(agenda[a].order < agenda[b].order)


@helper
def swap(agenda: Array, a: int, b: int) -> None:
    x, y = agenda[a], agenda[b]
    x.time, y.time = y.time, x.time
    x.order, y.order = y.order, x.order
    x.what, y.what = y.what, x.what


@helper
def note(agenda: Array, state: Array, time: float, kind: int, subject: int) -> None:
    """Put an event on the agenda."""
    at = state[0].notes
    state[0].notes += 1
    agenda[at].time = time
    agenda[at].order = state[0].order
    agenda[at].what = (subject << KIND_BITS) | kind
    state[0].order += 1
    while at > 0:
        parent = (at - 1) // 2
        if not earlier(agenda, at, parent):
            return
        swap(agenda, at, parent)
        at = parent


@helper
def pop(agenda: Array, state: Array) -> Any:
    """Take the next event off the agenda; returns what it is about."""
    what = agenda[0].what
    state[0].notes -= 1
    size = state[0].notes
    swap(agenda, 0, size)
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            return what
        if child + 1 < size and earlier(agenda, child + 1, child):
            child += 1
        if not earlier(agenda, child, at):
            return what
        swap(agenda, at, child)
        at = child
