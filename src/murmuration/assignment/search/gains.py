"""Moves that are worth making: the best few, and those of a plan that buy nothing.

**The best first.** `best_moves` makes the single move that gains most, then the next, and so on, so
that a plan of five moves is not a plan of five hundred cut short. What a task would gain is
remembered and looked at again only when the task comes to the top of the list: moves of others
change few gains, and those mostly for the worse. No objective may end above where it began.

**Moves that buy nothing.** `undo_moves` sends tasks home while no objective becomes worse by it,
and `match_replicas` lets replicas that are alike swap roles, so that as many as possible stay.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np

from murmuration.assignment.objectives import COUNT, MEGABYTES, MOVES
from murmuration.assignment.packed import Packed
from murmuration.assignment.search.few import best_few
from murmuration.assignment.search.improve import GAIN, TOLERANCE, change_of_shift
from murmuration.assignment.state import (
    PlacementState,
    breaks_rule,
    fits,
    legal,
    load,
    may_use,
    new_state,
    place_task,
    remove_task,
    whole,
)
from murmuration.base.arrays import Floats, Indices, Placement, Weights
from murmuration.base.jit import helper, loop_kernel

#: Looks at a node for a task when the gains of all tasks are computed, and how many single moves
#: are made at most.
LOOKS, STEPS_MAX = 1e8, 2_000
#: Looks at a node for the first few tasks of a large cluster, about a second.
FIRST_LOOKS = 2e6
#: Rounds in which each of a limited number of moves is exchanged for a better one.
EXCHANGES = 5


def best_moves(
    p: Packed,
    start: Placement,
    weights: Weights,
    counted: Indices,
    moves_max: float,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Placement]:
    """Placements with one move more each, the best moves first, as long as there is a gain.

    `weights` says what an objective is worth, and none of the `counted` becomes worse than at the
    start. Under a limit each of the last moves has been exchanged for better ones. In a large
    cluster the best moves of a few tasks come first, in case there is no time for all.
    """
    state, units = new_state(p), np.eye(COUNT)[counted]
    slack = np.zeros(len(units))
    steps = int(min(moves_max, STEPS_MAX, len(p.movable)))
    for tasks in _list_waves(p):
        load(p, state, start)
        slack[:] = 0.0
        for _ in _make_best(p, state, weights, units, slack, steps, tasks, stopped):
            yield state.x.copy()
    if stopped() or not np.isfinite(moves_max):
        return
    if _exchange(p, state, weights, units, slack):
        yield state.x.copy()
    few = best_few(p, start, weights, counted, moves_max, stopped)
    if few is not None:
        yield few


def _stride(p: Packed) -> int:
    """Every how many-th node is looked at for a task: all of them unless the cluster is large."""
    return int(max(1.0, len(p.movable) * len(p.total) // LOOKS))


def _list_waves(p: Packed) -> list[Indices]:
    """The tasks to look at: all that may move, and before them a few if that takes long."""
    every = len(p.movable) * len(p.total) // _stride(p) // int(FIRST_LOOKS)
    return [p.movable] if every <= 1 else [p.movable[::every], p.movable]


def _make_best(
    p: Packed,
    s: PlacementState,
    weights: Weights,
    units: Floats,
    slack: Floats,
    steps: int,
    tasks: Indices,
    stopped: Callable[[], bool],
) -> Iterator[int]:
    """Make the best moves one by one, each task at most once; yields the task."""
    stride = _stride(p)
    queue: list[tuple[float, int]] = []
    for t in tasks.tolist():
        if stopped():
            return
        if s.x[t] >= 0 and s.x[t] == p.start[t]:
            n, gain = best_shift(p, s, weights, units, slack, t, stride)
            if n >= 0:
                heapq.heappush(queue, (gain, t))
    made = 0
    while queue and made < steps and not stopped():
        _, t = heapq.heappop(queue)
        n, gain = best_shift(p, s, weights, units, slack, t, stride)
        if n < 0:
            continue
        if queue and gain > queue[0][0] + 1e-15:
            heapq.heappush(queue, (gain, t))
            continue
        make_shift(p, s, units, slack, t, n)
        made += 1
        yield t


def _exchange(p: Packed, s: PlacementState, weights: Weights, units: Floats, slack: Floats) -> bool:
    """Take each move back and make the best one there is instead; whether that gained anything."""
    moved = np.flatnonzero((p.start >= 0) & (s.x != p.start))
    looks = len(moved) * len(p.movable) * len(p.total) / _stride(p)
    rounds = int(min(EXCHANGES, LOOKS // max(looks, 1)))
    for k in range(rounds):
        moved = np.flatnonzero((p.start >= 0) & (s.x != p.start))
        if not sum([_exchange_one(p, s, weights, units, slack, t) for t in moved.tolist()]):
            return k > 0
    return rounds > 0


def _exchange_one(
    p: Packed, s: PlacementState, weights: Weights, units: Floats, slack: Floats, t: int
) -> bool:
    """Send a task home and make the best move of all instead, if that gains something."""
    before, saved, home = s.x.copy(), slack.copy(), int(p.start[t])
    if not can_shift(p, s, t, home):
        return False
    back = shift_gain(p, s, weights, t, home)
    make_shift(p, s, units, slack, t, home)
    task, node, gain = best_of_all(p, s, weights, units, slack, _stride(p))
    if task >= 0 and back + gain < GAIN:
        make_shift(p, s, units, slack, task, node)
        return True
    load(p, s, before)
    slack[:] = saved
    return False


@loop_kernel
def shift_gain(p: Packed, s: PlacementState, w: Weights, t: int, n: int) -> float:
    """By how much the weighted sum changes when a task goes to a node."""
    return change_of_shift(p, s, w, t, n)


@loop_kernel
def can_shift(p: Packed, s: PlacementState, t: int, n: int) -> bool:
    """Whether a task may go to a node it is not on."""
    return legal(p, s, t, n)


@helper
def stays_within(
    p: Packed, s: PlacementState, units: Floats, slack: Floats, t: int, n: int
) -> bool:
    """Whether no objective rises above where it began when a task goes to a node."""
    for k in range(units.shape[0]):
        if slack[k] + change_of_shift(p, s, units[k], t, n) > TOLERANCE:
            return False
    return True


@loop_kernel
def best_shift(
    p: Packed, s: PlacementState, w: Weights, units: Floats, slack: Floats, t: int, stride: int
) -> tuple[int, float]:
    """The node a task gains most by going to, and the change then; −1 if none is a gain."""
    best, best_value = -1, GAIN
    for k in range(t % stride, p.total.shape[0], stride):
        n = whole(k)
        if n == s.x[t] or not (fits(p, s, t, n) and may_use(p, t, n)):
            continue
        value = change_of_shift(p, s, w, t, n)
        if (
            value < best_value
            and stays_within(p, s, units, slack, t, n)
            and not breaks_rule(p, s, t, n)
        ):
            best, best_value = n, value
    return best, best_value


@loop_kernel
def best_of_all(
    p: Packed, s: PlacementState, w: Weights, units: Floats, slack: Floats, stride: int
) -> tuple[int, int, float]:
    """The task at home that gains most by a move, where it goes, and the change."""
    task, node, lowest = -1, -1, 0.0
    for k in range(p.movable.shape[0]):
        t = p.movable[k]
        if s.x[t] < 0 or s.x[t] != p.start[t]:
            continue
        n, value = best_shift(p, s, w, units, slack, t, stride)
        if n >= 0 and value < lowest:
            task, node, lowest = t, n, value
    return task, node, lowest


@loop_kernel
def make_shift(p: Packed, s: PlacementState, units: Floats, slack: Floats, t: int, n: int) -> None:
    """Move a task, and note what that changes of each objective."""
    for k in range(units.shape[0]):
        slack[k] += change_of_shift(p, s, units[k], t, n)
    remove_task(p, s, t)
    place_task(p, s, t, n)


def keep_at_home(p: Packed, placement: Placement, counted: Indices) -> Placement:
    """The same placement without the moves that buy nothing by the objectives that count."""
    state = new_state(p)
    load(p, state, match_replicas(p, placement))
    undo_moves(p, state, np.eye(COUNT)[[k for k in counted if k not in (MOVES, MEGABYTES)]])
    return state.x.copy()


@loop_kernel
def undo_moves(p: Packed, s: PlacementState, units: Floats) -> int:
    """Send tasks home while that is legal and makes no objective worse; returns how many went."""
    made, before = 0, -1
    while made != before:
        before = made
        for k in range(p.movable.shape[0]):
            t = p.movable[k]
            home = whole(p.start[t])
            if home < 0 or s.x[t] < 0 or s.x[t] == home or not legal(p, s, t, home):
                continue
            worse = False
            for j in range(units.shape[0]):
                worse |= change_of_shift(p, s, units[j], t, home) > TOLERANCE
            if not worse:
                remove_task(p, s, t)
                place_task(p, s, t, home)
                made += 1
    return made


def match_replicas(p: Packed, placement: Placement) -> Placement:
    """The same numbers of alike tasks on each node, with as many of them as possible at home."""
    alike: dict[bytes, list[int]] = defaultdict(list)
    moved = np.zeros(len(placement), dtype=np.bool_)
    moved[p.movable] = (p.start >= 0)[p.movable]
    for t in np.flatnonzero(moved & (placement != p.start) & (placement >= 0)).tolist():
        alike[_mark(p, t)].append(t)
    matched = placement.copy()
    for tasks in alike.values():
        _match(p, matched, tasks)
    return matched


def _mark(p: Packed, t: int) -> bytes:
    """What two tasks have in common if neither a node nor a rule can tell them apart."""
    rules = slice(p.rule_first[t], p.rule_first[t + 1])
    kind = [p.group[t], p.class_of[t], *p.rule_list[rules], *p.rule_role[rules]]
    return np.append(p.request[t], kind).tobytes()


def _match(p: Packed, matched: Placement, tasks: list[int]) -> None:
    """Let tasks that are alike exchange their new nodes so that those whose home is among them
    stay."""
    nodes = [int(matched[t]) for t in tasks]
    left = []
    for t in tasks:
        if int(p.start[t]) in nodes:
            nodes.remove(int(p.start[t]))
            matched[t] = p.start[t]
        else:
            left.append(t)
    # Each of these nodes was another's new one, so their class allows it.
    for t, n in zip(left, nodes, strict=True):
        matched[t] = n
