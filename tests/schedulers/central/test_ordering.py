"""The live master under a queue discipline: the same jobs start at the same times as in a
simulation, because both ask the same functions."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from tests.schedulers.central.clusters import Cluster, spec

from murmuration.base.errors import InputError
from murmuration.placement.registry import resolve
from murmuration.runtime.master.settings import live_settings
from murmuration.runtime.options import MasterOptions
from murmuration.schedulers.central.jobs import CentralTaskState
from murmuration.schedulers.central.master import CentralMaster, CentralSettings
from murmuration.schedulers.queues.discipline import BUILT_IN, find_discipline
from murmuration.schedulers.queues.use import RecentUse
from murmuration.simulation.engine import run as engine
from murmuration.simulation.messages.central_replay import rehearse, submissions

PROCESSORS = 8


def write_jobs(folder: Path, seed: int, count: int) -> Path:
    """Jobs of three users and priorities that ask for up to three times what they need."""
    rng, path = random.Random(seed), folder / "jobs.csv"
    header = (
        "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task,priority,gang,"
        "user,requested_s\n"
    )
    lines = []
    for k, submit in enumerate(sorted(rng.sample(range(1, 300), count))):
        size, lasts = rng.randint(1, PROCESSORS), rng.randint(1, 30)
        asks, user = lasts * rng.choice([1, 2, 3]), rng.choice("abc")
        priority = rng.randint(0, 3)
        lines.append(f"j{k},batch,{submit},{size},{lasts},1,0.5,{priority},true,{user},{asks}\n")
    path.write_text(header + "".join(lines))
    return path


@pytest.mark.parametrize("queue", sorted(BUILT_IN))
def test_live_jobs_start_when_simulated_ones_do(queue: str, tmp_path: Path) -> None:
    tables = {
        "days": 0.05,
        "cluster": {"nodes": PROCESSORS, "cpu": 1, "memory": "4G"},
        "workload": {"trace": str(write_jobs(tmp_path, 5, 60))},
        "scheduler": {"queue": queue, "queue_settings": {"estimate": "trace"}},
    }
    run = engine.simulate(tables)
    jobs = run.setup.jobs
    simulated = dict(zip(jobs.job_id.tolist(), run.world.jobs["started"].tolist(), strict=True))
    settings = CentralSettings(
        run.setup.resources, resolve("first-fit"), queue=find_discipline(queue)
    )
    rehearsal = rehearse(settings, 1, run.setup.nodes, submissions(jobs))
    live = {fact.job: at_s for fact, at_s in zip(rehearsal.placed, rehearsal.placed_s, strict=True)}
    assert live == simulated
    waits = [simulated[name] - s for name, s in zip(jobs.job_id, jobs.submit_s, strict=True)]
    assert sum(wait > 0 for wait in waits) > 20, "most of them waited"


def on_four(queue: str) -> Cluster:
    """A master with two nodes of two processors, whose jobs start by a discipline."""
    cluster = Cluster()
    settings = replace(cluster.master.settings, queue=find_discipline(queue))
    cluster.master = CentralMaster(settings, 1)
    for node in ("n0", "n1"):
        cluster.join(node)
    return cluster


def test_jobs_go_around_a_gang_that_waits() -> None:
    """Three of four processors are taken until 10; a gang of four waits. A job of one that ends by
    then starts, one that would not does not, and neither does one without a limit."""
    cluster = on_four("easy")
    cluster.submit(spec("first", count=3, time_limit_s=10.0), 0.0)
    cluster.submit(spec("gang", count=4, gang=True, time_limit_s=5.0), 1.0)
    cluster.submit(spec("long", time_limit_s=11.0), 1.0)
    cluster.submit(spec("endless"), 1.0)
    assert "long.0.1" not in cluster.launched and "endless.0.1" not in cluster.launched
    cluster.submit(spec("short", time_limit_s=8.0), 2.0)
    assert "short.0.1" in cluster.launched
    for run in ("first.0.1", "first.1.1", "first.2.1", "short.0.1"):
        assert "gang.0.1" not in cluster.launched
        cluster.end(run, now=9.0)
    assert all(f"gang.{k}.1" in cluster.launched for k in range(4))
    assert cluster.states("long") == [CentralTaskState.WAITING]


def test_without_overtaking_the_first_holds_up_all() -> None:
    cluster = on_four("fcfs")
    cluster.submit(spec("first", count=3, time_limit_s=10.0), 0.0)
    cluster.submit(spec("wide", count=2, time_limit_s=5.0), 1.0)
    cluster.submit(spec("small", time_limit_s=1.0), 2.0)
    assert cluster.states("wide") == [CentralTaskState.WAITING] * 2, "whole or not at all"
    assert cluster.states("small") == [CentralTaskState.WAITING]
    assert [job.name for job in cluster.master.in_order()] == ["wide", "small"]


@pytest.mark.parametrize("queue", ["fcfs", "easy", "conservative"])
def test_a_job_that_is_too_large_for_all_nodes_holds_up_nobody(queue: str) -> None:
    """It waits for nodes to join: four processors are not enough for five tasks, and none has one
    of three. When a third node has joined, it is the first again."""
    cluster = on_four(queue)
    cluster.submit(spec("tall", resources={"cpu": 3, "memory": "1G"}, time_limit_s=5.0), 0.0)
    cluster.submit(spec("wide", count=5, time_limit_s=5.0), 0.0)
    cluster.submit(spec("full", count=4, time_limit_s=9.0), 1.0)
    assert cluster.states("full") == [CentralTaskState.STARTING] * 4
    cluster.join("n2")
    assert cluster.states("wide") == [CentralTaskState.WAITING] * 5, "two are free"
    cluster.submit(spec("long", time_limit_s=50.0), 2.0)
    expected = CentralTaskState.STARTING if queue != "fcfs" else CentralTaskState.WAITING
    assert cluster.states("long") == [expected], "it is in the way of five of six only if strict"
    cluster.submit(spec("late", time_limit_s=50.0), 3.0)
    assert cluster.states("late") == [CentralTaskState.WAITING]


def test_use_halves() -> None:
    """Two CPUs for an hour, with a half-life of an hour: the integral of 2 · 2^(−t/h), and a
    quarter of it two half-lives later; in pieces it is the same."""
    import math

    use = RecentUse(3600.0)
    use.add("ann", 2.0, 0.0, 3600.0)
    whole = 2.0 * 3600.0 / math.log(2.0) * 0.5
    assert use.ended("ann", 3600.0) == pytest.approx(whole)
    assert use.ended("ann", 3 * 3600.0) == pytest.approx(whole / 4.0)
    pieces = RecentUse(3600.0)
    for k in range(6):
        pieces.add("ann", 2.0, 600.0 * k, 600.0 * (k + 1))
    assert pieces.ended("ann", 3600.0) == pytest.approx(whole)
    assert use.ended("bob", 0.0) == 0.0


def test_offers_have_no_queue() -> None:
    with pytest.raises(InputError, match="offers has no queue to order"):
        live_settings(MasterOptions(folder="", scheduler="offers", queue="easy"))
    with pytest.raises(InputError, match="did you mean 'easy'"):
        live_settings(MasterOptions(folder="", queue="eesy"))
    assert live_settings(MasterOptions(folder="", queue="easy"))[0].queue is BUILT_IN["easy"]
