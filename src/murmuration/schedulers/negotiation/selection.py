"""Service selection (Sliwko and Getov, 6.1): which tasks an overloaded node gives away.

The fittest set leaves the node stable, with the highest re-allocation score per megabyte that is
moved (equation 1). Up to `EXACT_MAX` movable tasks the search is exact; above, a local search
starts once from every task. The paper's tabu search is here too, with its limits.

All are plain functions over arrays that kernels compile as they are (`cluster.jit.tree`); they make
no arrays.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmuration.base.arrays import RandomState
from murmuration.base.random import next_double
from murmuration.cluster.allocation_types import FULL
from murmuration.placement.allocation_scores import SRAS_BEST, SRAS_EMPTY, SRAS_LOAD, sras
from murmuration.schedulers.negotiation.rules import is_overloaded

#: With more movable tasks than this, looking at all sets takes longer than a node should think (0.3
#: ms compiled).
EXACT_MAX = 16
#: A remainder that is stable but super-tight scores nothing; it is still better than staying
#: overloaded.
SCORE_MIN = 1e-9
#: The paper's limits of the tabu search.
TABU_RESTARTS, TABU_STEPS, TABU_PATIENCE = 25, 5, 6

Array = NDArray[Any]


class Tasks(NamedTuple):
    """A node's tasks, one row each. One that fits nowhere else is not movable; one that must leave
    is not listed."""

    use: Array
    request: Array
    production: Array
    #: Megabytes; positive.
    cost: Array
    movable: Array


class SelectionBuffers(NamedTuple):
    """What a search writes into; rows may be more than the tasks."""

    #: What is in use, and what is guaranteed, when the set being tried is gone.
    used: Array
    guaranteed: Array
    loads: Array
    #: The movable tasks, and which of all tasks are in the set being tried.
    listed: Array
    tried: Array


def work(tasks: int, resources: int) -> SelectionBuffers:
    """Room for a search over this many tasks."""
    amounts = np.zeros((2, resources), np.int64)
    return SelectionBuffers(
        amounts[0],
        amounts[1],
        np.zeros(resources),
        np.zeros(tasks, np.int64),
        np.zeros(tasks, np.bool_),
    )


def select(
    total: Array,
    used: Array,
    guaranteed: Array,
    tasks: Tasks,
    chosen: Array,
    work: SelectionBuffers,
    exact_max: int,
) -> float:
    """Mark the fittest set in `chosen`; returns its fitness, 0 when no set of movable tasks makes
    the node stable."""
    count = begin(total, used, guaranteed, tasks, chosen, work)
    if count == 0:
        return 0.0
    if count <= exact_max:
        return try_all_sets(total, used, guaranteed, tasks, chosen, work, count)
    return climb_from_every_task(total, used, guaranteed, tasks, chosen, work, count)


def begin(
    total: Array,
    used: Array,
    guaranteed: Array,
    tasks: Tasks,
    chosen: Array,
    work: SelectionBuffers,
) -> int:
    """List the movable tasks, and start with none given away; returns their number, 0 if giving all
    of them away would not be enough."""
    count = 0
    restart(used, guaranteed, work, 0)
    for i in range(tasks.movable.shape[0]):
        chosen[i] = False
        work.tried[i] = False
        if tasks.movable[i]:
            work.listed[count] = i
            count += 1
            change(tasks, work, i, -1)
    if is_overloaded(total, work.used, work.guaranteed):
        count = 0
    restart(used, guaranteed, work, count)
    return count


def restart(used: Array, guaranteed: Array, work: SelectionBuffers, count: int) -> None:
    """Nothing is given away yet."""
    for r in range(used.shape[0]):
        work.used[r] = used[r]
        work.guaranteed[r] = guaranteed[r]
    for n in range(count):
        work.tried[work.listed[n]] = False


def change(tasks: Tasks, work: SelectionBuffers, i: int, sign: int) -> None:
    """Give task i away (-1) or keep it after all (+1)."""
    for r in range(work.used.shape[0]):
        work.used[r] += sign * tasks.use[i, r]
        if tasks.production[i]:
            work.guaranteed[r] += sign * tasks.request[i, r]


def flip(tasks: Tasks, work: SelectionBuffers, i: int) -> float:
    """Put task i into the set tried, or take it out; returns the megabytes more."""
    sign = 1 if work.tried[i] else -1
    work.tried[i] = not work.tried[i]
    change(tasks, work, i, sign)
    return float(-sign * tasks.cost[i])


def fitness(total: Array, work: SelectionBuffers, cost: float, best: float) -> float:
    """The fitness of the set tried; 0 if it leaves the node overloaded or costs too much to beat
    `best`.

    Fitness is score ÷ cost and no score exceeds `SRAS_BEST`, so a set that costs `SRAS_BEST` ÷ best
    or more cannot win whatever its score: the comparison spares scoring it.
    """
    if cost <= 0.0 or best * cost >= SRAS_BEST or is_overloaded(total, work.used, work.guaranteed):
        return 0.0
    for r in range(total.shape[0]):
        work.loads[r] = work.used[r] / total[r] if total[r] > 0 else -1.0
    return max(sras(work.loads), SCORE_MIN) / cost


def keep(chosen: Array, work: SelectionBuffers, count: int) -> None:
    """The set tried is the best so far."""
    for n in range(count):
        chosen[work.listed[n]] = work.tried[work.listed[n]]


def try_all_sets(
    total: Array,
    used: Array,
    guaranteed: Array,
    tasks: Tasks,
    chosen: Array,
    work: SelectionBuffers,
    count: int,
) -> float:
    """The best of all sets, by branch and bound. Sets are counted in binary, the cheapest task
    being the lowest bit; where a set costs too much to beat the best, all those that add cheaper
    tasks to it are skipped."""
    sort_by_cost(tasks, work, count)
    # A local optimum first: the better the bound, the more is skipped.
    best = climb(total, tasks, work, count, relieve(total, tasks, work, count))
    keep(chosen, work, count)
    restart(used, guaranteed, work, count)
    ceiling = highest_score(total, used)
    cost, last, code = 0.0, 0, 1
    while code < 1 << count:
        cost += flip_bits(tasks, work, code ^ last)
        last = code
        if best * cost >= ceiling:
            # The codes up to the next carry out of the lowest set bit are this set with cheaper
            # tasks added, so they cost more.
            code += code & -code
            continue
        code += 1
        value = fitness(total, work, cost, best)
        if value > best:
            best = value
            keep(chosen, work, count)
    return best


def sort_by_cost(tasks: Tasks, work: SelectionBuffers, count: int) -> None:
    """Sort the listed tasks by cost: by insertion, since there are at most `EXACT_MAX` and a kernel
    must make no arrays."""
    for n in range(1, count):
        i, at = work.listed[n], n
        while at > 0 and tasks.cost[work.listed[at - 1]] > tasks.cost[i]:
            work.listed[at] = work.listed[at - 1]
            at -= 1
        work.listed[at] = i


def highest_score(total: Array, used: Array) -> float:
    """No score that a node can reach by giving tasks away is higher. Loads only fall, and the score
    with them, but for what makes them even and for those above 90 %."""
    sum_, count = 0.0, 0
    for r in range(total.shape[0]):
        if total[r] > 0:
            sum_ += min(used[r] / total[r], FULL)
            count += 1
    return math.exp(SRAS_EMPTY + SRAS_LOAD * sum_ / max(count, 1))


def flip_bits(tasks: Tasks, work: SelectionBuffers, bits: int) -> float:
    """Flip the listed tasks whose bits are set; returns the megabytes more."""
    cost, n = 0.0, 0
    while bits:
        if bits & 1:
            cost += flip(tasks, work, work.listed[n])
        bits, n = bits >> 1, n + 1
    return cost


def climb_from_every_task(
    total: Array,
    used: Array,
    guaranteed: Array,
    tasks: Tasks,
    chosen: Array,
    work: SelectionBuffers,
    count: int,
) -> float:
    """The best of the local optima reached from each task: give it away, relieve the node, then
    flip and exchange."""
    best = 0.0
    for first in range(count):
        restart(used, guaranteed, work, count)
        cost = flip(tasks, work, work.listed[first])
        cost += relieve(total, tasks, work, count)
        value = climb(total, tasks, work, count, cost)
        if value > best:
            best = value
            keep(chosen, work, count)
    return best


def relieve(total: Array, tasks: Tasks, work: SelectionBuffers, count: int) -> float:
    """Give away what relieves most per megabyte until the node is stable; returns the megabytes."""
    cost = 0.0
    while is_overloaded(total, work.used, work.guaranteed):
        best, at = -1.0, -1
        for n in range(count):
            i = work.listed[n]
            relief = -1.0 if work.tried[i] else relief_of(total, tasks, work, i) / tasks.cost[i]
            if relief > best:
                best, at = relief, i
        cost += flip(tasks, work, at)
    return cost


def relief_of(total: Array, tasks: Tasks, work: SelectionBuffers, i: int) -> float:
    """How much of what is above the node's totals task i would take with it, in shares of the
    totals."""
    relief = 0.0
    for r in range(total.shape[0]):
        share = 1.0 / max(total[r], 1)
        relief += share * min(max(work.used[r] - total[r], 0), tasks.use[i, r])
        if tasks.production[i]:
            relief += share * min(max(work.guaranteed[r] - total[r], 0), tasks.request[i, r])
    return relief


def climb(total: Array, tasks: Tasks, work: SelectionBuffers, count: int, cost: float) -> float:
    """Flip one task, or exchange two, as long as that makes the set fitter; returns its fitness.

    Steepest ascent: every flip and every exchange is tried and undone, then the best is done. An
    exchange is needed because the flip it begins with, keeping a task after all, often leaves the
    node overloaded, which scores 0.
    """
    value = fitness(total, work, cost, 0.0)
    while True:
        best, a, b = value, -1, -1
        for n in range(count):
            i = work.listed[n]
            given = work.tried[i]
            more = flip(tasks, work, i)
            trial = fitness(total, work, cost + more, best)
            if trial > best:
                best, a, b = trial, i, -1
            if given:
                trial, j = best_replacement(total, tasks, work, count, cost + more, best, i)
                if j >= 0:
                    best, a, b = trial, i, j
            flip(tasks, work, i)
        if a < 0:
            return value
        value = best
        cost += flip(tasks, work, a)
        if b >= 0:
            cost += flip(tasks, work, b)


def best_replacement(
    total: Array,
    tasks: Tasks,
    work: SelectionBuffers,
    count: int,
    cost: float,
    best: float,
    but: int,
) -> tuple[float, int]:
    """The task whose giving away makes the set fitter than `best`, and how fit; -1 if none does."""
    at = -1
    for n in range(count):
        i = work.listed[n]
        if work.tried[i] or i == but:
            continue
        change(tasks, work, i, -1)
        value = fitness(total, work, cost + tasks.cost[i], best)
        if value > best:
            best, at = value, i
        change(tasks, work, i, 1)
    return best, at


def tabu(
    total: Array,
    used: Array,
    guaranteed: Array,
    tasks: Tasks,
    chosen: Array,
    work: SelectionBuffers,
    rng: RandomState,
    restarts: int,
    steps: int,
    patience: int,
    count_restarts: bool,
    visited: Array,
) -> float:
    """The paper's search: random sets, and from each a few steps to the fittest neighbour not
    visited yet.

    It stops when the last `patience` steps did not improve the best set, or restarts if
    `count_restarts` (the text can be read both ways). `visited` is int64 with room for restarts ×
    (steps + 1) sets. Returns as `select`.
    """
    count = begin(total, used, guaranteed, tasks, chosen, work)
    best, seen, idle = 0.0, 0, 0
    for _ in range(restarts if count > 0 else 0):
        restart(used, guaranteed, work, count)
        before, cost, key = best, 0.0, 0
        for n in range(count):
            if next_double(rng) < 0.5:
                cost += flip(tasks, work, work.listed[n])
                key ^= pattern(n)
        for step in range(steps + 1):
            visited[seen] = key
            seen += 1
            value = fitness(total, work, cost, 0.0)
            if value > best:
                best, idle = value, 0
                keep(chosen, work, count)
            elif not count_restarts:
                idle += 1
            at = -1
            if step < steps and (count_restarts or idle < patience):
                at = neighbour(total, tasks, work, count, cost, key, visited, seen)
            if at < 0:
                break
            cost += flip(tasks, work, work.listed[at])
            key ^= pattern(at)
        if count_restarts:
            idle = 0 if best > before else idle + 1
        if idle >= patience:
            break
    return best


def neighbour(
    total: Array,
    tasks: Tasks,
    work: SelectionBuffers,
    count: int,
    cost: float,
    key: int,
    visited: Array,
    seen: int,
) -> int:
    """The listed task whose flip gives the fittest set not visited yet; -1 if all were."""
    best, at = -1.0, -1
    for n in range(count):
        flipped = key ^ pattern(n)
        known = False
        for v in range(seen):
            known = known or visited[v] == flipped
        if not known:
            more = flip(tasks, work, work.listed[n])
            value = fitness(total, work, cost + more, 0.0)
            flip(tasks, work, work.listed[n])
            if value > best:
                best, at = value, n
    return at


def pattern(n: int) -> int:
    """A fixed pattern of 62 bits per task. A set is known by the XOR of its tasks' patterns
    (Zobrist hashing): flipping a task flips its pattern, and two sets share a key only by a rare
    accident, which costs one neighbour."""
    low, high = n + 1, n + 1
    for _ in range(3):
        low = (low * 1103515245 + 12345) % 2147483648
        high = (high * 742938285 + 7) % 2147483647
        low, high = low ^ (low >> 13), high ^ (low >> 7)
    return (high << 31) ^ low
