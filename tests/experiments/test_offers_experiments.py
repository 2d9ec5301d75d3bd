"""Quick runs of the reproductions of chapters 4 and 5."""

from __future__ import annotations

import math

import pytest

from murmuration.experiments.papers.mesos import locality, sharing
from murmuration.experiments.papers.mesos import partitioning as offers_model
from murmuration.experiments.result import Reproduction, ReproductionSettings, Row


def check_numbers(result: Reproduction) -> dict[str, Row]:
    """Every number is finite and lies in its interval; the rows by name."""
    assert result.figures and result.notes
    for row in result.rows:
        if not isinstance(row.measured, str):
            assert row.measured is not None and math.isfinite(row.measured)
            if row.low is not None and row.high is not None:
                assert row.low - 1e-9 <= row.measured <= row.high + 1e-9
    return {row.quantity: row for row in result.rows}


def test_the_model_of_offers() -> None:
    rows = check_numbers(offers_model.run(ReproductionSettings(quick=True)))
    expected_to_fail = {
        name for name in rows if name.endswith("ln k") or "own tasks of length T" in name
    }
    assert {name for name, row in rows.items() if row.holds is False} == expected_to_fail


def test_sharing() -> None:
    rows = check_numbers(sharing.run(ReproductionSettings(quick=True)))
    assert rows["who gains"].holds
    assert rows["speed-up of Large Hadoop Mix"].holds
    assert rows["speed-up of Torque / MPI"].holds
    assert rows["more CPU allocated than in static partitions"].holds
    assert rows["speed-up of large Facebook jobs (4 to 8)"].holds
    calibrated = rows["static seconds of ALS, Spark (set)"]
    assert calibrated.measured == pytest.approx(calibrated.paper, rel=0.05)


def test_locality() -> None:
    rows = check_numbers(locality.run(ReproductionSettings(quick=True)))
    for name in ("static partitions", "offers without delay", "1 s delay"):
        assert rows[f"local tasks, {name}"].holds


def test_the_same_seed_gives_the_same_rows() -> None:
    assert locality.run_once(4, blocks=50) == locality.run_once(4, blocks=50)
