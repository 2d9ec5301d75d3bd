"""Job lists made to fit a run keep what they promise to keep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.workload.jobs import JobList, job_list
from murmuration.workload.reshape import (
    add_up_use,
    multiply_tasks,
    scale_use,
    shift_arrivals,
    split_runs,
)
from murmuration.workload.usage import Curves

DAY_S = 86_400.0


def jobs_of(seed: int, count: int = 400) -> JobList:
    """Jobs of time 0 and of two days, some of them large, each using shares of its own."""
    rng = np.random.default_rng(seed)
    submit = np.where(rng.random(count) < 0.2, 0.0, rng.uniform(1.0, 2 * DAY_S, count))
    return job_list(
        Resources(),
        ["w"],
        workload=np.zeros(count, dtype=np.int64),
        submit_s=submit,
        tasks=np.maximum(rng.pareto(0.9, count) * 3, 1).astype(np.int64),
        duration_s=rng.exponential(20_000.0, count),
        request=rng.integers(1, 10**6, (count, 2)),
        curve=rng.integers(-1, 5, count),
        curves=Curves(rng.uniform(0.1, 1.9, (5, 7, 2)).astype(np.float32), 300.0, cyclic=True),
    )


def running(jobs: JobList, at: float) -> int:
    """Tasks that run at a time if every job starts when it is submitted."""
    here = (jobs.submit_s <= at) & (at < jobs.submit_s + jobs.duration_s)
    return int(jobs.tasks[here].sum())


def test_another_days_arrivals_follow_the_jobs_of_time_0() -> None:
    jobs = jobs_of(1)
    moved = shift_arrivals(jobs, DAY_S)
    there = jobs.submit_s == 0.0
    later = jobs.submit_s >= DAY_S
    assert sorted(moved.job_id) == sorted(jobs.job_id[there | later])
    assert moved.submit_s.tolist() == sorted(
        [*np.zeros(int(there.sum())), *(jobs.submit_s[later] - DAY_S)]
    )


@pytest.mark.parametrize("runs", [1.0, 1.4, 2.0, 3.7])
def test_runs_change_how_often_something_is_placed_and_not_what_runs(runs: float) -> None:
    jobs = jobs_of(2)
    again = split_runs(jobs, runs)
    later, now_later = jobs.submit_s > 0.0, again.submit_s > 0.0
    assert now_later.sum() == pytest.approx(runs * later.sum(), rel=0.08)
    assert len(set(again.job_id)) == len(again) and (~now_later).sum() == (~later).sum()
    for at in np.random.default_rng(3).uniform(0.0, 2 * DAY_S, 50):
        assert running(again, float(at)) == running(jobs, float(at))


@pytest.mark.parametrize("factor", [0.16, 0.97, 1.0, 1.02, 2.5])
def test_every_job_has_its_part_of_more_or_less_tasks(factor: float) -> None:
    jobs = jobs_of(4, 3000)
    more = multiply_tasks(jobs, factor)
    tasks = dict(zip(more.job_id.tolist(), more.tasks.tolist(), strict=True))
    for name, count in zip(jobs.job_id.tolist(), jobs.tasks.tolist(), strict=True):
        assert abs(tasks.get(name, 0) - factor * count) < 1.0
    assert more.tasks.sum() == pytest.approx(factor * jobs.tasks.sum(), rel=0.02)


def used_by_the_minute(jobs: JobList, seconds: float) -> list[float]:
    """The mean use, task by task and minute by minute."""
    assert jobs.curves is not None
    times = np.arange(0.0, seconds, 60.0)
    use = np.zeros(2)
    for j in range(len(jobs)):
        ends = jobs.submit_s[j] + jobs.duration_s[j]
        minutes = ((times >= jobs.submit_s[j]) & (times < ends)).sum()
        curve = int(jobs.curve[j])
        share = jobs.curves.share[curve].mean(axis=0) if curve >= 0 else np.ones(2)
        use += minutes / len(times) * jobs.tasks[j] * jobs.request[j] * share
    return use.tolist()


def test_use_is_scaled_to_the_shares_wanted() -> None:
    jobs = jobs_of(5)
    total = 3 * add_up_use(jobs, DAY_S).astype(np.int64)
    assert add_up_use(jobs, DAY_S) == pytest.approx(used_by_the_minute(jobs, DAY_S), rel=0.02)
    scaled = scale_use(jobs, total, DAY_S, {"cpu": 0.436, "memory": 0.621})
    assert add_up_use(scaled, DAY_S) / total == pytest.approx([0.436, 0.621], rel=1e-5)
    assert (scaled.request == jobs.request).all()
    # What uses all it requests, about a sixth of everything, uses neither more nor less.
    with pytest.raises(InputError, match=r"workload\.used\.cpu: expected more than"):
        scale_use(jobs, total, DAY_S, {"cpu": 0.001})


def test_use_that_nobody_recorded_cannot_be_scaled() -> None:
    jobs = replace(jobs_of(6), curves=None, curve=np.full(400, -1))
    with pytest.raises(InputError, match=r"workload\.used"):
        scale_use(jobs, np.ones(2, dtype=np.int64), DAY_S, {"cpu": 0.5})
