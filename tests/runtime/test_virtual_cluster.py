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

from murmuration.workload.job_spec import JobSpec

SEEDS = range(1, 1 + int(os.environ.get("SCHEDULES", "24")))


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory, where that can be had: what a power cut does to a disk is tested elsewhere."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as place:
        yield Path(place) / "cluster"


@pytest.mark.parametrize("seed", SEEDS)
def test_random_faults(seed: int, folder: Path) -> None:
    cluster = draw(seed, folder)
    try:
        cluster.world.run(END_S)
        broken = check(cluster)
    finally:
        cluster.close()
    assert not broken, "\n".join(broken)


def test_an_agent_that_starts_again_has_no_longer_a_lease(folder: Path) -> None:
    """Cut off from its master, it is killed and started twice; what it finds ends with the lease of
    the first agent, because by then it may run elsewhere."""
    cluster = VirtualCluster(folder, 1, 2, agent_timeout_s=LEASE_S)
    world = cluster.world
    cluster.submit_surely(JobSpec(name="web", kind="service", command=["x"]))
    world.run(5.0)
    (node,) = (name for name, host in cluster.hosts.items() if host.tasks)
    cluster.network.isolated.add(node)
    for at in (3.0, 5.5, 8.0):
        world.after(at, cluster.kill_agent, node)
        world.after(at + 0.5, cluster.start_agent, node)
    world.run(40.0)
    cluster.close()
    assert not world.errors and not cluster.seen.broken
    assert next(span.node for span in cluster.seen.spans) == node
    assert {span.node for span in cluster.seen.spans} == set(cluster.hosts), "it moved"
