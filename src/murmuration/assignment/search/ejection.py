"""Room for a task that fits on no node, with as few moves as possible: a search through chains of
ejections.

**The idea.** To open a node for a task, tasks are taken from it until the first fits; what was
taken looks for another node, which may have to be opened in turn. The number of tasks that may be
taken grows from zero (iterative deepening), so the first chain that works has the fewest moves
unless the bound on evaluations cut a smaller number short. No random number is drawn: the plan
repeats.

**The search** is depth-first with backtracking, written as a stack of *frames* because a compiled
kernel that makes no arrays cannot recurse. There are two kinds of frames:

- SETTLE finds a node for one waiting task. First nodes that have room, the fullest first; only if
  there is none, a node to open. So tasks are taken from nodes only where nothing else helps.
- TAKE opens a node: it takes one task from it, and if that is not enough a further TAKE frame takes
  another, from behind the first in the node's list, so that no set of tasks is tried twice.

Both kinds are called again and again by `place_with`. A call first takes back what the frame did
before (the last try led nowhere, or it would not be called), then tries the next possibility and
returns True, and the next frame is on top of it; or there is none left, it returns False, and the
frame below goes on. The search has succeeded when a SETTLE frame has placed its task and nobody is
waiting.

**What keeps it small.** A frame knows how many moves are left and how many of the waiting tasks are
*hard*: had room nowhere when they were first looked at, so that each needs at least one more move.
A task is not taken if that makes more hard tasks than moves left. With one move left only a task
whose leaving is enough is taken. A node is opened only if its largest tasks by each resource, as
many as may be taken, would free enough. Waiting tasks are settled hard ones first, then by size:
who is most likely to fail fails early.

**Rules.** A task is taken only if leaving breaks no rule whatever becomes of it: one that must lie
together with others, or is spread, stays. New tasks obey all their rules. The counters of rules are
kept, other parts of `PlacementState` are not, and are computed again at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from murmuration.assignment.packed import KINDS, Packed, Work
from murmuration.assignment.problem import APART, new_violations
from murmuration.assignment.state import (
    PlacementState,
    count_rules,
    fits,
    load,
    may_use,
    new_state,
    obeys,
)
from murmuration.base.arrays import Flags, Floats, Indices, Integers
from murmuration.base.jit import compiled, inlined

#: Steps of the search for each number of moves, over all tasks and for one; the most moves that are
#: looked for.
EVALUATIONS, EVALUATIONS_MIN, MOVES_MAX = 200_000, 100, 12
#: Every move needs a frame that takes the task and one that settles it, and may open a node.
DEPTH = 3 * MOVES_MAX + 3
#: Where a task fits at once, so many of the fullest nodes are tried.
CLOSEST = 3
#: Whether a task had room on another node when it was first looked at.
UNKNOWN, HARD, EASY = -1, 0, 1
#: The kinds of frames.
SETTLE, TAKE = 0, 1
#: The numbers of a frame:
#: KIND; TASK, which it settles or opens a node for; NODE, tried last or being opened; NEXT, where
#: it goes on in its list of nodes or tasks; COUNT, how many tasks wait beside its own; MOVES, how
#: many are left; HARDS, how many of the waiting are hard; WHICH, for SETTLE where its task stood
#: among the waiting, for TAKE the task it took (−1: none); ENTERED, whether its task is on the node
#: now; FITTED, for SETTLE how many nodes with room were tried, −1 if there was none.
KIND, TASK, NODE, NEXT, COUNT, MOVES, HARDS, WHICH, ENTERED, FITTED = range(10)


class ChainSearch(NamedTuple):
    """What a search of chains works on beside the placement."""

    first: Indices  # node + 1: where the tasks begin that were on it
    tasks: Indices
    may_leave: Flags
    size: Floats  # task: its largest share of a mean node
    waiting: Indices  # tasks taken and not placed yet
    ease: Integers  # task: UNKNOWN, HARD or EASY
    order: Indices  # nodes, those that lack least for the new task first
    frames: Integers  # depth × numbers of a frame
    gap: Floats  # depth: what the last node tried would have left


class Room(NamedTuple):
    """A placement with as many new tasks as possible, and how many tasks it moves."""

    node_of: Indices
    moves: int


def make_room(
    work: Work,
    evaluations: int = EVALUATIONS,
    moves_max: float = np.inf,
    stopped: Callable[[], bool] = lambda: False,
) -> Room:
    """Place what has no node, largest first, each with the fewest moves and all together with at
    most `moves_max`; what fits nowhere stays without."""
    p = work.packed
    s = new_state(p)
    x = p.start.astype(np.int32)
    load(p, s, x)
    size = (p.request / np.maximum(p.total.mean(axis=0), 1)).max(axis=1)
    waiting = [t for t in p.movable.tolist() if x[t] < 0]
    # The bound is shared: where hundreds wait, most of them wait in vain.
    each = max(evaluations // max(len(waiting), 1), min(evaluations, EVALUATIONS_MIN))
    # Tasks like one that failed are not tried until a placement has changed something.
    infeasible: set[bytes] = set()
    for t in sorted(waiting, key=lambda t: (-size[t], t)):
        alike = np.append(
            p.request[t], [p.class_of[t], *p.rule_list[p.rule_first[t] : p.rule_first[t + 1]]]
        ).tobytes()
        if alike in infeasible:
            continue
        if stopped():
            break
        left = moves_max - ((p.start >= 0) & (s.x != p.start)).sum()
        if _place(work, s, t, size, each, left):
            infeasible.clear()
        else:
            infeasible.add(alike)
    node_of = work.restore(s.x)
    moved = (work.problem.node_of >= 0) & (node_of != work.problem.node_of)
    return Room(node_of, int(moved.sum()))


def _place(
    work: Work, s: PlacementState, t: int, size: Floats, evaluations: int, moves_max: float
) -> bool:
    """Place one task, or leave all as it was; whether it was placed."""
    p, before = work.packed, s.x.copy()
    chain = _new_chain(p, s, t, size)
    for moves in range(int(min(MOVES_MAX, moves_max)) + 1):
        if place_with(p, s, chain, t, moves, evaluations):
            after = s.x.copy()
            # The kernel looks at each move by itself; the plain rules have the last word.
            worse = bool(new_violations(work.problem, work.restore(after), work.restore(before)))
            load(p, s, before if worse else after)
            return not worse
        assert np.array_equal(s.x, before), "a search that fails leaves all as it was"
    return False


def _new_chain(p: Packed, s: PlacementState, t: int, size: Floats) -> ChainSearch:
    """The search of one task's chain, from the placement as it is."""
    placed = np.flatnonzero(s.x >= 0)
    by_node = placed[np.argsort(s.x[placed], kind="stable")]
    first = np.searchsorted(s.x[by_node], np.arange(len(p.total) + 1)).astype(np.int64)
    lacking = np.maximum(p.request[t] - s.free, 0) / np.maximum(p.total, 1)
    may_leave = np.zeros(len(s.x), dtype=np.bool_)
    may_leave[p.movable] = True
    may_leave[_bound_by_rules(p)] = False
    return ChainSearch(
        first=first,
        tasks=by_node,
        may_leave=may_leave,
        size=size,
        waiting=np.zeros(MOVES_MAX + 2, dtype=np.int64),
        ease=np.full(len(s.x), UNKNOWN),
        order=np.argsort(lacking.max(axis=1), kind="stable"),
        frames=np.zeros((DEPTH, FITTED + 1), dtype=np.int64),
        gap=np.zeros(DEPTH),
    )


def _bound_by_rules(p: Packed) -> Indices:
    """Tasks whose leaving could break a rule."""
    task = np.repeat(np.arange(len(p.rule_first) - 1), np.diff(p.rule_first))
    bound: Indices = task[p.rule_kind[p.rule_list] != KINDS[APART]]
    return bound


@compiled
def place_with(
    p: Packed, s: PlacementState, c: ChainSearch, t: int, moves: int, evaluations: int
) -> bool:
    """Place a task with at most so many moves of others; if there is no way, nothing changes."""
    c.waiting[0] = t
    c.ease[t] = HARD
    depth, left = 0, evaluations
    push_settle(c, 0, 1, moves, 1)
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
def push_settle(c: ChainSearch, depth: int, count: int, moves: int, hard: int) -> None:
    """A frame that finds a node for one of the waiting tasks: a hard one, else the largest.

    The task is taken out of the list by moving the last one to its place; `try_node` puts both back
    when the frame gives up.
    """
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
def try_node(p: Packed, s: PlacementState, c: ChainSearch, depth: int, left: int) -> bool:
    """The next node for a waiting task: one with room, the fullest first; if there is none, one to
    open.

    The last task to be settled needs one node with room and no more: where it lies changes nothing
    for others. When nothing is left of the evaluations, every frame only takes back what it did.
    """
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
                push_settle(c, depth + 1, count, moves, frame[HARDS])
            return True
        # No node had room at all: from now on nodes are opened. Else all with room were tried.
        frame[FITTED] = -1 if frame[FITTED] == 0 else CLOSEST
    while left >= 0 and frame[FITTED] == -1 and moves > 0 and frame[NEXT] < c.order.shape[0]:
        n = c.order[frame[NEXT]]
        frame[NEXT] += 1
        if may_use(p, t, n) and n != p.start[t] and could_hold(p, s, c, t, n, moves):
            push_take(c, depth + 1, t, n, c.first[n], count, moves, frame[HARDS])
            return True
    c.waiting[count] = c.waiting[frame[WHICH]]
    c.waiting[frame[WHICH]] = t
    return False


@inlined
def push_take(
    c: ChainSearch, depth: int, t: int, n: int, begin: int, count: int, moves: int, hard: int
) -> None:
    """A frame that takes tasks from a node, from place `begin` of the list on, until another fits
    there."""
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
def try_taking(p: Packed, s: PlacementState, c: ChainSearch, depth: int, left: int) -> bool:
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
        # Who came to this node during the search is not in its list, and who left is not there.
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
            push_settle(c, depth + 1, count + 1, moves - 1, hard)
        else:
            push_take(c, depth + 1, t, n, frame[NEXT], count + 1, moves - 1, hard)
        return True
    return False


@inlined
def put(p: Packed, s: PlacementState, t: int, n: int) -> None:
    """Put a task on a node, keeping only what this search reads."""
    s.x[t] = n
    for r in range(s.free.shape[1]):
        s.free[n, r] -= p.request[t, r]
    if p.rule_first[t] < p.rule_first[t + 1]:
        count_rules(p, s, t, n, 1)


@inlined
def take(p: Packed, s: PlacementState, t: int) -> None:
    """Take a task from its node, keeping only what this search reads."""
    n: Any = np.int64(s.x[t])
    s.x[t] = -1
    for r in range(s.free.shape[1]):
        s.free[n, r] += p.request[t, r]
    if p.rule_first[t] < p.rule_first[t + 1]:
        count_rules(p, s, t, n, -1)


@inlined
def room_for(p: Packed, s: PlacementState, t: int, n: int) -> bool:
    """Whether a task may lie on a node as things are."""
    if not (fits(p, s, t, n) and may_use(p, t, n)):
        return False
    return p.rule_first[t] == p.rule_first[t + 1] or obeys(p, s, t, n)


@inlined
def is_hard(p: Packed, s: PlacementState, c: ChainSearch, t: int) -> int:
    """1 if no node but its own had room for a task when this was first asked.

    Room may have appeared since, so a hard task may need no further move after all, and a chain may
    be passed over. What it prunes is worth more: without it, most of the time goes into chains that
    take more tasks than they can settle.
    """
    if c.ease[t] == UNKNOWN:
        c.ease[t] = HARD
        for n in range(p.total.shape[0]):
            if n != s.x[t] and room_for(p, s, t, n):
                c.ease[t] = EASY
                break
    return 1 if c.ease[t] == HARD else 0


@inlined
def closest(p: Packed, s: PlacementState, t: int, after: float, passed: int) -> tuple[int, float]:
    """The next node with room for a task, by what would be left there, then by number; −1 if there
    is none. `after` and `passed` are the gap and number of the one before, so that no list of nodes
    has to be kept."""
    best, best_gap = -1, np.inf
    for n in range(p.total.shape[0]):
        if n == p.start[t] or not fits(p, s, t, n):
            continue
        gap = 0.0
        for r in range(p.total.shape[1]):
            gap += (s.free[n, r] - p.request[t, r]) * p.inverse[n, r]
        later = gap > after or (gap == after and n > passed)
        if gap < best_gap and later and room_for(p, s, t, n):
            best, best_gap = n, gap
    return best, best_gap


@inlined
def covers(p: Packed, s: PlacementState, t: int, u: int, n: int) -> bool:
    """Whether a task would fit on a node without another one."""
    enough = True
    for r in range(p.total.shape[1]):
        enough &= p.request[t, r] <= s.free[n, r] + p.request[u, r]
    return enough


@inlined
def could_hold(p: Packed, s: PlacementState, c: ChainSearch, t: int, n: int, moves: int) -> bool:
    """Whether taking as many tasks as may be taken, the largest by each resource, could make a task
    fit on a node. A bound: the largest by CPU and by memory may be different tasks."""
    enough = True
    for r in range(p.total.shape[1]):
        largest = 0
        for k in range(c.first[n], c.first[n + 1]):
            u = c.tasks[k]
            if c.may_leave[u] and s.x[u] == n:
                largest = max(largest, p.request[u, r])
        enough &= p.request[t, r] <= s.free[n, r] + moves * largest
    return enough
