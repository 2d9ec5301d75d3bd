"""What if nodes went: nobody is left on them or may go there, and who cannot leave is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.assignment.problems import SEEDS, random_problem

from murmuration.assignment.details import SnapshotDetails
from murmuration.assignment.problem import (
    APART,
    TOGETHER,
    Problem,
    Rule,
    problem_of,
    sum_requests,
)
from murmuration.base.errors import InputError
from murmuration.planning.changes import add_task, remove_nodes
from murmuration.planning.document import Document, document
from murmuration.planning.plan import Options, make_plan


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sets(st.integers(0, 5), min_size=1, max_size=5))
def test_every_task_is_displaced_stranded_or_as_it_was(seed: int, removed: set[int]) -> None:
    problem = random_problem(seed)
    names = [problem.nodes[n] for n in sorted(removed)]
    result = remove_nodes(problem, names)
    after = result.problem
    on_removed = {problem.tasks[t] for t, n in enumerate(problem.node_of.tolist()) if n in removed}
    displaced = {after.tasks[t] for t in result.displaced}
    assert displaced | set(result.stranded) == on_removed
    assert not displaced & set(result.stranded)
    assert after.tasks == problem.tasks
    assert not any(after.movable[after.tasks.index(name)] for name in result.stranded)
    before = dict(zip(problem.tasks, problem.node_of.tolist(), strict=True))
    for t, (name, n) in enumerate(zip(after.tasks, after.node_of.tolist(), strict=True)):
        if name in displaced:
            assert n == -1 and result.displaced[t] == problem.nodes[before[name]]
        else:
            assert n == before[name]
        assert not after.allowed[after.class_of[t], sorted(removed)].any()
    assert not after.allowed[:, sorted(removed)].any()
    kept = [n for n in range(6) if n not in removed]
    assert (after.total[kept] == problem.total[kept]).all()


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.data())
def test_a_subset_keeps_what_it_keeps(seed: int, data: st.DataObject) -> None:
    """Rules speak of the same tasks by their new numbers, and what nodes hold is the sum of those
    that stay."""
    problem = random_problem(seed)
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=14, max_size=14)))
    part = problem.subset(keep)
    assert list(part.tasks) == [t for t, kept in zip(problem.tasks, keep, strict=True) if kept]
    by_hand = np.zeros_like(problem.total)
    for t in np.flatnonzero(keep & (problem.node_of >= 0)).tolist():
        by_hand[problem.node_of[t]] += problem.request[t]
    assert (sum_requests(part, part.node_of) == by_hand).all()
    staying = set(part.tasks)
    expected = [
        tuple(
            {problem.tasks[t] for t in side.tolist()} & staying for side in (r.holders, r.targets)
        )
        for r in problem.rules
    ]
    named = [
        tuple({part.tasks[t] for t in side.tolist()} for side in (r.holders, r.targets))
        for r in part.rules
    ]
    kinds = [rule.kind for rule in problem.rules]
    kept = [
        sides
        for sides, kind in zip(expected, kinds, strict=True)
        if sides[0] and (sides[1] or kind == TOGETHER)
    ]
    assert named == kept


def test_the_reason_is_the_snapshots_where_it_has_one() -> None:
    total, request = [[10, 10], [10, 10]], [[1, 1]] * 3
    problem = problem_of(total, request, [0, 0, 0], pinned=np.array([True, True, False]))
    assert remove_nodes(problem, ["node-0"]).stranded == {
        "task-0": "it is pinned",
        "task-1": "it is pinned",
    }
    source = SnapshotDetails(
        "kubernetes", ("a", "b", "c"), ("a daemon set puts it there", "", ""), (False,) * 3
    )
    told = remove_nodes(replace(problem, source=source), ["node-0"])
    assert told.stranded == {"task-0": "a daemon set puts it there", "task-1": "it is pinned"}
    gone = remove_nodes(replace(problem, source=source), ["node-0"], failed=True)
    assert gone.problem.source is not None and gone.problem.source.services == ("c",)


def test_a_new_pod_of_a_daemon_set_is_not_asked_for_on_a_node_that_goes() -> None:
    """It was meant for that node alone; a new pod of anything else looks for another node."""
    only_first = np.array([[True, False]] * 2)
    problem = problem_of(
        [[10, 10]] * 2, [[1, 1]] * 2, [-1, -1], allowed=only_first, class_of=[0, 1]
    )
    daemon = SnapshotDetails("kubernetes", ("a", "b"), ("", ""), (True, False))
    removed = remove_nodes(replace(problem, source=daemon), ["node-0"])
    assert removed.problem.tasks == ("task-1",) and not removed.stranded
    assert remove_nodes(replace(problem, source=daemon), ["node-1"]).problem.tasks == problem.tasks


def test_a_budget_that_allows_nothing_strands_its_tasks() -> None:
    problem = problem_of([[10, 10]] * 2, [[1, 1]] * 2, [0, 1], budget_of=[0, 0], budget=[0])
    assert remove_nodes(problem, ["node-0"]).stranded == {
        "task-0": "its disruption budget allows no disruption now"
    }


def test_who_is_stranded_counts_until_somebody_ends_it() -> None:
    """Two may not lie together: what cannot leave the node of one zone keeps the other out of it,
    unless the node has failed and took it along."""
    both, zones = np.array([0, 1]), np.array([0, 0, 1])
    rule = Rule(APART, "apart", both, both, zones)
    problem = problem_of(
        [[10, 10]] * 3, [[1, 1]] * 2, [0, -1], rules=(rule,), pinned=np.array([True, False])
    )
    options = Options(only_place=True)
    removed = remove_nodes(problem, ["node-0"])
    assert removed.stranded == {"task-0": "it is pinned"}
    assert make_plan(removed.problem, options).order.node_of.tolist() == [0, 2]
    failed = remove_nodes(problem, ["node-0"], failed=True).problem
    assert failed.tasks == ("task-1",)


def test_wrong_names_are_one_sentence() -> None:
    problem = problem_of([[10, 10]] * 2, [[1, 1]], [0])
    with pytest.raises(InputError, match="--remove: unknown node 'node-7'"):
        remove_nodes(problem, ["node-7"])
    with pytest.raises(InputError, match="--remove: expected at least one node to be left"):
        remove_nodes(problem, ["node-0", "node-1"])


def test_one_more_task_is_a_service_without_a_node() -> None:
    pair = np.array([0, 1])
    rule = Rule(APART, "apart", pair, pair, np.arange(2))
    problem = problem_of([[10, 10]] * 2, [[1, 1]] * 2, [0, 1], [0, 0], rules=(rule,))
    more = add_task(problem, np.array([3, 4_000_000]))
    assert more.node_of.tolist() == [0, 1, -1] and more.request[2].tolist() == [3, 4_000_000]
    assert more.group[2] not in more.group[:2] and more.rules == (rule,)
    assert more.megabytes[2] == 4.0


def plan_without(problem: Problem, *names: str) -> Document:
    removed = remove_nodes(problem, names)
    options = Options(only_place=True, displaced=removed.displaced)
    return document(make_plan(removed.problem, options), "test")


def test_who_has_to_leave_counts_as_moved_in_every_figure() -> None:
    """Two tasks leave a node, and one has to make room: three moves, and none could be spared."""
    problem = problem_of([[10, 10]] * 3, [[6, 1], [3, 1], [6, 1], [2, 1]], [0, 0, 1, 2])
    answer = plan_without(problem, "node-0")
    assert answer["moved"] == answer["objectives"]["moves"]["chosen"] == 2
    assert answer["fewest_moves"] == answer["fewest_moves_bound"] == 2
    tight = problem_of([[10, 10]] * 3, [[8, 1], [4, 1], [5, 1]], [0, 1, 2])
    answer = plan_without(tight, "node-0")
    assert answer["moved"] == answer["objectives"]["moves"]["chosen"] == 2
    assert answer["fewest_moves_bound"] == 2


def test_only_what_was_asked_for_is_planned() -> None:
    """A node without tasks goes: nobody has to move, and nothing is compared with a placement made
    from nothing."""
    problem = problem_of([[10, 10]] * 3, [[1, 1]] * 6, [0, 0, 0, 0, 0, 1])
    answer = plan_without(problem, "node-2")
    assert not answer["moves"] and not answer["baselines"] and not answer["evaluations"]
    assert answer["objectives"]["crowding"]["kubernetes"] is None
