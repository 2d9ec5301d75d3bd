"""The reproductions of the swarm paper: quick runs hold, and the equations are integrated as SciPy
does."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from murmuration.experiments.catalogue import EXPERIMENTS
from murmuration.experiments.papers.swarm import model as model
from murmuration.experiments.papers.swarm.study import StudyPoint, line, study
from murmuration.experiments.result import ReproductionSettings
from murmuration.schedulers.swarm.search import CHORD
from murmuration.simulation.architectures.swarm.cloud import fewest_migrations

NAMES = ("swarm-three-nodes", "swarm-distribution", "swarm-scaling", "swarm-model")


@pytest.mark.parametrize("name", NAMES)
def test_a_quick_reproduction_holds(name: str) -> None:
    result = EXPERIMENTS[name].load()(ReproductionSettings(seed=1, quick=True))
    assert result.experiment == name and result.figures and result.notes
    failed = [row.quantity for row in result.rows if row.holds is False]
    assert not failed
    for row in result.rows:
        assert (
            row.low is None or row.high is None or row.low <= float(row.measured or 0.0) <= row.high
        )


def test_workers_never_change_a_result() -> None:
    points = [StudyPoint(50, 25), StudyPoint(100, 49), StudyPoint(50, 25, CHORD)]
    one, two = (
        study(ReproductionSettings(seed=4, workers=workers), points, 120) for workers in (1, 2)
    )
    for point in points:
        assert all((a == b).all() for a, b in zip(one[point], two[point], strict=True))
        assert len(one[point].steps) == 120


def test_the_fewest_migrations() -> None:
    # Eq. 28 with N = 1000 and n0 = 50: 20 nodes of 49, 500 of 25 and 980 of 1 are emptied.
    assert [fewest_migrations(1000, n, 50) for n in (49, 25, 1)] == [980.0, 12_500.0, 980.0]


def test_a_straight_line_is_found() -> None:
    x = [math.log(n) for n in range(50, 1001, 50)]
    intercept, slope, fit = line(x, [3.0 + 15.0 * value for value in x])
    assert (intercept, slope, fit) == pytest.approx((3.0, 15.0, 1.0))


@settings(deadline=None, max_examples=12)
@given(
    shares=st.lists(st.floats(0.05, 1.0), min_size=2, max_size=5),
    kind=st.sampled_from(["quadratic", "spread"]),
)
def test_integrated_as_scipy_does(shares: list[float], kind: str) -> None:
    scipy = pytest.importorskip("scipy.integrate")
    start, times = np.array(shares) * model.N0, np.linspace(0.0, 8.0, 9)
    exact = scipy.solve_ivp(
        lambda t, n: model.flow(n, kind), (0, 8), start, t_eval=times, rtol=1e-9, atol=1e-9
    )
    assert np.abs(model.integrate(start, kind, times) - exact.y.T).max() < 1e-3


def test_the_exact_solution_of_two_nodes() -> None:
    times = np.linspace(0.0, 20.0, 5)
    for n1 in (5.0, 20.0, 24.9, 30.0, 45.0):
        solved = model.integrate(np.array([n1, model.N0 - n1]), "quadratic", times)[:, 0]
        assert np.abs(solved - model.two_nodes(n1, times)).max() < 1e-5


def test_containers_are_neither_made_nor_lost() -> None:
    for kind in ("quadratic", "linear", "spread"):
        assert model.flow(np.array([10.0, 20.0, 45.0, 50.0]), kind).sum() == pytest.approx(
            0.0, abs=1e-9
        )


def test_stationary_states_of_three_nodes_form_a_curve() -> None:
    # The roots of n (n0 − n)² = c add up to 2 n0: eqs. 8 and 15 are the ends.
    for c in (0.0, 0.03, 0.1, 4 / 27):
        roots = np.sort(np.roots([1.0, -2.0, 1.0, -c]).real) * model.N0
        assert roots.sum() == pytest.approx(2 * model.N0)
        assert np.abs(model.flow(roots, "quadratic")).max() < 1e-5
        assert model.resting_place(roots) == ("wanted" if c == 0.0 else "unwanted")
    assert model.resting_place(np.array([32.0, 34.0, 34.0])) == "none"
