"""Plans carried out in virtual time: against a plain replay of who is where when, and against
orders that are wrong."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from tests.assignment.problems import SEEDS, random_problem

from murmuration.assignment.moves import MoveStep, order_moves
from murmuration.assignment.objectives import Objective
from murmuration.assignment.packed import pack
from murmuration.assignment.problem import APART, Problem, Rule, problem_of
from murmuration.assignment.search.search import Search, Settings
from murmuration.planning.rehearsal import MoveRehearsal, Pace, rehearse

M = 1_000_000
#: Two nodes of which each is nearly full, and a third; the tasks take two and four seconds at a
#: gigabit.
SWAP = problem_of(
    [[10 * M, 900 * M], [10 * M, 900 * M], [6 * M, 500 * M]],
    [[6 * M, 250 * M], [6 * M, 500 * M]],
    [0, 1],
)


def steps_of(problem: Problem) -> tuple[MoveStep, ...]:
    work = pack(problem)
    search = Search(
        work,
        [Objective("imbalance"), Objective("crowding")],
        Settings(population=8, evaluations=40),
    )
    search.seed()
    return order_moves(work, work.restore(search.archive.placements[0])).steps


def times(found: MoveRehearsal) -> list[tuple[float, float]]:
    return list(zip(found.start.tolist(), found.end.tolist(), strict=True))


def test_a_swap_over_a_third_node_takes_its_time() -> None:
    found = rehearse(SWAP, order_moves(pack(SWAP), np.array([1, 0])).steps)
    assert times(found) == [(0, 2), (2, 6), (6, 8)] and not found.errors
    assert (found.seconds, found.one_by_one, found.at_once) == (8, 8, 1)
    assert found.megabytes == 250 + 500 + 250 and found.above == found.overfull == 0
    # While the second task is on its way the third node is full; before, the first two were at 60
    # %.
    assert (found.load_before, found.load) == (0.6, 1.0)


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        (
            [MoveStep(0, 0, 1), MoveStep(1, 1, 2)],
            "step 1: task-0 cannot go to node-1: it asks for 6 CPU and 4 CPU are free",
        ),
        (
            [MoveStep(0, 0, 2), MoveStep(0, 2, 1), MoveStep(1, 1, 0)],
            "step 2: task-0 cannot go to node-1: it asks for 6 CPU and 4",
        ),
        ([MoveStep(0, 2, 1)], "step 1: task-0 cannot go to node-1"),
        ([MoveStep(0, 1, 2)], "step 1: task-0 is not where the step begins"),
    ],
)
def test_a_wrong_order_is_found(steps: list[MoveStep], sentence: str) -> None:
    """The first would work if its steps changed places: an order must be right as it is written."""
    found = rehearse(SWAP, steps)
    assert len(found.errors) == 1 and found.errors[0].startswith(sentence)
    assert found.above == 0, "the table lets nobody in who does not fit"


def test_constraints_rules_and_pins_are_heeded() -> None:
    rule = Rule(APART, "web apart", np.array([0, 1]), np.array([0, 1]), np.arange(3))
    allowed = np.array([[True, True, False]])
    problem = problem_of(
        [[9, 9]] * 3,
        [[1, 1]] * 3,
        [0, 1, 0],
        allowed=allowed,
        rules=(rule,),
        pinned=np.arange(3) == 2,
    )
    for step, sentence in (
        (MoveStep(0, 0, 1), "web apart is broken"),
        (MoveStep(0, 0, 2), "task-0 may not go to node-2"),
        (MoveStep(2, 0, 1), "task-2 may not go to node-1"),
    ):
        assert rehearse(problem, [step]).errors == [f"step 1: {sentence}"]


def test_budgets_and_rules_hold_back_only_their_own() -> None:
    """Six tasks of a second each leave one node: two of a budget of one, two under one rule, two
    free."""
    rule = Rule(APART, "apart", np.array([2, 3]), np.array([2, 3]), np.arange(2), 1)
    problem = problem_of(
        [[99, 10**10]] * 2,
        [[1, 125 * M]] * 6,
        [0] * 6,
        budget_of=[0, 0, -1, -1, -1, -1],
        budget=[1],
        rules=(rule,),
    )
    found = rehearse(problem, [MoveStep(t, 0, 1) for t in range(6)])
    assert times(found) == [(0, 1), (1, 2), (0, 1), (1, 2), (0, 1), (0, 1)]
    assert (found.seconds, found.at_once, found.one_by_one) == (2, 4, 6)


def test_who_is_new_is_there_at_once_and_who_is_displaced_is_copied() -> None:
    problem = problem_of([[9, 10**10]], [[1, 125 * M]] * 2, [-1, -1])
    found = rehearse(problem, [MoveStep(0, -1, 0), MoveStep(1, -1, 0)], displaced=[1])
    assert times(found) == [(0, 0), (0, 1)] and found.megabytes == 125


def test_what_was_overfull_before_may_be_so_but_not_more() -> None:
    problem = problem_of([[4, 4], [4, 4]], [[3, 1], [3, 1], [0, 1], [1, 1]], [0, 0, 1, 1])
    found = rehearse(problem, [MoveStep(2, 1, 0)])
    assert not found.errors and (found.overfull, found.above) == (1, 0), (
        "it asks for nothing that is short"
    )
    assert "cannot go to node-0" in rehearse(problem, [MoveStep(3, 1, 0)]).errors[0]


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_the_orders_of_plans_are_right_at_every_instant(seed: int) -> None:
    """Who is where when, summed up anew from the times alone, between any two instants at which
    something happens."""
    problem = random_problem(seed)
    steps = steps_of(problem)
    found = rehearse(problem, steps, Pace(1e-6))
    assert not found.errors and found.above == 0
    instants = sorted({0.0, *found.start.tolist(), *found.end.tolist()})
    at_first = summed(problem, steps, found, -1.0)[0]
    for a, b in pairwise(instants):
        use, down = summed(problem, steps, found, (a + b) / 2)
        assert (use <= np.maximum(problem.total, at_first)).all()
        assert (down <= problem.budget).all()
    assert found.seconds <= found.one_by_one + 1e-9


def summed(
    problem: Problem, steps: tuple[MoveStep, ...], found: MoveRehearsal, at: float
) -> tuple[np.ndarray, np.ndarray]:
    """What is asked of every node at an instant, and how many tasks of each budget are on their
    way."""
    use, down = np.zeros_like(problem.total), np.zeros_like(problem.budget)
    for t in range(len(problem.tasks)):
        on, mine = int(problem.node_of[t]), [k for k, step in enumerate(steps) if step.task == t]
        for k in mine:
            if found.end[k] <= at:
                on = steps[k].node
            elif found.start[k] < at:
                use[steps[k].node] += problem.request[t]
                if steps[k].origin >= 0 and problem.budget_of[t] >= 0:
                    down[problem.budget_of[t]] += 1
        if on >= 0:
            use[on] += problem.request[t]
    return use, down


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_an_order_shuffled_is_right_only_if_every_step_fits_in_its_turn(seed: int) -> None:
    """One after the other on plain sums decides what a rehearsal must say."""
    problem = random_problem(seed, rules=False)
    steps = list(steps_of(problem))
    np.random.default_rng(seed).shuffle(steps)
    use, node_of, right = np.zeros_like(problem.total), problem.node_of.copy(), True
    for t in np.flatnonzero(node_of >= 0):
        use[node_of[t]] += problem.request[t]
    for task, origin, node, *_ in steps:
        asked = problem.request[task]
        right &= (
            bool(((use[node] + asked <= problem.total[node]) | (asked == 0)).all())
            and node_of[task] == origin
        )
        use[node] += asked
        if origin >= 0:
            use[origin] -= asked
        node_of[task] = node
    assert (not rehearse(problem, steps).errors) == right


def test_no_steps_take_no_time() -> None:
    result = rehearse(SWAP, ())
    assert (result.seconds, result.one_by_one, result.at_once, result.megabytes) == (0, 0, 0, 0)
    assert result.load == result.load_before == 0.6 and not result.errors


def test_a_task_that_was_displaced_takes_its_time() -> None:
    """It has no node any more, but its memory must be copied from the node that goes."""
    problem = problem_of([[10 * M, 900 * M]], [[1 * M, 250 * M]], [-1])
    step = [MoveStep(0, -1, 0)]
    assert rehearse(problem, step).seconds == 0
    assert rehearse(problem, step, displaced=[0]).seconds == 2
    assert rehearse(problem, step, Pace(25.0), displaced=[0]).seconds == 10


def test_a_task_that_asks_for_nothing_may_go_to_an_overfull_node() -> None:
    problem = problem_of(
        [[10 * M, 100 * M], [10 * M, 100 * M]],
        [[20 * M, 10 * M], [0, 10 * M]],
        [0, 1],
    )
    result = rehearse(problem, [MoveStep(1, 1, 0)])
    assert not result.errors and result.overfull == 1 and result.above == 0


def test_a_budget_keeps_the_second_task_until_the_first_has_come() -> None:
    problem = problem_of(
        [[10 * M, 900 * M]] * 2,
        [[1 * M, 125 * M]] * 3,
        [0, 0, 0],
        budget_of=[0, 0, -1],
        budget=[1],
    )
    result = rehearse(problem, [MoveStep(t, 0, 1) for t in range(3)])
    assert times(result) == [(0, 1), (1, 2), (0, 1)] and result.at_once == 2


def test_a_budget_of_nothing_is_an_error() -> None:
    problem = problem_of(
        [[10 * M, 900 * M]] * 2, [[1 * M, 125 * M]], [0], budget_of=[0], budget=[0]
    )
    (error,) = rehearse(problem, [MoveStep(0, 0, 1)]).errors
    assert error.endswith("its disruption budget allows none of its pods to go")
