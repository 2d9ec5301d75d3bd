"""Room for a task that fits on no node, with as few moves as possible: a search through chains of
ejections.

To open a node for a task, tasks are taken from it until the first fits; what was taken looks for
another node, which may have to be opened in turn. The number of tasks that may be taken grows from
one, so the first chain found has the fewest moves unless the bound on evaluations cut a smaller
number short. No random number is drawn: the plan repeats.

A task is taken only if leaving breaks no rule whatever becomes of it: one that must lie together
with others, or is spread, stays. New tasks obey all their rules.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmuration.assignment.packed import KINDS, Packed, Work
from murmuration.assignment.problem import APART, Flags, Integers, new_violations
from murmuration.assignment.state import State, count_rules, fits, load, may_use, new_state, obeys
from murmuration.base.jit import compiled, inlined

Array = NDArray[Any]
#: Steps of the search for each number of moves, over all tasks and for one; the most moves that are
#: looked for.
EVALUATIONS, EVALUATIONS_MIN, MOVES_MAX = 200_000, 100, 12
#: A move is taken, opened for and settled.
DEPTH = 3 * MOVES_MAX + 3
#: Where a task fits at once, so many of the fullest nodes are tried.
CLOSEST = 3
UNKNOWN, HARD, EASY = -1, 0, 1
#: A frame of the search finds a node for a task, or takes tasks from one; its numbers:
SETTLE, TAKE = 0, 1
KIND, TASK, NODE, NEXT, COUNT, MOVES, HARDS, WHICH, ENTERED, FITTED = range(10)


class Chain(NamedTuple):
    """What a search of chains works on beside the placement."""

    first: Integers  # node + 1: where the tasks begin that were on it
    tasks: Integers
    may_leave: Flags
    size: NDArray[np.float64]  # task: its largest share of a mean node
    waiting: Integers  # tasks taken and not placed yet
    ease: Integers  # task: whether some other node had room for it at the start
    order: Integers  # nodes, those that lack least for the new task first
    frames: Integers  # depth × numbers of a frame
    gap: NDArray[np.float64]  # depth: what the last node tried would have left


class Room(NamedTuple):
    """A placement with as many new tasks as possible, and how many tasks it moves."""

    node_of: Integers
    moves: int


def make_room(work: Work, evaluations: int = EVALUATIONS) -> Room:
    """Place what has no node, largest first, each with the fewest moves; what finds no room stays
    without."""
    p = work.packed
    s = new_state(p)
    x = p.start.astype(np.int32)
    load(p, s, x)
    size = (p.request / np.maximum(p.total.mean(axis=0), 1)).max(axis=1)
    waiting = [t for t in p.movable.tolist() if x[t] < 0]
    # The bound is shared: where hundreds wait, most of them wait in vain.
    each = max(evaluations // max(len(waiting), 1), min(evaluations, EVALUATIONS_MIN))
    hopeless: set[bytes] = set()
    for t in sorted(waiting, key=lambda t: (-size[t], t)):
        alike = np.append(
            p.request[t], [p.class_of[t], *p.rule_list[p.rule_first[t] : p.rule_first[t + 1]]]
        ).tobytes()
        if alike in hopeless:
            continue
        if _place(work, s, t, size, each):
            hopeless.clear()
        else:
            hopeless.add(alike)
    found = work.restored(s.x)
    moved = (work.problem.node_of >= 0) & (found != work.problem.node_of)
    return Room(found, int(moved.sum()))


def _place(work: Work, s: State, t: int, size: Array, evaluations: int) -> bool:
    """Place one task, or leave all as it was; whether it was placed."""
    p, before = work.packed, s.x.copy()
    chain = _chain(p, s, t, size)
    for moves in range(MOVES_MAX + 1):
        if place_with(p, s, chain, t, moves, evaluations):
            found = s.x.copy()
            worse = bool(new_violations(work.problem, work.restored(found), work.restored(before)))
            load(p, s, before if worse else found)
            return not worse
    return False


def _chain(p: Packed, s: State, t: int, size: Array) -> Chain:
    """The search of one task's chain, from the placement as it is."""
    placed = np.flatnonzero(s.x >= 0)
    by_node = placed[np.argsort(s.x[placed], kind="stable")]
    first = np.searchsorted(s.x[by_node], np.arange(len(p.total) + 1)).astype(np.int64)
    lacking = np.maximum(p.request[t] - s.free, 0) / np.maximum(p.total, 1)
    may_leave = np.zeros(len(s.x), dtype=np.bool_)
    may_leave[p.movable] = True
    may_leave[_bound(p)] = False
    return Chain(
        first,
        by_node,
        may_leave,
        size,
        np.zeros(MOVES_MAX + 2, dtype=np.int64),
        np.full(len(s.x), UNKNOWN),
        np.argsort(lacking.max(axis=1), kind="stable"),
        np.zeros((DEPTH, FITTED + 1), dtype=np.int64),
        np.zeros(DEPTH),
    )


def _bound(p: Packed) -> Integers:
    """Tasks whose leaving could break a rule."""
    task = np.repeat(np.arange(len(p.rule_first) - 1), np.diff(p.rule_first))
    bound: Integers = task[p.rule_kind[p.rule_list] != KINDS[APART]]
    return bound


@compiled
def place_with(p: Packed, s: State, c: Chain, t: int, moves: int, evaluations: int) -> bool:
    """Place a task with at most so many moves of others; if there is no way, nothing changes."""
    c.waiting[0] = t
    c.ease[t] = HARD
    depth, left = 0, evaluations
    look_after(c, 0, 1, moves, 1)
    while depth >= 0:
        left -= 1
        frame = c.frames[depth]
        if frame[KIND] == SETTLE:
            going = try_node(p, s, c, depth, left)
        else:
            going = try_taking(p, s, c, depth, left)
        if not going:
            depth -= 1
        elif frame[COUNT] == 0 and frame[KIND] == SETTLE and frame[ENTERED] == 1:
            return True
        else:
            depth += 1
    return False


@inlined
def look_after(c: Chain, depth: int, count: int, moves: int, hard: int) -> None:
    """A frame that finds a node for one of the waiting tasks: one that had room nowhere, else the
    largest."""
    which = 0
    for k in range(1, count):
        t, u = c.waiting[k], c.waiting[which]
        if (c.ease[t] == HARD and c.ease[u] != HARD) or (
            c.ease[t] == c.ease[u] and c.size[t] > c.size[u]
        ):
            which = k
    frame = c.frames[depth]
    frame[KIND], frame[TASK], frame[WHICH] = SETTLE, c.waiting[which], which
    frame[COUNT], frame[MOVES] = count - 1, moves
    frame[HARDS] = hard - (1 if c.ease[frame[TASK]] == HARD else 0)
    frame[NODE], frame[NEXT], frame[ENTERED], frame[FITTED] = -1, 0, 0, 0
    c.waiting[which] = c.waiting[count - 1]
    c.gap[depth] = -1.0


@inlined
def try_node(p: Packed, s: State, c: Chain, depth: int, left: int) -> bool:
    """The next node for a waiting task: one with room, the fullest first; if there is none, one to
    open."""
    frame = c.frames[depth]
    t, count, moves = frame[TASK], frame[COUNT], frame[MOVES]
    if frame[ENTERED] == 1:
        take(p, s, t)
        frame[ENTERED] = 0
    if left >= 0 and frame[FITTED] < (CLOSEST if count > 0 else 1) and frame[FITTED] >= 0:
        n, c.gap[depth] = closest(p, s, t, c.gap[depth], frame[NODE])
        if n >= 0:
            put(p, s, t, n)
            frame[NODE], frame[ENTERED] = n, 1
            frame[FITTED] += 1
            if count > 0:
                look_after(c, depth + 1, count, moves, frame[HARDS])
            return True
        frame[FITTED] = -1 if frame[FITTED] == 0 else CLOSEST
    while left >= 0 and frame[FITTED] == -1 and moves > 0 and frame[NEXT] < c.order.shape[0]:
        n = c.order[frame[NEXT]]
        frame[NEXT] += 1
        if may_use(p, t, n) and n != p.start[t] and could_hold(p, s, c, t, n, moves):
            open_node(c, depth + 1, t, n, c.first[n], count, moves, frame[HARDS])
            return True
    c.waiting[count] = c.waiting[frame[WHICH]]
    c.waiting[frame[WHICH]] = t
    return False


@inlined
def open_node(
    c: Chain, depth: int, t: int, n: int, begin: int, count: int, moves: int, hard: int
) -> None:
    """A frame that takes tasks from a node until another fits there."""
    frame = c.frames[depth]
    frame[KIND], frame[TASK], frame[NODE], frame[NEXT] = TAKE, t, n, begin
    frame[COUNT], frame[MOVES], frame[HARDS], frame[ENTERED], frame[WHICH] = (
        count,
        moves,
        hard,
        0,
        -1,
    )


@inlined
def try_taking(p: Packed, s: State, c: Chain, depth: int, left: int) -> bool:
    """The next task to take from a node that is being opened."""
    frame = c.frames[depth]
    t, n, count, moves = frame[TASK], frame[NODE], frame[COUNT], frame[MOVES]
    if frame[ENTERED] == 1:
        take(p, s, t)
        frame[ENTERED] = 0
    if frame[WHICH] >= 0:
        put(p, s, frame[WHICH], n)
        frame[WHICH] = -1
    while left >= 0 and moves > 0 and frame[NEXT] < c.first[n + 1]:
        u = c.tasks[frame[NEXT]]
        frame[NEXT] += 1
        if s.x[u] != n or not c.may_leave[u] or (moves == 1 and not covers(p, s, t, u, n)):
            continue
        hard = frame[HARDS] + is_hard(p, s, c, u)
        if hard > moves - 1:
            continue
        take(p, s, u)
        c.waiting[count] = u
        frame[WHICH] = u
        if room_for(p, s, t, n):
            put(p, s, t, n)
            frame[ENTERED] = 1
            look_after(c, depth + 1, count + 1, moves - 1, hard)
        else:
            open_node(c, depth + 1, t, n, frame[NEXT], count + 1, moves - 1, hard)
        return True
    return False


@inlined
def put(p: Packed, s: State, t: int, n: int) -> None:
    s.x[t] = n
    for r in range(s.free.shape[1]):
        s.free[n, r] -= p.request[t, r]
    if p.rule_first[t] < p.rule_first[t + 1]:
        count_rules(p, s, t, n, 1)


@inlined
def take(p: Packed, s: State, t: int) -> None:
    n: Any = np.int64(s.x[t])
    s.x[t] = -1
    for r in range(s.free.shape[1]):
        s.free[n, r] += p.request[t, r]
    if p.rule_first[t] < p.rule_first[t + 1]:
        count_rules(p, s, t, n, -1)


@inlined
def room_for(p: Packed, s: State, t: int, n: int) -> bool:
    """Whether a task may lie on a node as things are."""
    if not (fits(p, s, t, n) and may_use(p, t, n)):
        return False
    return p.rule_first[t] == p.rule_first[t + 1] or obeys(p, s, t, n)


@inlined
def is_hard(p: Packed, s: State, c: Chain, t: int) -> int:
    """1 if no node but its own had room for a task when this was first asked."""
    if c.ease[t] == UNKNOWN:
        c.ease[t] = HARD
        for n in range(p.total.shape[0]):
            if n != s.x[t] and room_for(p, s, t, n):
                c.ease[t] = EASY
                break
    return 1 if c.ease[t] == HARD else 0


@inlined
def closest(p: Packed, s: State, t: int, after: float, passed: int) -> tuple[int, float]:
    """The next node with room for a task, by what would be left there, then by number; −1 if there
    is none."""
    best, least = -1, np.inf
    for n in range(p.total.shape[0]):
        if n == p.start[t] or not fits(p, s, t, n):
            continue
        gap = 0.0
        for r in range(p.total.shape[1]):
            gap += (s.free[n, r] - p.request[t, r]) * p.inverse[n, r]
        if gap < least and (gap > after or (gap == after and n > passed)) and room_for(p, s, t, n):
            best, least = n, gap
    return best, least


@inlined
def covers(p: Packed, s: State, t: int, u: int, n: int) -> bool:
    """Whether a task would fit on a node without another one."""
    enough = True
    for r in range(p.total.shape[1]):
        enough &= p.request[t, r] <= s.free[n, r] + p.request[u, r]
    return enough


@inlined
def could_hold(p: Packed, s: State, c: Chain, t: int, n: int, moves: int) -> bool:
    """Whether taking as many tasks as may be taken, the largest by each resource, could make a task
    fit on a node."""
    enough = True
    for r in range(p.total.shape[1]):
        largest = 0
        for k in range(c.first[n], c.first[n + 1]):
            u = c.tasks[k]
            if c.may_leave[u] and s.x[u] == n:
                largest = max(largest, p.request[u, r])
        enough &= p.request[t, r] <= s.free[n, r] + moves * largest
    return enough
