"""Scenarios under faults: when such a run may stop, and what its outcome means."""

from __future__ import annotations

import numpy as np
import pytest

from murmuration.base.resources import Resources
from murmuration.experiments.faults import has_survived, run_schedules, run_until_quiet
from murmuration.placement.registry import resolve
from murmuration.schedulers.central.master import CentralSettings
from murmuration.simulation.messages import protocols
from murmuration.simulation.messages.central import CentralCluster
from murmuration.simulation.messages.drive import BrokenError
from murmuration.workload.job_spec import JobSpec

TIMEOUT_S, UNTIL_S, JOBS = 10.0, 5000.0, 4


def start_cluster(seed: int) -> CentralCluster:
    """Two nodes, four jobs of up to a minute, a crash of the master and a cut, all within 40 s."""
    total = {"cpu": 4_000_000, "memory": 4 * 10**9}
    settings = CentralSettings(
        Resources(), resolve("first-fit"), agent_timeout_s=TIMEOUT_S, margin_s=2.0
    )
    rng = np.random.default_rng(seed)
    cluster = CentralCluster(settings, {"a": total, "b": total}, seed, rng)
    driver = cluster.driver
    for k in range(JOBS):
        spec = JobSpec(name=f"job-{k}", command=["work"], count=3, resources={"cpu": 1})
        driver.at(5.0 + k, cluster.submit_surely, spec, float(10 + rng.integers(50)))
    driver.at(5.0 + 15.0 * float(rng.random()), driver.crash, "master", 5.0)
    driver.at(20.0, cluster.connections.isolate, "a", True)
    driver.at(40.0, cluster.connections.isolate, "a", False)
    driver.run(40.0)
    return cluster


@pytest.mark.parametrize("seed", range(5))
def test_after_a_quiet_cluster_nothing_happens(seed: int) -> None:
    """The oracle is the same cluster run to the end: it has the same runs, at the same times."""
    stopped, whole = start_cluster(seed), start_cluster(seed)
    run_until_quiet(stopped, JOBS, TIMEOUT_S, UNTIL_S)
    whole.driver.run(UNTIL_S)
    assert stopped.driver.now < UNTIL_S / 2
    assert stopped.spans == whole.spans and len(stopped.spans) >= 3 * JOBS
    assert not stopped.overlaps and not whole.overlaps
    assert {job.status for job in stopped.master.jobs.jobs.values()} == {"finished"}  # type: ignore[union-attr]


def test_a_process_that_starts_late_is_seen() -> None:
    """Something that begins after everything has ended, as a launch under way would."""
    cluster = start_cluster(0)
    host = cluster.hosts["a"]

    def start_process() -> None:
        host.processes["stray.0.1"] = 0.0

    quiet = start_cluster(0)
    run_until_quiet(quiet, JOBS, TIMEOUT_S, UNTIL_S)
    # The first look after the last end finds everything quiet; this comes after it.
    last_end_s = max(span.end_s for span in quiet.spans)
    cluster.driver.at(last_end_s + 2.0 * TIMEOUT_S, start_process)
    run_until_quiet(cluster, JOBS, TIMEOUT_S, UNTIL_S)
    assert cluster.driver.now == UNTIL_S and "stray.0.1" in host.processes


def test_jobs_that_never_came_are_waited_for() -> None:
    cluster = start_cluster(1)
    run_until_quiet(cluster, JOBS + 1, TIMEOUT_S, 500.0)
    assert cluster.driver.now == 500.0


def test_who_survives() -> None:
    outcome = {
        "jobs_submitted": 2,
        "jobs": {"finished": 2},
        "tasks_run_twice": 0,
        "processes_left": 0,
    }
    assert has_survived(outcome)
    for change in (
        {"jobs": {"finished": 1, "open": 1}},
        {"tasks_run_twice": 1},
        {"processes_left": 1},
    ):
        assert not has_survived(outcome | change)


def test_a_schedule_that_breaks_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_schedule(seed: int) -> dict[str, int]:
        if seed == 8:
            raise BrokenError("two owners")
        return {"seed": seed, "messages": 10}

    monkeypatch.setattr(protocols, "load_schedule", lambda protocol: run_schedule)
    counted: list[int] = []
    document = run_schedules("any", 3, 7, counted.append)
    assert counted == [1, 2, 3] and document["failures"] == ["two owners"]
    assert document["totals"] == {"messages": 20}
