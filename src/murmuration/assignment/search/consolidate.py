"""Fewer nodes in use for the fewest moves: a greedy drain, then ruin and recreate, compiled.

**The drain** is what Karpenter and the cluster autoscaler try: the emptiest node first, emptied if
all its tasks find room on others in use, the largest task first and each on the fullest node that
takes it. Every placement on the way is kept, because each is the answer to "how few moves for so
many nodes".

**Ruin and recreate** starts where the drain ended. A round takes all tasks from a few nodes, and
mostly closes one of these or opens an empty one in exchange; then each task goes home if it can,
else to the fullest node that takes it. The result is kept if it is better, or hardly worse (the
tolerance falls to nothing). What counts is the worth of the nodes in use and then the tasks that
are not at home, so a round that saves no node but sends one task home is progress: moves that buy
nothing are undone on the way.

A task that must lie together with others is never taken out here: while it is out, those it left
would be alone. It leaves a node only by a single legal step of the drain.

The number of rounds depends on the size of the cluster alone, so one seed gives one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from murmuration.assignment.packed import KINDS, Packed
from murmuration.assignment.problem import SPREAD, TOGETHER
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
    skew_after,
    whole,
)
from murmuration.base.arrays import (
    Flags,
    Floats,
    Indices,
    Placement,
    RandomState,
    Scores,
)
from murmuration.base.jit import helper, inlined, loop_kernel
from murmuration.base.random import next_double as plain_next_double
from murmuration.base.random import state as random_state

next_double = helper(plain_next_double)
SPREAD_KIND = KINDS[SPREAD]
#: What the least valuable node is worth, in moves: nodes come first, moves decide between equals.
NODE_WORTH = 1e4
#: Looks at a node for a task, over all rounds, and how many rounds there are at least and at most.
LOOKS, ROUNDS_MIN, ROUNDS_MAX = 4e8, 2_000, 400_000
#: Rounds per task taken out: a small cluster is soon explored.
ROUNDS_EACH = 500
#: How often the best placement of the rounds so far is looked at.
CHUNKS = 200
#: Nodes ruined in a round beside the one that is closed, at most; a node that would take a task is
#: passed over this often, so that rounds differ.
RUINED, PASSED_OVER = 3, 0.08
#: How much worse a placement may be at the start, unless told otherwise.
TOLERANCE = 1.5
#: Placements of a drain that are kept.
KEPT = 64


class RuinRounds(NamedTuple):
    """What rounds of ruin and recreate work on beside the placement."""

    worth: Floats  # node: what it is worth to have it empty, in moves
    size: Floats  # task: its largest share of a mean node
    fixed: Flags  # task: may not be taken out
    broken: Flags  # rule: more than allowed already before the plan
    open: Flags  # node: may take tasks
    out: Indices  # tasks taken out in this round
    home: Indices  # beside `out`: where they were
    nodes: Indices  # nodes ruined in this round
    best_x: Placement  # the best placement so far
    key: Floats  # task: what it is sorted by in this round
    bits: RandomState


def consolidate(
    p: Packed,
    start: Placement,
    worth: Floats,
    moves_max: float,
    rng: RandomState,
    is_reachable: Callable[[Placement], bool],
    stopped: Callable[[], bool] = lambda: False,
    tolerance: float = TOLERANCE,
) -> list[Placement]:
    """Placements with fewer and fewer nodes in use, the best last.

    `worth` says what each node is worth empty, and no more than `moves_max` tasks are away from
    home in any of them. A better placement counts only if it is reachable from the present one.
    `tolerance` is how much worse, in moves, a placement may be at the start and still be gone on
    from.
    """
    if not len(p.movable) or not (worth > 0).any():
        return []
    state = new_state(p)
    rounds = _new_rounds(p, worth, rng)
    stages = _drain_all(p, state, rounds, start, moves_max, stopped)
    best, chunks, each = stages[-1], *_count_rounds(p)
    load(p, state, start)
    for rule in np.flatnonzero(p.rule_kind == SPREAD_KIND).tolist():
        rounds.broken[rule] = current_skew(p, state, rule) > p.rule_limit[rule]
    load(p, state, best)
    lowest = measure(p, state, rounds)
    for k in range(chunks):
        if stopped():
            break
        falling = tolerance * (1.0 - k / chunks)
        value = run_rounds(p, state, rounds, moves_max, each, falling)
        if value >= lowest:
            continue
        if is_reachable(rounds.best_x):
            lowest, best = value, rounds.best_x.copy()
            stages.append(best)
        else:
            load(p, state, best)
    return stages[1:]


def can_drain(p: Packed, nodes: Sequence[int]) -> set[int]:
    """The nodes whose tasks all find room on others as things are, each drained by itself."""
    state, start = new_state(p), p.start.astype(np.int32)
    rounds = _new_rounds(p, np.ones(len(p.total)), random_state(1, "drain"))
    rounds.open[:] = True
    load(p, state, start)
    drained = set()
    for n in nodes:
        if try_drain(p, state, rounds, n, rounds.bits):
            drained.add(n)
    return drained


def worth_of(p: Packed, nodes: float, cost: float, power: float) -> Floats:
    """What it is worth to empty each node by the weights of three objectives, the least of all
    `NODE_WORTH`; zeros if none of them gains by it."""
    gain = nodes + cost * p.price + power * p.idle * p.power_off
    lowest = gain[gain > 0].min(initial=np.inf)
    return np.asarray(gain * (NODE_WORTH / lowest if np.isfinite(lowest) else 0.0))


def _count_rounds(p: Packed) -> tuple[int, int]:
    """How often the best so far is looked at, and how many rounds lie between: a round looks at
    every node for each of the tasks it took out."""
    each = (RUINED + 1) * max(len(p.movable), 1)
    rounds = int(np.clip(LOOKS / each, ROUNDS_MIN, min(ROUNDS_MAX, ROUNDS_EACH * each)))
    return CHUNKS, rounds // CHUNKS


def _new_rounds(p: Packed, worth: Floats, rng: RandomState) -> RuinRounds:
    tasks, nodes = len(p.request), len(p.total)
    fixed = np.ones(tasks, dtype=np.bool_)
    fixed[p.movable] = False
    task = np.repeat(np.arange(tasks), np.diff(p.rule_first))
    fixed[task[p.rule_kind[p.rule_list] == KINDS[TOGETHER]]] = True
    return RuinRounds(
        worth=worth,
        size=(p.request / np.maximum(p.total.mean(axis=0), 1)).max(axis=1),
        fixed=fixed,
        broken=np.zeros(len(p.rule_kind), dtype=np.bool_),
        open=np.zeros(nodes, dtype=np.bool_),
        out=np.zeros(tasks, dtype=np.int64),
        home=np.zeros(tasks, dtype=np.int64),
        nodes=np.zeros(RUINED + 2, dtype=np.int64),
        best_x=np.zeros(tasks, dtype=np.int32),
        key=np.zeros(tasks),
        bits=rng,
    )


def _drain_all(
    p: Packed,
    s: PlacementState,
    rounds: RuinRounds,
    start: Placement,
    moves_max: float,
    stopped: Callable[[], bool],
) -> list[Placement]:
    """The placements of a greedy drain, from the start on; the better of two orders of nodes."""
    drains = []
    for by_size in (True, False):
        load(p, s, start)
        stages = _drain(p, s, rounds, by_size, moves_max, stopped)
        drains.append((measure(p, s, rounds), [start, *stages]))
    return min(drains, key=lambda pair: pair[0])[1]


def _drain(
    p: Packed,
    s: PlacementState,
    rounds: RuinRounds,
    by_size: bool,
    moves_max: float,
    stopped: Callable[[], bool],
) -> list[Placement]:
    """Empty nodes while any can be, the emptiest for its worth first; the placements on the way.

    A drain fills the others, so a node that could not be emptied is tried again only if a pass over
    all of them emptied one.
    """
    stages: list[Placement] = []
    rounds.open[:] = s.tasks > 0
    away, going = int(count_away(p, s)), True
    while going:
        going = False
        for n in _order_nodes(p, s, rounds, by_size):
            if stopped():
                return stages
            if away + s.tasks[n] > moves_max or not drain_node(p, s, rounds, n, rounds.bits):
                continue
            away, going = int(count_away(p, s)), True
            stages.append(s.x.copy())
            stages = stages if len(stages) <= 2 * KEPT else stages[1::2]
    return stages


def _order_nodes(p: Packed, s: PlacementState, rounds: RuinRounds, by_size: bool) -> list[int]:
    """Nodes in use that are worth something empty: those first that hold least for their worth."""
    held = s.tasks.astype(np.float64)
    if by_size:
        held = 2.0 - (s.free * p.inverse)[:, :2].sum(axis=1)
    nodes = np.flatnonzero((s.tasks > 0) & (rounds.worth > 0))
    return [int(n) for n in nodes[np.argsort((held / rounds.worth)[nodes], kind="stable")]]


@loop_kernel
def measure(p: Packed, s: PlacementState, c: RuinRounds) -> float:
    """The worth of the nodes in use and the tasks that are not at home."""
    value = 0.0
    for n in range(s.tasks.shape[0]):
        if s.tasks[n] > 0:
            value += c.worth[n]
    return value + count_away(p, s)


@loop_kernel
def count_away(p: Packed, s: PlacementState) -> float:
    """Tasks that have left their node."""
    away = 0.0
    for t in range(s.x.shape[0]):
        if p.start[t] >= 0 and s.x[t] != p.start[t]:
            away += 1.0
    return away


@helper
def fullest_node(
    p: Packed, s: PlacementState, c: RuinRounds, t: int, skip: float, rng: RandomState
) -> int:
    """The open node that takes a task and has least left then; −1 if there is none."""
    best, best_left = -1, 0.0
    for n in range(p.total.shape[0]):
        if not c.open[n] or n == s.x[t] or not (fits(p, s, t, n) and may_use(p, t, n)):
            continue
        left = 0.0
        for r in range(2):
            left += s.free[n, r] * p.inverse[n, r]
        if best >= 0 and left >= best_left:
            continue
        if skip > 0.0 and next_double(rng) < skip:
            continue
        if not breaks_rule(p, s, t, n):
            best, best_left = n, left
    return best


@helper
def sort_out(c: RuinRounds, count: int, key: Scores) -> None:
    """Put the first `count` tasks of `out` in decreasing order of a key of theirs."""
    for k in range(1, count):
        t, h = c.out[k], c.home[k]
        j = k - 1
        while j >= 0 and key[c.out[j]] < key[t]:
            c.out[j + 1], c.home[j + 1] = c.out[j], c.home[j]
            j -= 1
        c.out[j + 1], c.home[j + 1] = t, h


@helper
def list_tasks(p: Packed, s: PlacementState, c: RuinRounds, n: int, count: int) -> int:
    """Append the movable tasks of a node to `out`; returns how many are there then."""
    for k in range(p.movable.shape[0]):
        t = p.movable[k]
        if s.x[t] == n:
            c.out[count], c.home[count] = t, n
            count += 1
    return count


@helper
def shift_home(p: Packed, s: PlacementState, c: RuinRounds, count: int) -> None:
    """Put the first `count` tasks of `out` back where they were, the last first."""
    for k in range(count - 1, -1, -1):
        t = c.out[k]
        if s.x[t] >= 0:
            remove_task(p, s, t)
    for k in range(count - 1, -1, -1):
        place_task(p, s, c.out[k], c.home[k])


@loop_kernel
def drain_node(p: Packed, s: PlacementState, c: RuinRounds, n: int, rng: RandomState) -> bool:
    """Empty a node step by step, or leave all as it was."""
    count = list_tasks(p, s, c, n, 0)
    if count == 0 or count < s.tasks[n]:
        return False
    sort_out(c, count, c.size)
    c.open[n] = False
    for k in range(count):
        b = fullest_node(p, s, c, c.out[k], 0.0, rng)
        if b < 0:
            shift_home(p, s, c, k)
            c.open[n] = True
            return False
        remove_task(p, s, c.out[k])
        place_task(p, s, c.out[k], b)
    return True


@loop_kernel
def try_drain(p: Packed, s: PlacementState, c: RuinRounds, n: int, rng: RandomState) -> bool:
    """Whether a node can be emptied step by step; all is as it was afterwards."""
    count = list_tasks(p, s, c, n, 0)
    drained = drain_node(p, s, c, n, rng)
    if drained:
        shift_home(p, s, c, count)
        c.open[n] = True
    return drained


@inlined
def draw(rng: RandomState, count: int) -> int:
    """A number from 0 to `count` − 1."""
    return int(next_double(rng) * count)


@helper
def draw_in_use(s: PlacementState, rng: RandomState, sparse: bool) -> int:
    """A node in use; the one with fewer tasks of two if it should be sparse."""
    nodes = s.tasks.shape[0]
    best = -1
    for _ in range(8 * nodes):
        n = draw(rng, nodes)
        if s.tasks[n] == 0:
            continue
        if best < 0 or s.tasks[n] < s.tasks[best]:
            best = n
        if not sparse:
            break
        sparse = False
    return best


@helper
def ruin(p: Packed, s: PlacementState, c: RuinRounds, rng: RandomState) -> tuple[int, int, int]:
    """Take the tasks of a few nodes out; returns how many, the node closed and the one opened."""
    nodes = s.tasks.shape[0]
    closed, opened, listed = -1, -1, 0
    if next_double(rng) < 0.7:
        closed = draw_in_use(s, rng, True)
        c.nodes[listed] = closed
        listed += 1
    for _ in range(1 + draw(rng, RUINED)):
        c.nodes[listed] = draw_in_use(s, rng, False)
        listed += 1
    if next_double(rng) < 0.5:
        n = draw(rng, nodes)
        if s.tasks[n] == 0 and c.worth[n] >= 0.0:
            opened = n
    count = 0
    for k in range(p.movable.shape[0]):
        t = p.movable[k]
        if c.fixed[t] or s.x[t] < 0:
            continue
        ruined = opened >= 0 and p.start[t] == opened
        for j in range(listed):
            ruined |= s.x[t] == c.nodes[j]
        if ruined:
            c.out[count], c.home[count] = t, s.x[t]
            count += 1
    for k in range(count):
        remove_task(p, s, c.out[k])
    return count, closed, opened


@helper
def recreate(p: Packed, s: PlacementState, c: RuinRounds, count: int, rng: RandomState) -> bool:
    """Place the tasks that are out: home where that can be, else on the fullest node; whether all
    have a node."""
    for k in range(count):
        c.key[c.out[k]] = c.size[c.out[k]] * (0.8 + 0.4 * next_double(rng))
    sort_out(c, count, c.key)
    if next_double(rng) < 0.5:
        for k in range(count):
            t = c.out[k]
            n = whole(p.start[t])
            if n >= 0 and c.open[n] and legal(p, s, t, n):
                place_task(p, s, t, n)
    for k in range(count):
        t = c.out[k]
        if s.x[t] >= 0:
            continue
        n = whole(p.start[t])
        if not (n >= 0 and c.open[n] and legal(p, s, t, n)):
            n = fullest_node(p, s, c, t, PASSED_OVER, rng)
        if n < 0:
            return False
        place_task(p, s, t, n)
    return True


@helper
def keep_best(s: PlacementState, c: RuinRounds) -> None:
    """Note the placement loaded as the best so far."""
    for t in range(s.x.shape[0]):
        c.best_x[t] = s.x[t]


@loop_kernel
def current_skew(p: Packed, s: PlacementState, rule: int) -> int:
    """By how much the fullest domain of a spread exceeds the emptiest."""
    return skew_after(p, s, rule, 0, -1, -1)


@helper
def breaks_spread(p: Packed, s: PlacementState, c: RuinRounds, count: int) -> bool:
    """Whether the tasks that were out are spread worse than allowed: while several of one rule are
    out, each may come where it makes nothing worse than that."""
    for k in range(count):
        t = c.out[k]
        for j in range(p.rule_first[t], p.rule_first[t + 1]):
            rule = p.rule_list[j]
            if p.rule_kind[rule] != SPREAD_KIND or c.broken[rule]:
                continue
            if current_skew(p, s, rule) > p.rule_limit[rule]:
                return True
    return False


@helper
def make_round(
    p: Packed, s: PlacementState, c: RuinRounds, value: float, moves_max: float
) -> float:
    """One round from a placement of this value, which may become so much worse and no more;
    returns the value afterwards, infinite if all is as it was."""
    count, closed, opened = ruin(p, s, c, c.bits)
    if opened >= 0:
        c.open[opened] = True
    if closed >= 0:
        c.open[closed] = False
    complete = closed < 0 or s.tasks[closed] == 0
    complete = complete and recreate(p, s, c, count, c.bits) and not breaks_spread(p, s, c, count)
    after = measure(p, s, c) if complete else np.inf
    if after > value or count_away(p, s) > moves_max:
        shift_home(p, s, c, count)
        after = np.inf
    if closed >= 0:
        c.open[closed] = s.tasks[closed] > 0
    if opened >= 0:
        c.open[opened] = s.tasks[opened] > 0
    for j in range(count):
        c.open[c.home[j]] = s.tasks[c.home[j]] > 0
    return after


@loop_kernel
def run_rounds(
    p: Packed, s: PlacementState, c: RuinRounds, moves_max: float, rounds: int, tolerance: float
) -> float:
    """Rounds of ruin and recreate from the placement loaded; `best_x` has the best of them, whose
    value is returned."""
    for n in range(s.tasks.shape[0]):
        c.open[n] = s.tasks[n] > 0
    value = measure(p, s, c)
    lowest = value
    keep_best(s, c)
    for _ in range(rounds):
        after = make_round(p, s, c, value + tolerance * next_double(c.bits), moves_max)
        if after == np.inf:
            continue
        value = after
        if value < lowest:
            lowest = value
            keep_best(s, c)
    return lowest
