"""The libraries `plan.py` is measured against, each wrapped as little as its interface allows."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Track = list[tuple[float, Any]]


class Keeper:
    """Archives what a library evaluates; the time that takes is not counted against it."""

    def __init__(self, shared: Any, archive: Any) -> None:
        self.shared, self.archive = shared, archive(1, 4)
        self.own = 0.0
        self.began = time.process_time()

    def keep(self, values: Any, bad: Any) -> None:
        began = time.process_time()
        for value, how_bad in zip(values, bad, strict=True):
            if how_bad == 0:
                self.archive.add(value, 0.0, np.zeros(1, dtype=np.int32))
        self.own += time.process_time() - began

    def elapsed(self) -> float:
        return time.process_time() - self.began - self.own

    def end(self) -> Track:
        return [(self.elapsed(), self.archive.front.copy())]


def children(shared: Any, a: Any, b: Any, rng: Any) -> tuple[Any, Any]:
    """One-point crossover, a few changed genes, repair."""
    cut = int(rng.integers(1, shared.tasks))
    pair = np.concatenate([a[:cut], b[cut:]]), np.concatenate([b[:cut], a[cut:]])
    for child in pair:
        changed = rng.integers(0, shared.tasks, max(1, int(rng.poisson(2))))
        child[changed] = rng.integers(0, shared.nodes, len(changed))
    return shared.repair(pair[0]), shared.repair(pair[1])


def pymoo(shared: Any, seconds: float, seed: int, archive: Any) -> Track:
    from pymoo.algorithms.moo.nsga3 import NSGA3
    from pymoo.core.crossover import Crossover
    from pymoo.core.mutation import Mutation
    from pymoo.core.problem import Problem
    from pymoo.util.ref_dirs import get_reference_directions

    rng = np.random.default_rng(seed)

    class Placing(Problem):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(
                n_var=shared.tasks, n_obj=4, n_ieq_constr=1, xl=0, xu=shared.nodes - 1, vtype=int
            )

        def _evaluate(self, x: Any, out: Any, *args: Any, **more: Any) -> None:
            values, bad = shared.measure(x)
            keeper.keep(values, bad)
            out["F"], out["G"] = values, bad[:, None].astype(float)

    class Pair(Crossover):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(2, 2, prob=1.0)

        def _do(self, problem: Any, x: Any, **more: Any) -> Any:
            made = [children(shared, a, b, rng) for a, b in zip(x[0], x[1], strict=True)]
            return np.array(made).transpose(1, 0, 2)

    class Nothing(Mutation):  # type: ignore[misc]
        def _do(self, problem: Any, x: Any, **more: Any) -> Any:
            return x

    points = get_reference_directions("das-dennis", 4, n_partitions=7)
    algorithm = NSGA3(
        points,
        pop_size=len(shared.start),
        sampling=shared.start.copy(),
        crossover=Pair(),
        mutation=Nothing(),
        eliminate_duplicates=False,
    )
    algorithm.setup(Placing(), termination=("n_gen", 10**9), seed=seed, verbose=False)
    keeper = Keeper(shared, archive)
    while keeper.elapsed() < seconds:
        algorithm.next()
    return keeper.end()


def deap(shared: Any, seconds: float, seed: int, archive: Any) -> Track:
    from deap import base, creator, tools

    random.seed(seed)
    rng = np.random.default_rng(seed)
    if not hasattr(creator, "Least"):
        creator.create("Least", base.Fitness, weights=(-1.0,) * 4)
        creator.create("Row", list, fitness=creator.Least)
    points = tools.uniform_reference_points(4, 7)
    keeper = Keeper(shared, archive)

    def individuals(rows: Any) -> list[Any]:
        values, bad = shared.measure(rows)
        keeper.keep(values, bad)
        made = []
        for row, value, how_bad in zip(rows, values, bad, strict=True):
            one = creator.Row()
            one.genes = row
            one.fitness.values = tuple(value * (1.0 + how_bad))
            made.append(one)
        return made

    population = individuals(shared.start)
    while keeper.elapsed() < seconds:
        order = rng.permutation(len(population))
        rows: list[Any] = []
        for a, b in zip(order[::2], order[1::2], strict=False):
            rows += children(shared, population[a].genes, population[b].genes, rng)
        population = tools.selNSGA3(
            population + individuals(np.array(rows)), len(population), points
        )
    return keeper.end()


def pygmo(shared: Any, seconds: float, seed: int, archive: Any, kind: str = "nsga2") -> Track:
    import pygmo as pg

    keeper = Keeper(shared, archive)

    class Placing:
        """A fitness that is worse where a node is overloaded: its operators know no repair."""

        def fitness(self, x: Any) -> Any:
            return self.batch_fitness(x)

        def batch_fitness(self, xs: Any) -> Any:
            rows = np.asarray(xs).reshape(-1, shared.tasks).astype(np.int32)
            values, bad = shared.measure(rows)
            keeper.keep(values, bad)
            return (values * (1.0 + bad[:, None])).ravel()

        def get_bounds(self) -> Any:
            return [0] * shared.tasks, [shared.nodes - 1] * shared.tasks

        def get_nobj(self) -> int:
            return 4

        def get_nix(self) -> int:
            return int(shared.tasks)

    problem = pg.problem(Placing())
    population = pg.population(problem, seed=seed)
    for row in shared.start:
        population.push_back(row.astype(float))
    algorithm = pg.nsga2(gen=2, seed=seed, cr=0.9, m=1.0 / shared.tasks)
    algorithm.set_bfe(pg.bfe(pg.default_bfe()))
    wrapped = pg.algorithm(algorithm)
    while keeper.elapsed() < seconds:
        population = wrapped.evolve(population)
    return keeper.end()


PEERS: dict[str, Callable[..., Track]] = {"pymoo": pymoo, "deap": deap, "pygmo": pygmo}
