"""The paper's figures in short: what must hold does, and the instances are those of the paper."""

from __future__ import annotations

import numpy as np
import pytest

from murmuration.experiments.papers.kapellmeister.instances import FAMILIES, instance, make_crowded
from murmuration.experiments.papers.kapellmeister.placement import is_like, reschedule, schedule
from murmuration.experiments.result import Reproduction, ReproductionSettings

QUICK = ReproductionSettings(quick=True, seed=1)


def held(found: Reproduction, words: str) -> list[bool | None]:
    rows = [row.holds for row in found.rows if words in row.quantity]
    assert rows, f"no row speaks of {words!r}"
    return rows


@pytest.fixture(scope="module")
def scheduled() -> Reproduction:
    return schedule(QUICK)


def test_ours_places_everything_and_is_no_worse_than_kubernetes(scheduled: Reproduction) -> None:
    for name in ("A1", "M4"):
        assert all(held(scheduled, f"{name}, here"))
        assert len(held(scheduled, f"{name}, here")) == 6


def test_on_m4_one_objective_is_better_and_the_others_are_proved(scheduled: Reproduction) -> None:
    pytest.importorskip("ortools")
    (row,) = [row for row in scheduled.rows if "M4" in row.quantity and "proof" in row.quantity]
    assert str(row.measured).startswith("1; proved") and row.holds


def test_the_papers_search_drifts_as_the_paper_shows(scheduled: Reproduction) -> None:
    assert all(held(scheduled, "objective 1 (crowding) against Kubernetes"))
    assert held(scheduled, "trade-off: containers left out") == [True]
    # No placement can change by 5 % what is mostly idle power: it is shown as what it is.
    assert not any(held(scheduled, "paper's search, trade-off: objective 3 (power)"))


@pytest.mark.parametrize(
    ("here", "paper", "holds"),
    [
        (-0.06, -0.09, True),
        (-0.14, -0.09, False),
        (0.01, -0.09, False),
        (0.70, 0.80, True),
        (0.60, 0.80, False),
        (-0.03, -0.05, True),
        (-0.01, -0.05, False),
    ],
)
def test_a_change_has_the_papers_sign_and_size(here: float, paper: float, holds: bool) -> None:
    assert is_like(here, paper) is holds


def test_rescheduling_moves_far_fewer_than_scheduling_anew() -> None:
    found = reschedule(QUICK)
    assert held(found, "containers moved against scheduling from scratch") == [True]
    assert held(found, "the new container was placed") == [True]


@pytest.mark.parametrize(
    ("name", "nodes", "services"), [("A1", 100, 100), ("M4", 240, 200), ("M5a", 640, 400)]
)
def test_families_have_the_papers_sizes(name: str, nodes: int, services: int) -> None:
    problem = instance(FAMILIES[name], 1)
    assert len(problem.nodes) == nodes and len(np.unique(problem.group)) == services
    assert (np.bincount(problem.group) <= 3).all() and (problem.node_of == -1).all()


def test_a_crowded_cluster_is_as_full_as_it_should_be() -> None:
    problem = make_crowded(FAMILIES["A1"], 1, 0.8)
    share = (problem.request.sum(axis=0) / problem.total.sum(axis=0)).max()
    assert 0.8 <= share < 0.9
