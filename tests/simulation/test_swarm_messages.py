"""A swarm under random faults: nothing runs twice, nothing is lost, and it comes to rest."""

from __future__ import annotations

import pytest

from murmuration.schedulers.swarm.messages import SwarmContainer
from murmuration.simulation.messages.drive import BrokenError
from murmuration.simulation.messages.swarm import SwarmChecker, SwarmCluster, SwarmSimulation
from murmuration.simulation.messages.swarm_faults import run_schedule


@pytest.mark.parametrize("seed", range(1, 13))
def test_random_fault_schedules(seed: int) -> None:
    figures = run_schedule(seed)
    assert figures["messages"] > 0 or figures["migrations"] == 0


def test_the_same_seed_gives_the_same_run() -> None:
    assert run_schedule(3) == run_schedule(3)


def start(*counts: int) -> dict[str, list[SwarmContainer]]:
    return {
        f"node-{n}": [SwarmContainer(f"c-{n}-{k}", (1,)) for k in range(count)]
        for n, count in enumerate(counts)
    }


def test_identical_containers_leave_at_most_one_node_neither_empty_nor_full() -> None:
    """Eq. 17, which follows from eq. 21: the emptier of two such nodes has a destination."""
    world = SwarmSimulation(
        SwarmCluster({f"node-{k}": (8,) for k in range(6)}, start(3, 5, 2, 6, 4, 1))
    )
    world.driver.checkers.append(SwarmChecker(world))
    world.driver.run(3000.0)
    world.driver.finish()
    between = [share for share in world.fullness() if 0.0 < share < 1.0]
    assert len(between) <= 1 and sum(world.fullness()) * 8 == 21
    assert world.is_at_rest()


def test_the_checker_notices_a_container_that_runs_twice() -> None:
    world = SwarmSimulation(SwarmCluster({"node-0": (8,), "node-1": (8,)}, start(1, 2)))
    world.driver.run(1.0)
    with pytest.raises(BrokenError, match="would run on node-0 and on node-1"):
        world.run_container("node-1", "c-0-0")
