"""The genetic search: NSGA-III whose children are improved by local search, seeded, with an
archive.

Each child has a direction of its own, a weighting of the objectives; crossover puts it together
from two parents that are good in that direction and local search takes it further. That local
search, with the change of one move computed from two nodes, is what makes the front good; speed
alone does not. Every placement is allowed from the start, so "everything placed" is never traded
away. The search ends after a number of evaluations and so repeats exactly; a time limit, which is
the caller's, only stops it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.assignment import objectives as of
from murmuration.assignment.evaluate import COUNT, evaluate
from murmuration.assignment.objectives import Objective
from murmuration.assignment.packed import Placement, Work
from murmuration.assignment.problem import SPREAD, Floats, Integers, broken, new_violations
from murmuration.assignment.search.archive import Archive
from murmuration.assignment.search.construct import RECIPES, construct
from murmuration.assignment.search.improve import breed, improve, place_left, refine, relieve
from murmuration.assignment.search.selection import partitions_for, reference_points, survivors
from murmuration.assignment.state import load, new_state
from murmuration.base.random import generator
from murmuration.base.random import state as random_state

Placements = NDArray[np.int32]
#: What a task without a node weighs against everything else.
EVERYTHING = 1e9
#: Local moves tried for a child, per task; children made at a time; rounds of the search for what
#: beats the reference.
TRIES, BATCH, ROUNDS = 10, 8, 24


@dataclass(frozen=True)
class Settings:
    """How far a search goes: at most so many placements evaluated (None: by size), or until it is
    told to stop."""

    population: int = 92
    evaluations: int | None = None
    seed: int = 1
    stopped: Callable[[], bool] = lambda: False
    tries: int = TRIES
    limits: tuple[tuple[int, float], ...] = ()


@dataclass
class Search:
    """A search under way. `values` has a column per objective wanted, `all_values` one per built-in
    objective."""

    work: Work
    objectives: Sequence[Objective]
    settings: Settings
    archive: Archive = field(init=False)
    placements: Placements = field(init=False)
    values: Floats = field(init=False)
    bad: Floats = field(init=False)
    evaluations: int = 0
    history: list[dict[str, list[float]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        packed = self.work.packed
        self.state = new_state(packed)
        self.rng = generator(self.settings.seed, "plan")
        #: By what a task without a node is placed: even use of CPU and memory, then few tasks on a
        #: node.
        self.even = np.zeros(COUNT)
        self.even[of.IMBALANCE], self.even[of.CROWDING] = 1.0, 1e-3
        self.bits = random_state(self.settings.seed, "plan", "moves")
        self.scratch = np.empty(max(len(packed.request), 1), dtype=np.int64)
        self.archive = Archive(len(packed.request), len(self.objectives))
        self.columns = np.array([objective.index for objective in self.objectives])
        self.built_in = np.flatnonzero(self.columns >= 0)
        self.points = reference_points(
            len(self.objectives), partitions_for(len(self.objectives), self.settings.population)
        )

    def measure(self, placements: Placements) -> tuple[Floats, Floats]:
        """The objectives wanted, and how bad each placement is: tasks left, nodes overloaded,
        limits passed."""
        everything, overloaded = evaluate(self.work.packed, placements)
        self.evaluations += len(placements)
        # A millionth less is rounding, and no reason to keep a placement.
        values = everything[:, self.columns].round(6)
        for k, objective in enumerate(self.objectives):
            if objective.function is not None:
                values[:, k] = [
                    objective.function(self.work.problem, self.work.restored(x)) for x in placements
                ]
        bad = overloaded * 1e6 + everything[:, of.PRIORITY] * 1e3
        for index, most in self.settings.limits:
            bad += np.maximum(everything[:, index] - most, 0.0) / max(most, 1.0)
        return values, bad

    def weights(self, directions: Floats) -> Floats:
        """Directions over the objectives wanted as weights over all, each in units of its range so
        far."""
        seen = self.archive.front if self.archive.count > 1 else self.values
        span = seen.max(axis=0) - seen.min(axis=0)
        span = np.where(span > 0, span, np.maximum(np.abs(seen).max(axis=0) * 0.01, 1e-9))
        found = np.zeros((len(directions), COUNT))
        found[:, self.columns[self.built_in]] = (directions / span)[:, self.built_in]
        for index, most in self.settings.limits:
            found[:, index] += 1.0 / max(most, 1.0)
        found[:, of.UNPLACED] += EVERYTHING
        found[:, of.PRIORITY] += EVERYTHING
        return found

    def directions(self, count: int) -> Floats:
        """Reference points, blurred: between them lies most of the front."""
        chosen = self.points[self.rng.integers(len(self.points), size=count)]
        blurred = chosen + self.rng.exponential(0.5 / self.points.shape[1], size=chosen.shape) * 0.3
        return np.asarray(blurred / blurred.sum(axis=1, keepdims=True))

    def seed(self, more: Sequence[Placement] = ()) -> None:
        """The first population: what is there, every greedy recipe, and others improved from
        these."""
        seeds = [
            self.repaired(self.mended(x)) for x in [self.work.packed.start.astype(np.int32), *more]
        ]
        # Made from nothing, they may leave a pinned task without those it must lie with.
        seeds += [
            x
            for x in (self.repaired(construct(self.work, name)) for name in RECIPES)
            if self.allowed(x)
        ]
        self.placements = np.array(seeds, dtype=np.int32)
        self.values, self.bad = self.measure(self.placements)
        self.remember(self.placements, self.values, self.bad)
        self.record()

    def repaired(self, placement: Placement) -> Placement:
        """With every task placed that can be, and no node overloaded where that can be helped."""
        packed = self.work.packed
        load(packed, self.state, placement)
        relieve(packed, self.state, self.even, self.bits)
        place_left(packed, self.state, self.even, self.bits)
        return self.state.x.copy()

    def start_of(self, placement: Placement) -> Placement:
        """Where the search for something better than a placement begins."""
        return self.repaired(self.mended(placement))

    def mended(self, placement: Placement) -> Placement:
        """Without the tasks by which rules are broken already, where other nodes would take
        them."""
        problem, packed = self.work.problem, self.work.packed
        node_of = self.work.restored(placement)
        out = np.zeros(len(node_of), dtype=np.bool_)
        for rule in problem.rules:
            wrong = list(broken(rule, node_of))
            if not wrong:
                continue
            members = rule.members[node_of[rule.members] >= 0]
            inside = np.isin(rule.domain_of[node_of[members]], wrong)
            out[members if rule.kind == SPREAD else members[inside]] = True
        out &= problem.movable & (node_of >= 0)
        if not out.any():
            return placement
        load(packed, self.state, self.work.placement(np.where(out, -1, node_of)))
        place_left(packed, self.state, self.even, self.bits)
        # Whoever finds no other node stays, broken as it is.
        found = self.work.restored(self.state.x)
        mended = self.work.placement(np.where(found < 0, node_of, found))
        return mended if self.allowed(mended) else placement

    def allowed(self, placement: Placement) -> bool:
        """Whether no rule is broken more than in what is there; without rules the kernels answer
        for everything."""
        problem = self.work.problem
        return not problem.rules or not new_violations(problem, self.work.restored(placement))

    def remember(self, placements: Placements, values: Floats, bad: Floats) -> None:
        for x, value, how_bad in zip(placements, values, bad, strict=True):
            self.archive.add(value, float(how_bad), x)

    def generation(self) -> None:
        """As many children as the population holds, and the best of both."""
        litters: list[tuple[Placements, Floats, Floats]] = []
        for _ in range(0, self.settings.population, BATCH):
            born = self.litter(BATCH)
            values, bad = self.measure(born)
            self.remember(born, values, bad)
            litters.append((born, values, bad))
            if self.over():
                break
        columns = zip((self.placements, self.values, self.bad), *litters, strict=True)
        self.placements, self.values, self.bad = (np.concatenate(column) for column in columns)
        kept = survivors(self.values, self.bad, self.points, self.settings.population, self.rng)
        self.placements, self.values, self.bad = (
            self.placements[kept],
            self.values[kept],
            self.bad[kept],
        )
        self.record()

    def litter(self, count: int) -> Placements:
        directions = self.directions(count)
        span = np.maximum(np.ptp(self.values, axis=0), 1e-12)
        scaled = (self.values - self.values.min(axis=0)) / span
        pairs = np.array([self.parents(scaled @ direction) for direction in directions])
        children = np.empty((count, self.placements.shape[1]), dtype=np.int32)
        tries = self.settings.tries * max(len(self.work.packed.movable), 1)
        breed(
            self.work.packed,
            self.state,
            self.placements,
            pairs,
            self.weights(directions),
            tries,
            self.bits,
            self.scratch,
            children,
        )
        return children

    def parents(self, merit: Floats) -> Integers:
        """The best of a few drawn at random, less bad before better, and a second one likewise."""
        found = []
        for _ in range(2):
            drawn = self.rng.integers(len(merit), size=max(2, len(merit) // 4))
            found.append(min(drawn.tolist(), key=lambda k: (self.bad[k], merit[k])))
        return np.array(found)

    def toward(self, reference: Floats, start: Placement, rounds: int = ROUNDS) -> None:
        """Look for a placement no worse than the reference in anything: what is worse weighs more
        in the next round."""
        packed = self.work.packed
        direction = np.full(len(self.objectives), 1.0 / len(self.objectives))
        for _ in range(rounds):
            load(packed, self.state, start)
            tries = self.settings.tries * max(len(packed.movable), 1)
            improve(packed, self.state, self.weights(direction[None])[0], tries, self.bits)
            found = self.state.x[None].copy()
            values, bad = self.measure(found)
            self.remember(found, values, bad)
            worse = values[0] > reference + 1e-9 * np.abs(reference)
            if self.over():
                return
            direction = np.where(worse, direction * 2.0, direction * 0.8)
            direction /= direction.sum()
            # Once nothing is worse, go on from there.
            start = start if worse.any() else found[0]

    def refined(self, start: Placement) -> None:
        """Look around a placement for what makes nothing worse: where all others trade, this may
        still be better."""
        counted = [k for k in self.columns.tolist() if k >= 0 and k not in (of.MOVES, of.MEGABYTES)]
        units = np.eye(COUNT)[counted]
        load(self.work.packed, self.state, start)
        refine(
            self.work.packed,
            self.state,
            units,
            ROUNDS * self.settings.tries * len(start),
            self.bits,
        )
        found = self.state.x[None].copy()
        self.remember(found, *self.measure(found))

    def record(self) -> None:
        """The least, mean and largest value of each objective in the population, for the figures
        over generations."""
        self.history.append(
            {
                "low": self.values.min(axis=0).tolist(),
                "mean": self.values.mean(axis=0).tolist(),
                "high": self.values.max(axis=0).tolist(),
            }
        )

    def budget(self) -> int:
        """Evaluations to make; by default about a hundred million local moves."""
        if self.settings.evaluations is not None:
            return self.settings.evaluations
        each = self.settings.tries * max(len(self.work.packed.movable), 1)
        return int(np.clip(1e8 // each, 200, 5000))

    def over(self) -> bool:
        return self.evaluations >= self.budget() or self.settings.stopped()

    def run(self, progress: Callable[[float], Any] = lambda share: None) -> None:
        """Generations until the budget or the time is spent."""
        while not self.over() and len(self.work.packed.movable):
            self.generation()
            progress(min(self.evaluations / self.budget(), 1.0))
