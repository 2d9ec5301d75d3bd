"""Which placement is taken when moves get lost on the way."""

from __future__ import annotations

import numpy as np
import pytest

from murmuration.assignment.moves import MoveOrder, MoveStep, order_moves
from murmuration.assignment.objectives import parse_objective
from murmuration.assignment.packed import Work
from murmuration.assignment.problem import problem_of
from murmuration.assignment.search import choice
from murmuration.base.arrays import Indices
from murmuration.planning.plan import Options, make_plan


def test_moves_that_end_no_better_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every order loses the move that would have emptied a node; what is left of it moves a task
    for nothing."""
    problem = problem_of(np.full((3, 2), 10), np.full((3, 2), 3), np.arange(3))
    useless = np.array([1, 1, 2])

    def lose(work: Work, node_of: Indices) -> MoveOrder:
        if (node_of == problem.node_of).all():
            return order_moves(work, node_of)
        swapped = np.array([1, 0, 2])
        steps = (MoveStep(0, 0, 1), MoveStep(1, 1, 0))
        return MoveOrder(steps, swapped, (2,))

    monkeypatch.setattr(choice, "order_moves", lose)
    options = Options(objectives=(parse_objective("nodes"),), evaluations=200, population=8)
    plan = make_plan(problem, options)
    assert plan.order.steps == () and (plan.order.node_of == problem.node_of).all()
    # A move that does empty a node is worth it although another was lost.
    monkeypatch.setattr(
        choice, "order_moves", lambda work, x: MoveOrder((MoveStep(0, 0, 1),), useless, (2,))
    )
    assert make_plan(problem, options).order.node_of.tolist() == [1, 1, 2]
