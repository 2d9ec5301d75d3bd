"""Offers that are contended, on the workload shipped with the simulator behind the paper: its rules
give its figures, and the default rules give what a queue with too much work must."""

from __future__ import annotations

from statistics import mean
from typing import Any

import pytest

from murmuration.simulation.engine import run as engine
from murmuration.simulation.results import summary as results
from murmuration.simulation.scenarios import scenario as sc

DAY_S, SEEDS = 86_400.0, (1, 2, 3, 4)
#: Seconds between two service jobs, and for a decision on one of ten tasks.
GAP_S, DECISION_S = 20.0, 50.0 + 10 * 0.005
#: One day of that simulator: attempts of a batch job, first wait and busyness of service.
ATTEMPTS, FIRST_WAIT_S, BUSYNESS = 1.16, 9.5, 2.47
BATCHED = {"scheduler.offers": {"batch_s": 1, "batch_min_cpu": 100}, "scheduler.retry_s": 1}


def stream(gap_s: float, tasks: float, duration_s: float) -> dict[str, Any]:
    return {
        "arrivals_per_s": 1.0 / gap_s,
        "tasks_per_job": tasks,
        "task_duration_s": duration_s,
        "task_cpu": 1,
        "task_memory": "2G",
    }


def run_day(seed: int, **changes: Any) -> tuple[float, float, float]:
    """Attempts of a batch job, first wait and busyness of service, of a day."""
    tables = {
        "name": "example",
        "seed": seed,
        "days": 1.0,
        "cluster": {"nodes": 10_000, "cpu": 4, "memory": "16G"},
        "workload": {"batch": stream(10.0, 100, 100), "service": stream(GAP_S, 10, 500)},
        "scheduler": {
            "kind": "offers",
            "decision": {
                "batch": {"job_time_s": 0.1, "task_time_s": 0.005},
                "service": {"job_time_s": 50.0, "task_time_s": 0.005},
            },
        },
    }
    summary = results.summary(engine.simulate(sc.override(tables, changes)), "example")
    batch, service = summary["workloads"]["batch"], summary["workloads"]["service"]
    busyness = summary["schedulers"]["service"]["busy_fraction"]
    return batch["attempts_mean"], service["wait_first_attempt_s_mean"], busyness


def test_the_rules_of_the_papers_simulator_give_its_figures() -> None:
    """Its wait is one draw, and days differ by a factor of 1.7; the other rules are a hundred times
    off. Busyness is also what every job decided once makes."""
    runs = [run_day(seed, **BATCHED) for seed in SEEDS]
    attempts, waits, busyness = (mean(figures) for figures in zip(*runs, strict=True))
    assert attempts == pytest.approx(ATTEMPTS, rel=0.03)
    assert busyness == pytest.approx(BUSYNESS, rel=0.03)
    assert busyness == pytest.approx(DECISION_S / GAP_S, rel=0.03)
    assert FIRST_WAIT_S / 2 < waits < FIRST_WAIT_S * 2


def test_by_default_a_framework_with_too_much_work_falls_behind() -> None:
    """One look at a time: job k comes at k gaps and is decided at k decisions, so by the end of the
    day its wait has grown in proportion, and the mean is half of that. The rest wait for ever."""
    for seed in SEEDS[:2]:
        attempts, wait, busyness = run_day(seed)
        assert wait == pytest.approx(DAY_S / 2 * (1 - GAP_S / DECISION_S), rel=0.05)
        assert 0.99 < busyness <= 1.0
        assert attempts > 4 * ATTEMPTS


def test_double_booking_alone_is_not_the_papers_simulator() -> None:
    """A framework that takes further offers while it decides keeps up, but decides on scraps: it is
    the batches that make offers large."""
    for seed in SEEDS[:2]:
        attempts, wait, busyness = run_day(seed, **{"scheduler.offers.double_booked": True})
        assert attempts > 10 * ATTEMPTS
        assert 50 * FIRST_WAIT_S < wait < DAY_S / 50
        assert busyness > 1.5 * BUSYNESS
