"""Simulated annealing in one kernel: shifts, swaps, swaps of two tasks alike in size, swaps within
a service, which break no rule between services, and swaps of two tasks that began on one node. A
node that was full of a transient resource takes none but its own tasks back, because those that
left still hold their room there; so these swaps are what is left to choose who stays. Where most
nodes are full of most resources only tasks alike in size can change places, and sizes differ by
orders of magnitude: two tasks drawn at random are hardly ever alike.

**Broken rules have a price.** What is not allowed in the end is only expensive on the way, and more
so as it cools. So a large task may come to a full node before smaller ones make room, and a service
before those it needs: chains of ejections arise from single steps. The best assignment is noted
only while no rule is broken.

**Acceptance.** Metropolis accepts a step that costs `change` with probability exp(−change / T).
Here the random number is drawn first and turned into a limit, −T ln(u): the step is accepted if its
change is at most that. It is the same rule, and it lets the parts of a change be added up from the
cheapest to the most expensive, stopping as soon as the limit is passed.

**What is estimated.** `_affordable` adds up what each of two tasks changes by itself. That is exact
unless one of their services needs the other's; so `_exchange` makes the moves, compares the true
sums and takes them back if they are too expensive.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from murmuration.base import random
from murmuration.base.arrays import Indices, Integers, RandomState
from murmuration.base.jit import helper, inlined, released
from murmuration.planning.reassignment.state import (
    BREACHES,
    COST,
    EXCESS,
    HELD,
    MOVED,
    ReassignmentProblem,
    ReassignmentState,
    breaches_of,
    move,
    move_cost,
    moved_change,
    node_cost,
    node_excess,
    service_cost,
)

next_double = helper(random.next_double)

#: Of all steps tried: shifts of one task to any node and to its first one, swaps of any two, of two
#: that began on one node and of two alike in size; the rest are swaps within a service.
SHIFTS, RETURNS, SWAPS, HOME_SWAPS, ALIKE = 0.3, 0.05, 0.15, 0.15, 0.25
#: Steps that are drawn together.
BATCH = 32


class Best(NamedTuple):
    """The best assignment that breaks no rule so far, and its cost in an array of one."""

    node_of: Indices
    cost: Integers


class Draws(NamedTuple):
    """Whom a chain draws, its generator, and room for a batch of steps that are drawn."""

    pool: Indices
    rng: RandomState
    drawn: Indices  # step × (task, partner, node)


def make_draws(pool: Indices, rng: RandomState) -> Draws:
    return Draws(pool, rng, np.zeros((BATCH + 1, 3), dtype=np.int64))


class Prices(NamedTuple):
    """What the search pays for one more breach, one unit of excess, one unit held and one task
    moved, beside the cost itself."""

    breach: float
    excess: float
    held: float
    moved: float


@inlined
def _pick(rng: RandomState, count: int) -> int:
    return int(next_double(rng) * count)


@inlined
def _price_state(s: ReassignmentState, prices: Prices) -> float:
    """What the search pays for the state."""
    breaking = prices.breach * s.totals[BREACHES] + prices.excess * s.totals[EXCESS]
    away = prices.held * s.totals[HELD] + prices.moved * s.totals[MOVED]
    return float(s.totals[COST] + breaking + away)


@inlined
def _task_change(
    p: ReassignmentProblem, s: ReassignmentState, t: int, m: int, prices: Prices
) -> float:
    """What the move of one task costs beside what it does to the two nodes."""
    change = moved_change(p, s, t, m)
    cost = move_cost(p, t, m) - move_cost(p, t, s.node_of[t])
    cost += service_cost(p, s, p.service[t], change)
    return float(cost + change * (prices.held * p.left_behind[t] + prices.moved))


@inlined
def _most_saved(
    p: ReassignmentProblem, s: ReassignmentState, t: int, m: int, prices: Prices
) -> float:
    """The most that the move of a task from a node can save beside what it does to the nodes."""
    if p.initial[t] == m:
        return 0.0
    return float(p.move_saving + prices.held * p.left_behind[t] + prices.moved)


@inlined
def _affordable(
    p: ReassignmentProblem,
    s: ReassignmentState,
    t: int,
    u: int,
    n: int,
    prices: Prices,
    limit: float,
) -> bool:
    """Whether a task may go to a node and another (−1: none) from there to where the first is, for
    at most `limit`.

    The two nodes come first: what is known of them lies close together, and most steps end there.
    """
    m = s.node_of[t]
    back, other = (1, u) if u >= 0 else (0, 0)
    bound = limit + prices.breach * s.totals[BREACHES] + _most_saved(p, s, t, m, prices)
    if back:
        bound += _most_saved(p, s, u, n, prices)
    excess = node_excess(p, s, n, t, 1, other, back) - s.node_excess[n] - s.node_excess[m]
    change = -float(s.node_cost[m] + s.node_cost[n])
    if change + prices.excess * excess > bound:
        return False
    if back == 1 or s.node_excess[m] > 0:
        excess += node_excess(p, s, m, other, back, t, 1)
    change += prices.excess * excess + node_cost(p, s, n, t, 1, other, back)
    if change > bound:
        return False
    change += node_cost(p, s, m, other, back, t, 1)
    if change > bound or _conflicting(p, s, t, u, n):
        return False
    change += _task_change(p, s, t, n, prices)
    if back:
        change += _task_change(p, s, u, m, prices)
    if change > limit + prices.breach * s.totals[BREACHES]:
        return False
    # Two tasks of one service that change places break nothing.
    if not back or p.service[t] != p.service[u]:
        change += prices.breach * breaches_of(p, s, t, n)
        if back:
            change += prices.breach * breaches_of(p, s, u, m)
    return bool(change <= limit)


@inlined
def _conflicting(p: ReassignmentProblem, s: ReassignmentState, t: int, u: int, n: int) -> bool:
    """Whether one of the services would have two tasks on a node."""
    a = p.service[t]
    if u < 0:
        return bool(s.tasks_at[a, n] > 0)
    b = p.service[u]
    return bool(a != b and (s.tasks_at[a, n] > 0 or s.tasks_at[b, s.node_of[t]] > 0))


@inlined
def _exchange(
    p: ReassignmentProblem,
    s: ReassignmentState,
    t: int,
    u: int,
    n: int,
    prices: Prices,
    limit: float,
) -> bool:
    """Move the two tasks; take it back if one of their services needs the other's and the change is
    above the limit after all."""
    m, before = s.node_of[t], _price_state(s, prices)
    move(p, s, t, n)
    if u < 0:
        return True
    move(p, s, u, m)
    kept = _price_state(s, prices) - before <= limit
    if not kept:
        move(p, s, u, n)
        move(p, s, t, m)
    return kept


@inlined
def _draw(p: ReassignmentProblem, pool: Indices, rng: RandomState) -> tuple[int, int, int]:
    """A step at random: a task, and the one it changes places with or else a node; −1 for the
    other."""
    t = pool[_pick(rng, pool.shape[0])]
    draw = next_double(rng)
    if draw < SHIFTS:
        return t, -1, _pick(rng, p.capacity.shape[0])
    draw -= SHIFTS
    if draw < RETURNS:
        return t, -1, p.initial[t]
    draw -= RETURNS
    if draw < HOME_SWAPS:
        return t, _pick_from(p.home_from, p.at_home, p.initial[t], rng), -1
    draw -= HOME_SWAPS
    if draw < ALIKE:
        return t, _pick_alike(p, t, rng), -1
    draw -= ALIKE
    a = p.service[t]
    if draw >= SWAPS and p.member_from[a + 1] - p.member_from[a] > 1:
        return t, _pick_from(p.member_from, p.members, a, rng), -1
    return t, pool[_pick(rng, pool.shape[0])], -1


@inlined
def _pick_from(begins: Indices, entries: Indices, group: int, rng: RandomState) -> int:
    """One of a group's entries."""
    first = begins[group]
    return int(entries[first + _pick(rng, begins[group + 1] - first)])


@inlined
def _pick_alike(p: ReassignmentProblem, t: int, rng: RandomState) -> int:
    """A task of about the same size: as often among the next ten in size as among the next hundred,
    up to a quarter of all."""
    tasks = p.by_size.shape[0]
    apart = int((tasks // 4 + 1) ** next_double(rng))
    if next_double(rng) < 0.5:
        apart = -apart
    return int(p.by_size[min(max(p.size_rank[t] + apart, 0), tasks - 1)])


@inlined
def _touch(p: ReassignmentProblem, s: ReassignmentState, t: int) -> int:
    """Read what the evaluation of a task's move begins with."""
    last = p.request.shape[1] - 1
    return int(s.node_of[t] + p.initial[t] + p.request[t, 0] + p.request[t, last])


@inlined
def _draw_batch(
    p: ReassignmentProblem,
    s: ReassignmentState,
    pool: Indices,
    rng: RandomState,
    drawn: Indices,
) -> None:
    """Draw some steps ahead, and read what they need.

    A large instance does not fit into the cache, and a step that waits for memory four times in
    turn takes ten times as long as one that does not. Here nothing depends on what was read, so the
    processor waits for all of it at once. The sum is kept so that the reading is not optimised
    away.
    """
    sum_of_all = 0
    for k in range(BATCH):
        t, u, n = _draw(p, pool, rng)
        drawn[k, 0], drawn[k, 1], drawn[k, 2] = t, u, n
        sum_of_all += _touch(p, s, t)
        sum_of_all += _touch(p, s, max(u, 0))
    drawn[BATCH, 0] = sum_of_all


@inlined
def _remember(s: ReassignmentState, best: Best) -> None:
    """Copy the assignment if it breaks no rule and costs less than the best."""
    if s.totals[COST] < best.cost[0] and s.totals[BREACHES] == 0 and s.totals[EXCESS] == 0:
        best.cost[0] = s.totals[COST]
        for t in range(s.node_of.shape[0]):
            best.node_of[t] = s.node_of[t]


@released
def anneal(
    p: ReassignmentProblem,
    s: ReassignmentState,
    best: Best,
    draws: Draws,
    steps: int,
    temperature: float,
    prices: Prices,
) -> None:
    """Try at least so many steps at a temperature, and note where it ends if that is the best so
    far.

    Not after every step: a copy of all tasks costs more than thousands of steps, and once it is
    cold the end of a few thousand is as good as their best.
    """
    for _ in range((steps + BATCH - 1) // BATCH):
        _draw_batch(p, s, draws.pool, draws.rng, draws.drawn)
        for k in range(BATCH):
            limit = -temperature * math.log(1.0 - next_double(draws.rng))
            t, u, n = draws.drawn[k, 0], draws.drawn[k, 1], draws.drawn[k, 2]
            if u >= 0:
                n = s.node_of[u]
            if n != s.node_of[t] and _affordable(p, s, t, u, n, prices, limit):
                _exchange(p, s, t, u, n, prices, limit)
    _remember(s, best)
