"""The processes that ship, in virtual time under random faults."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.virtual.checks import check
from tests.runtime.virtual.cluster import VirtualCluster
from tests.runtime.virtual.faults import END_S, LEASE_S, draw
from tests.runtime.virtual.hosts import LASTS

from murmuration.workload.job_spec import JobSpec

SEEDS = range(1, 1 + int(os.environ.get("SCHEDULES", "24")))


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory, where that can be had: what a power cut does to a disk is tested elsewhere."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as place:
        yield Path(place) / "cluster"


def serve(folder: Path, seed: int) -> tuple[VirtualCluster, str]:
    """A cluster of two nodes with services, and a node that has some."""
    cluster = VirtualCluster(folder, seed, 2, agent_timeout_s=LEASE_S)
    cluster.submit_surely(JobSpec(name="web", kind="service", command=["x"], count=2))
    cluster.world.run(5.0)
    return cluster, next(name for name, host in cluster.hosts.items() if host.tasks)


def moved(cluster: VirtualCluster, node: str) -> None:
    """The services went elsewhere, and at no time did two of one run."""
    cluster.world.run(45.0)
    elsewhere = [name for name, host in cluster.hosts.items() if host.tasks]
    cluster.close()
    assert not cluster.world.errors and not cluster.seen.broken
    assert elsewhere and node not in elsewhere


@pytest.mark.parametrize("seed", range(4))
def test_an_agent_alone_ends_its_tasks_in_time(seed: int, folder: Path) -> None:
    """Its watchdog hangs, and then it is cut off: nobody else can."""
    cluster, node = serve(folder, seed)
    host = cluster.hosts[node]
    assert host.watchdog is not None
    host.watchdog.pause(1e3)
    cluster.world.after(cluster.world.rng.random(), cluster.network.isolated.add, node)
    moved(cluster, node)


@pytest.mark.parametrize("seed", range(4))
def test_a_watchdog_alone_ends_the_tasks_in_time(seed: int, folder: Path) -> None:
    """The agent hangs; what it read before is of no use. An earlier watchdog has died."""
    cluster, node = serve(folder, seed)
    host, world = cluster.hosts[node], cluster.world
    host.end_watchdog()
    world.run(world.now + 2.5)
    assert host.agent is not None
    host.agent.pause(1e3)
    moved(cluster, node)


@pytest.mark.parametrize("point", ["ports", "start", "locked", "begun"])
def test_an_agent_killed_in_the_middle_of_a_start_leaves_nothing_open(
    point: str, folder: Path
) -> None:
    """Whatever had been made of the run by then, it ends well, once, and is settled."""
    cluster = VirtualCluster(folder, 1, 1, agent_timeout_s=LEASE_S)
    host, world = cluster.hosts["n0"], cluster.world

    def kill() -> None:
        cluster.seen.faults.append((world.now, world.now, "n0"))
        cluster.kill_agent("n0")
        world.after(0.5, cluster.start_agent, "n0")

    host.dies_at = point, kill
    cluster.submit_surely(JobSpec(name="batch", command=["x"], environment={LASTS: "3"}))
    world.run(30.0)
    broken = check(cluster)
    cluster.close()
    assert not broken, "\n".join(broken)
    assert host.dies_at is None and [span.code for span in cluster.seen.spans] == [0]


@pytest.mark.parametrize("seed", range(4))
def test_what_a_watchdog_ends_has_not_failed(seed: int, folder: Path) -> None:
    """No agent is there at the end of the lease; the next one comes before the master gives up. The
    tasks have no retries, and are run again."""
    cluster = VirtualCluster(folder, seed, 2, agent_timeout_s=LEASE_S)
    world = cluster.world
    cluster.submit_surely(JobSpec(name="batch", command=["x"], count=8, environment={LASTS: "20"}))
    world.run(5.0)
    for name in cluster.hosts:
        cluster.kill_agent(name)
        world.after(LEASE_S + 1.8, cluster.start_agent, name)
    world.run(60.0)
    assert cluster.master is not None
    statuses = {name: str(job.status) for name, job in cluster.master.jobs.jobs.items()}
    cluster.close()
    assert not world.errors and not cluster.seen.broken
    assert statuses == {"batch": "finished"} and len(cluster.seen.spans) > 8


@pytest.mark.parametrize("seed", range(4))
def test_an_answer_that_is_read_late_gives_no_longer_a_lease(seed: int, folder: Path) -> None:
    """An agent is suspended, and cut off meanwhile; when it goes on, it reads answers that have
    waited for it. Its lease counts from when it asked."""
    cluster, node = serve(folder, seed)
    host, world = cluster.hosts[node], cluster.world
    while not cluster.hosted(node).agent._beats:
        world.run(world.now + 0.005)
    assert host.agent is not None
    host.agent.pause(world.rng.uniform(0.6, 0.95) * LEASE_S)
    world.after(0.2, cluster.network.isolated.add, node)
    moved(cluster, node)


@pytest.mark.parametrize("seed", range(4))
def test_orders_that_waited_for_a_suspended_agent_are_not_obeyed(seed: int, folder: Path) -> None:
    """They lie in its socket while its lease ends, and are run elsewhere by the time it reads
    them."""
    cluster, node = serve(folder, seed)
    host, world = cluster.hosts[node], cluster.world
    assert host.agent is not None
    host.agent.pause(world.rng.uniform(2.0, 3.0) * LEASE_S)
    cluster.submit_surely(JobSpec(name="more", kind="service", command=["x"], count=12))
    world.run(45.0)
    cluster.close()
    assert not world.errors and not cluster.seen.broken


def test_an_agent_that_starts_again_has_no_longer_a_lease(folder: Path) -> None:
    """Cut off from its master, it is killed and started twice; what it finds ends with the lease of
    the first agent, because by then it may run elsewhere."""
    cluster, node = serve(folder, 1)
    world = cluster.world
    cluster.network.isolated.add(node)
    for at in (3.0, 5.5, 8.0):
        world.after(at, cluster.kill_agent, node)
        world.after(at + 0.5, cluster.start_agent, node)
    moved(cluster, node)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_faults(seed: int, folder: Path) -> None:
    cluster = draw(seed, folder)
    try:
        cluster.world.run(END_S)
        broken = check(cluster)
    finally:
        cluster.close()
    assert not broken, "\n".join(broken)
