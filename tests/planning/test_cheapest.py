"""Plans for the cheapest nodes cost no more than plans for the fewest."""

from __future__ import annotations

import numpy as np
import pytest

from murmuration.assignment import objectives as of
from murmuration.assignment.objectives import parse_objective
from murmuration.assignment.problem import Problem, problem_of
from murmuration.planning.plan import Options, make_plan


def crowded(seed: int) -> Problem:
    """Nodes of three sizes and prices, each half full of tasks of all sizes."""
    rng = np.random.default_rng(seed)
    size = np.array([4, 8, 16])[np.arange(18) % 3]
    tasks: list[int] = []
    homes: list[int] = []
    for node, total in enumerate(size):
        while sum(cpu for cpu, home in zip(tasks, homes, strict=True) if home == node) < total / 2:
            tasks.append(int(rng.integers(1, 4)))
            homes.append(node)
    total, request = (np.repeat(np.array(each)[:, None], 2, axis=1) for each in (size, tasks))
    return problem_of(total, request, np.array(homes), price=size**1.1)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cheapest_costs_no_more_than_fewest(seed: int) -> None:
    problem, costs = crowded(seed), {}
    for name in ("nodes", "cost"):
        options = Options(objectives=(parse_objective(name),), evaluations=500)
        costs[name] = make_plan(problem, options).values[of.COST]
    # No nodes that hold all tasks cost less than their CPUs at the price of the smallest.
    bound = problem.request[:, 0].sum() * min(problem.price / problem.total[:, 0])
    assert bound <= costs["cost"] <= costs["nodes"] + 1e-9
