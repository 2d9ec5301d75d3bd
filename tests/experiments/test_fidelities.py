"""The bulk forms of swarm and DEPAS and their message-level agents agree on the figures that
matter."""

from __future__ import annotations

import pytest

from murmuration.experiments.catalogue import EXPERIMENTS
from murmuration.experiments.fidelity import Quantity, compare
from murmuration.experiments.papers.swarm.fidelities import Size, bulk_figures, message_figures
from murmuration.experiments.result import ReproductionSettings


def test_means_hold_within_their_tolerance_and_scatter() -> None:
    """Means 10 and 10.5 without scatter; then a scatter whose two standard errors are 2."""
    quantities = [Quantity("wide", 0.06), Quantity("narrow", 0.04), Quantity("shown", None)]
    rows = compare(quantities, [[10.0] * 3] * 2, [[10.5] * 3] * 2)
    assert [row.holds for row in rows] == [True, False, None]
    assert rows[0].measured == 10.0 and rows[0].paper == "10.5 (10.5 to 10.5)"
    # Variance 2 over two runs: the error of each mean is 1, that of the difference √2.
    scattered = compare([Quantity("q", 0.0)], [[9.0], [11.0]], [[11.8], [13.8]])
    apart = compare([Quantity("q", 0.0)], [[9.0], [11.0]], [[11.9], [13.9]])
    assert scattered[0].holds and not apart[0].holds


@pytest.mark.parametrize("name", ["swarm-fidelities", "depas-fidelities"])
def test_both_fidelities_agree(name: str) -> None:
    reproduction = EXPERIMENTS[name].load()(ReproductionSettings(seed=1, quick=True))
    failed = [
        f"{row.quantity}: {row.measured} ({row.low} to {row.high}), agents {row.paper}"
        for row in reproduction.rows
        if row.holds is False
    ]
    assert not failed, "\n".join(failed)
    assert sum(row.holds is True for row in reproduction.rows) >= 4


def test_both_end_with_the_fewest_full_nodes() -> None:
    """64 containers fill 8 of 16 nodes with room for 8: eq. 17."""
    size = Size(16, 8, 4)
    for figures in (bulk_figures(size, 1), message_figures(size, 1)):
        assert figures[3] == 8.0
        # Eq. 28: at least (N − N·n(0)/n0)·n(0) migrations.
        assert figures[1] >= (16 - 16 * 4 / 8) * 4
