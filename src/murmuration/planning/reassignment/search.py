"""The search for a better assignment: two annealing chains side by side, bounded by seconds, CPU
seconds or steps.

Both chains cool by the share of the budget that is spent. On small instances they meet a few times:
one that is far behind goes on from where the other is. Bounded by steps, one seed gives one result;
bounded by seconds, how far a chain comes depends on the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from murmuration.base import random
from murmuration.base.arrays import Indices, Integers
from murmuration.planning.reassignment.anneal import Best, Draws, Prices, anneal, make_draws
from murmuration.planning.reassignment.model import Model
from murmuration.planning.reassignment.state import (
    BREACHES,
    COST,
    EXCESS,
    HELD,
    MOVED,
    ReassignmentProblem,
    ReassignmentState,
    make_problem,
    make_state,
    rebuild,
)

#: Steps between two looks at the clock.
SLICE = 20_000
#: Shares of the budget at which the chains meet, and how many temperatures behind is far.
MEETINGS, FAR_BEHIND = (0.3, 0.4, 0.5, 0.6, 0.7, 0.85), 20.0
#: A small instance is cooled so slowly in a fraction of the budget that it is done again and again:
#: so many steps for each task and node are enough, and about so many are made in a second.
STEPS_ENOUGH, STEPS_PER_S = 10_000, 5_000_000
#: How many times dearer a breach is once it is out of reach.
FORBIDDEN = 1_000.0
#: How often a mean task stands in the pool that tasks are drawn from.
COPIES = 4


def _interpolate(start: float, end: float, share: float) -> float:
    """From one to the other by equal factors."""
    return float(start * (end / start) ** share)


class Schedule(NamedTuple):
    """Temperatures and prices at the start and the end of a chain.

    Temperatures are in mean tasks (what a task requires, by load weight), so that one schedule
    serves all instances.
    """

    #: Share of the budget and temperature. Large tasks find their nodes while it is hot, small ones
    #: while it is warm, so most of the budget goes there; in the end it is so cold that moves
    #: nobody needs are taken back.
    cooling: tuple[tuple[float, float], ...] = (
        (0.0, 0.25),
        (0.6, 2.5e-3),
        (0.95, 3e-5),
        (1.0, 1e-6),
    )
    #: In temperatures, so that breaches stay rare and possible while it is hot. Once it is cold one
    #: may save many temperatures, and the more rules there are the more would stay: so the price
    #: stops falling early, while those there are can still be mended, and later is out of reach.
    breach: float = 8.0
    breach_until: float = 0.15
    breach_forbidden: float = 0.6
    excess: float = 1_000.0
    excess_end: float = 1_000_000.0
    #: In temperatures: what it costs that the mean task holds transient resources where it was, and
    #: three quarters of that for any moved task. There are many more places to be than home, so
    #: while it is hot nearly all tasks would be away from it, and that room is what runs out. At
    #: first nobody moves at this price, then those that save most.
    away: float = 1.5
    #: A task is drawn in proportion to this power of its size.
    large_often: float = 0.0
    #: Whether a chain that is far behind goes on from where the other is. What is cheaper early is
    #: not better in the end where room runs out.
    meets: bool = True

    def prices(self, spent: float, mean: float, held: float) -> Prices:
        """The prices at a share of the budget, for an instance with tasks of this mean size that
        hold so much where they were."""
        breach = self.breach * self.temperature(min(spent, self.breach_until))
        breach *= FORBIDDEN if spent > self.breach_forbidden else 1.0
        excess = _interpolate(self.excess, self.excess_end, spent)
        away = self.away * self.temperature(spent) * mean if held else 0.0
        return Prices(breach * mean, excess, away / max(held, 1.0), 0.75 * away)

    def temperature(self, spent: float) -> float:
        for (begin, high), (end, low) in pairwise(self.cooling):
            if spent < end:
                return _interpolate(high, low, (spent - begin) / (end - begin))
        return self.cooling[-1][1]


#: One chain looks at all tasks alike, the other at large ones more often. The other breaks no rule
#: between services at any time: where there are very many of them, a breach that takes several
#: moves to mend may last to the end, and then nothing but the start would be left.
SCHEDULES = (Schedule(), Schedule(large_often=0.3, breach_forbidden=-1.0))
#: From so many pairs of a task and a node on, a minute is not enough to wander, and rules that are
#: broken on the way cost too much time: tasks stay at home more, and it is colder from the start.
LARGE = 200_000
LARGE_COOLING = ((0.0, 0.12), (0.5, 0.015), (0.9, 7e-4), (1.0, 1e-6))
LARGE_SCHEDULE = Schedule(
    LARGE_COOLING, away=3.5, large_often=0.3, breach_forbidden=-1.0, meets=False
)


class AnnealingChain(NamedTuple):
    """One annealing chain: the problem, where it is, the best it has seen, whom it draws, and its
    generator."""

    schedule: Schedule
    problem: ReassignmentProblem
    state: ReassignmentState
    best: Best
    draws: Draws
    #: Of all tasks: their size, and what they hold of transient resources where they were.
    mean: float
    mean_held: float

    def temperature(self, spent: float) -> float:
        return self.mean * self.schedule.temperature(spent)

    def advance(self, spent: float, steps: int) -> None:
        """Try so many steps at the temperature that this share of the budget stands for."""
        at, prices = self.temperature(spent), self.prices(spent)
        anneal(self.problem, self.state, self.best, self.draws, steps, at, prices)

    def prices(self, spent: float) -> Prices:
        return self.schedule.prices(spent, self.mean, self.mean_held)

    def price(self, prices: Prices) -> float:
        """What the chain pays for where it is."""
        totals = self.state.totals
        breaking = prices.breach * totals[BREACHES] + prices.excess * totals[EXCESS]
        away = prices.held * totals[HELD] + prices.moved * totals[MOVED]
        return float(totals[COST] + breaking + away)


def search(
    model: Model,
    initial: Indices,
    seed: int,
    *,
    seconds: float | None = None,
    cpu_seconds: float | None = None,
    evaluations: int = 0,
) -> Indices:
    """The best assignment within the seconds by the clock and the CPU seconds of each chain,
    whichever are over first, or else within the evaluations; at worst the initial one."""
    chains = [make_chain(model, initial, seed, k) for k in range(len(SCHEDULES))]
    # Compiled before the clock starts.
    chains[0].advance(1.0, 0)
    limits = [limit for limit in (seconds, cpu_seconds) if limit is not None]
    steps = int(min(limits) * STEPS_PER_S) if limits else evaluations // len(chains)
    run = _run_by_time(seconds, cpu_seconds) if limits else _run_by_steps(steps)
    coolings = max(1, steps // (STEPS_ENOUGH * len(model.capacity) * len(initial)))
    with ThreadPoolExecutor(len(chains)) as threads:
        for begin, end in pairwise((0.0, *MEETINGS, 1.0)):
            list(threads.map(lambda chain, b=begin, e=end: run(chain, b, e, coolings), chains))
            if coolings == 1 and chains[0].schedule.meets:
                synchronise(chains[0], chains[1], end)
    return min((chain.best for chain in chains), key=lambda best: int(best.cost[0])).node_of


def synchronise(one: AnnealingChain, other: AnnealingChain, spent: float) -> None:
    """Let the chain that is far behind go on from where the other is."""
    temperature = one.temperature(spent)
    prices = one.prices(spent)
    behind = one.price(prices) - other.price(prices)
    if behind > FAR_BEHIND * temperature:
        rebuild(one.problem, one.state, other.state.node_of.copy())
    elif behind < -FAR_BEHIND * temperature:
        rebuild(other.problem, other.state, one.state.node_of.copy())


#: Advances a chain from one share of the budget to another, if it is to cool so many times in all.
Run = Callable[[AnnealingChain, float, float, int], None]


def _run_by_time(seconds: float | None, cpu_seconds: float | None) -> Run:
    """Cool by the clock and by the thread's own CPU time, whichever is further.

    By the clock alone a chain cools too fast on a machine that does other work too; by CPU time
    alone nobody knows when it ends.
    """
    wall = np.inf if seconds is None else seconds
    cpu = np.inf if cpu_seconds is None else cpu_seconds

    def run(chain: AnnealingChain, begin: float, end: float, coolings: int) -> None:
        start, cpu_start = time.monotonic(), time.thread_time()
        spent = begin
        while spent < end:
            chain.advance(spent * coolings % 1.0, SLICE)
            shares = (time.monotonic() - start) / wall, (time.thread_time() - cpu_start) / cpu
            spent = begin + max(shares)
        if end == 1.0:
            # However few pieces there was time for, the last one is as cold as it gets.
            chain.advance(1.0, SLICE)

    return run


def _run_by_steps(steps: int) -> Run:
    """Cool by the number of steps, in at least a hundred stages."""

    def run(chain: AnnealingChain, begin: float, end: float, coolings: int) -> None:
        size = max(1, min(SLICE, steps // (100 * coolings)))
        last = int(end * steps)
        for done in range(int(begin * steps), last, size):
            chain.advance(done / steps * coolings % 1.0, min(size, last - done))

    return run


def make_chain(model: Model, initial: Indices, seed: int, number: int) -> AnnealingChain:
    """The chain of this number, at the initial assignment."""
    p = make_problem(model, initial)
    start = make_state(p, initial)
    size = (model.request * model.load_weight).sum(axis=1)
    best = Best(initial.copy(), start.totals[COST : COST + 1].copy())
    is_large = len(model.capacity) * len(initial) >= LARGE
    schedule = LARGE_SCHEDULE if is_large else SCHEDULES[number]
    rng = random.state(seed, f"chain-{number}")
    draws = make_draws(_draw_pool(size, schedule), rng)
    mean, held = max(1.0, float(size.mean())), float(p.left_behind.mean())
    return AnnealingChain(schedule, p, start, best, draws, mean, held)


def _draw_pool(size: Integers, schedule: Schedule) -> Indices:
    """Tasks to draw from, larger ones more often: they decide most and find room least."""
    if not schedule.large_often:
        return np.arange(len(size))
    weight = np.maximum(size, 1.0) ** schedule.large_often
    copies = np.maximum(1, np.round(weight / weight.mean() * COPIES)).astype(np.int64)
    return np.repeat(np.arange(len(size)), copies)
