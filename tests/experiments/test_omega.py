"""The Monte Carlo figures, shortened until there is nothing left of them."""

from __future__ import annotations

import pytest

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
