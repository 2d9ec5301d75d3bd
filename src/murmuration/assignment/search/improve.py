"""Local search and recombination, compiled: every placement they make is allowed, so nothing has to
be repaired after.

A task that loses its place is put back on the best of a few nodes drawn at random, else on the best
of all; a child that cannot place all that its parent placed is given up for its parent.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from murmuration.assignment.evaluate import COST, NODES
from murmuration.assignment.packed import Packed
from murmuration.assignment.state import (
    State,
    change,
    enter,
    fits,
    fits_without,
    flag,
    leave,
    legal,
    load,
    may_use,
    ruled_out,
    swap_change,
    whole,
)
from murmuration.base.jit import helper, inlined, loop_kernel
from murmuration.base.random import next_double as plain_next_double

Array = NDArray[Any]
next_double = helper(plain_next_double)
#: A gain below this is rounding.
LEAST_GAIN = -1e-12
#: What counts as a change of a single objective, in its own unit.
TOLERANCE = 1e-9
SAMPLED = 12


@inlined
def draw(rng: Array, count: int) -> int:
    return int(next_double(rng) * count)


@inlined
def plain_task(p: Packed, t: int) -> bool:
    return p.rule_first[t] == p.rule_first[t + 1]  # type: ignore[no-any-return]


@inlined
def try_shift(p: Packed, s: State, w: Array, t: int, b: int) -> bool:
    done = False
    if (
        b != s.x[t]
        and fits(p, s, t, b)
        and may_use(p, t, b)
        and change(p, s, w, t, b) < LEAST_GAIN
        and not ruled_out(p, s, t, b)
    ):
        if s.x[t] >= 0:
            leave(p, s, t)
        enter(p, s, t, b)
        done = True
    return done


@helper
def may_swap(p: Packed, s: State, t: int, u: int) -> bool:
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
        and plain_task(p, t)
        and plain_task(p, u)
    )


@helper
def swap(p: Packed, s: State, t: int, u: int) -> None:
    a, b = whole(s.x[t]), whole(s.x[u])
    leave(p, s, t)
    leave(p, s, u)
    enter(p, s, t, b)
    enter(p, s, u, a)


@inlined
def try_swap(p: Packed, s: State, w: Array, t: int, u: int) -> bool:
    """Two tasks without rules change places if that is allowed and better."""
    done = False
    if may_swap(p, s, t, u) and swap_change(p, s, w, t, u) < LEAST_GAIN:
        swap(p, s, t, u)
        done = True
    return done


@loop_kernel
def improve(p: Packed, s: State, w: Array, tries: int, rng: Array) -> int:
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
def dominates(p: Packed, s: State, units: Array, t: int, b: int, u: int) -> bool:
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
def refine(p: Packed, s: State, units: Array, tries: int, rng: Array) -> int:
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
                leave(p, s, t)
                enter(p, s, t, b)
                made += 1
        elif may_swap(p, s, t, u) and dominates(p, s, units, t, b, whole(u)):
            swap(p, s, t, u)
            made += 1
    return made


@loop_kernel
def best_node(p: Packed, s: State, w: Array, t: int, sampled: int, in_use: bool, rng: Array) -> int:
    """The best other node a task may use, of some drawn at random, else of all; −1 if there is
    none."""
    nodes = p.total.shape[0]
    best, least = -1, 0.0
    for k in range(sampled + nodes):
        if k == sampled and best >= 0:
            break
        n = draw(rng, nodes) if k < sampled else k - sampled
        if n != s.x[t] and (s.tasks[n] > 0 or not in_use) and fits(p, s, t, n) and may_use(p, t, n):
            value = change(p, s, w, t, n)
            if (best < 0 or value < least) and not ruled_out(p, s, t, n):
                best, least = n, value
    return best


@helper
def change_by(p: Packed, s: State, w: Array, t: int, n: int) -> float:
    return change(p, s, w, t, n)


@loop_kernel
def put_back(p: Packed, s: State, w: Array, out: Array, count: int, rng: Array) -> int:
    """Give the tasks of a list nodes, in turn; returns how many are left without."""
    left = 0
    for k in range(count):
        n = best_node(p, s, w, out[k], whole(SAMPLED), flag(False), rng)
        if n >= 0:
            enter(p, s, out[k], n)
        else:
            left += 1
    return left


@loop_kernel
def relieve(p: Packed, s: State, w: Array, rng: Array) -> int:
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
                leave(p, s, t)
                enter(p, s, t, n)
                moved += 1
    return moved


@loop_kernel
def place_left(p: Packed, s: State, w: Array, rng: Array) -> int:
    """Give every task without a node the best one; returns how many are left."""
    left = 0
    for k in range(p.movable.shape[0]):
        t = p.movable[k]
        if s.x[t] < 0:
            n = best_node(p, s, w, t, whole(0), flag(False), rng)
            if n >= 0:
                enter(p, s, t, n)
            else:
                left += 1
    return left


@loop_kernel
def cross(
    p: Packed, s: State, other: Array, w: Array, begin: int, end: int, rng: Array, out: Array
) -> int:
    """Take the nodes of a stretch of tasks from another parent; returns how many tasks lost their
    place by it."""
    count = 0
    for t in range(begin, end):
        if s.x[t] >= 0 and other[t] >= 0 and other[t] != s.x[t] and plain_task(p, t):
            out[count] = t
            count += 1
    for k in range(count):
        leave(p, s, out[k])
    left = whole(0)
    for k in range(count):
        t, n = out[k], whole(other[out[k]])
        if legal(p, s, t, n):
            enter(p, s, t, n)
        else:
            out[left] = t
            left += 1
    return put_back(p, s, w, out, left, rng)


@loop_kernel
def vacate(p: Packed, s: State, w: Array, rng: Array, out: Array) -> bool:
    """Empty a node into others in use, if that makes the weighted sum smaller."""
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
        total += change_by(p, s, w, t, b)
        out[count] = t
        count += 1
        leave(p, s, t)
        enter(p, s, t, b)
    if done and s.tasks[n] == 0 and total < LEAST_GAIN:
        return True
    for k in range(count - 1, -1, -1):
        leave(p, s, out[k])
        enter(p, s, out[k], n)
    return False


@loop_kernel
def breed(
    p: Packed,
    s: State,
    parents: Array,
    pairs: Array,
    weights: Array,
    tries: int,
    rng: Array,
    out: Array,
    children: Array,
) -> None:
    """One child of each pair of parents: crossover, then local search in the child's own
    direction."""
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
