"""All objectives of many placements, compiled: a few nanoseconds per task.

`objectives.values` says what each number means; this computes the same in one pass over the tasks
and one over the nodes per placement, without branches where the data decides them at random.
"""

from __future__ import annotations

import numpy as np

from murmuration.assignment.objectives import (
    COST,
    COUNT,
    CROWDING,
    IMBALANCE,
    MEGABYTES,
    MOVES,
    NODES,
    POWER,
    PRIORITY,
    REPLICAS,
    UNPLACED,
    ZONES,
)
from murmuration.assignment.packed import Packed
from murmuration.base.arrays import Amounts, Counts, Floats, Placement, Placements
from murmuration.base.jit import compiled, inlined


def evaluate(packed: Packed, placements: Placements, full: bool = True) -> tuple[Floats, Counts]:
    """The objectives of each placement, a column for each of `objectives.NAMES`, and how many nodes
    each overloads; without `full`, the columns beyond the paper's six and `nodes` stay zero."""
    assert placements.shape[1] == len(packed.request), "one node per task"
    values = np.zeros((len(placements), COUNT))
    overloaded = np.zeros(len(placements), dtype=np.int64)
    evaluate_all(packed, placements, full, values, overloaded)
    return values, overloaded


def evaluate_one(packed: Packed, placement: Placement) -> Floats:
    """The objectives of one placement."""
    values: Floats = evaluate(packed, placement[None])[0][0]
    return values


@compiled
def evaluate_all(
    p: Packed, placements: Placements, full: bool, values: Floats, overloaded: Counts
) -> None:
    nodes, resources = p.total.shape
    # One row more than there are nodes, the first: tasks without a node need no branch.
    used = np.empty((nodes + 1, resources), dtype=np.int64)
    count = np.empty(nodes + 1, dtype=np.int64)
    marks = np.zeros(nodes + 1, dtype=np.int64)
    for k in range(placements.shape[0]):
        x, out = placements[k], values[k]
        used[:] = 0
        count[:] = 0
        out[MOVES] = sum_tasks(p, x, used, count)
        out[UNPLACED] = count[0]
        # Σ 1 + 2 + … + k is the number of pairs and the number of tasks.
        out[REPLICAS] = count_replica_pairs(p, x, marks) + x.shape[0] - count[0]
        overloaded[k] = evaluate_nodes(p, used[1:], count[1:], out)
        if full:
            evaluate_rest(p, x, count[1:], marks, out)


@inlined
def sum_tasks(p: Packed, x: Placement, used: Amounts, count: Counts) -> int:
    """One pass over the tasks: what each node has to give and how many it runs; returns the tasks
    that moved."""
    moved = 0
    if used.shape[1] == 2:
        # CPU and memory alone is the usual case; spelt out, it is compiled without an inner loop.
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
    # A loop of its own, which the compiler turns into vector instructions.
    for t in range(x.shape[0]):
        moved += (p.start[t] >= 0) & (x[t] != p.start[t])
    return moved


@inlined
def count_replica_pairs(p: Packed, x: Placement, marks: Counts) -> int:
    """Pairs of tasks of one service that share a node.

    Small services are compared pair by pair from a list made once, which needs no memory but the
    placement. The pairs of a large one grow with the square of its size, so those are counted with
    a mark per node.
    """
    pairs = 0
    for k in range(p.pairs.shape[0]):
        i, j = p.pairs[k, 0], p.pairs[k, 1]
        pairs += (x[i] == x[j]) & (x[i] >= 0)
    for k in range(p.big_groups.shape[0]):
        g = p.big_groups[k]
        pairs += count_pairs_by_marks(x, p.first[g], p.first[g + 1], marks)
    return pairs


@inlined
def count_pairs_by_marks(x: Placement, begin: int, end: int, marks: Counts) -> int:
    """Pairs of tasks in a stretch that share a node: each task pairs with those met there before.
    `marks` is zero before and after, and only the entries touched are cleared."""
    pairs = 0
    for i in range(begin, end):
        if x[i] >= 0:
            pairs += marks[x[i]]
            marks[x[i]] += 1
    for i in range(begin, end):
        if x[i] >= 0:
            marks[x[i]] = 0
    return pairs


@inlined
def evaluate_nodes(p: Packed, used: Amounts, count: Counts, out: Floats) -> int:
    """Crowding, power, imbalance and nodes in use; returns the nodes that are asked for more than
    they have."""
    crowding, watts, gaps, in_use, over = 0, 0.0, 0.0, 0, 0
    for n in range(used.shape[0]):
        tasks = count[n]
        crowding += tasks * (tasks + 1)
        on = tasks > 0
        in_use += on
        cpu, memory = used[n, 0] * p.inverse[n, 0], used[n, 1] * p.inverse[n, 1]
        # Multiplied by a flag instead of branching: whether a node is in use is anybody's guess.
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
def evaluate_rest(p: Packed, x: Placement, count: Counts, marks: Counts, out: Floats) -> None:
    """Cost, priority, zones and megabytes. Zones are marked as nodes are above; there are no more
    of them than nodes, so the same marks serve."""
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
