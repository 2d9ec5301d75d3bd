"""All objectives of many placements, compiled: a few nanoseconds per task."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.assignment import objectives as of
from murmuration.assignment.packed import Packed, Placement
from murmuration.base.jit import compiled, inlined

Array = NDArray[Any]
COUNT = len(of.NAMES)
CROWDING, REPLICAS, POWER, IMBALANCE, UNPLACED, MOVES = range(6)
COST, NODES, PRIORITY, ZONES, MEGABYTES = range(6, 11)


def evaluate(
    packed: Packed, placements: NDArray[np.int32], full: bool = True
) -> tuple[Array, Array]:
    """The objectives of each placement, and how many nodes each overloads; `full` adds what lies
    beyond the six."""
    found = np.zeros((len(placements), COUNT))
    overloaded = np.zeros(len(placements), dtype=np.int64)
    evaluate_all(packed, placements, full, found, overloaded)
    return found, overloaded


def evaluate_one(packed: Packed, placement: Placement) -> Array:
    found: Array = evaluate(packed, placement[None])[0][0]
    return found


@compiled
def evaluate_all(p: Packed, placements: Array, full: bool, found: Array, overloaded: Array) -> None:
    nodes, resources = p.total.shape
    # One row more than there are nodes, the first: tasks without a node need no branch.
    used = np.empty((nodes + 1, resources), dtype=np.int64)
    count = np.empty(nodes + 1, dtype=np.int64)
    marks = np.zeros(nodes + 1, dtype=np.int64)
    for k in range(placements.shape[0]):
        x, out = placements[k], found[k]
        used[:] = 0
        count[:] = 0
        out[MOVES] = fill(p, x, used, count)
        out[UNPLACED] = count[0]
        out[REPLICAS] = replicas(p, x, marks) + x.shape[0] - count[0]
        overloaded[k] = by_node(p, used[1:], count[1:], out)
        if full:
            further(p, x, count[1:], marks, out)


@inlined
def fill(p: Packed, x: Array, used: Array, count: Array) -> int:
    """One pass over the tasks: what each node has to give; returns the tasks that moved."""
    moved = 0
    if used.shape[1] == 2:
        for t in range(x.shape[0]):
            # Unsigned, so that no index is tested for being negative.
            n = np.uint64(x[t] + 1)
            count[n] += 1
            used[n, 0] += p.request[t, 0]
            used[n, 1] += p.request[t, 1]
    else:
        for t in range(x.shape[0]):
            n = np.uint64(x[t] + 1)
            count[n] += 1
            for r in range(used.shape[1]):
                used[n, r] += p.request[t, r]
    for t in range(x.shape[0]):
        moved += (p.start[t] >= 0) & (x[t] != p.start[t])
    return moved


@inlined
def replicas(p: Packed, x: Array, marks: Array) -> int:
    """Every pair of tasks of one service on one node; Σ 1 + 2 + … + k is these and the tasks
    placed."""
    found = 0
    for k in range(p.pairs.shape[0]):
        i, j = p.pairs[k, 0], p.pairs[k, 1]
        found += (x[i] == x[j]) & (x[i] >= 0)
    for k in range(p.big_groups.shape[0]):
        g = p.big_groups[k]
        found += counted(x, p.first[g], p.first[g + 1], marks)
    return found


@inlined
def counted(x: Array, begin: int, end: int, marks: Array) -> int:
    found = 0
    for i in range(begin, end):
        if x[i] >= 0:
            found += marks[x[i]]
            marks[x[i]] += 1
    for i in range(begin, end):
        if x[i] >= 0:
            marks[x[i]] = 0
    return found


@inlined
def by_node(p: Packed, used: Array, count: Array, out: Array) -> int:
    """Crowding, power and imbalance; returns the nodes that are asked for more than they have."""
    crowding, watts, gaps, in_use, over = 0, 0.0, 0.0, 0, 0
    for n in range(used.shape[0]):
        tasks = count[n]
        crowding += tasks * (tasks + 1)
        on = tasks > 0
        in_use += on
        cpu, memory = used[n, 0] * p.inverse[n, 0], used[n, 1] * p.inverse[n, 1]
        watts += (on | (not p.power_off)) * (p.idle[n] + p.span[n] * (cpu + memory) * 0.5)
        gaps += on * (p.both[n] * abs(cpu - memory))
        too_much = (used[n, 0] > p.total[n, 0]) | (used[n, 1] > p.total[n, 1])
        for r in range(2, used.shape[1]):
            too_much |= used[n, r] > p.total[n, r]
        over += too_much
    out[CROWDING] = crowding // 2
    out[POWER] = watts
    out[IMBALANCE] = 100.0 * gaps / max(in_use, 1)
    out[NODES] = in_use
    return over


@inlined
def further(p: Packed, x: Array, count: Array, marks: Array, out: Array) -> None:
    cost, left, zones, mega = 0.0, 0.0, 0, 0.0
    for n in range(count.shape[0]):
        if count[n] > 0:
            cost += p.price[n]
    for t in range(x.shape[0]):
        if x[t] < 0:
            left += p.priority[t]
        if p.start[t] >= 0 and x[t] != p.start[t]:
            mega += p.megabytes[t]
    for g in range(p.first.shape[0] - 1):
        begin, end = p.first[g], p.first[g + 1]
        for i in range(begin, end):
            if x[i] >= 0:
                zone = p.zone_of[x[i]]
                marks[zone] += 1
                zones += marks[zone]
        for i in range(begin, end):
            if x[i] >= 0:
                marks[p.zone_of[x[i]]] = 0
    out[COST], out[PRIORITY], out[ZONES], out[MEGABYTES] = cost, left, float(zones), mega
