"""The order of moves: every step is allowed when it is made, rings go over a third node, the
impossible is said."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from tests.assignment.problems import SEEDS, random_problem

from murmuration.assignment.moves import MoveOrder, MoveStep, check, order_moves
from murmuration.assignment.objectives import Objective
from murmuration.assignment.packed import pack
from murmuration.assignment.problem import APART, Rule, problem_of, sum_requests
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
    # Who had no node takes another one where the planned one turns out impossible.
    elsewhere = (problem.node_of < 0) & (found.node_of >= 0)
    free = [
        t
        for t in range(len(problem.tasks))
        if t not in found.blocked and wanted[t] >= 0 and not elsewhere[t]
    ]
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
        use = sum_requests(problem, node_of)
        for step in steps:
            use[step.node] += problem.request[step.task]
        targets = {step.node for step in steps if problem.request[step.task].any()}
        over = (use > problem.total) & (use > sum_requests(problem, node_of))
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


def test_to_where_everything_is_there_are_no_steps() -> None:
    problem = random_problem(3, placed=1.0)
    order = order_moves(pack(problem), problem.node_of)
    assert not order.steps and not order.blocked and (order.node_of == problem.node_of).all()


def test_who_has_no_node_gets_one_that_takes_it() -> None:
    """The plan found none, or the one it found is out of reach: any other will do."""
    problem = problem_of([[10, 10]] * 2, [[10, 10], [4, 4]], [0, -1])
    for wanted in (-1, 0):
        order = order_moves(pack(problem), np.array([0, wanted]))
        assert order.node_of.tolist() == [0, 1] and check(problem, order) == []


def test_who_lies_on_a_node_that_goes_leaves_it_by_a_move() -> None:
    """Its budget counts from the first step, and who cannot leave has no node in the end."""
    problem = problem_of(
        [[10, 10]] * 3,
        [[2, 2]] * 3,
        [-1] * 3,
        leaves=np.array([0, 0, 0]),
        allowed=np.array([[False, True, True], [False] * 3]),
        class_of=[0, 0, 1],
        budget_of=[0, 0, 0],
        budget=[1],
    )
    order = order_moves(pack(problem), np.array([1, 2, -1]))
    assert [(step.origin, step.wave) for step in order.steps] == [(0, 1), (0, 2)]
    assert order.moved == 2 and order.node_of.tolist() == [1, 2, -1] and check(problem, order) == []


def test_a_task_that_the_plan_leaves_without_a_node_stays_where_it_is() -> None:
    """Nobody is stopped by a plan."""
    problem = problem_of([[10, 10]] * 2, [[1, 1]] * 2, [0, 0])
    order = order_moves(pack(problem), np.array([-1, 1]))
    assert order.node_of.tolist() == [0, 1] and order.moved == 1


def test_what_a_move_frees_is_for_the_next_wave() -> None:
    """Node 1 is full: its task leaves first, and who comes there waits until it has left. A third
    task has nothing to do with either and goes with the first."""
    problem = problem_of([[10, 10]] * 4, [[10, 10], [10, 9], [1, 1]], [1, 0, 3])
    order = order_moves(pack(problem), np.array([2, 1, 0]))
    waves = {step.task: step.wave for step in order.steps}
    assert waves[0] < waves[1] and order.blocked == ()
    assert check(problem, order) == []


def test_a_budget_of_one_makes_a_wave_of_each_move() -> None:
    problem = problem_of([[10, 10]] * 2, [[1, 1]] * 3, [0] * 3, budget_of=[0, 0, 0], budget=[1])
    order = order_moves(pack(problem), np.array([1, 1, 1]))
    assert [step.wave for step in order.steps] == [1, 2, 3]


def test_tasks_under_a_rule_go_one_after_the_other() -> None:
    pair = np.array([0, 1])
    rule = Rule(APART, "apart", pair, pair, np.arange(4))
    problem = problem_of([[10, 10]] * 4, [[1, 1]] * 2, [0, 1], rules=(rule,))
    order = order_moves(pack(problem), np.array([2, 3]))
    assert [step.wave for step in order.steps] == [1, 2]


def test_the_check_finds_every_kind_of_error() -> None:
    """The oracle itself: a step from elsewhere, a full node, a forbidden node, a wrong end."""
    total, request = [[10, 10], [10, 10], [1, 1]], [[6, 6], [6, 6]]
    allowed = np.array([[True, True, True], [False, True, True]])
    problem = problem_of(total, request, [0, 1], allowed=allowed, class_of=[0, 1])

    def errors(*steps: MoveStep, ends: tuple[int, int]) -> str:
        return "; ".join(check(problem, MoveOrder(steps, np.array(ends), ())))

    assert errors(ends=(0, 1)) == ""
    assert "task-0 is not where the step begins" in errors(MoveStep(0, 1, 2), ends=(2, 1))
    assert "node-1 has more cpu asked of it than it has" in errors(MoveStep(0, 0, 1), ends=(1, 1))
    assert "task-1 may not lie where it is put" in errors(MoveStep(1, 1, 0), ends=(0, 0))
    assert errors(ends=(0, 0)) == "the steps do not end where they should"
