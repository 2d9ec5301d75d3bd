"""Nodes in order of fullness: the ring a structured search walks with fingers.

`order` lists the nodes by level, `place` is where each stands in it, and `first[level]` is where a
level begins, with one entry more than there are levels. A node that changes its level by one
changes places with one at the border.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


def arrange(level: Array, order: Array, place: Array, first: Array) -> None:
    """Put all nodes in order: a counting sort."""
    first[:] = 0
    for node in range(level.shape[0]):
        first[level[node] + 1] += 1
    for k in range(1, first.shape[0]):
        first[k] += first[k - 1]
    for node in range(level.shape[0]):
        at = first[level[node]]
        first[level[node]] += 1
        order[at] = node
        place[node] = at
    for k in range(first.shape[0] - 1, 0, -1):
        first[k] = first[k - 1]
    first[0] = 0


def step_up(level: Array, order: Array, place: Array, first: Array, node: int) -> None:
    """A node gets the next higher level: it changes places with the last node of its own, and the
    border moves."""
    border = first[level[node] + 1] - 1
    other, at = order[border], place[node]
    order[at], place[other] = other, at
    order[border], place[node] = node, border
    first[level[node] + 1] = border
    level[node] += 1


def step_down(level: Array, order: Array, place: Array, first: Array, node: int) -> None:
    """A node gets the next lower level: it changes places with the first node of its own, and the
    border moves."""
    border = first[level[node]]
    other, at = order[border], place[node]
    order[at], place[other] = other, at
    order[border], place[node] = node, border
    first[level[node]] = border + 1
    level[node] -= 1


def finger_hops(start: int, target: int, nodes: int) -> int:
    """Messages from one place to another with fingers 1, 2, 4, … places ahead: the ones of the
    distance in binary."""
    distance = (target - start) % nodes
    hops = 0
    while distance > 0:
        hops += distance & 1
        distance >>= 1
    return hops
