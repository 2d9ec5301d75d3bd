"""The bulk engine and the message-level agents agree on a cell of 200 nodes."""

from __future__ import annotations

from murmuration.experiments.papers.masb import fidelities as masb_fidelities
from murmuration.experiments.papers.masb.fidelities import QUANTITIES, compare, small_scenario
from murmuration.experiments.result import ReproductionSettings


def test_the_small_cell_is_the_large_one_made_smaller() -> None:
    scenario = small_scenario(seed=1, hours=6.0)
    assert abs(sum(group.count for group in scenario.cluster.group) - 200) <= 3
    assert scenario.days == 0.25


def test_quantities_hold_where_their_ranges_meet() -> None:
    width = len(QUANTITIES)
    rows = compare(
        {"bulk": [[1.0] * width, [3.0] * width], "messages": [[2.0] * width, [5.0] * width]}
    )
    assert (
        all(row.holds for row in rows)
        and rows[0].measured == 2.0
        and (rows[0].low, rows[0].high) == (1.0, 3.0)
    )
    apart = compare(
        {"bulk": [[1.0] * width, [3.0] * width], "messages": [[3.1] * width, [5.0] * width]}
    )
    assert not any(row.holds for row in apart)


def test_both_fidelities_agree() -> None:
    """Two seeds and two simulated hours; the reproduction itself takes five and six."""
    found = masb_fidelities.run(ReproductionSettings(seed=1, quick=True))
    failed = [
        f"{row.quantity}: {row.measured} ({row.low} to {row.high}), agents {row.paper}"
        for row in found.rows
        if not row.holds
    ]
    assert not failed, "\n".join(failed)
    moved = next(row for row in found.rows if row.quantity == "migrations per minute")
    assert isinstance(moved.measured, float) and moved.measured > 0
