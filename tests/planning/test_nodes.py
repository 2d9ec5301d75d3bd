"""Which nodes become empty by a plan, and what keeps the others in use."""

from __future__ import annotations

import numpy as np

from murmuration.assignment.objectives import built_in
from murmuration.assignment.problem import problem_of
from murmuration.planning.document import document, explain_kept, gain_sentence
from murmuration.planning.nodes import UNTRIED, list_emptied, why_kept
from murmuration.planning.plan import Options, make_plan


def test_nodes_that_had_tasks_and_have_none_after_are_named() -> None:
    problem = problem_of([[10, 10]] * 4, [[1, 1]] * 3, [0, 1, 2])
    assert list_emptied(problem, np.array([0, 0, 2])) == ["node-1"]
    assert list_emptied(problem, problem.node_of) == [], "node-3 was empty before"


def test_a_pinned_task_and_one_that_fits_nowhere_keep_their_nodes() -> None:
    pinned = np.array([True, False, False])
    problem = problem_of([[10, 10]] * 3, [[2, 2], [9, 9], [3, 3]], [0, 1, 2], pinned=pinned)
    reasons = {kept.node: kept.reason for kept in why_kept(problem, problem.node_of)}
    assert reasons["node-0"].startswith("task-0 may not be moved")
    assert "task-1: 2 nodes without" in reasons["node-1"]
    assert reasons["node-2"] == UNTRIED


def test_a_node_with_fewer_tasks_comes_first_and_empty_ones_are_left_out() -> None:
    problem = problem_of([[10, 10]] * 4, [[1, 1]] * 3, [2, 2, 0])
    assert [(k.node, k.tasks) for k in why_kept(problem, problem.node_of)] == [
        ("node-0", 1),
        ("node-2", 2),
    ]


def test_a_plan_says_which_nodes_become_empty_and_what_each_move_gains() -> None:
    problem = problem_of([[10, 10]] * 3, [[4, 4]] * 3, [0, 1, 2])
    plan = make_plan(problem, Options(objectives=(built_in("nodes"),), evaluations=50))
    answer = document(plan, "test")
    assert len(answer["emptied_nodes"]) == 1
    # Three nodes become two by one move.
    assert np.isclose(answer["gain"]["mean"], 1 / 3)
    assert np.isclose(answer["gain"]["per_move"], 1 / 3)
    assert answer["emptied_nodes"][0] in gain_sentence(answer)
    assert len(explain_kept(answer)) == 2


def test_moves_that_buy_nothing_that_was_asked_for_are_said_to() -> None:
    """A task is placed by a move, and no fewer nodes are in use for it."""
    problem = problem_of([[10, 10], [6, 6]], [[4, 4], [1, 1], [7, 7]], [0, 1, -1])
    plan = make_plan(problem, Options(objectives=(built_in("nodes"),), evaluations=50))
    answer = document(plan, "test")
    assert answer["moved"] == 1 and answer["objectives"]["nodes"]["change"] == 0.0
    assert gain_sentence(answer) == "gain: none by the objectives asked for"
