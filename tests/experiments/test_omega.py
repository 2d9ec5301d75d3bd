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
