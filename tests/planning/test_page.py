"""The page of a plan: what a reader plays and chooses from is what the plan says."""

from __future__ import annotations

import numpy as np
import pytest
from tests.planning.test_document import plan
from tests.planning.test_script import PODS, plan_of

from murmuration.assignment.problem import sum_requests
from murmuration.planning import page as pg
from murmuration.planning.document import document
from murmuration.planning.plan import Plan
from murmuration.reports.figures import Fills, Parallel, Playback, Scatter

__all__ = ["plan"]


def figures_of(plan: Plan) -> list[object]:
    made = pg.page(plan, document(plan, "a cluster"))
    return [figure for section in made.sections for figure in section.figures]


def playback_of(plan: Plan) -> Playback:
    return next(figure for figure in figures_of(plan) if isinstance(figure, Playback))


def held_after(playback: Playback, steps: int) -> np.ndarray:
    held = np.array([taken for _, _, taken in playback.nodes])
    for move in playback.moves[:steps]:
        if move.origin >= 0:
            held[move.origin] -= move.amounts
        held[move.target] += move.amounts
    return held


def test_played_to_the_end_every_node_holds_what_the_plan_says(plan: Plan) -> None:
    playback = playback_of(plan)
    after = sum_requests(plan.problem, plan.order.node_of)[:, : len(playback.parts)]
    assert [name for name, _, _ in playback.nodes] == list(plan.problem.nodes)
    assert held_after(playback, len(playback.moves)) == pytest.approx(after)
    totals = np.array([total for _, total, _ in playback.nodes])
    for step in range(len(playback.moves) + 1):
        assert (held_after(playback, step) <= totals).all()


def test_of_many_nodes_those_that_moves_touch_are_played(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = playback_of(plan)
    monkeypatch.setattr(pg, "PLAYED_NODES_MAX", len(whole.nodes) - 1)
    monkeypatch.setattr(pg, "PLAYED_MOVES_MAX", 1)
    playback = playback_of(plan)
    (move,) = playback.moves
    first = plan.order.steps[0]
    named = [name for name, _, _ in playback.nodes]
    assert set(named) == {plan.problem.nodes[k] for k in (first.origin, first.node) if k >= 0}
    assert named[move.target] == plan.problem.nodes[first.node]
    assert "The first 1 steps" in playback.note and "those that moves touch" in playback.note


def test_a_plan_without_moves_has_nothing_to_play(plan: Plan) -> None:
    still = plan_of(PODS, [])
    plan.order, plan.rehearsal = still.order, still.rehearsal
    assert not any(isinstance(figure, Playback) for figure in figures_of(plan))


def test_the_figures_of_the_front_show_the_same_placements_in_the_same_order(plan: Plan) -> None:
    plan.front = np.array([[3.0, 1.0], [2.0, 2.0], [1.0, 3.0]])
    plan.history = [{"low": [1.0, 1.0], "mean": [2.0, 2.0], "high": [3.0, 3.0]}]
    figures = figures_of(plan)
    parallel = next(figure for figure in figures if isinstance(figure, Parallel))
    scatter = next(figure for figure in figures if isinstance(figure, Scatter))
    assert parallel.group == scatter.group != ""
    assert (
        [tuple(row) for row in parallel.rows]
        == list(scatter.points)
        == [
            (3.0, 1.0),
            (2.0, 2.0),
            (1.0, 3.0),
        ]
    )


def test_of_many_nodes_the_bars_are_of_those_that_change_most(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changes(fills: Fills) -> dict[str, float]:
        return {n: float(np.abs(np.subtract(a, b)).max()) for n, b, a in fills.rows}

    whole = next(figure for figure in figures_of(plan) if isinstance(figure, Fills))
    monkeypatch.setattr(pg, "FILLS_MAX", 1)
    one = next(figure for figure in figures_of(plan) if isinstance(figure, Fills))
    assert list(changes(one).values()) == [max(changes(whole).values())]
