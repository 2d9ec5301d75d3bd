"""Local search and recombination, compiled: every placement they make is allowed, so nothing has to
be repaired after.

A local search makes *shifts* (a task to a node) and *swaps* (two tasks change places). A swap
reaches what no chain of shifts does on full nodes. Swaps are left to tasks without rules and of
different services: what a rule would say of two tasks that move at once cannot be told from its
counters, and two replicas that change places change nothing.

A crossover takes a stretch of tasks from another parent. Replicas of a service lie side by side, so
a stretch takes most services whole. A task that loses its place by it is put on the best of a few
nodes drawn at random, else on the best of all; a child that cannot place all that its parent placed
is given up for its parent. So a search never trades away that everything is placed.

A search that wants fewer nodes in use (by nodes, cost, or power with nodes switched off) cannot get
there by single moves: each one from a node makes things worse until the last. `vacate` empties a
whole node and looks at the sum.
"""

from __future__ import annotations

from murmuration.assignment.objectives import COST, NODES
from murmuration.assignment.packed import Packed
from murmuration.assignment.state import (
    PlacementState,
    breaks_rule,
    change,
    fits,
    fits_without,
    flag,
    legal,
    load,
    may_use,
    place_task,
    remove_task,
    swap_change,
    whole,
)
from murmuration.base.arrays import (
    Floats,
    Indices,
    Placement,
    Placements,
    RandomState,
    Weights,
)
from murmuration.base.jit import helper, inlined, loop_kernel
from murmuration.base.random import next_double as plain_next_double

next_double = helper(plain_next_double)
#: A change must be below this to be a gain; what is nearer to zero is rounding, and would let a
#: search go round in a circle.
GAIN = -1e-12
#: What counts as a change of a single objective, in the unit of that objective.
TOLERANCE = 1e-9
#: Nodes drawn at random for a task before all are looked at.
SAMPLED = 12


@inlined
def draw(rng: RandomState, count: int) -> int:
    """A number from 0 to `count` − 1."""
    return int(next_double(rng) * count)


@inlined
def has_no_rule(p: Packed, t: int) -> bool:
    """Whether a task takes part in no rule."""
    return p.rule_first[t] == p.rule_first[t + 1]  # type: ignore[no-any-return]


@inlined
def try_shift(p: Packed, s: PlacementState, w: Weights, t: int, b: int) -> bool:
    """Move a task to a node if that is allowed and better."""
    done = False
    if (
        b != s.x[t]
        and fits(p, s, t, b)
        and may_use(p, t, b)
        and change(p, s, w, t, b) < GAIN
        and not breaks_rule(p, s, t, b)
    ):
        if s.x[t] >= 0:
            remove_task(p, s, t)
        place_task(p, s, t, b)
        done = True
    return done


@helper
def may_swap(p: Packed, s: PlacementState, t: int, u: int) -> bool:
    """Whether two tasks without rules may change places."""
    a, b = whole(s.x[t]), whole(s.x[u])
    return (
        a >= 0
        and b >= 0
        and a != b
        and p.group[t] != p.group[u]
        and fits_without(p, s, t, b, u)
        and fits_without(p, s, u, a, t)
        and may_use(p, t, b)
        and may_use(p, u, a)
        and has_no_rule(p, t)
        and has_no_rule(p, u)
    )


@helper
def swap(p: Packed, s: PlacementState, t: int, u: int) -> None:
    """Let two placed tasks change places."""
    a, b = whole(s.x[t]), whole(s.x[u])
    remove_task(p, s, t)
    remove_task(p, s, u)
    place_task(p, s, t, b)
    place_task(p, s, u, a)


@inlined
def try_swap(p: Packed, s: PlacementState, w: Weights, t: int, u: int) -> bool:
    """Two tasks without rules change places if that is allowed and better."""
    done = False
    if may_swap(p, s, t, u) and swap_change(p, s, w, t, u) < GAIN:
        swap(p, s, t, u)
        done = True
    return done


@loop_kernel
def improve(p: Packed, s: PlacementState, w: Weights, tries: int, rng: RandomState) -> int:
    """Random shifts and swaps that make the weighted sum smaller; returns how many were made."""
    nodes, movable = p.total.shape[0], p.movable.shape[0]
    made = 0
    if movable == 0:
        return 0
    for _ in range(tries):
        t = p.movable[draw(rng, movable)]
        if next_double(rng) < 0.5:
            made += try_shift(p, s, w, t, draw(rng, nodes))
        else:
            made += try_swap(p, s, w, t, p.movable[draw(rng, movable)])
    return made


@helper
def dominates(p: Packed, s: PlacementState, units: Floats, t: int, b: int, u: int) -> bool:
    """Whether a shift to b, or a swap with u, makes nothing worse and something better.

    A row of `units` weighs one objective alone.
    """
    better, worse = False, False
    for k in range(units.shape[0]):
        by = change(p, s, units[k], t, b) if u < 0 else swap_change(p, s, units[k], t, u)
        worse |= by > TOLERANCE
        better |= by < -TOLERANCE
    return better and not worse


@loop_kernel
def refine(p: Packed, s: PlacementState, units: Floats, tries: int, rng: RandomState) -> int:
    """Random shifts and swaps that make nothing worse and something better; returns how many were
    made."""
    nodes, movable = p.total.shape[0], p.movable.shape[0]
    made = 0
    for _ in range(tries if movable > 0 else 0):
        t, b, u = p.movable[draw(rng, movable)], draw(rng, nodes), p.movable[draw(rng, movable)]
        if next_double(rng) < 0.5:
            if (
                s.x[t] >= 0
                and legal(p, s, t, b)
                and s.x[t] != b
                and dominates(p, s, units, t, b, whole(-1))
            ):
                remove_task(p, s, t)
                place_task(p, s, t, b)
                made += 1
        elif may_swap(p, s, t, u) and dominates(p, s, units, t, b, whole(u)):
            swap(p, s, t, u)
            made += 1
    return made


@loop_kernel
def best_node(
    p: Packed, s: PlacementState, w: Weights, t: int, sampled: int, in_use: bool, rng: RandomState
) -> int:
    """The best other node a task may use, of some drawn at random, else of all (with `in_use`, of
    those that have a task); −1 if there is none."""
    nodes = p.total.shape[0]
    best, best_value = -1, 0.0
    for k in range(sampled + nodes):
        if k == sampled and best >= 0:
            break
        n = draw(rng, nodes) if k < sampled else k - sampled
        if n != s.x[t] and (s.tasks[n] > 0 or not in_use) and fits(p, s, t, n) and may_use(p, t, n):
            value = change(p, s, w, t, n)
            if (best < 0 or value < best_value) and not breaks_rule(p, s, t, n):
                best, best_value = n, value
    return best


@helper
def change_of_shift(p: Packed, s: PlacementState, w: Weights, t: int, n: int) -> float:
    """`change`, compiled once for kernels in which inlining it would cost more than it saves."""
    return change(p, s, w, t, n)


@loop_kernel
def place_list(
    p: Packed, s: PlacementState, w: Weights, out: Indices, count: int, rng: RandomState
) -> int:
    """Give the first `count` tasks of a list nodes, in turn; returns how many are left without."""
    unplaced = 0
    for k in range(count):
        n = best_node(p, s, w, out[k], whole(SAMPLED), flag(False), rng)
        if n >= 0:
            place_task(p, s, out[k], n)
        else:
            unplaced += 1
    return unplaced


@loop_kernel
def relieve(p: Packed, s: PlacementState, w: Weights, rng: RandomState) -> int:
    """Move tasks from nodes that are asked for more than they have to others; returns how many were
    moved."""
    moved = 0
    for k in range(p.movable.shape[0]):
        t = p.movable[k]
        a = s.x[t]
        if a < 0:
            continue
        over = False
        for r in range(s.free.shape[1]):
            over |= s.free[a, r] < 0 and p.request[t, r] > 0
        if over:
            n = best_node(p, s, w, t, whole(SAMPLED), flag(False), rng)
            if n >= 0:
                remove_task(p, s, t)
                place_task(p, s, t, n)
                moved += 1
    return moved


@loop_kernel
def place_unplaced(p: Packed, s: PlacementState, w: Weights, rng: RandomState) -> int:
    """Give every task without a node the best one; returns how many have none still."""
    unplaced = 0
    for k in range(p.movable.shape[0]):
        t = p.movable[k]
        if s.x[t] < 0:
            n = best_node(p, s, w, t, whole(0), flag(False), rng)
            if n >= 0:
                place_task(p, s, t, n)
            else:
                unplaced += 1
    return unplaced


@loop_kernel
def cross(
    p: Packed,
    s: PlacementState,
    other: Placement,
    w: Weights,
    begin: int,
    end: int,
    rng: RandomState,
    out: Indices,
) -> int:
    """Take the nodes of a stretch of tasks from another parent; returns how many tasks are left
    without a node by it.

    All of them leave before the first comes, so that they do not stand in each other's way. Tasks
    with rules keep their places: together they might break one although each may come by itself.
    `out` is room for a list of tasks.
    """
    count = 0
    for t in range(begin, end):
        if s.x[t] >= 0 and other[t] >= 0 and other[t] != s.x[t] and has_no_rule(p, t):
            out[count] = t
            count += 1
    for k in range(count):
        remove_task(p, s, out[k])
    left = whole(0)
    for k in range(count):
        t, n = out[k], whole(other[out[k]])
        if legal(p, s, t, n):
            place_task(p, s, t, n)
        else:
            out[left] = t
            left += 1
    return place_list(p, s, w, out, left, rng)


@loop_kernel
def vacate(p: Packed, s: PlacementState, w: Weights, rng: RandomState, out: Indices) -> bool:
    """Empty a node into others in use, if that makes the weighted sum smaller.

    The node is the one with the fewest tasks of a few drawn. If it cannot be emptied, or the sum of
    all changes is no gain, its tasks go back in the opposite order.
    """
    n = draw(rng, p.total.shape[0])
    for _ in range(3):
        m = draw(rng, p.total.shape[0])
        if s.tasks[m] > 0 and (s.tasks[n] == 0 or s.tasks[m] < s.tasks[n]):
            n = m
    count, total, done = 0, 0.0, s.tasks[n] > 0
    for k in range(p.movable.shape[0]):
        t = p.movable[k]
        if s.x[t] != n:
            continue
        b = best_node(p, s, w, t, whole(0), flag(True), rng)
        if b < 0:
            done = False
            break
        total += change_of_shift(p, s, w, t, b)
        out[count] = t
        count += 1
        remove_task(p, s, t)
        place_task(p, s, t, b)
    if done and s.tasks[n] == 0 and total < GAIN:
        return True
    for k in range(count - 1, -1, -1):
        remove_task(p, s, out[k])
        place_task(p, s, out[k], n)
    return False


@loop_kernel
def breed(
    p: Packed,
    s: PlacementState,
    parents: Placements,
    pairs: Indices,
    weights: Weights,
    tries: int,
    rng: RandomState,
    out: Indices,
    children: Placements,
) -> None:
    """One child of each pair of parents: crossover, then local search by the child's weights, a row
    of `weights` each."""
    tasks = p.request.shape[0]
    for c in range(children.shape[0]):
        w = weights[c]
        first, second = parents[pairs[c, 0]], parents[pairs[c, 1]]
        load(p, s, first)
        begin, end = draw(rng, tasks), tasks
        if next_double(rng) < 0.5:
            begin, end = 0, begin
        if pairs[c, 0] != pairs[c, 1] and cross(p, s, second, w, begin, end, rng, out) > 0:
            load(p, s, first)
        if w[NODES] > 0.0 or w[COST] > 0.0 or p.power_off:
            for _ in range(4):
                vacate(p, s, w, rng, out)
        improve(p, s, w, tries, rng)
        for t in range(tasks):
            children[c, t] = s.x[t]
