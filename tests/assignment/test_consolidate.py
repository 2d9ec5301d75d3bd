"""Emptying nodes with the fewest moves, held against a search through every placement."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from murmuration.assignment.objectives import (
    COUNT,
    CROWDING,
    MOVES,
    NODES,
    built_in,
    parse_limit,
)
from murmuration.assignment.objectives import values as values_of
from murmuration.assignment.packed import pack
from murmuration.assignment.problem import Problem, feasible, problem_of
from murmuration.assignment.search.consolidate import consolidate, worth_of
from murmuration.assignment.search.gains import best_moves, keep_at_home, match_replicas
from murmuration.assignment.search.selection import rank_by_knee
from murmuration.base.random import state as random_state
from murmuration.planning.plan import Options, make_plan


def small(seed: int, nodes: int = 4, tasks: int = 7) -> Problem:
    """Tasks on random nodes of ten CPUs, of which each wants one to four."""
    rng = np.random.default_rng(seed)
    request = rng.integers(1, 5, size=(tasks, 2)) * 1_000_000
    total = np.full((nodes, 2), 10_000_000)
    while True:
        node_of = rng.integers(0, nodes, size=tasks)
        problem = problem_of(total, request, node_of)
        if feasible(problem, node_of):
            return problem


def every_placement(problem: Problem) -> list[np.ndarray]:
    nodes = range(len(problem.nodes))
    placements = (np.array(x) for x in product(nodes, repeat=len(problem.tasks)))
    return [x for x in placements if feasible(problem, x)]


@pytest.mark.parametrize("seed", range(6))
def test_the_fewest_nodes_and_then_the_fewest_moves_of_all_placements(seed: int) -> None:
    problem = small(seed)
    figures = [values_of(problem, x)[[NODES, MOVES]].tolist() for x in every_placement(problem)]
    plan = make_plan(problem, Options(objectives=(built_in("nodes"),), evaluations=200))
    assert plan.values[[NODES, MOVES]].tolist() == min(figures)


@pytest.mark.parametrize("seed", range(4))
def test_a_limit_of_moves_holds_while_nodes_are_emptied(seed: int) -> None:
    problem = small(seed)
    figures = [values_of(problem, x)[[NODES, MOVES]].tolist() for x in every_placement(problem)]
    limits = (parse_limit("moves=2"),)
    options = Options(objectives=(built_in("nodes"),), limits=limits, evaluations=200)
    plan = make_plan(problem, options)
    assert plan.values[[NODES, MOVES]].tolist() == min(f for f in figures if f[1] <= 2)


def test_expensive_nodes_are_emptied_first() -> None:
    total, request = [[10, 10]] * 3, [[4, 4]] * 3
    problem = problem_of(total, request, [0, 1, 2], price=np.array([1.0, 5.0, 2.0]))
    plan = make_plan(problem, Options(objectives=(built_in("cost"),), evaluations=200))
    in_use = set(plan.order.node_of.tolist())
    assert in_use == {0, 2}, "two of the tasks fit on one node, and the dearest is not needed"


def test_one_seed_gives_one_answer() -> None:
    packed = pack(small(3, nodes=6, tasks=14)).packed
    worth = worth_of(packed, 1.0, 0.0, 0.0)
    start = packed.start.astype(np.int32)
    first, second = (
        consolidate(packed, start, worth, np.inf, random_state(1, "test"), lambda x: True)
        for _ in range(2)
    )
    assert np.array_equal(first[-1], second[-1])


def test_a_placement_that_cannot_be_reached_is_not_taken() -> None:
    packed = pack(small(3, nodes=6, tasks=14)).packed
    start = packed.start.astype(np.int32)
    asked: list[int] = []

    def refuse(placement: np.ndarray) -> bool:
        asked.append(len(placement))
        return False

    worth = worth_of(packed, 1.0, 0.0, 0.0)
    stages = consolidate(packed, start, worth, np.inf, random_state(1, "test"), refuse)
    # What is left is the drain, whose every step was legal when it was made.
    used = [len(set(stage.tolist())) for stage in stages]
    assert used == sorted(used, reverse=True) and len(set(used)) == len(used)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("limit", [1, 2])
def test_few_moves_are_the_best_few(seed: int, limit: int) -> None:
    problem = small(seed)
    figures = [values_of(problem, x)[[CROWDING, MOVES]].tolist() for x in every_placement(problem)]
    best = min(crowding for crowding, moves in figures if moves <= limit)
    options = Options(
        objectives=(built_in("crowding"),), limits=(parse_limit(f"moves={limit}"),), evaluations=200
    )
    assert make_plan(problem, options).values[CROWDING] == best


def test_the_best_moves_never_make_a_counted_objective_worse() -> None:
    problem = small(5, nodes=6, tasks=20)
    packed = pack(problem).packed
    weights = np.zeros(COUNT)
    weights[CROWDING] = 1.0
    counted = np.array([CROWDING, NODES])
    start = packed.start.astype(np.int32)
    path = list(best_moves(packed, start, weights, counted, np.inf))
    work = pack(problem)
    figures = [values_of(problem, work.restore(x))[counted] for x in [start, *path]]
    assert len(path) > 0
    assert all((after[0] < before[0]) for before, after in pairwise(figures))
    assert all((figure <= figures[0]).all() for figure in figures)


def test_replicas_that_are_alike_stay_where_one_of_them_goes() -> None:
    problem = problem_of([[10, 10]] * 3, [[1, 1]] * 3, [0, 1, 2], group=[0, 0, 0])
    packed = pack(problem).packed
    # A ring: each goes where the next one was, so nobody has to move.
    ring = np.array([1, 2, 0], dtype=np.int32)
    assert match_replicas(packed, ring).tolist() == [0, 1, 2]
    # A chain: one has to go to node 2 in effect, and only one.
    chain = problem_of([[10, 10]] * 3, [[1, 1]] * 2, [0, 1], group=[0, 0])
    matched = match_replicas(pack(chain).packed, np.array([1, 2], dtype=np.int32))
    assert matched.tolist() == [2, 1]


def test_tasks_of_different_size_do_not_take_each_others_place() -> None:
    problem = problem_of([[10, 10]] * 2, [[1, 1], [2, 2]], [0, 1], group=[0, 0])
    swapped = np.array([1, 0], dtype=np.int32)
    assert match_replicas(pack(problem).packed, swapped).tolist() == [1, 0]


def test_moves_that_buy_nothing_are_undone() -> None:
    problem = problem_of([[10, 10]] * 3, [[1, 1]] * 3, [0, 1, 2])
    packed = pack(problem).packed
    scattered = np.array([1, 0, 0], dtype=np.int32)
    # Two nodes are in use by it, and all three tasks move although two would do.
    kept = keep_at_home(packed, scattered, np.array([NODES]))
    assert len(set(kept.tolist())) <= 2
    assert (kept != packed.start).sum() < 3


def test_the_knee_is_where_gains_become_dear() -> None:
    # Ten moves buy most of it, a hundred more hardly anything.
    front = np.array([[100.0, 0], [95, 1], [60, 10], [58, 60], [57, 110]])
    counted = np.array([True, False])
    ranked = rank_by_knee(front, front[0], counted, front[:, 1])
    assert ranked[0] == 2
    limited = rank_by_knee(front, front[0], counted, front[:, 1], limited=True)
    assert limited[0] == 4
    assert set(ranked.tolist()) == set(range(5))


def test_where_nothing_gains_the_fewest_moves_come_first() -> None:
    front = np.array([[100.0, 7], [120, 0]])
    assert rank_by_knee(front, np.array([90.0, 0]), np.array([True, False]), front[:, 1])[0] == 1
