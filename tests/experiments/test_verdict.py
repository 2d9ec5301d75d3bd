"""A comparison ends in sentences that say by how much, and how sure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from murmuration.experiments.pages.verdict import compare, judge


def run(scheduler: str, wait: float | None, nodes: float = 10.0, unstarted: int = 0) -> Any:
    workload = {"wait_s_mean": wait, "slowdown_mean": 2.0}
    counts = {"jobs_not_started": unstarted, "jobs_submitted": 14}
    cluster = {
        "nodes_in_use_mean": nodes,
        "fragmentation_mean": 0.25,
        "imbalance_mean": 0.5,
        "migrations_per_min": 0.0,
    }
    return {"scheduler": scheduler, "workloads": {"w": workload | counts}, "cluster": cluster}


def test_differences_are_paired_by_seed() -> None:
    """Seeds differ much more than schedulers do; SciPy's paired interval is the oracle."""
    rng = np.random.default_rng(1)
    base = rng.uniform(10.0, 1000.0, 8)
    other = base - 20.0 + rng.normal(0.0, 1.0, 8)
    ours = next(compare([run("b", wait) for wait in other], [run("a", wait) for wait in base]))
    bounds = stats.ttest_rel(other, base).confidence_interval(0.95)
    assert ours.name == "wait" and ours.low is not None and ours.high is not None
    assert ours.low * base.mean() == pytest.approx(bounds.low, rel=1e-3)
    assert ours.high * base.mean() == pytest.approx(bounds.high, rel=1e-3)
    assert not ours.is_equal


def test_a_sentence_names_what_differs_and_what_does_not() -> None:
    waits = (10.0, 11.0, 12.0)
    runs = [run("a", wait) for wait in waits] + [run("b", 0.9 * wait) for wait in waits]
    certainty, shortest, sentence, equal = judge(runs)
    assert "with a" in certainty and "3 seeds" in certainty
    assert shortest == "shortest wait: b (9.9 s)"
    # The differences are -1.0, -1.1 and -1.2 of a mean of 11: half an interval is
    # 4.303 * 0.1 / sqrt(3) / 11 = 2.3 %.
    assert sentence == "b: wait 10\u00a0% less (7.7–12\u00a0%)"
    assert equal == "no difference in slowdown, nodes in use, fragmentation, imbalance"


def test_large_differences_are_factors() -> None:
    assert judge([run("a", 2.0), run("b", 14.0)])[2] == "b: wait 7.0\u00a0×"


def test_all_that_wait_as_little_are_named() -> None:
    shortest = judge([run("a", 2.0), run("b", 1.0), run("c", 1.001)])[1]
    assert shortest == "shortest wait: b, c (1 s)"


def test_jobs_that_never_started_come_first() -> None:
    sentence = judge([run("a", 10.0), run("b", 0.1, unstarted=14)])[2]
    assert sentence.startswith("b: 14 of 14 jobs never started; wait 99\u00a0% less")


def test_noise_is_no_difference() -> None:
    runs = [run("a", 10.0), run("a", 20.0), run("b", 20.0), run("b", 10.5)]
    sentences = judge(runs)
    assert sentences[2] == "b: no difference from a" and "wait" in sentences[3]


def test_what_no_seed_can_tell_apart_has_no_winner() -> None:
    runs = [run("a", 10.0), run("a", 20.0), run("b", 20.0), run("b", 10.5)]
    assert judge(runs)[1] == "shortest wait: no difference that these seeds can tell"


def test_jobs_that_start_under_nobody_are_nobodys_fault() -> None:
    assert "never" not in judge([run("a", 10.0, unstarted=1), run("b", 5.0, unstarted=1)])[2]


def test_nothing_to_compare() -> None:
    assert judge([]) == [] and judge([run("a", 1.0)]) == []
