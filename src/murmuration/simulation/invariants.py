"""What must hold of a world at any time; checked all along in debug runs."""

from __future__ import annotations

import numpy as np

from murmuration.simulation import world as wd
from murmuration.simulation.build import prefilled
from murmuration.simulation.engine import Run


def check(run: Run) -> None:
    """Assert that resources add up, that nothing is over-committed, and that every task is accounted for once."""
    world = run.world
    assert (world.free >= 0).all() and (world.free <= world.total).all(), "a row left its bounds"
    start = prefilled(run.setup.nodes, run.setup.scenario.cluster.prefill, run.setup.scenario.seed)
    expected, guaranteed, placed = start.copy(), np.zeros_like(start), np.zeros(len(world.jobs), dtype=np.int64)
    for note in world.agenda[: world.state["notes"][0]]:
        if note["what"] & wd.KIND_MASK == wd.TASKS_END:
            _run_tasks(world, int(note["what"] >> wd.KIND_BITS), expected, guaranteed, placed)
    for agent in np.flatnonzero((world.agents["job"] >= 0) & ~world.agents["optimistic"]):
        job = world.agents["job"][agent]
        for node in world.claim[agent, : world.agents["claimed"][agent]]:
            expected[node] -= world.request[job]
    for task in np.flatnonzero(world.tasks["source"] >= 0):
        _moving(world, int(task), expected, guaranteed)
    assert (world.free == expected).all(), "free is not what the running tasks and claims leave"
    assert (world.guaranteed == guaranteed).all(), "guaranteed is not the sum of the production tasks"
    taken = (world.total - start).sum(axis=0)
    assert (world.sums[0] == taken + world.held.sum(axis=0)).all(), "the sums disagree with what workloads hold"
    assert (placed <= world.jobs["tasks"] - world.jobs["left"]).all(), "a task runs that was never placed"
    offers = world.set_amount
    assert (offers >= 0).all() and (offers.sum(axis=1) == world.set_sum).all(), "offers do not add up"
    if run.setup.is_offers:
        assert (world.set_amount.sum(axis=0) <= world.free).all(), "more is offered than there is"
    _check_queues(world)


def _run_tasks(world: wd.World, run: int, free: wd.Array, guaranteed: wd.Array, placed: wd.Array) -> None:
    job, slot = world.runs["job"][run], world.runs["slot"][run]
    for _ in range(world.runs["count"][run]):
        node = world.slots["node"][slot]
        free[node] -= world.request[job]
        if world.jobs["production"][job]:
            guaranteed[node] += world.request[job]
        placed[job] += 1
        slot = world.slots["next"][slot]
    assert slot == -1, "a run has more tasks than it counts"


def _moving(world: wd.World, task: int, free: wd.Array, guaranteed: wd.Array) -> None:
    """A task under way counts on the node it leaves as well."""
    job, source = world.tasks["job"][task], world.tasks["source"][task]
    free[source] -= world.request[job]
    if world.jobs["production"][job]:
        guaranteed[source] += world.request[job]


def _check_queues(world: wd.World) -> None:
    """Each queue holds as many jobs as it counts, each of them waiting."""
    for agent in range(len(world.agents)):
        length = 0
        for head in world.queue[agent, :, 0]:
            job = head
            while job >= 0:
                assert world.jobs["status"][job] == wd.WAITING and world.jobs["left"][job] > 0
                length += 1
                job = world.jobs["behind"][job]
        assert length == world.agents["queued"][agent], "a queue does not hold what it counts"
