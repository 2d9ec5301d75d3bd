"""The best few moves, where single moves one after the other are not enough.

Where room is scarce the best move of all may wait for one that gains nothing by itself: a small
task leaves a node so that a larger one may come. So several placements are gone on from side by
side (a *beam*), each by its best single moves and by its best *chains* of two, in which a task
leaves a node that another then takes. Moves that gain nothing stay in the beam as long as there is
space for them. What comes out can be carried out in the order in which it was found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from murmuration.assignment.evaluate import evaluate
from murmuration.assignment.packed import Packed
from murmuration.assignment.search.improve import TOLERANCE, change_of_shift
from murmuration.assignment.state import (
    PlacementState,
    fits,
    fits_without,
    legal,
    load,
    may_use,
    new_state,
    place_task,
    remove_task,
    whole,
)
from murmuration.base.arrays import Flags, Floats, Indices, Placement, Placements, Weights
from murmuration.base.jit import helper, loop_kernel

#: Looks at a node for a task in all, about two seconds; placements gone on from at each length at
#: most; children of each.
LOOKS, WIDTH_MAX, CHILDREN = 4e7, 120, 48
#: Nodes that a task of a chain may leave for: its best ones.
WAYS = 3


class Children(NamedTuple):
    """The best changes of one placement: one move, or two of which the first makes room (−1 where
    there is none), and the change of the weighted sum."""

    value: Floats
    task: Indices
    node: Indices


def best_few(
    p: Packed,
    start: Placement,
    weights: Weights,
    counted: Indices,
    moves_max: float,
    stopped: Callable[[], bool] = lambda: False,
) -> Placement | None:
    """The best placement met with at most so many moves and no counted objective above where it
    began; None if nothing is gained, or the cluster too large to look beyond single moves."""
    steps = int(min(moves_max, len(p.movable)))
    width = _width(p, steps)
    if width < 2 or steps < 2:
        return None
    state, began = new_state(p), evaluate(p, start[None])[0][0]
    levels: list[list[Placement]] = [[] for _ in range(steps + 2)]
    levels[0] = [start]
    best, lowest = None, -TOLERANCE
    for made in range(steps + 1):
        if not levels[made] or stopped():
            continue
        keys, placements, kept = _rank(p, levels[made], weights, counted, began)
        if kept.any() and keys[kept].min() < lowest:
            lowest = float(keys[kept].min())
            best = placements[kept][keys[kept].argmin()].copy()
        for x in placements[:width] if made < steps else ():
            if stopped():
                break
            for length, child in _expand(p, state, weights, x, made < steps - 1):
                levels[made + length].append(child)
    return best


def _width(p: Packed, steps: int) -> int:
    """How many placements of each length are gone on from."""
    each = len(p.movable) * (len(p.total) + WAYS * len(p.movable))
    return int(min(WIDTH_MAX, LOOKS / max(each * steps, 1)))


def _rank(
    p: Packed, listed: list[Placement], weights: Weights, counted: Indices, began: Floats
) -> tuple[Floats, Placements, Flags]:
    """Placements without doubles, the best first, what they gain, and which of them make no counted
    objective worse. What is worse counts twice."""
    placements = np.unique(np.array(listed), axis=0)
    more = evaluate(p, placements)[0] - began
    worse = np.maximum(more[:, counted], 0.0)
    keys = more @ weights + worse @ weights[counted]
    order = np.argsort(keys, kind="stable")
    return keys[order], placements[order], np.all(worse[order] <= TOLERANCE, axis=1)


def _expand(
    p: Packed, s: PlacementState, weights: Weights, x: Placement, chains: bool
) -> list[tuple[int, Placement]]:
    """The children of a placement, and how many moves each is longer."""
    load(p, s, x)
    found = Children(
        np.full(CHILDREN, np.inf),
        np.full((CHILDREN, 2), -1, dtype=np.int64),
        np.full((CHILDREN, 2), -1, dtype=np.int64),
    )
    ways = np.full((len(x), WAYS), -1, dtype=np.int64)
    list_shifts(p, s, weights, found, ways, np.empty(WAYS))
    singles = _apply(x, found)
    if not chains:
        return singles
    found.value[:], found.task[:], found.node[:] = np.inf, -1, -1
    list_chains(p, s, weights, found, ways)
    return singles + _apply(x, found)


def _apply(x: Placement, found: Children) -> list[tuple[int, Placement]]:
    children = []
    for k in np.flatnonzero(np.isfinite(found.value)).tolist():
        child = x.copy()
        moved = found.task[k] >= 0
        child[found.task[k][moved]] = found.node[k][moved]
        children.append((int(moved.sum()), child))
    return children


@helper
def keep_child(found: Children, value: float, t: int, n: int, u: int, m: int) -> None:
    """Note a change if it is among the best so far, in the place of the worst."""
    worst = 0
    for k in range(found.value.shape[0]):
        if found.value[k] > found.value[worst]:
            worst = k
    if value < found.value[worst]:
        found.value[worst] = value
        found.task[worst, 0], found.node[worst, 0] = t, n
        found.task[worst, 1], found.node[worst, 1] = u, m


@loop_kernel
def list_shifts(
    p: Packed, s: PlacementState, w: Weights, found: Children, ways: Indices, values: Floats
) -> None:
    """The best single moves of tasks that are at home, and for each task the best nodes."""
    for k in range(p.movable.shape[0]):
        t = p.movable[k]
        if s.x[t] < 0 or s.x[t] != p.start[t]:
            continue
        values[:] = np.inf
        for j in range(p.total.shape[0]):
            n = whole(j)
            if n == s.x[t] or not (fits(p, s, t, n) and may_use(p, t, n) and legal(p, s, t, n)):
                continue
            value = change_of_shift(p, s, w, t, n)
            at = ways.shape[1]
            while at > 0 and value < values[at - 1]:
                at -= 1
            for later in range(ways.shape[1] - 1, at, -1):
                values[later], ways[t, later] = values[later - 1], ways[t, later - 1]
            if at < ways.shape[1]:
                values[at], ways[t, at] = value, n
        for at in range(ways.shape[1]):
            if ways[t, at] >= 0:
                keep_child(found, values[at], t, ways[t, at], -1, -1)


@loop_kernel
def list_chains(p: Packed, s: PlacementState, w: Weights, found: Children, ways: Indices) -> None:
    """The best pairs of moves of which the first makes room for the second."""
    for k in range(p.movable.shape[0]):
        u = p.movable[k]
        for at in range(ways.shape[1]):
            m = whole(ways[u, at])
            if m < 0:
                continue
            n = whole(s.x[u])
            gain = change_of_shift(p, s, w, u, m)
            for other in range(p.movable.shape[0]):
                t = p.movable[other]
                if s.x[t] < 0 or s.x[t] != p.start[t] or s.x[t] == n or t == u:
                    continue
                if not may_use(p, t, n) or fits(p, s, t, n) or not fits_without(p, s, t, n, u):
                    continue
                remove_task(p, s, u)
                place_task(p, s, u, m)
                if legal(p, s, t, n):
                    value = gain + change_of_shift(p, s, w, t, n)
                    keep_child(found, value, u, m, t, n)
                remove_task(p, s, u)
                place_task(p, s, u, n)
