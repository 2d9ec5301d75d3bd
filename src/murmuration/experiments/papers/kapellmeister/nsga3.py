"""Kapellmeister's search as its paper describes it, so that its figures can be reproduced.

A chromosome is a node or none per container. Parents win tournaments on feasibility (overloaded
nodes), meet in one-point crossover, and their children are mutated in four ways: two containers
swap nodes, one changes its node, one without a node gets one, one with a node loses it. NSGA-III
chooses who stays, the less infeasible first. Nothing is seeded, repaired or improved, and leaving
containers out is an objective like the others: that is why it drifts there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.assignment import objectives as of
from murmuration.assignment.evaluate import evaluate
from murmuration.assignment.packed import Packed, Work
from murmuration.assignment.search.selection import (
    rank_fronts,
    reference_points,
    select_survivors,
    sov,
)
from murmuration.base.arrays import Floats, Integers
from murmuration.base.random import generator

Placements = NDArray[np.int32]


@dataclass(frozen=True)
class Literal:
    """The settings of the authors' program."""

    population: int = 100
    generations: int = 200
    tournament: int = 7
    mutation: float = 0.3
    partitions: int = 8
    assigned: float = 0.9
    seed: int = 1


@dataclass
class SearchOutcome:
    """The last front: placements, their objectives, overloaded nodes, and the range of every
    generation."""

    placements: Placements
    values: Floats
    bad: Floats
    history: list[dict[str, list[float]]] = field(default_factory=list)

    def trade_off(self) -> int:
        """The authors' choice: the lowest mean of normalised objectives."""
        return int(sov(self.values, np.ones(self.values.shape[1])).argmin())

    def fullest(self) -> int:
        """The one that leaves the fewest containers out; the lowest mean among those."""
        left = self.values[:, of.UNPLACED]
        merit = sov(self.values, np.ones(self.values.shape[1]))
        return int(np.where(left == left.min(), merit, np.inf).argmin())


def search(
    work: Work,
    literal: Literal,
    moves: bool = False,
    progress: Callable[[float], Any] = lambda s: None,
) -> SearchOutcome:
    """Five objectives, or six with the containers that moved: the search from random
    chromosomes."""
    packed, rng = work.packed, generator(literal.seed, "kapellmeister")
    columns = 6 if moves else 5
    points = reference_points(columns, literal.partitions)
    tasks, nodes = len(packed.request), len(packed.total)
    rows = rng.integers(0, nodes, (literal.population, tasks)).astype(np.int32)
    rows[rng.random(rows.shape) >= literal.assigned] = -1
    values, bad = _evaluate_rows(packed, rows, columns)
    history = [_range(values)]
    for generation in range(literal.generations):
        children = _breed(rows, bad, nodes, literal, rng)
        child_values, how_bad = _evaluate_rows(packed, children, columns)
        rows, values, bad = (
            np.concatenate([rows, children]),
            np.concatenate([values, child_values]),
            np.append(bad, how_bad),
        )
        survivors = select_survivors(values, bad, points, literal.population, rng)
        rows, values, bad = rows[survivors], values[survivors], bad[survivors]
        history.append(_range(values))
        progress((generation + 1) / literal.generations)
    best = rank_fronts(values, bad) == 0
    return SearchOutcome(rows[best], values[best], bad[best], history)


def _evaluate_rows(packed: Packed, rows: Placements, columns: int) -> tuple[Floats, Floats]:
    values, overloaded = evaluate(packed, rows, False)
    return values[:, :columns], overloaded.astype(np.float64)


def _range(values: Floats) -> dict[str, list[float]]:
    edges = {"low": values.min(axis=0), "mean": values.mean(axis=0), "high": values.max(axis=0)}
    return {name: row.tolist() for name, row in edges.items()}


def _breed(
    rows: Placements, bad: Floats, nodes: int, literal: Literal, rng: np.random.Generator
) -> Placements:
    count, tasks = rows.shape
    drawn = rng.integers(0, count, (count, literal.tournament))
    # Ties are broken at random, as the paper has it.
    winners = drawn[np.arange(count), (bad[drawn] + rng.random(drawn.shape) * 0.5).argmin(axis=1)]
    first, second = rows[winners[0::2]], rows[winners[1::2]]
    cut = rng.integers(1, max(tasks, 2), (len(second), 1))
    left = np.arange(tasks) < cut
    first = first[: len(second)]
    children = np.concatenate([np.where(left, first, second), np.where(left, second, first)])
    for child in children:
        _mutate(child, nodes, literal.mutation, rng)
    return children


def _mutate(
    child: Integers | Placements, nodes: int, rate: float, rng: np.random.Generator
) -> None:
    """Each of the four with the same probability, once."""
    tasks = len(child)
    swap, change, assign, unassign = rng.random(4) < rate
    if swap:
        a, b = rng.integers(0, tasks, 2)
        child[a], child[b] = child[b], child[a]
    for wanted, those, node in (
        (change, child >= 0, True),
        (assign, child < 0, True),
        (unassign, child >= 0, False),
    ):
        choice = np.flatnonzero(those & wanted)
        if len(choice):
            child[rng.choice(choice)] = rng.integers(0, nodes) if node else -1
