"""The Monte Carlo figures, shortened until there is nothing left of them."""

from __future__ import annotations

import pytest

from murmuration.experiments import theory
from murmuration.experiments.papers.omega import figures as omega
from murmuration.experiments.papers.omega import monte_carlo
from murmuration.experiments.result import ReproductionSettings


def test_a_run_without_any_service_transaction_has_nothing_to_compare(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seventeen seconds, in which no service job that takes ten to decide comes to be decided."""
    monkeypatch.setattr(monte_carlo, "CELLS", {"A": "omega-a"})
    monkeypatch.setattr(monte_carlo, "QUICK_TIMES", (10.0,))
    found = omega.rss_modes(ReproductionSettings(seed=1, days=0.0002, quick=True))
    conflicts = [row for row in found.rows if "conflict fraction" in row.quantity]
    assert len(conflicts) == 3
    assert all((row.measured, row.holds) == (None, None) for row in conflicts)


@pytest.mark.parametrize(
    ("figure", "holds"),
    [
        ({"mean": 1.05, "low": 0.9, "high": 1.2}, True),
        ({"mean": 1.05, "low": 1.02, "high": 1.08}, True),
        ({"mean": 1.15, "low": 0.98, "high": 1.32}, True),
        ({"mean": 1.15, "low": 1.1, "high": 1.2}, False),
        # Three runs that say nothing: neither the mean nor the interval is worth a verdict.
        ({"mean": 1.0, "low": 0.7, "high": 1.3}, None),
        ({"mean": 3.0, "low": -5.0, "high": 11.0}, None),
        (1.05, True),
        (1.2, False),
    ],
)
def test_a_wide_interval_is_no_agreement(figure: object, holds: bool | None) -> None:
    assert omega.is_near(figure, 1.0) is holds


def shared_curve(wait: float, busy: float) -> monte_carlo.Curve:
    """Cell A at a service job time of 10 s: the batch wait and how busy the service scheduler is,
    each in units of what the formulas say."""
    batch, service = monte_carlo.streams("A", {"batch": 0.1, "service": 10.0})
    point = {
        "workloads": {
            "batch": {
                omega.WAIT: wait * theory.mean_wait([batch]),
                "busy_fraction": busy * theory.load([batch]),
            },
            "service": {"busy_fraction": busy * theory.load([service])},
        }
    }
    return monte_carlo.Curve("A", "shared state", (10.0,), (point,))


@pytest.mark.parametrize(
    ("wait", "busy", "holds"),
    [
        (1.0, 1.0, [True, True, True]),
        (1.3, 1.4, [False, True, True]),
        (0.8, 0.8, [False, True, False]),
        (20.0, 1.6, [False, False, False]),
    ],
)
def test_shared_state_is_judged_by_formulas(wait: float, busy: float, holds: list[bool]) -> None:
    """A queue of its own waits as M/G/1 does, less than one both kinds share; conflicts make it
    work more, and nothing makes it work less than one attempt for each job."""
    rows = omega._shared_rows(shared_curve(wait, busy), 10.0)
    assert [row.holds for row in rows] == holds


def test_offers_are_judged_by_one_attempt_for_each_job() -> None:
    for busy, holds in ((1.0, True), (1.2, False), (0.8, False)):
        rows = [
            omega._attempts_row(shared_curve(1.0, busy), name, 10.0)
            for name in ("batch", "service")
        ]
        assert [row.holds for row in rows] == [holds] * 2
