"""Room that is kept while others pass: nodes for the first that waits, reservations for their
users; and what users may have. In amounts all of it is as in a simulation, job by job."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schedulers.central.clusters import Cluster, spec
from tests.schedulers.central.test_ordering import PROCESSORS, write_jobs
from tests.simulation.test_batch_rules import last_starts

from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.placement.registry import resolve
from murmuration.runtime.master.settings import live_settings
from murmuration.runtime.options import MasterOptions
from murmuration.schedulers.agent import Wake
from murmuration.schedulers.central.jobs import CentralTaskState
from murmuration.schedulers.central.master import CentralMaster, CentralSettings
from murmuration.schedulers.central.messages import SubmitJob
from murmuration.schedulers.queues.discipline import (
    BUILT_IN,
    AdvanceReservation,
    QueueSettings,
    find_discipline,
)
from murmuration.simulation.engine import run as engine
from murmuration.simulation.messages.central_replay import rehearse, submissions
from murmuration.workload.nodes import NodeTable

WAITING = CentralTaskState.WAITING
CPU, GB = 1_000_000, 10**9


def compare(tmp_path: Path, queue: str, seed: int, more: dict[str, Any], **rules: Any) -> Any:
    """When each job last starts or goes on, live and simulated, and the simulation. A job that is
    suspended goes on where it is, so that only on one node all is as in a pool."""
    count = 1 if rules.get("preempt") == "suspend" else PROCESSORS
    rules = {"estimate": "trace", **rules}
    tables = {
        "days": 0.05,
        "cluster": {"nodes": count, "cpu": PROCESSORS // count, "memory": "400G"},
        "workload": {"trace": str(write_jobs(tmp_path, seed, 60))},
        "scheduler": {"queue": queue, "queue_settings": rules, **more},
    }
    run = engine.simulate(tables)
    jobs = run.setup.jobs
    reservations = run.setup.scenario.scheduler.reservation
    live = CentralSettings(
        run.setup.resources,
        resolve("first-fit"),
        queue=find_discipline(queue),
        queue_settings=run.setup.scenario.scheduler.queue_settings,
        reservations=tuple(reservations),
    )
    rehearsal = rehearse(live, 1, run.setup.nodes, submissions(jobs))
    starts = {
        fact.job: at_s for fact, at_s in zip(rehearsal.placed, rehearsal.placed_s, strict=True)
    }
    starts |= {fact.job: at_s for fact, at_s in rehearsal.resumed}
    return starts, run, jobs.job_id.tolist()


@pytest.mark.parametrize("queue", ["fcfs", "easy", "conservative", "multifactor"])
def test_limits_of_users_are_those_of_a_simulation(queue: str, tmp_path: Path) -> None:
    live, run, names = compare(tmp_path, queue, 1, {}, user_jobs_max=1, user_cpu_max=8.0)
    assert live == dict(zip(names, run.world.jobs["started"].tolist(), strict=True))


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("queue", ["fcfs", "easy", "conservative"])
def test_reservations_are_those_of_a_simulation(queue: str, seed: int, tmp_path: Path) -> None:
    more = {
        "reservation": [
            {"from_s": 50.0, "until_s": 170.0, "resources": {"cpu": 4}, "users": ["a"]},
            {"from_s": 300.0, "until_s": 360.0, "share": 1.0},
        ]
    }
    live, run, names = compare(tmp_path, queue, seed, more)
    simulated = dict(zip(names, run.world.jobs["started"].tolist(), strict=True))
    assert live == simulated
    assert not any(300.0 <= start < 360.0 for start in live.values())


@pytest.mark.parametrize("preempt", ["requeue", "suspend"])
@pytest.mark.parametrize("queue", sorted(BUILT_IN.keys() - {"conservative"}))
def test_who_makes_way_is_as_in_a_simulation(queue: str, preempt: str, tmp_path: Path) -> None:
    for seed in (2, 4, 9, 10):
        live, run, names = compare(tmp_path, queue, seed, {}, preempt=preempt)
        assert live == pytest.approx(dict(zip(names, last_starts(run), strict=True))), seed
        assert run.world.rules["jobs_preempted"][0] > 0


@settings(max_examples=40, deadline=None)
@given(
    queue=st.sampled_from(sorted(BUILT_IN.keys() - {"conservative"})),
    preempt=st.sampled_from(["requeue", "suspend"]),
    seed=st.integers(0, 10**6),
)
def test_whatever_jobs_come_the_same_make_way(queue: str, preempt: str, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        live, run, names = compare(Path(folder), queue, seed, {}, preempt=preempt)
    assert live == pytest.approx(dict(zip(names, last_starts(run), strict=True)))


def on_nodes(queue: str, *cpus: int, **fields: Any) -> Cluster:
    cluster = Cluster()
    changed = replace(cluster.master.settings, queue=find_discipline(queue), **fields)
    cluster.master = CentralMaster(changed, 1)
    for k, cpu in enumerate(cpus):
        cluster.join(f"n{k}", cpu=cpu, memory=64, attributes={"node": f"n{k}"})
    return cluster


@pytest.mark.parametrize("queue", ["easy", "conservative"])
def test_the_node_that_the_first_waits_for_is_kept(queue: str) -> None:
    """Two nodes of four processors, half taken: one until 10, one until 100. A task of four waits
    for the first of them. What would be there after 10 goes to the other node, what ends before to
    either; then both are full."""
    cluster = on_nodes(queue, 4, 4)
    two = {"cpu": 2, "memory": "1G"}
    cluster.submit(spec("soon", resources=two, time_limit_s=10.0, constraints=["node = n0"]), 0.0)
    cluster.submit(spec("late", resources=two, time_limit_s=100.0, constraints=["node = n1"]), 0.0)
    whole = {"cpu": 4, "memory": "1G"}
    cluster.submit(spec("wide", resources=whole, gang=True, time_limit_s=10.0), 1.0)
    for name in ("one", "two"):
        cluster.submit(spec(name, time_limit_s=50.0), 1.0)
        assert cluster.nodes_of(name) == ["n1"], "not where the first one waits"
    cluster.submit(spec("three", time_limit_s=50.0), 1.0)
    assert cluster.states("three") == [WAITING], "on n0 it would delay the first"
    cluster.submit(spec("brief", time_limit_s=8.0), 2.0)
    assert cluster.nodes_of("brief") == ["n0"]
    cluster.end("brief.0.1", now=9.0)
    cluster.end("soon.0.1", now=10.0)
    assert cluster.nodes_of("wide") == ["n0"]


def test_a_job_without_a_limit_keeps_nobody_waiting_for_its_end() -> None:
    """Nothing says when the first could start, so amounts alone decide who may pass."""
    cluster = on_nodes("easy", 2, 2)
    cluster.submit(spec("endless", count=2, spread="node"), 0.0)
    cluster.submit(spec("wide", resources={"cpu": 2, "memory": "1G"}, time_limit_s=5.0), 1.0)
    assert cluster.states("wide") == [WAITING]


Made = list[tuple[int, int, int, int]]


@settings(max_examples=60, deadline=None)
@given(
    made=st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 3), st.integers(1, 4), st.integers(1, 20)),
        min_size=3,
        max_size=14,
    ),
    queue=st.sampled_from(["easy", "conservative"]),
)
def test_the_first_that_waits_is_delayed_by_nobody(made: Made, queue: str) -> None:
    """Three nodes of four processors; every job runs for as long as it asked. At the moment a job
    is the first that waits, look when it would find its nodes if nothing else began: by counting
    the ends that are known then, node by node. It starts no later."""
    made = sorted(made)
    total = np.array([[4 * CPU, 64 * GB]] * 3, dtype=np.int64)
    nodes = NodeTable(Resources(), ("a", "b", "c"), total, ({}, {}, {}))
    jobs = [
        (
            float(submit),
            SubmitJob(
                spec(
                    f"j{k}",
                    count=count,
                    resources={"cpu": cpu, "memory": "1G"},
                    time_limit_s=float(lasts),
                ),
                float(lasts),
            ),
        )
        for k, (submit, count, cpu, lasts) in enumerate(made)
        if count <= 3 * (4 // cpu)
    ]
    master = CentralSettings(Resources(), resolve("first-fit"), queue=find_discipline(queue))
    rehearsal = rehearse(master, 1, nodes, jobs)
    starts: dict[str, float] = {}
    held: list[tuple[float, float, str, int]] = []
    by_name = {event.spec.name: event for _, event in jobs}
    for fact, at_s in zip(rehearsal.placed, rehearsal.placed_s, strict=True):
        asked = by_name[fact.job].spec
        starts[fact.job] = at_s
        end_s = at_s + (asked.time_limit_s or 0.0)
        held.append((at_s, end_s, fact.node, int(asked.resources["cpu"])))
    assert len(starts) == len(jobs)
    head_s = 0.0
    for submit_s, event in jobs:
        # It is the first when it has come and all before it have started.
        head_s = max(head_s, submit_s)
        start_s, cpu = starts[event.spec.name], int(event.spec.resources["cpu"])
        here = [each for each in held if each[0] <= head_s < each[1] and each[0] < start_s]
        for time in sorted({head_s, *(each[1] for each in here)}):
            used = dict.fromkeys("abc", 0)
            for _, end_s, node, amount in here:
                used[node] += amount if end_s > time else 0
            if sum((4 - amount) // cpu for amount in used.values()) >= event.spec.count:
                assert start_s <= time, (event.spec.name, start_s, time)
                break
        head_s = max(head_s, start_s)


def test_the_queue_is_looked_at_when_a_reservation_ends() -> None:
    kept = AdvanceReservation(from_s=0.0, until_s=20.0, share=1.0)
    cluster = on_nodes("fcfs", 2, reservations=(kept,))
    cluster.submit(spec("job", time_limit_s=5.0), 1.0)
    assert cluster.states("job") == [WAITING] and cluster.master.due == 20.0
    cluster.tell(Wake(), 20.0)
    assert "job.0.1" in cluster.launched


def test_two_jobs_of_a_user_do_not_start_together_beyond_their_limit() -> None:
    cluster = on_nodes("fcfs", queue_settings=QueueSettings(user_jobs_max=1))
    for name in ("one", "two"):
        cluster.submit(spec(name, user="ann"), 0.0)
    cluster.join("n0", cpu=4, memory=64)
    assert list(cluster.launched) == ["one.0.1"]


def test_reservations_are_given_by_dates() -> None:
    def ask(text: str, queue: str = "easy") -> CentralSettings:
        return live_settings(MasterOptions(folder="", queue=queue, settings=[text]))[0]

    day = "{from_s = 2030-01-01T08:00:00Z, until_s = '2030-01-01T10:00:00+00:00', share = 0.5}"
    kept = ask(f"scheduler.reservation=[{day}]").reservations[0]
    assert (kept.from_s, kept.until_s) == (1_893_484_800.0, 1_893_492_000.0)
    with pytest.raises(InputError, match=r"expected scheduler\.queue beside it"):
        ask(f"scheduler.reservation=[{day}]", queue="")
    with pytest.raises(InputError, match=r"reservation\[0\]\.from_s: expected a time such as"):
        ask("scheduler.reservation=[{from_s = 'soon', until_s = 5, share = 0.5}]")
    with pytest.raises(InputError, match="expected a list such as"):
        ask("scheduler.reservation=5")
    with pytest.raises(InputError, match=r"reservation\[0\]\.until_s: expected a number above"):
        ask("scheduler.reservation=[{from_s = 7, until_s = 5, share = 0.5}]")
