"""The kernels of plans compiled before a plan is asked for: a plan has a deadline and a progress
bar, and neither should count what happens once after installation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from murmuration.assignment.objectives import parse_limit, parse_objective
from murmuration.assignment.problem import Problem, problem_of
from murmuration.planning.plan import Options, make_plan

#: Placements that each of the small plans evaluates.
EVALUATIONS = 200


def compile_plans() -> None:
    """Plan a cluster of a few nodes in each of the ways there are, which calls every kernel."""
    nodes, moves = parse_objective("nodes"), parse_objective("moves")
    questions = (
        Options(),
        Options(objectives=(nodes, moves)),
        Options(limits=(parse_limit("moves=2"),)),
        Options(only_place=True),
    )
    for options in questions:
        make_plan(tiny_cluster(), replace(options, evaluations=EVALUATIONS, population=8))


def tiny_cluster() -> Problem:
    """Five nodes with two tasks each, and a task that fits on none before another moves."""
    total = np.full((5, 2), 10)
    request = np.array([[3, 2], [2, 3]] * 5 + [[8, 8]])
    return problem_of(total, request, np.append(np.repeat(np.arange(5), 2), -1))


def compile_reassignment() -> None:
    """Search an instance of a few tasks, which calls every kernel."""
    from murmuration.planning.reassignment.model import Model
    from murmuration.planning.reassignment.search import search

    nodes, tasks, resources = 3, 6, 2
    model = Model(
        transient=np.array([1, 0]),
        load_weight=np.ones(resources, np.int64),
        capacity=np.full((nodes, resources), 100),
        safety=np.full((nodes, resources), 10),
        neighbourhood=np.arange(nodes),
        location=np.arange(nodes),
        node_move=np.ones((nodes, nodes), np.int64),
        service=np.arange(tasks) // 2,
        request=np.full((tasks, resources), 7),
        task_move=np.ones(tasks, np.int64),
        spread=np.ones(tasks // 2, np.int64),
        need_from=np.zeros(tasks // 2 + 1, np.int64),
        needs=np.zeros(0, np.int64),
        balance=np.array([[0, 1, 1, 1]]),
        weights=np.ones(3, np.int64),
    )
    search(model, np.arange(tasks) % nodes, 1, evaluations=1000)
