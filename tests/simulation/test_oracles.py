"""What can be worked out with pencil and paper: Lindley's recursion, Pollaczek–Khinchine, Little's
law."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from murmuration.experiments import theory
from murmuration.simulation.engine import run as engine
from murmuration.simulation.results import summary as results

Tables = dict[str, Any]
#: Ten thousand tiny tasks fit at once, so that nothing is ever short of room.
ROOM = {"nodes": 50, "cpu": 1000, "memory": "1G"}
TIMES = {"job_time_s": 0.1, "task_time_s": 0.005}


def tables(
    load: float, tasks: float = 10.0, seed: int = 1, jobs: float = 4000.0, **scheduler: Any
) -> Tables:
    """One workload that keeps a monolithic scheduler busy for this share of the time."""
    mean = theory.DecisionStream(1.0, tasks, TIMES["job_time_s"], TIMES["task_time_s"]).moments()[0]
    rate = load / mean
    work = {
        "arrivals_per_s": rate,
        "tasks_per_job": tasks,
        "task_duration_s": 1.0,
        "task_cpu": 0.001,
    }
    return {
        "seed": seed,
        "days": jobs / rate / 86_400.0,
        "cluster": ROOM,
        "workload": {"w": work},
        "scheduler": {"kind": "monolithic", "decision": {"default": TIMES}, **scheduler},
    }


def lindley(submit: np.ndarray[Any, Any], service: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """When each job's attempt begins: as it is submitted, or when the one before it ends."""
    begins, free_at = np.empty(len(submit)), 0.0
    for job, (at, lasts) in enumerate(zip(submit, service, strict=True)):
        begins[job] = max(at, free_at)
        free_at = begins[job] + lasts
    return begins


@pytest.mark.parametrize("load", [0.5, 0.9, 1.2])
def test_monolithic_waits_are_lindleys(load: float) -> None:
    """With room for all, when an attempt begins is a function of the job list alone, to the last
    digit."""
    run = engine.simulate(tables(load))
    jobs = run.setup.jobs
    expected = lindley(jobs.submit_s, TIMES["job_time_s"] + TIMES["task_time_s"] * jobs.tasks)
    begun = ~np.isnan(run.world.jobs["first"])
    assert begun.sum() == (expected <= run.horizon_s).sum()
    assert (run.world.jobs["first"][begun] == expected[begun]).all()
    assert (run.world.jobs["attempts"][begun] == 1).all()


def test_each_partition_is_a_queue_of_its_own() -> None:
    """Two workloads in partitions wait as if each were alone: Lindley for each."""
    setup = tables(0.7, kind="partitioned")
    work = setup["workload"]["w"]
    setup["workload"] = {"a": work, "b": {**work, "arrivals_per_s": work["arrivals_per_s"] / 2}}
    run = engine.simulate(setup)
    jobs = run.setup.jobs
    for code in range(2):
        mine = jobs.workload == code
        expected = lindley(
            jobs.submit_s[mine], TIMES["job_time_s"] + TIMES["task_time_s"] * jobs.tasks[mine]
        )
        first = run.world.jobs["first"][mine]
        assert (first[~np.isnan(first)] == expected[~np.isnan(first)]).all()


def mean_waits(setup: Callable[[int], Tables], seeds: int) -> list[float]:
    """The mean wait of each of several independent runs, the first tenth of each left out while the
    queue fills."""
    means = []
    for seed in range(seeds):
        jobs = engine.simulate(setup(seed)).world.jobs
        means.append(float(np.nanmean((jobs["first"] - jobs["submit"])[len(jobs) // 10 :])))
    return means


def must_be(means: list[float], expected: float, error: float) -> None:
    """The seeds are fixed, so this holds or it does not; of sound simulators it would refuse one in
    a thousand."""
    assert stats.sem(means) < error * expected, "the runs must be long enough to tell"
    assert abs(np.mean(means) - expected) < 3.3 * stats.sem(means), (np.mean(means), expected)


@pytest.mark.parametrize(
    ("kind", "load", "error"),
    [
        ("monolithic", 0.2, 0.008),
        ("monolithic", 0.5, 0.008),
        ("monolithic", 0.8, 0.015),
        ("monolithic", 0.9, 0.025),
        ("shared-state", 0.8, 0.015),
    ],
)
def test_mean_waits_agree_with_pollaczek_khinchine(kind: str, load: float, error: float) -> None:
    """Eighty runs of 10,000 jobs. A wait is told from one that is 3 % (20 and 50 % load), 5 % (80
    %) or 8 % (90 %) off; a load that is 1 % off is 10 % of the wait at 90 % load. Alone, a
    shared-state scheduler meets nobody and is the same queue."""
    rate = load / theory.DecisionStream(1.0, 10.0, **TIMES).moments()[0]
    expected = theory.mean_wait([theory.DecisionStream(rate, 10.0, **TIMES)])
    must_be(
        mean_waits(lambda seed: tables(load, seed=seed, jobs=10_000.0, kind=kind), 80),
        expected,
        error,
    )


def test_waits_of_two_classes_agree_with_pollaczek_khinchine() -> None:
    """Multi-path: a fast class and a slow one in one queue wait alike, as the mixture says."""
    times = {"fast": (0.1, 0.005), "slow": (2.0, 0.01)}
    rates = {"fast": 1.5, "slow": 0.2}
    streams = [theory.DecisionStream(rates[name], 10.0, *times[name]) for name in times]
    assert 0.6 < theory.load(streams) < 0.8
    setup = tables(0.5)
    setup["workload"] = {
        name: {**setup["workload"]["w"], "arrivals_per_s": rate} for name, rate in rates.items()
    }
    decision = {
        name: {"job_time_s": job, "task_time_s": task} for name, (job, task) in times.items()
    }
    setup |= {
        "days": 0.05,
        "scheduler": {"kind": "monolithic", "paths": "multi", "decision": decision},
    }
    must_be(mean_waits(lambda seed: {**setup, "seed": seed}, 40), theory.mean_wait(streams), 0.02)


@pytest.mark.parametrize("kind", ["monolithic", "partitioned", "offers", "shared-state"])
def test_utilisation_is_littles_law(kind: str) -> None:
    """Tasks running = arrivals × tasks per job × duration, and each takes its request.

    Within 2 %: 20 runs of about 4,000 jobs of ten tasks of a second each, whose mean has a standard
    error of 0.5 %.
    """
    running, required = [], []
    for seed in range(20):
        summary = results.summary(engine.simulate(tables(0.3, seed=seed, kind=kind)), kind)
        running.append(summary["cluster"]["tasks_running_mean"])
        required.append(summary["cluster"]["required"]["cpu"])
    rate = 0.3 / theory.DecisionStream(1.0, 10.0, **TIMES).moments()[0]
    tasks = 1.0 / (1.0 - np.exp(-1.0 / 10.0))
    expected = rate * tasks * 1.0
    assert np.mean(running) == pytest.approx(expected, rel=0.02)
    assert np.mean(required) == pytest.approx(expected * 0.001 / (50 * 1000), rel=0.02)
    assert np.array(required) == pytest.approx(np.array(running) * 0.001 / 50_000)


def test_busyness_is_the_load() -> None:
    """The share of time spent on attempts is arrivals × decision time: within 2 % over twenty
    seeds."""
    busy = [
        results.summary(engine.simulate(tables(0.5, seed=seed)), "m")["workloads"]["w"][
            "busy_fraction"
        ]
        for seed in range(20)
    ]
    assert np.mean(busy) == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize(
    ("load", "saturated"), [(0.5, False), (0.8, False), (1.3, True), (3.0, True)]
)
@pytest.mark.parametrize("kind", ["monolithic", "offers", "shared-state"])
def test_a_scheduler_that_cannot_keep_up_is_marked(kind: str, load: float, saturated: bool) -> None:
    workload = results.summary(engine.simulate(tables(load, kind=kind)), kind)["workloads"]["w"]
    assert workload["saturated"] is saturated
    assert (workload["jobs_queued"] > 0.1 * workload["jobs_submitted"]) is saturated


def test_a_cluster_that_is_full_is_marked_saturated() -> None:
    """The scheduler is quick but there is no room: the jobs stay queued all the same."""
    setup = tables(0.1)
    setup["cluster"] = {"nodes": 1, "cpu": 0.002, "memory": "1G"}
    workload = results.summary(engine.simulate(setup), "full")["workloads"]["w"]
    assert workload["saturated"]
