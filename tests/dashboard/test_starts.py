"""When a task that waits is expected to start, and what that is known from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.dashboard.test_suspended import queue_at
from tests.schedulers.central.test_suspension import TWO, SuspendingCluster

from murmuration.runtime.master.front.queue import QueueRow
from murmuration.runtime.master.front.starts import LIMITS, UNKNOWN, likenesses, remaining


def run_for(
    cluster: SuspendingCluster, name: str, begin_s: float, seconds: float, **how: Any
) -> None:
    """A job that has the node to itself and ends well."""
    cluster.begin(name, begin_s, resources=TWO, **how)
    cluster.end(f"{name}.0.1", now=begin_s + seconds)


def wait_behind(cluster: SuspendingCluster, now: float, **how: Any) -> QueueRow:
    """A job that holds the only node, submitted now, and the row of one that waits for it, ten
    seconds later."""
    cluster.begin("holder", now, resources=TWO, **how)
    cluster.begin("next", now, resources=TWO, user="other")
    return queue_at(cluster, now + 10.0)["next"]


def test_runs_like_it_say_how_long_a_run_takes() -> None:
    """Five runs took 100 to 500 s. One like them has run for 10 s: in the middle it goes on for
    290 s, and one in ten of such runs for longer than the 0.9 quantile says."""
    cluster = SuspendingCluster()
    lengths = [100.0, 200.0, 300.0, 400.0, 500.0]
    for k, seconds in enumerate(lengths):
        run_for(cluster, f"train-{k}", 1000.0 * (k + 1), seconds, user="ada")
    cluster.begin("train-9", 10_000.0, resources=TWO, user="ada")
    cluster.begin("next", 10_000.0, resources=TWO, user="other")
    row = queue_at(cluster, 10_010.0)["next"]
    early, late = np.quantile(lengths, [0.1, 0.9]) - 10.0
    assert row.start_in_s == pytest.approx(290.0)
    assert (row.start_early_s, row.start_late_s) == pytest.approx((early, late))
    assert "5 earlier runs" in row.start_ground and not row.start_is_latest


def test_a_run_that_outlived_all_like_it_tells_nothing() -> None:
    cluster = SuspendingCluster()
    for k in range(5):
        run_for(cluster, f"train-{k}", 1000.0 * (k + 1), 100.0, user="ada")
    cluster.begin("train-9", 10_000.0, resources=TWO, user="ada")
    cluster.begin("next", 10_000.0, resources=TWO, user="other")
    row = queue_at(cluster, 10_101.0)["next"]
    assert row.start_in_s is None and row.start_ground == UNKNOWN


def test_a_time_limit_is_a_bound_and_said_to_be_one() -> None:
    row = wait_behind(SuspendingCluster(), 50.0, time_limit_s=200.0)
    assert row.start_in_s == row.start_late_s == pytest.approx(190.0)
    assert row.start_is_latest and row.start_ground == LIMITS


def test_no_run_is_expected_beyond_its_time_limit() -> None:
    cluster = SuspendingCluster()
    for k, seconds in enumerate([100.0, 300.0, 500.0]):
        run_for(cluster, f"train-{k}", 1000.0 * (k + 1), seconds, user="ada")
    cluster.begin("train-9", 10_000.0, resources=TWO, user="ada", time_limit_s=350.0)
    cluster.begin("next", 10_000.0, resources=TWO, user="other")
    row = queue_at(cluster, 10_010.0)["next"]
    assert row.start_in_s == pytest.approx(290.0) and row.start_late_s == pytest.approx(340.0)


def test_without_either_it_is_unknown_and_why_is_said() -> None:
    cluster = SuspendingCluster()
    run_for(cluster, "holder-1", 5.0, 10.0, user="somebody else")
    row = wait_behind(cluster, 50.0, user="ada")
    assert row.start_in_s is None and row.start_ground == UNKNOWN


def test_jobs_are_like_by_user_and_name_or_by_user_and_shape() -> None:
    cluster = SuspendingCluster(nodes=3)
    cluster.begin("train-17", 1.0, resources=TWO, user="ada")
    cluster.begin("train_18", 1.0, user="ada")
    cluster.begin("train-19", 1.0, resources=TWO, user="bob")
    cluster.begin("other", 1.0, resources=TWO, user="ada")
    jobs = cluster.master.jobs.jobs
    of = {name: set(likenesses(job)) for name, job in jobs.items()}
    first = of["train-17"]
    shared = {name: len(first & kinds) for name, kinds in of.items()}
    assert shared == {"train-17": 2, "train_18": 1, "train-19": 0, "other": 1}


def test_what_is_left_is_that_of_longer_runs() -> None:
    assert remaining([10.0, 20.0, 30.0, 40.0], 15.0) == pytest.approx((7.0, 15.0, 23.0))
    assert remaining([10.0, 20.0, 30.0], 15.0) is None
