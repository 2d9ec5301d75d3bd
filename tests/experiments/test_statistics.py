"""Replicated figures: means, confidence intervals against SciPy, and what is combined how."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from murmuration.experiments.statistics import combine, combine_by_label, interval, middle, t95


@pytest.mark.parametrize("freedom", [*range(1, 60), 100, 1000, 10_000])
def test_students_t(freedom: int) -> None:
    assert t95(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=5e-4)


@pytest.mark.parametrize("count", [2, 3, 10, 45])
def test_the_interval_is_scipys(count: int) -> None:
    values = np.random.default_rng(count).normal(5.0, 2.0, count)
    low, high = stats.t.interval(0.95, count - 1, loc=values.mean(), scale=stats.sem(values))
    expected = {"mean": values.mean(), "low": low, "high": high, "n": count}
    assert interval(list(values)) == pytest.approx(expected, rel=1e-3)


def test_one_value_or_none_has_no_interval() -> None:
    assert interval([4.0]) == {"mean": 4.0, "low": None, "high": None, "n": 1}
    assert interval([]) == {"mean": None, "low": None, "high": None, "n": 0}


def test_the_interval_holds_the_mean_as_often_as_it_says() -> None:
    """95 % of 2,000 intervals of five draws, give or take three standard errors."""
    rng = np.random.default_rng(1)
    hits = 0
    for values in rng.exponential(1.0, (2000, 5)) + rng.normal(0.0, 3.0, (2000, 5)):
        found = interval(list(values))
        assert found["low"] is not None and found["high"] is not None
        hits += found["low"] <= 1.0 <= found["high"]
    assert hits / 2000 == pytest.approx(0.95, abs=3 * (0.95 * 0.05 / 2000) ** 0.5)


def run(label: str, seed: int, wait: float | None, saturated: bool = False) -> dict[str, object]:
    workload = {"wait_s_mean": wait, "saturated": saturated, "conflict_fraction": None}
    common = {
        "scenario": "s",
        "scheduler": label,
        "seed": seed,
        "days": 1.0,
        "path": "compiled",
        "events": 10 * seed,
    }
    return {**common, "workloads": {"w": workload}, "vary": {"a": "x"}, "timing": {"cpu_s": 1.0}}


def test_replicas_are_combined() -> None:
    found = combine([run("a", 1, 2.0), run("a", 2, 4.0, saturated=True), run("a", 3, None)])
    assert found["seed"] == [1, 2, 3] and found["vary"] == {"a": "x"} and found["days"] == 1.0
    assert found["events"]["mean"] == 20.0
    workload = found["workloads"]["w"]
    assert (workload["wait_s_mean"]["mean"], workload["wait_s_mean"]["n"]) == (3.0, 2), (
        "a run without a figure is left out"
    )
    assert workload["conflict_fraction"] is None
    assert workload["saturated"] is True, "one saturated run makes it so"


def test_runs_of_one_label_belong_together() -> None:
    found = combine_by_label([run("a", 1, 2.0), run("b", 1, 5.0), run("a", 2, 4.0)])
    assert [summary["scheduler"] for summary in found] == ["a", "b"]
    assert middle(found[0]["workloads"]["w"]["wait_s_mean"]) == 3.0
    assert middle(found[1]["workloads"]["w"]["wait_s_mean"]) == 5.0
