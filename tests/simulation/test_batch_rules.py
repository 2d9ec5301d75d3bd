"""Users, limits, preemption and reservations of queue disciplines, against plain definitions."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.simulation.reference_batch import Cluster, UserJob

from murmuration.base.errors import InputError
from murmuration.schedulers.queues.shares import add_use, fair_factor, multifactor
from murmuration.simulation.engine import run as engine
from murmuration.simulation.results.invariants import check
from murmuration.simulation.results.summary import summary
from murmuration.simulation.scenarios import scenario as sc
from murmuration.workload.jobs import job_list

PROCESSORS = 8


def draw_jobs(seed: int, count: int = 24) -> list[UserJob]:
    rng = random.Random(seed)
    return [
        UserJob(
            submit=float(submit),
            size=rng.randint(1, PROCESSORS),
            lasts=float(rng.randint(1, 30)),
            user=rng.choice("abc"),
            priority=rng.randint(0, 3),
        )
        for submit in sorted(rng.randint(0, 80) for _ in range(count))
    ]


def write(folder: Path, jobs: list[UserJob], workload: str = "batch") -> Path:
    path = folder / "jobs.csv"
    header = (
        "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task,priority,user\n"
    )
    rows = [
        f"j{k},{workload},{j.submit},{j.size},{j.lasts},1,0,{j.priority},{j.user}\n"
        for k, j in enumerate(jobs)
    ]
    path.write_text(header + "".join(rows))
    return path


def simulate(path: Path, queue: str, more: dict[str, Any] | None = None, **settings: Any) -> Any:
    scheduler = {"queue": queue, "queue_settings": settings, **(more or {})}
    tables = {
        "days": 0.05,
        "cluster": {"nodes": PROCESSORS, "cpu": 1, "memory": "4000G"},
        "workload": {"trace": str(path)},
        "scheduler": scheduler,
    }
    run = engine.prepare(sc.check(tables))
    for until in (17.0, 40.0, 90.0):
        engine.advance(run, until)
        check(run)
    assert engine.finish(run)
    check(run)
    return run


def last_starts(run: Any) -> list[float]:
    """When each job last started: it has run to its end from then."""
    rows = run.world.jobs
    assert (rows["done"] == rows["tasks"]).all(), "every task came to its end once"
    starts: list[float] = (rows["ended"] - rows["duration"] + run.world.queued["done_s"]).tolist()
    return starts


@pytest.mark.parametrize("seed", [0, 4, 5, 7])
@pytest.mark.parametrize("preempt", ["requeue", "suspend"])
def test_a_job_of_higher_priority_takes_the_room_of_lower_ones(
    seed: int, preempt: str, tmp_path: Path
) -> None:
    jobs = draw_jobs(seed)
    path = write(tmp_path, jobs)
    run = simulate(path, "priority", preempt=preempt)
    expected = Cluster(PROCESSORS, by_priority=True, preempt=preempt).run(jobs)
    assert last_starts(run) == expected
    cluster = summary(run, "x")["cluster"]
    assert cluster["jobs_preempted"] > 0
    assert (cluster["cpu_h_preempted"] > 0) == (preempt == "requeue")


@pytest.mark.parametrize("seed", range(4))
def test_users_run_no_more_than_they_may(seed: int, tmp_path: Path) -> None:
    """A job whose user may not run more is passed over and holds up nobody."""
    jobs = draw_jobs(seed)
    path = write(tmp_path, jobs)
    jobs_max = simulate(path, "fcfs", user_jobs_max=1)
    assert last_starts(jobs_max) == Cluster(PROCESSORS, jobs_max=1).run(jobs)
    small = [UserJob(j.submit, min(j.size, 4), j.lasts, j.user) for j in jobs]
    path = write(tmp_path, small)
    cpu_max = simulate(path, "fcfs", user_cpu_max=5.0)
    assert last_starts(cpu_max) == Cluster(PROCESSORS, cpu_max=5).run(small)


@pytest.mark.parametrize("seed", range(6))
def test_reservations_are_kept(seed: int, tmp_path: Path) -> None:
    """One for a user and one for nobody: nothing else runs in them, and the user's jobs do."""
    jobs = draw_jobs(seed)
    path = write(tmp_path, jobs)
    windows = [(20.0, 60.0, 4, ("a",)), (100.0, 130.0, 8, ())]
    more = {
        "reservation": [
            {"from_s": 20.0, "until_s": 60.0, "resources": {"cpu": 4}, "users": ["a"]},
            {"from_s": 100.0, "until_s": 130.0, "share": 1.0},
        ]
    }
    run = simulate(path, "fcfs", more)
    starts = last_starts(run)
    assert starts == Cluster(PROCESSORS, reservations=windows).run(jobs)
    assert not any(s < 130.0 and s + j.lasts > 100.0 for s, j in zip(starts, jobs, strict=True))
    for queue in ("easy", "conservative"):
        starts = last_starts(simulate(path, queue, more))
        assert not any(s < 130.0 and s + j.lasts > 100.0 for s, j in zip(starts, jobs, strict=True))


@pytest.mark.parametrize(("lasts", "start"), [(30.0, 30.0), (31.0, 60.0)])
def test_a_job_must_end_within_the_reservation_it_uses(
    lasts: float, start: float, tmp_path: Path
) -> None:
    """All is kept for a user from 20 to 60. Who would run beyond that waits until it is over."""
    path = write(tmp_path, [UserJob(30, PROCESSORS, lasts, "a")])
    kept = {"from_s": 20.0, "until_s": 60.0, "share": 1.0, "users": ["a"]}
    assert last_starts(simulate(path, "fcfs", {"reservation": [kept]})) == [start]


@pytest.mark.parametrize(("half_life_s", "first"), [(604_800.0, "b"), (60.0, "a")])
def test_past_use_is_forgotten(half_life_s: float, first: str, tmp_path: Path) -> None:
    """User a has used the cluster for 100 s a quarter of an hour ago, b for 20 s just now."""
    jobs = [
        UserJob(0, PROCESSORS, 100, "a"),
        UserJob(1000, PROCESSORS, 20, "b"),
        UserJob(1001, PROCESSORS, 10, "a"),
        UserJob(1002, PROCESSORS, 10, "b"),
    ]
    run = simulate(write(tmp_path, jobs), "fair-share", half_life_s=half_life_s)
    assert last_starts(run)[2:] == ([1020.0, 1030.0] if first == "a" else [1030.0, 1020.0])


def test_recent_use_is_the_integral_of_what_was_used_each_second_halved_since() -> None:
    """In one step, in many, and by a sum over small pieces of time."""
    using, half_life_s, seconds = np.array([3.0, 0.0]), 50.0, 130.0
    once, often = np.array([7.0, 7.0]), np.array([7.0, 7.0])
    add_use(once, using, seconds, half_life_s)
    for _ in range(13):
        add_use(often, using, seconds / 13, half_life_s)
    ago = (np.arange(130_000) + 0.5) / 1000.0
    summed = using * np.sum(0.5 ** (ago / half_life_s)) / 1000.0
    expected = 7.0 * 0.5 ** (seconds / half_life_s) + summed
    np.testing.assert_allclose(once, expected, rtol=1e-6)
    np.testing.assert_allclose(often, expected, rtol=1e-6)


@pytest.mark.parametrize(("promised", "first"), [(1.0, "b"), (3.0, "a")])
def test_use_counts_against_what_was_promised(promised: float, first: str, tmp_path: Path) -> None:
    """User a has used twice as much as b: too much for the same share, not for three times it."""
    jobs = [
        UserJob(0, PROCESSORS, 200, "a"),
        UserJob(200, PROCESSORS, 100, "b"),
        UserJob(250, PROCESSORS, 10, "a"),
        UserJob(251, PROCESSORS, 10, "b"),
    ]
    path = write(tmp_path, jobs)
    for queue in ("fair-share", "multifactor"):
        run = simulate(path, queue, shares={"a": promised, "b": 1.0})
        assert last_starts(run)[2:] == ([300.0, 310.0] if first == "a" else [310.0, 300.0])


def test_multifactor_priorities(tmp_path: Path) -> None:
    """Jobs that need the whole cluster. User a has used it for 100 s, so b goes first; when age
    weighs more than fair share, the older job does."""
    jobs = [
        UserJob(0, 8, 100, "a"),
        UserJob(1, 8, 10, "a"),
        UserJob(2, 8, 10, "b"),
    ]
    path = write(tmp_path, jobs)
    assert last_starts(simulate(path, "multifactor")) == [0.0, 110.0, 100.0]
    aged = {"age": 1e9, "fair_share": 1.0}
    assert last_starts(simulate(path, "multifactor", weights=aged)) == [0.0, 100.0, 110.0]
    assert last_starts(simulate(path, "fair-share")) == [0.0, 110.0, 100.0]


def test_multifactor_is_the_sum_that_slurm_documents() -> None:
    """Age in full, a quarter of the cluster, and half of all use where a quarter was promised."""
    weights = np.array([100.0, 40.0, 1000.0, 2.0, 3600.0])
    fairness = fair_factor(0.5, 0.25)
    assert fairness == 2.0**-2
    priority = multifactor(weights, 7200.0, 0.25, fairness, 3.0)
    assert priority == 100.0 + 40.0 * 0.25 + 1000.0 * 0.25 + 2.0 * 3.0
    assert multifactor(weights, 1800.0, 0.0, 0.0, 0.0) == 50.0


def test_what_jobs_ask_for(tmp_path: Path) -> None:
    """Exact, as in the trace (where it says), or with an error drawn evenly."""
    from murmuration.schedulers.queues.discipline import QueueSettings
    from murmuration.simulation.architectures.queues.batch_build import estimate_times

    count = 4000
    jobs = job_list(
        engine.simulate(small_tables()).setup.resources,
        ["w"],
        workload=np.zeros(count, np.int64),
        submit_s=np.zeros(count),
        tasks=np.ones(count, np.int64),
        duration_s=np.full(count, 10.0),
        request=np.ones((count, 2), np.int64),
        requested_s=np.where(np.arange(count) % 2, 60.0, 0.0),
    )
    exact = estimate_times(jobs, QueueSettings(estimate_factor=2.0), 1)
    assert set(exact) == {20.0}
    asked = estimate_times(jobs, QueueSettings(estimate="trace"), 1)
    assert asked.tolist()[:4] == [10.0, 60.0, 10.0, 60.0]
    drawn = estimate_times(jobs, QueueSettings(estimate=3.0), 1)
    assert drawn.min() >= 10.0 and drawn.max() <= 40.0
    assert abs(drawn.mean() - 25.0) < 5 * 30.0 / np.sqrt(12 * count)
    assert (drawn == estimate_times(jobs, QueueSettings(estimate=3.0), 1)).all()


def small_tables() -> dict[str, Any]:
    return {
        "days": 0.001,
        "cluster": {"nodes": 2},
        "workload": {"w": {"arrivals_per_s": 1.0, "task_duration_s": 1.0}},
        "scheduler": {"queue": "fcfs"},
    }


def test_partitions_are_clusters_of_their_own(tmp_path: Path) -> None:
    """Two workloads with half the nodes each start their jobs as two clusters of that size would;
    sharing all nodes, each keeps its own order."""
    from tests.simulation.reference_queues import Job
    from tests.simulation.reference_queues import simulate as reference

    seeds = {"x": 7, "y": 8}
    made = {name: [j for j in draw_jobs(s) if j.size <= 4] for name, s in seeds.items()}
    path = tmp_path / "jobs.csv"
    header = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task\n"
    lines = [
        f"{name}{k},{name},{j.submit},{j.size},{j.lasts},1,0\n"
        for name, jobs in made.items()
        for k, j in enumerate(jobs)
    ]
    path.write_text(header + "".join(lines))
    run = simulate(path, "easy", {"kind": "partitioned", "partition": {"x": 0.5, "y": 0.5}})
    starts = dict(zip(run.setup.jobs.job_id, run.world.jobs["started"], strict=True))
    for name, jobs in made.items():
        plain = [Job(j.submit, j.size, j.lasts, j.lasts) for j in jobs]
        assert [starts[f"{name}{k}"] for k in range(len(jobs))] == reference(plain, 4, "easy")
    shared = simulate(path, "fcfs", {"kind": "shared-state"})
    for workload in range(2):
        mine = shared.setup.jobs.workload == workload
        order = shared.world.jobs["started"][mine]
        assert (np.diff(order) >= 0).all()
    alone = simulate(path, "fcfs")
    assert shared.world.jobs["started"].mean() <= alone.world.jobs["started"].mean()


def test_a_job_is_lost_whole_with_a_node(tmp_path: Path) -> None:
    """Two jobs of four; a node of the first fails at 5 and returns at 8. The first starts again
    with all its tasks at 8 and counts once."""
    path = write(tmp_path, [UserJob(0, 4, 10, "a"), UserJob(0, 4, 10, "a")])
    events = tmp_path / "events.csv"
    tables = {
        "days": 0.001,
        "cluster": {"nodes": 8, "cpu": 1, "memory": "4000G", "events": str(events)},
        "workload": {"trace": str(path)},
        "scheduler": {"queue": "fcfs", "placement": "best-fit"},
    }
    node = 0
    events.write_text(f"time_s,node_id,event\n5,node-{node},remove\n8,node-{node},add\n")
    run = engine.prepare(sc.check(tables))
    engine.advance(run, 6.0)
    check(run)
    assert engine.finish(run)
    check(run)
    rows = run.world.jobs
    assert sorted(rows["ended"].tolist()) == [10.0, 18.0]
    assert (rows["done"] == 4).all()
    assert run.world.state["tasks_lost"][0] == 4
    assert run.world.state["cpu_s_lost"][0] == 4 * 5.0 * 1e6


@pytest.mark.parametrize(
    ("scheduler", "sentence"),
    [
        ({"queue": "conservative", "queue_settings": {"preempt": "requeue"}}, "preempt: expected"),
        ({"queue": "easy", "reservation": [{"from_s": 5.0, "until_s": 2.0}]}, "until_s: expected"),
        ({"reservation": [{"from_s": 1.0, "until_s": 2.0, "share": 0.5}]}, "expected scheduler.q"),
        ({"queue": "easy", "queue_settings": {"estimate": -1.0}}, "estimate: expected a number"),
        ({"queue": "easy", "queue_settings": {"shares": {"zoe": 2.0}}}, "there is no user 'zoe'"),
        ({"queue": "easy", "policy": {"w": {"quota": 0.5}}}, "policy: quotas and headroom"),
    ],
)
def test_what_makes_no_sense_is_refused(scheduler: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        engine.simulate({**small_tables(), "scheduler": scheduler})


def test_the_worked_example(tmp_path: Path) -> None:
    """The rows of docs/queues.md with preemption and a reservation, by hand."""
    jobs = [UserJob(0, 6, 10), UserJob(1, 8, 5, "", 1), UserJob(2, 1, 8), UserJob(3, 1, 11)]
    path = write(tmp_path, jobs)
    assert last_starts(simulate(path, "easy", preempt="requeue")) == [6.0, 1.0, 6.0, 6.0]
    more = {"reservation": [{"from_s": 8.0, "until_s": 20.0, "share": 1.0}]}
    assert last_starts(simulate(path, "easy", more)) == [20.0, 1.0, 20.0, 20.0]
