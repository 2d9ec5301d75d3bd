"""Simulated annealing in one kernel: shifts, swaps, and swaps within a service, which break no rule
between services.

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

from murmuration.base import random
from murmuration.base.arrays import Indices, Integers, RandomState
from murmuration.base.jit import helper, inlined, released
from murmuration.planning.reassignment.state import (
    BREACHES,
    COST,
    EXCESS,
    HELD,
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

#: Of all steps tried: shifts of one task, swaps of any two; the rest are swaps within a service.
SHIFTS, SWAPS = 0.4, 0.4


class Best(NamedTuple):
    """The best assignment that breaks no rule so far, and its cost in an array of one."""

    node_of: Indices
    cost: Integers


class Prices(NamedTuple):
    """What the search pays for one more breach, one unit of excess and one unit held, beside the
    cost itself."""

    breach: float
    excess: float
    held: float


@inlined
def _pick(rng: RandomState, count: int) -> int:
    return int(next_double(rng) * count)


@inlined
def _price_state(s: ReassignmentState, prices: Prices) -> float:
    """What the search pays for the state."""
    breaking = prices.breach * s.totals[BREACHES] + prices.excess * s.totals[EXCESS]
    return float(s.totals[COST] + breaking + prices.held * s.totals[HELD])


@inlined
def _task_change(
    p: ReassignmentProblem, s: ReassignmentState, t: int, m: int, prices: Prices
) -> float:
    """What the move of one task costs beside what it does to the two nodes."""
    change = moved_change(p, s, t, m)
    cost = move_cost(p, t, m) - move_cost(p, t, s.node_of[t])
    cost += service_cost(p, s, p.service[t], change)
    return float(cost + prices.held * change * p.left_behind[t])


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
    at most `limit`."""
    m = s.node_of[t]
    back, other = (1, u) if u >= 0 else (0, 0)
    excess = node_excess(p, s, n, t, 1, other, back) - s.node_excess[n] - s.node_excess[m]
    change = -float(s.node_cost[m] + s.node_cost[n])
    # A lower bound: both nodes would cost nothing afterwards, and only the excess of one is known.
    # What a move might save otherwise (breaches, cost of moves taken back) is not counted, so a few
    # steps that would have been accepted are not.
    if change + prices.excess * excess > limit:
        return False
    if back == 1 or s.node_excess[m] > 0:
        excess += node_excess(p, s, m, other, back, t, 1)
    change += prices.excess * excess
    if change > limit:
        return False
    change += _task_change(p, s, t, n, prices)
    if back:
        change += _task_change(p, s, u, m, prices)
    # Two tasks of one service that change places break nothing.
    if not back or p.service[t] != p.service[u]:
        change += prices.breach * breaches_of(p, s, t, n)
        if back:
            change += prices.breach * breaches_of(p, s, u, m)
    if change > limit:
        return False
    change += node_cost(p, s, n, t, 1, other, back) + node_cost(p, s, m, other, back, t, 1)
    return bool(change <= limit)


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
def _draw(
    p: ReassignmentProblem, s: ReassignmentState, pool: Indices, rng: RandomState
) -> tuple[int, int, int]:
    """A step at random: a task, the one it changes places with (−1: none), and the node; node −1 if
    none can be."""
    t = pool[_pick(rng, pool.shape[0])]
    a, m, u = p.service[t], s.node_of[t], -1
    draw = next_double(rng)
    if draw < SHIFTS:
        n = _pick(rng, p.capacity.shape[0])
    elif draw < SHIFTS + SWAPS:
        u = pool[_pick(rng, pool.shape[0])]
        n = s.node_of[u]
    else:
        u = p.members[p.member_from[a] + _pick(rng, p.member_from[a + 1] - p.member_from[a])]
        n = s.node_of[u]
    if n == m:
        return t, u, -1
    taken = s.task_at[a, n] >= 0 or (u >= 0 and s.task_at[p.service[u], m] >= 0)
    if taken and (u < 0 or p.service[u] != a):
        return t, u, -1
    return t, u, n


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
    pool: Indices,
    rng: RandomState,
    steps: int,
    temperature: float,
    prices: Prices,
) -> None:
    """Try so many steps at a temperature."""
    for _ in range(steps):
        limit = -temperature * math.log(1.0 - next_double(rng))
        t, u, n = _draw(p, s, pool, rng)
        if (
            n >= 0
            and _affordable(p, s, t, u, n, prices, limit)
            and _exchange(p, s, t, u, n, prices, limit)
        ):
            _remember(s, best)
