"""The reproduction of the DEPAS experiment: what its rows are made of, and that a short run of it
holds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from murmuration.experiments.papers.depas import cycle as depas_cycle
from murmuration.experiments.papers.depas import track as depas
from murmuration.experiments.result import ReproductionSettings


def made_up(capacity: Sequence[float]) -> depas.Run:
    rate = [70.0] * 5 + [140.0] * 5
    columns: dict[str, Sequence[float]] = {
        "time_s": list(range(10)),
        "rate": rate,
        "capacity": capacity,
    }
    columns["band_low"] = [r / 0.8 for r in rate]
    columns["band_high"] = [r / 0.6 for r in rate]
    return {name: np.array(values, dtype=np.float64) for name, values in columns.items()}


def test_settled_means_inside_and_staying_there() -> None:
    assert depas.changes_of(made_up([100] * 10)["rate"], np.arange(10.0)) == [5.0]
    assert depas.settling_time([made_up([100] * 5 + [100, 150, 200, 200, 200])], 5.0) == 2.0
    assert depas.settling_time([made_up([100] * 5 + [100, 200, 100, 200, 200])], 5.0) == 3.0
    assert depas.settling_time([made_up([100] * 5 + [200] * 5)], 5.0) == 0.0
    assert depas.settling_time([made_up([100] * 9 + [120])], 5.0) == math.inf


def test_a_run_of_the_paper_s_scenario_by_its_rows() -> None:
    runs = [depas.run_once(seed, {}) for seed in (1, 2)]
    rows = {row.quantity: row for row in depas._paper_rows(runs)}
    assert all(row.holds in (True, None) for row in rows.values()), [
        r.document() for r in rows.values()
    ]
    assert 0.0 < float(rows["rejected share of requests"].measured or 0.0) < 0.05


def test_faults_by_their_rows() -> None:
    crash = depas.run_once(
        3, {"faults.crash_s": depas.CRASH_S, "faults.crash_share": 0.3, "seconds": 1500}
    )
    assert depas.settling_time([crash], depas.CRASH_S) <= depas.SETTLED_S
    assert crash["capacity"][1251] == pytest.approx(0.7 * crash["capacity"][1249], rel=0.1)


def test_one_cycle_rows_agree_with_the_formula() -> None:
    assert all(row.holds for row in depas_cycle.cycle_rows(ReproductionSettings(quick=True)))
