"""A plan ends when its time is over, whatever it is doing then."""

from __future__ import annotations

import time

import numpy as np
import pytest
from tests.assignment.problems import random_problem

from murmuration.assignment.objectives import COUNT, CROWDING, built_in
from murmuration.assignment.packed import pack
from murmuration.assignment.problem import problem_of
from murmuration.assignment.search import gains
from murmuration.assignment.search.consolidate import consolidate, worth_of
from murmuration.assignment.search.ejection import make_room
from murmuration.assignment.search.gains import best_moves
from murmuration.assignment.search.search import Search, Settings
from murmuration.base.random import state
from murmuration.planning.deadline import Deadline
from murmuration.planning.plan import Options, default_objectives, make_plan

NOW = (time.perf_counter(), time.process_time())


def test_the_nearer_of_two_bounds_counts() -> None:
    wall, cpu = NOW
    assert not Deadline().is_over()
    assert Deadline(10.0, began=wall - 20.0).is_over()
    assert Deadline(cpu_seconds=10.0, cpu_began=cpu - 20.0).is_over()
    late = Deadline(1e6, 10.0, cpu_began=cpu - 5.0)
    assert late.is_over(0.5) and not late.is_over(1e3)
    assert Deadline(10.0, began=wall - 20.0).left() == 0.0


def test_every_stage_of_a_search_stops_when_it_is_told() -> None:
    problem = random_problem(3)
    work = pack(problem)
    search = Search(work, default_objectives(problem), Settings(stopped=lambda: True))
    search.seed()
    assert not search.constructed and len(search.placements) == 1
    begin, reference, before = search.placements[0], search.values[0], search.evaluations
    search.approach(reference, begin)
    search.run()
    assert search.evaluations == before
    search.refine_from(begin)
    assert (search.archive.placements[: search.archive.count] == begin).all(), "nothing was tried"


def test_seeds_and_chains_stop_when_they_are_told() -> None:
    def over() -> bool:
        return True

    problem = problem_of([[10, 10]] * 3, [[4, 4]] * 3, [0, 1, 2])
    packed = pack(problem).packed
    begin, columns = packed.start.astype(np.int32), np.array([0, 1])
    assert not list(best_moves(packed, begin, np.ones(COUNT), columns, np.inf, over))
    worth = worth_of(packed, 1.0, 0.0, 0.0)
    assert consolidate(packed, begin, worth, np.inf, state(1, "x"), lambda x: True)
    assert not consolidate(packed, begin, worth, np.inf, state(1, "x"), lambda x: True, over)
    waiting = pack(problem_of([[10, 10]], [[4, 4]], [-1]))
    assert make_room(waiting).node_of.tolist() == [0]
    assert make_room(waiting, stopped=over).node_of.tolist() == [-1]


def test_a_large_cluster_gets_the_best_moves_of_some_tasks_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The time ends while all tasks are looked at: the moves of a few are there already."""
    monkeypatch.setattr(gains, "FIRST_LOOKS", 40)
    problem = problem_of([[100, 100]] * 4, [[1, 1]] * 40, [0] * 40)
    packed = pack(problem).packed
    begin, columns = packed.start.astype(np.int32), np.array([CROWDING])
    weights = np.eye(COUNT)[CROWDING]
    moved: list[int] = []
    for placement in best_moves(packed, begin, weights, columns, np.inf, lambda: len(moved) == 10):
        moved.append(int((placement != begin).sum()))
    # A quarter of the tasks, and then no time to look at all of them.
    assert moved == list(range(1, 11))


def test_a_plan_without_time_is_the_present_placement() -> None:
    problem = problem_of([[10, 10]] * 3, [[4, 4]] * 3, [0, 1, 2])
    late = Deadline(1.0, began=time.perf_counter() - 5.0)
    plan = make_plan(problem, Options(objectives=(built_in("nodes"),), deadline=late))
    assert not plan.order.steps and plan.evaluations < 10
    assert make_plan(problem, Options(objectives=(built_in("nodes"),), evaluations=50)).order.steps
