"""The order of moves: every step is allowed when it is made, rings go over a third node, the
impossible is said."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from tests.assignment.problems import SEEDS, random_problem

from murmuration.assignment.moves import check, order_moves
from murmuration.assignment.objectives import Objective
from murmuration.assignment.packed import pack
from murmuration.assignment.problem import problem_of, used
from murmuration.assignment.search.search import Search, Settings


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_no_step_breaks_anything_and_the_steps_end_in_the_plan(seed: int) -> None:
    problem = random_problem(seed)
    work = pack(problem)
    search = Search(
        work,
        [Objective("imbalance"), Objective("crowding")],
        Settings(population=8, evaluations=40),
    )
    search.seed()
    search.run()
    wanted = work.restore(search.archive.placements[0])
    found = order_moves(work, wanted)
    assert check(problem, found) == []
    free = [t for t in range(len(problem.tasks)) if t not in found.blocked and wanted[t] >= 0]
    assert (found.node_of[free] == wanted[free]).all()


def test_two_tasks_change_places_over_a_third_node() -> None:
    problem = problem_of([[10, 10], [10, 10], [6, 6]], [[6, 6], [6, 6]], [0, 1])
    found = order_moves(pack(problem), np.array([1, 0]))
    assert [(step.node, step.detour) for step in found.steps] == [(2, True), (0, False), (1, False)]
    assert check(problem, found) == [] and found.moved == 2 and not found.blocked


def test_without_a_third_node_the_swap_is_impossible() -> None:
    problem = problem_of([[10, 10], [10, 10], [5, 5]], [[6, 6], [6, 6]], [0, 1])
    found = order_moves(pack(problem), np.array([1, 0]))
    assert found.steps == () and set(found.blocked) == {0, 1}
    assert found.node_of.tolist() == [0, 1]


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_the_steps_of_a_wave_fit_whatever_ends_first(seed: int) -> None:
    """Within a wave a node holds what it held and all that comes, before anything has left; budgets
    hold."""
    problem = random_problem(seed, rules=False)
    work = pack(problem)
    search = Search(
        work,
        [Objective("imbalance"), Objective("crowding")],
        Settings(population=8, evaluations=40),
    )
    search.seed()
    found = order_moves(work, work.restore(search.archive.placements[0]))
    node_of = problem.node_of.copy()
    for wave in sorted({step.wave for step in found.steps}):
        steps = [step for step in found.steps if step.wave == wave]
        use = used(problem, node_of)
        for step in steps:
            use[step.node] += problem.request[step.task]
        targets = {step.node for step in steps if problem.request[step.task].any()}
        over = (use > problem.total) & (use > used(problem, node_of))
        assert not any(over[node].any() for node in targets)
        on_the_way = [
            problem.budget_of[s.task]
            for s in steps
            if s.origin >= 0 and problem.budget_of[s.task] >= 0
        ]
        for budget in set(on_the_way):
            assert on_the_way.count(budget) <= problem.budget[budget]
        for step in steps:
            node_of[step.task] = step.node
