"""The genetic search: NSGA-III whose offspring are improved by local search, seeded, with an
archive.

Each child has its own direction, a weighting of the objectives; crossover puts it together from two
parents that are good in that direction and local search takes it further. That local search, with
the change of one move computed from two nodes, is what makes the front good; speed alone does not.
Every placement is allowed from the start, so "everything placed" is never traded away. The search
ends after a number of evaluations and so repeats exactly; a time limit, which is the caller's, only
stops it.

Placements are in packed order here (`packed.Work`). Two sources of random numbers are kept apart: a
NumPy generator for the decisions of this module, and the state kernels draw from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from murmuration.assignment import objectives as of
from murmuration.assignment.evaluate import evaluate
from murmuration.assignment.objectives import COUNT, Objective
from murmuration.assignment.packed import Work
from murmuration.assignment.problem import SPREAD, find_broken, new_violations
from murmuration.assignment.search.archive import Archive
from murmuration.assignment.search.construct import RECIPES, construct
from murmuration.assignment.search.improve import (
    breed,
    improve,
    place_unplaced,
    refine,
    relieve,
)
from murmuration.assignment.search.selection import (
    finest_partition,
    reference_points,
    select_survivors,
)
from murmuration.assignment.state import load, new_state
from murmuration.base.arrays import Floats, Indices, Placement, Placements, Scores, Weights
from murmuration.base.random import generator
from murmuration.base.random import state as random_state

#: What a task without a node weighs against everything else.
EVERYTHING = 1e9
#: Local moves tried for a child, per task; children made at a time; rounds of the search for a
#: placement that beats the reference.
TRIES, BATCH, ROUNDS = 10, 8, 24


@dataclass(frozen=True)
class Settings:
    """How far a search goes: at most so many placements evaluated (None: by size), or until
    `stopped` says so."""

    population: int = 92
    evaluations: int | None = None
    seed: int = 1
    stopped: Callable[[], bool] = lambda: False
    tries: int = TRIES
    limits: tuple[tuple[int, float], ...] = ()


@dataclass
class Search:
    """A search under way: the population (`placements`, their `values` with a column per objective
    wanted, and how `bad` each is), and the archive of the best."""

    work: Work
    objectives: Sequence[Objective]
    settings: Settings
    archive: Archive = field(init=False)
    placements: Placements = field(init=False)
    values: Floats = field(init=False)
    bad: Scores = field(init=False)
    evaluations: int = 0
    history: list[dict[str, list[float]]] = field(default_factory=list)
    #: What each greedy recipe made of the cluster, before it was repaired.
    constructed: dict[str, Placement] = field(default_factory=dict)

    def __post_init__(self) -> None:
        packed = self.work.packed
        self.state = new_state(packed)
        self.rng = generator(self.settings.seed, "plan")
        #: The weights by which a task without a node is placed: even use of CPU and memory, then
        #: few tasks on a node.
        self.even = np.zeros(COUNT)
        self.even[of.IMBALANCE], self.even[of.CROWDING] = 1.0, 1e-3
        self.bits = random_state(self.settings.seed, "plan", "moves")
        self.scratch = np.empty(max(len(packed.request), 1), dtype=np.int64)
        self.archive = Archive(len(packed.request), len(self.objectives))
        self.columns = np.array([objective.index for objective in self.objectives])
        self.built_in = np.flatnonzero(self.columns >= 0)
        self.points = reference_points(
            len(self.objectives), finest_partition(len(self.objectives), self.settings.population)
        )

    def measure(self, placements: Placements) -> tuple[Floats, Scores]:
        """The objectives wanted, and how bad each placement is: tasks left, nodes overloaded,
        limits passed."""
        everything, overloaded = evaluate(self.work.packed, placements)
        self.evaluations += len(placements)
        # A millionth less is rounding, and no reason to keep a placement.
        values = everything[:, self.columns].round(6)
        for k, objective in enumerate(self.objectives):
            if objective.function is not None:
                values[:, k] = [
                    objective.function(self.work.problem, self.work.restore(x)) for x in placements
                ]
        bad = overloaded * 1e6 + everything[:, of.PRIORITY] * 1e3
        for index, limit in self.settings.limits:
            over = np.maximum(everything[:, index] - limit, 0.0) / max(limit, 1.0)
            # The present placement moves nothing, so a limit of moves can always be kept, and is
            # even where more moves would place more. Other limits may be out of reach.
            bad += over * (EVERYTHING if index in (of.MOVES, of.MEGABYTES) else 1.0)
        return values, bad

    def weights(self, directions: Floats) -> Weights:
        """Directions over the objectives wanted as weights over all, each in units of its range so
        far."""
        seen = self.archive.front if self.archive.count > 1 else self.values
        span = seen.max(axis=0) - seen.min(axis=0)
        span = np.where(span > 0, span, np.maximum(np.abs(seen).max(axis=0) * 0.01, 1e-9))
        weights = np.zeros((len(directions), COUNT))
        weights[:, self.columns[self.built_in]] = (directions / span)[:, self.built_in]
        # What is limited weighs a little although nobody wants it small, or local search would
        # ignore the limit.
        for index, limit in self.settings.limits:
            weights[:, index] += 1.0 / max(limit, 1.0)
        weights[:, of.UNPLACED] += EVERYTHING
        weights[:, of.PRIORITY] += EVERYTHING
        return weights

    def directions(self, count: int) -> Floats:
        """Reference points, blurred: between them lies most of the front."""
        chosen = self.points[self.rng.integers(len(self.points), size=count)]
        blurred = chosen + self.rng.exponential(0.5 / self.points.shape[1], size=chosen.shape) * 0.3
        return np.asarray(blurred / blurred.sum(axis=1, keepdims=True))

    def seed(self, more: Sequence[Placement] = ()) -> None:
        """Make the first population: the present placement, `more`, and every greedy recipe."""
        self.begin(more)
        self.add_recipes()

    def begin(self, more: Sequence[Placement] = ()) -> None:
        """A population of the present placement and `more`."""
        start = self.work.packed.start.astype(np.int32)
        seeds = [self.start_from(x) for x in [start, *more]]
        self.placements = np.array(seeds, dtype=np.int32)
        self.values, self.bad = self.measure(self.placements)
        self.remember(self.placements, self.values, self.bad)

    def add_recipes(self) -> None:
        """Add what every greedy recipe makes of the cluster."""
        seeds = []
        # Recipes place every task that may move from nothing, and so may leave a pinned task
        # without those it must lie with.
        for name in RECIPES:
            if self.settings.stopped():
                break
            self.constructed[name] = construct(self.work, name)
            repaired = self.repair(self.constructed[name])
            seeds.append(repaired)
        self.add_placements(seeds)
        self.record()

    def add_placements(self, more: Sequence[Placement]) -> None:
        """Add placements made elsewhere to the population and the archive, if they are allowed."""
        allowed = [x for x in more if self.is_allowed(x)]
        if not allowed:
            return
        placements = np.array(allowed, dtype=np.int32)
        values, bad = self.measure(placements)
        self.remember(placements, values, bad)
        self.placements = np.concatenate([self.placements, placements])
        self.values = np.concatenate([self.values, values])
        self.bad = np.concatenate([self.bad, bad])

    def repair(self, placement: Placement) -> Placement:
        """Place every task that can be placed, and relieve overloaded nodes where that can be
        done."""
        packed = self.work.packed
        load(packed, self.state, placement)
        relieve(packed, self.state, self.even, self.bits)
        place_unplaced(packed, self.state, self.even, self.bits)
        return self.state.x.copy()

    def start_from(self, placement: Placement) -> Placement:
        """Where the search for something better than a placement begins."""
        return self.repair(self.mend_rules(placement))

    def mend_rules(self, placement: Placement) -> Placement:
        """Move the tasks by which rules are broken already to nodes that would take them, where
        there are any.

        Local search never breaks a rule, but its single moves seldom mend one: all tasks concerned
        leave first, then each is placed where the rules allow it.
        """
        problem, packed = self.work.problem, self.work.packed
        node_of = self.work.restore(placement)
        out = np.zeros(len(node_of), dtype=np.bool_)
        for rule in problem.rules:
            domains = list(find_broken(rule, node_of))
            if not domains:
                continue
            members = rule.members[node_of[rule.members] >= 0]
            inside = np.isin(rule.domain_of[node_of[members]], domains)
            out[members if rule.kind == SPREAD else members[inside]] = True
        out &= problem.movable & (node_of >= 0)
        if not out.any():
            return placement
        load(packed, self.state, self.work.placement(np.where(out, -1, node_of)))
        place_unplaced(packed, self.state, self.even, self.bits)
        # A task that no other node takes stays where it was, although that breaks the rule.
        after = self.work.restore(self.state.x)
        mended = self.work.placement(np.where(after < 0, node_of, after))
        return mended if self.is_allowed(mended) else placement

    def is_allowed(self, placement: Placement) -> bool:
        """Whether no rule is broken more than in the present placement; without rules the kernels
        answer for everything."""
        problem = self.work.problem
        return not problem.rules or not new_violations(problem, self.work.restore(placement))

    def remember(self, placements: Placements, values: Floats, bad: Scores) -> None:
        """Add placements to the archive."""
        for x, value, how_bad in zip(placements, values, bad, strict=True):
            self.archive.add(value, float(how_bad), x)

    def next_generation(self) -> None:
        """Breed as many children as the population holds, and keep the best of both."""
        batches: list[tuple[Placements, Floats, Scores]] = []
        for _ in range(0, self.settings.population, BATCH):
            offspring = self.breed_offspring(BATCH)
            values, bad = self.measure(offspring)
            self.remember(offspring, values, bad)
            batches.append((offspring, values, bad))
            if self.is_over():
                break
        columns = zip((self.placements, self.values, self.bad), *batches, strict=True)
        self.placements, self.values, self.bad = (np.concatenate(column) for column in columns)
        size = self.settings.population
        kept = select_survivors(self.values, self.bad, self.points, size, self.rng)
        self.placements, self.values, self.bad = (
            self.placements[kept],
            self.values[kept],
            self.bad[kept],
        )
        self.record()

    def breed_offspring(self, count: int) -> Placements:
        """Children, each of two parents that are good in its direction."""
        directions = self.directions(count)
        span = np.maximum(np.ptp(self.values, axis=0), 1e-12)
        scaled = (self.values - self.values.min(axis=0)) / span
        pairs = np.array([self.choose_parents(scaled @ direction) for direction in directions])
        children = np.empty((count, self.placements.shape[1]), dtype=np.int32)
        tries = self.settings.tries * max(len(self.work.packed.movable), 1)
        breed(
            self.work.packed,
            self.state,
            self.placements,
            pairs,
            self.weights(directions),
            tries=tries,
            rng=self.bits,
            out=self.scratch,
            children=children,
        )
        return children

    def choose_parents(self, merit: Scores) -> Indices:
        """Two tournaments: the best of a quarter of the population drawn at random, less bad before
        lower merit."""
        winners = []
        for _ in range(2):
            drawn = self.rng.integers(len(merit), size=max(2, len(merit) // 4))
            winners.append(min(drawn.tolist(), key=lambda k: (self.bad[k], merit[k])))
        return np.array(winners)

    def approach(self, reference: Floats, start: Placement, rounds: int = ROUNDS) -> None:
        """Look for a placement no worse than the reference in anything.

        A front is wide and the corner of it that beats a given placement in everything is small; a
        population may never come there. So local search goes out from the start with a direction
        that turns: an objective that came out worse than the reference weighs more in the next
        round, the others less.
        """
        packed = self.work.packed
        direction = np.full(len(self.objectives), 1.0 / len(self.objectives))
        for _ in range(rounds):
            if self.is_over():
                return
            load(packed, self.state, start)
            tries = self.settings.tries * max(len(packed.movable), 1)
            improve(packed, self.state, self.weights(direction[None])[0], tries, self.bits)
            improved = self.state.x[None].copy()
            values, bad = self.measure(improved)
            self.remember(improved, values, bad)
            worse = values[0] > reference + 1e-9 * np.abs(reference)
            direction = np.where(worse, direction * 2.0, direction * 0.8)
            direction /= direction.sum()
            # Once nothing is worse, go on from there.
            start = start if worse.any() else improved[0]

    def refine_from(self, start: Placement) -> None:
        """Look around a placement for moves that make nothing worse and something better: what a
        weighted sum trades away, this keeps."""
        counted = [k for k in self.columns.tolist() if k >= 0 and k not in (of.MOVES, of.MEGABYTES)]
        units = np.eye(COUNT)[counted]
        load(self.work.packed, self.state, start)
        for _ in range(ROUNDS):
            if self.settings.stopped():
                break
            tries = self.settings.tries * len(start)
            refine(self.work.packed, self.state, units, tries, self.bits)
        refined = self.state.x[None].copy()
        self.remember(refined, *self.measure(refined))

    def record(self) -> None:
        """Note the lowest, mean and highest value of each objective in the population, for the
        figures over generations."""
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

    def is_over(self) -> bool:
        """Whether the budget is spent or the caller says stop."""
        return self.evaluations >= self.budget() or self.settings.stopped()

    def run(self, progress: Callable[[float], object] = lambda share: None) -> None:
        """Generations until the budget or the time is spent."""
        while not self.is_over() and len(self.work.packed.movable):
            self.next_generation()
            progress(min(self.evaluations / self.budget(), 1.0))
