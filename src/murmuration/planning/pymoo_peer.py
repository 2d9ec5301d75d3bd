"""pymoo's NSGA-III on the same problem, from the same first population and with the same repair and
evaluations: the result of a general library, beside the plan. pymoo is no dependency of ours;
whoever wants the comparison installs it."""

from __future__ import annotations

from typing import Any

import numpy as np

from murmuration.assignment.search.search import Search
from murmuration.assignment.search.selection import finest_partition, sov
from murmuration.base.arrays import Integers
from murmuration.base.errors import InputError

NAME = "pymoo"


def pymoo_placement(search: Search, population: int) -> Integers:
    """The placement pymoo would choose: the best mean normalised objective among the least bad of
    its last population. `search` is fresh, and used for its first population, its repair and its
    measure."""
    try:
        from pymoo.algorithms.moo.nsga3 import NSGA3
        from pymoo.core.problem import Problem
        from pymoo.core.repair import Repair
        from pymoo.operators.crossover.pntx import SinglePointCrossover
        from pymoo.operators.mutation.pm import PM
        from pymoo.optimize import minimize
        from pymoo.util.ref_dirs import get_reference_directions
    except ImportError as error:
        raise InputError("--pymoo: pymoo is not installed (pip install pymoo)") from error
    search.seed()
    first, movable = search.placements, search.work.packed.movable

    class RepairPlacement(Repair):  # type: ignore[misc]
        def _do(self, problem: Any, rows: Any, **more: Any) -> Any:
            return np.array([search.repair(whole(row)) for row in np.rint(rows)])[:, movable]

    class Placing(Problem):  # type: ignore[misc]
        def __init__(self) -> None:
            top = len(search.work.problem.nodes) - 1
            super().__init__(
                len(movable), len(search.objectives), n_ieq_constr=1, xl=-1, xu=top, vtype=int
            )

        def _evaluate(self, rows: Any, out: Any, *args: Any, **more: Any) -> None:
            placements = np.array([whole(row) for row in rows])
            values, bad = search.measure(placements)
            out["F"], out["G"] = (
                values,
                (bad + [0.0 if search.is_allowed(x) else 1e9 for x in placements])[:, None],
            )

    def whole(row: Any) -> Any:
        placement = first[0].copy()
        placement[movable] = row
        return placement

    count = len(search.objectives)
    points = get_reference_directions(
        "das-dennis", count, n_partitions=finest_partition(count, population)
    )
    mutation = PM(
        prob=1.0, prob_var=min(1.0, 2.0 / len(movable)), vtype=float, repair=RepairPlacement()
    )
    algorithm = NSGA3(
        points,
        pop_size=max(population, len(points)),
        sampling=first[:, movable],
        mutation=mutation,
        crossover=SinglePointCrossover(prob=1.0),
        repair=RepairPlacement(),
        eliminate_duplicates=False,
    )
    last = minimize(
        Placing(),
        algorithm,
        ("n_eval", search.budget()),
        seed=search.settings.seed + 1,
        verbose=False,
    ).pop
    values, bad = last.get("F"), last.get("G")[:, 0]
    allowed = np.flatnonzero(bad == bad.min())
    weights = np.array([objective.weight for objective in search.objectives])
    return search.work.restore(
        whole(last.get("X")[allowed[sov(values[allowed], weights).argmin()]])
    )
