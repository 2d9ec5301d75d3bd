"""A task is moved by an operator: it goes elsewhere if it can; and what is foretold is what is
done."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.schedulers.central.clusters import Cluster, sent, spec

from murmuration.schedulers.central.forecast import (
    MOVES,
    STAYS,
    WAITS,
    forecast_drain,
    forecast_move,
)
from murmuration.schedulers.central.jobs import MOVED_OFF, CentralTaskState
from murmuration.schedulers.central.memory import MasterMemory
from murmuration.schedulers.central.messages import Drain, Fact, Launch, MoveTask, Stop
from murmuration.schedulers.offers.messages import Status

KILLED: dict[str, Any] = {"code": 143, "status": Status.KILLED, "reason": "moved"}


def running(nodes: int = 2, **fields: Any) -> Cluster:
    cluster = Cluster(nodes=nodes)
    cluster.submit(spec(**fields))
    cluster.start("job.0.1")
    return cluster


@pytest.mark.parametrize("kind", ["service", "terminating"])
def test_a_moved_task_runs_again_on_another_node(kind: str) -> None:
    cluster = running(kind=kind)
    assert cluster.nodes_of() == ["n0"]
    told = cluster.tell(MoveTask("job", 0, 1))
    assert [(stop.run, stop.reason) for stop in sent(told, Stop)] == [("job.0.1", f"{MOVED_OFF}n0")]
    told = cluster.end("job.0.1", **KILLED)
    # First fit would have taken the node it left, which has room.
    assert [launch.run for launch in sent(told, Launch)] == ["job.0.2"]
    assert cluster.nodes_of() == ["n1"] and cluster.job().tasks[0].failures == 0
    cluster.start("job.0.2")
    # That was once: when it moves again it may go where it was.
    cluster.tell(MoveTask("job", 0, 2))
    cluster.end("job.0.2", **KILLED)
    assert cluster.nodes_of() == ["n0"]


def test_it_goes_back_if_nobody_else_has_room() -> None:
    cluster = running(nodes=1)
    cluster.tell(MoveTask("job", 0, 1))
    cluster.end("job.0.1", **KILLED)
    assert cluster.nodes_of() == ["n0"]


def test_other_tasks_of_its_job_may_use_the_node_it_left() -> None:
    cluster = Cluster(nodes=2)
    cluster.submit(spec(count=3, resources={"cpu": 1, "memory": "1G"}))
    for k in range(3):
        cluster.start(f"job.{k}.1")
    assert cluster.nodes_of() == ["n0", "n0", "n1"]
    cluster.tell(MoveTask("job", 0, 1))
    cluster.end("job.0.1", **KILLED)
    assert cluster.nodes_of() == ["n1", "n0", "n1"]


def test_an_order_for_a_run_that_is_over_moves_nothing() -> None:
    cluster = running(kind="service")
    cluster.tell(MoveTask("job", 0, 1))
    assert not cluster.tell(MoveTask("job", 0, 1))  # it stops already
    cluster.end("job.0.1", **KILLED)
    cluster.start("job.0.2")
    assert not cluster.tell(MoveTask("job", 0, 1))
    assert not cluster.tell(MoveTask("other", 0, 1))
    assert cluster.states() == [CentralTaskState.RUNNING]


def test_a_master_that_starts_again_knows_which_node_to_leave() -> None:
    cluster, memory = Cluster(nodes=1), MasterMemory()
    said = cluster.submit(spec())
    said += cluster.start("job.0.1")
    said += cluster.tell(MoveTask("job", 0, 1))
    for fact in (each for each in said if isinstance(each, Fact)):
        memory.apply(fact, cluster.now)
    next_one = Cluster()
    next_one.tell(memory.recover(2, 1))
    next_one.join("n1")
    next_one.join("n0")  # the run did not outlive its agent
    assert next_one.nodes_of() == ["n1"]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("placement", ["first-fit", "best-fit", "least-allocated"])
def test_what_is_foretold_is_what_is_done(seed: int, placement: str) -> None:
    rng = random.Random(seed)
    cluster = Cluster(nodes=4, placement=placement)
    cluster.now = 1.0
    for k in range(8):
        kind = rng.choice(["service", "terminating"])
        size = {"cpu": rng.choice([0.25, 0.5, 1]), "memory": "500M"}
        cluster.submit(spec(f"j{k}", kind=kind, resources=size, time_limit_s=60.0))
        cluster.start(f"j{k}.0.1")
    job = cluster.job(f"j{rng.randrange(8)}")
    foretold = forecast_move(cluster.master, job, job.tasks[0], cluster.now)
    assert foretold.origin == job.tasks[0].node != foretold.target
    cluster.tell(MoveTask(job.name, 0, 1))
    cluster.end(f"{job.name}.0.1", **KILLED)
    # Nobody else had room: then it is back where it was.
    assert job.tasks[0].node == (foretold.target or foretold.origin)
    cluster.start(f"{job.name}.0.2")
    check_drain(cluster, rng.choice(["n0", "n1"]), everything=bool(seed % 2))


def check_drain(cluster: Cluster, node: str, everything: bool) -> None:
    """Each task of a node goes where the forecast says, waits if it says so, or stays."""
    foretold = {each.task: each for each in forecast_drain(cluster.master, node, everything, 5.0)}
    runs = cluster.master.jobs.runs_on(node)
    assert foretold.keys() == {run.rpartition(".")[0] for run in runs}
    stopped = {stop.run for stop in sent(cluster.tell(Drain(node, now=everything)), Stop)}
    for run in runs:
        each = foretold[run.rpartition(".")[0]]
        assert (run in stopped) == (each.fate in (MOVES, WAITS))
        if each.fate == STAYS:
            started_s = cluster.job(each.task.partition(".")[0]).tasks[0].started_s
            assert each.ends_by_s == started_s + 60.0
            continue
        cluster.end(run, **KILLED)
        task = cluster.job(each.task.partition(".")[0]).tasks[0]
        waits = task.state is CentralTaskState.WAITING
        assert waits == (each.fate == WAITS)
        assert waits or task.node == each.target


def test_a_forecast_changes_nothing() -> None:
    cluster = running(kind="service", count=1)
    before = str(cluster.master.rng.bit_generator.state)
    forecast_drain(cluster.master, "n0", True, 0.0)
    forecast_move(cluster.master, cluster.job(), cluster.job().tasks[0], 0.0)
    assert str(cluster.master.rng.bit_generator.state) == before
    cluster.master.resource_manager.check()
    assert cluster.states() == [CentralTaskState.RUNNING]
