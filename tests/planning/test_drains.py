"""A ranking of nodes to drain: against every drain tried by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest

from murmuration.assignment.objectives import MOVES
from murmuration.assignment.problem import APART, SPREAD, Problem, Rule, problem_of
from murmuration.assignment.search.exact import solve_fewest_moves
from murmuration.planning.changes import remove_nodes
from murmuration.planning.drains import drain_sentences, rank_drains
from murmuration.planning.plan import Options, make_plan


def test_the_easiest_node_comes_first_and_blocked_ones_last() -> None:
    """node-0 has one task, node-1 two, node-2 one that is pinned, node-3 one that fits only if
    another makes room."""
    pinned = np.array([False, False, False, True, False])
    request = [[3, 1], [2, 1], [2, 1], [2, 1], [9, 1]]
    problem = problem_of([[10, 10]] * 4, request, [0, 1, 1, 2, 3], pinned=pinned)
    drains = rank_drains(problem, 1)
    assert [drain.node for drain in drains] == ["node-0", "node-3", "node-1", "node-2"]
    # The task of 9 comes to node-0 or node-1 once its tasks have left.
    assert [drain.moves for drain in drains] == [1, 2, 2, None]
    assert "task-3 may not be moved" in drains[-1].blocked
    assert drain_sentences(drains)[0] == "3 of 4 nodes in use can be drained by themselves"


def test_tasks_of_one_budget_wait_for_each_other() -> None:
    problem = problem_of([[10, 10]] * 2, [[1, 1]] * 3, [0, 0, 0], budget_of=[0, 0, 0], budget=[2])
    (drain,) = rank_drains(problem, 1)
    assert drain.rounds == 2


def random_cluster(seed: int) -> Problem:
    """Tasks on random nodes that have room, the first three apart: nothing is broken."""
    rng = random.Random(seed)
    sizes = [rng.randint(1, 6) for _ in range(rng.randint(6, 10))]
    free, node_of = [10] * 5, []
    for t, size in enumerate(sizes):
        nodes = [n for n in range(5) if free[n] >= size and (t > 2 or n not in node_of)]
        node_of.append(rng.choice(nodes) if nodes else -1)
        if nodes:
            free[node_of[-1]] -= size
    members = np.arange(3)
    rule = Rule(APART, "apart", members, members, np.arange(5))
    problem = problem_of([[10, 10]] * 5, [[size, 1] for size in sizes], node_of, rules=(rule,))
    return problem.subset(problem.node_of >= 0)


@pytest.mark.parametrize("seed", range(12))
def test_every_drain_that_is_promised_is_possible(seed: int) -> None:
    """The solver finds a placement without the node, and none with fewer moves of others; where no
    drain is promised it finds none either, or needs moves of others."""
    problem = random_cluster(seed)
    for drain in rank_drains(problem, 1):
        exact = solve_fewest_moves(remove_nodes(problem, [drain.node]).problem, 5.0)
        if drain.moves is None:
            assert exact.infeasible or exact.bound
        else:
            assert exact.bound is not None and drain.moves >= drain.tasks + exact.bound


def broken_cluster(seed: int) -> Problem:
    """Tasks on random nodes, four of them under a rule that may be broken from the start."""
    rng = random.Random(seed)
    sizes = [rng.randint(1, 5) for _ in range(rng.randint(6, 11))]
    free, node_of = [10] * 5, []
    for size in sizes:
        nodes = [n for n in range(5) if free[n] >= size]
        node_of.append(rng.choice(nodes) if nodes else -1)
        if nodes:
            free[node_of[-1]] -= size
    members = np.arange(4)
    rule = rng.choice(
        [
            Rule(APART, "apart", members, members, np.arange(5)),
            Rule(SPREAD, "spread", members, members, np.array([0, 0, 1, 1, 2]), 1),
        ]
    )
    problem = problem_of([[10, 10]] * 5, [[size, 1] for size in sizes], node_of, rules=(rule,))
    return problem.subset(problem.node_of >= 0)


@pytest.mark.parametrize("seed", range(25))
def test_what_is_promised_is_what_a_removal_finds(seed: int) -> None:
    """Also where rules are broken already."""
    problem = broken_cluster(seed)
    for drain in rank_drains(problem, 1):
        removed = remove_nodes(problem, [drain.node])
        options = Options(only_place=True, displaced=removed.displaced, exact_effort=0.0)
        plan = make_plan(removed.problem, options)
        found = all(plan.order.node_of[t] >= 0 for t in removed.displaced)
        assert (drain.moves is not None) == found, drain
        assert drain.moves in (None, plan.values[MOVES])
