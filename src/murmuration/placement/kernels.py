"""Placements, compiled: given the table and one job, a row for each of its tasks.

A placement deducts from `free` as it goes, so that two tasks never take the same room, and leaves
it so: the caller takes it back or keeps it. Placed rows stand in front of `nodes`; the return value
is how many there are. A ranking also gets the index that it keeps from one decision to the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from murmuration.base.arrays import Amounts, Flags, Placement, RandomState, Scores, SmallIntegers
from murmuration.base.jit import SCORE, VECTOR, FirstClass, compiled, helper
from murmuration.base.rows import fits, next_double, take
from murmuration.placement.plain import MISSES_MAX
from murmuration.placement.ranking import INDEX, RankIndex, choose_ranked
from murmuration.placement.room import ROOM, JobRoom
from murmuration.placement.scores import Score

PLACE = types.int64(
    ROOM,
    VECTOR,
    types.int64,
    types.uint64[::1],
    types.int32[::1],
    types.FunctionType(SCORE),
    INDEX,
)


@compiled
def feasible(free: Amounts, allowed: Flags, request: Amounts) -> SmallIntegers:
    """The rows that can take one more task."""
    rows = np.empty(free.shape[0], dtype=np.int32)
    count = 0
    for i in range(free.shape[0]):
        if (allowed.shape[0] == 0 or allowed[i]) and fits(free, i, request):
            rows[count] = i
            count += 1
    return rows[:count]


@compiled
def place_from(
    rows: SmallIntegers,
    left: int,
    free: Amounts,
    request: Amounts,
    placed: int,
    count: int,
    rng: RandomState,
    nodes: Placement,
) -> int:
    """Randomised first fit from the first `left` of these rows, which all fit; a row that is full
    leaves the list."""
    while placed < count and left > 0:
        at = int(next_double(rng) * left)
        node = rows[at]
        take(free, node, request)
        nodes[placed] = node
        placed += 1
        if not fits(free, node, request):
            left -= 1
            rows[at] = rows[left]
    return placed


@compiled
def draw_first_fit(
    free: Amounts,
    allowed: Flags,
    request: Amounts,
    count: int,
    rng: RandomState,
    nodes: Placement,
) -> int:
    """Place tasks on nodes drawn at random until all are placed or too many draws in a row found no
    room.

    The generator's state is kept in locals here, and its steps are written out (they are those of
    `base.random.next_double`): this is the innermost loop of every large run.
    """
    n, resources, every = free.shape[0], request.shape[0], allowed.shape[0] == 0
    placed, misses = 0, 0
    a, b, c, counter = rng[0], rng[1], rng[2], rng[3]
    while placed < count and misses < MISSES_MAX:
        value = a + b + counter
        counter += np.uint64(1)
        a = b ^ (b >> np.uint64(11))
        b = c + (c << np.uint64(3))
        c = ((c << np.uint64(24)) | (c >> np.uint64(40))) + value
        node = np.uint64(float(value >> np.uint64(11)) * (1.0 / 9007199254740992.0) * n)
        enough = every or allowed[node]
        for r in range(resources):
            enough &= request[r] <= free[node, r]
        if enough:
            for r in range(resources):
                free[node, r] -= request[r]
            nodes[placed] = node
            placed += 1
            misses = 0
        else:
            misses += 1
    rng[0], rng[1], rng[2], rng[3] = a, b, c, counter
    return placed


def first_fit(
    room: JobRoom,
    request: Amounts,
    count: int,
    rng: RandomState,
    nodes: Placement,
    score: Score,
    index: RankIndex,
) -> int:
    """Randomised first fit (3.2): draw a node; if the task fits there it goes there, else the node
    is out.

    A node that is out stays out, because rows only fill up during one decision: drawing it again
    and passing over it leaves every other node the same odds. After too many misses the rest is
    drawn from the list of nodes with room.
    """
    placed = draw_first_fit(room.free, room.allowed, request, count, rng, nodes)
    if placed == count:
        return placed
    rows = feasible(room.free, room.allowed, request)
    return place_from(rows, rows.shape[0], room.free, request, placed, count, rng, nodes)


@helper
def precedes(scores: Scores, start: int, n: int, a: int, b: int) -> bool:
    """Whether row a is chosen before row b: by score, ties by the order from a random start."""
    if scores[a] != scores[b]:
        return bool(scores[a] > scores[b])
    return bool((a - start) % n < (b - start) % n)


@helper
def sift(rows: SmallIntegers, size: int, at: int, scores: Scores, start: int, n: int) -> None:
    """Restore the heap of rows (best first) below position `at`."""
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and precedes(scores, start, n, rows[child + 1], rows[child]):
            child += 1
        if not precedes(scores, start, n, rows[child], rows[at]):
            return
        rows[at], rows[child] = rows[child], rows[at]
        at = child


@compiled
def scan_ranked(
    room: JobRoom, request: Amounts, count: int, start: int, nodes: Placement, score: Score
) -> int:
    """Each task in turn to the row with the best score, after scoring all of them.

    Rows stand in a heap, best first. Only the node just chosen has changed, so only it needs a new
    score, and it is sifted down from the top: placing k tasks on n nodes takes n + k log n steps.
    """
    total, free, n = room.total, room.free, room.total.shape[0]
    rows = feasible(free, room.allowed, request)
    size = rows.shape[0]
    scores = score(total, free, request)
    for at in range(size // 2 - 1, -1, -1):
        sift(rows, size, at, scores, start, n)
    placed = 0
    while placed < count and size > 0:
        node = rows[0]
        take(free, node, request)
        nodes[placed] = node
        placed += 1
        if fits(free, node, request):
            scores[node] = score(total[node : node + 1], free[node : node + 1], request)[0]
        else:
            size -= 1
            rows[0] = rows[size]
        sift(rows, size, 0, scores, start, n)
    return placed


def place_ranked(
    room: JobRoom,
    request: Amounts,
    count: int,
    rng: RandomState,
    nodes: Placement,
    score: Score,
    index: RankIndex,
) -> int:
    """Each task in turn to the node with the best score, ties in the order from a random start: by
    the index where changes are logged, else by a scan. Both choose the same nodes."""
    start = int(next_double(rng) * room.total.shape[0])
    if room.changes.shape[0] > 1:
        return choose_ranked(room, request, count, start, nodes, score, index)
    return scan_ranked(room, request, count, start, nodes, score)


def as_placement(function: Any) -> FirstClass:
    """A placement that kernels can be given as a value."""
    return FirstClass(function, PLACE, arrays=function is not place_ranked)


def as_score(function: Any, cache: bool = True) -> FirstClass:
    """A score that kernels can be given as a value."""
    return FirstClass(function, SCORE, cache)
