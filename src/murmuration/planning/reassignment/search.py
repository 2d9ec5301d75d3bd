"""The search of a better assignment: two annealing chains side by side, bounded by seconds or by steps.

Both chains cool by the share of the budget that is spent. Bounded by steps, one seed gives one result; bounded by
seconds, how far a chain comes depends on the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from murmuration.cluster import random
from murmuration.planning.reassignment.anneal import Best, Prices, anneal
from murmuration.planning.reassignment.model import Array, Model
from murmuration.planning.reassignment.state import COST, Problem, State, problem, state

CHAINS = 2
#: Steps between two looks at the clock.
SLICE = 100_000
#: A task is drawn in proportion to this power of its size; so many copies stand for the mean one.
LARGE_OFTEN, COPIES = 0.3, 20


def _between(start: float, end: float, share: float) -> float:
    """From one to the other by equal factors."""
    return float(start * (end / start) ** share)


class Schedule(NamedTuple):
    """Temperatures and prices at the start and the end of a chain.

    Temperatures are in mean tasks (what a task requires, by load weight), so that one schedule serves all instances.
    """

    hot: float = 0.25
    #: Large tasks find their nodes while it is hot, so most of the budget goes there; the rest settles quickly.
    warm: float = 0.0025
    warm_at: float = 0.65
    cold: float = 0.00003
    #: In temperatures, so that breaches stay rare and possible at every temperature.
    breach: float = 8.0
    excess: float = 1_000.0
    excess_end: float = 1_000_000.0
    #: Room that moved tasks still hold is scarce: paid for at first, free when this share of the budget is spent.
    held: float = 0.4
    held_until: float = 0.9

    def prices(self, spent: float) -> Prices:
        excess = _between(self.excess, self.excess_end, spent)
        return Prices(self.breach, excess, self.held * max(0.0, 1.0 - spent / self.held_until))

    def temperature(self, spent: float) -> float:
        if spent < self.warm_at:
            return _between(self.hot, self.warm, spent / self.warm_at)
        return _between(self.warm, self.cold, (spent - self.warm_at) / (1.0 - self.warm_at))


class Chain(NamedTuple):
    """One annealing chain: the problem, where it is, the best it has seen, whom it draws, and its generator."""

    problem: Problem
    state: State
    best: Best
    pool: Array
    mean: float
    rng: Array

    def advance(self, schedule: Schedule, spent: float, steps: int) -> None:
        """Try so many steps at the temperature that this share of the budget stands for."""
        at = self.mean * schedule.temperature(spent)
        prices = schedule.prices(spent)
        prices = prices._replace(breach=prices.breach * at)
        anneal(self.problem, self.state, self.best, self.pool, self.rng, steps, at, prices)


def search(
    model: Model,
    initial: Array,
    seed: int,
    *,
    seconds: float | None = None,
    evaluations: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> Array:
    """The best assignment found within the seconds, or else within the evaluations; at worst the initial one."""
    chains = [_chain(model, initial, seed, k) for k in range(CHAINS)]
    # Compiled before the clock starts.
    chains[0].advance(Schedule(), 1.0, 0)
    run = _counted(evaluations // CHAINS) if seconds is None else _timed(seconds, clock)
    with ThreadPoolExecutor(CHAINS) as threads:
        list(threads.map(lambda chain: run(chain, Schedule()), chains))
    return min((chain.best for chain in chains), key=lambda best: int(best.cost[0])).node_of


Run = Callable[[Chain, Schedule], None]


def _timed(seconds: float, clock: Callable[[], float]) -> Run:
    """Cool by a clock, which each thread reads for itself."""

    def run(chain: Chain, schedule: Schedule) -> None:
        start = clock()
        while (spent := (clock() - start) / seconds) < 1.0:
            chain.advance(schedule, spent, SLICE)

    return run


def _counted(steps: int) -> Run:
    """Cool by the number of steps, in at least a hundred stages."""

    def run(chain: Chain, schedule: Schedule) -> None:
        size = max(1, min(SLICE, steps // 100))
        for done in range(0, steps, size):
            chain.advance(schedule, done / steps, min(size, steps - done))

    return run


def _chain(model: Model, initial: Array, seed: int, number: int) -> Chain:
    p = problem(model, initial)
    start = state(p, initial)
    size = (model.request * model.load_weight).sum(axis=1)
    best = Best(initial.copy(), start.totals[COST : COST + 1].copy())
    rng = random.state(seed, f"chain-{number}")
    return Chain(p, start, best, _pool(size), max(1.0, float(size.mean())), rng)


def _pool(size: Array) -> Array:
    """Tasks to draw from, larger ones more often: they decide most and find room least."""
    weight = np.maximum(size, 1.0) ** LARGE_OFTEN
    copies = np.maximum(1, np.round(weight / weight.mean() * COPIES)).astype(np.int64)
    return np.repeat(np.arange(len(size)), copies)
