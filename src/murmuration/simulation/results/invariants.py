"""What must hold of a world at any time; checked throughout debug runs."""

from __future__ import annotations

import numpy as np

from murmuration.schedulers.admission import WAITING
from murmuration.simulation.engine import world as wd
from murmuration.simulation.engine.build import prefill_nodes
from murmuration.simulation.engine.run import Run


def check(run: Run) -> None:
    """Assert that resources add up, that nothing is over-committed, and that every task is
    accounted for once."""
    world, usage = run.world, run.setup.has_usage
    if not usage:
        assert (world.free >= 0).all() and (world.free <= world.total).all(), (
            "a row left its bounds"
        )
    expected = Expected(run)
    for event in world.event_queue[: world.state["scheduled"][0]]:
        if event["what"] & wd.KIND_MASK == wd.TASKS_END:
            expected.run_tasks(int(event["what"] >> wd.KIND_BITS))
    for agent in np.flatnonzero((world.schedulers["job"] >= 0) & ~world.schedulers["optimistic"]):
        expected.claims(int(agent))
    for task in np.flatnonzero(world.tasks["source"] >= 0):
        expected.moving(int(task))
    assert (world.free == expected.free).all(), (
        "free is not what the running tasks and claims leave"
    )
    assert (world.guaranteed == expected.guaranteed).all(), (
        "guaranteed is not the sum of the production tasks"
    )
    assert not usage or (world.unreserved == expected.unreserved).all(), (
        "unreserved is not what production tasks and claims leave"
    )
    assert (world.outgoing == expected.outgoing).all(), (
        "outgoing is not what the tasks under way take"
    )
    if len(world.meters):
        assert (world.meters["cpu"] == expected.metered[:, 0]).all(), (
            "a meter does not count the CPU of the tasks on its node"
        )
        assert (world.meters["tasks"] == expected.metered[:, 1]).all(), (
            "a meter does not count the tasks on its node"
        )
    taken = expected.prefilled.sum(axis=0)
    assert (world.sums[wd.REQUIRED] == taken + world.held.sum(axis=0)).all(), (
        "sums disagree with what workloads hold"
    )
    if usage:
        assert (world.sums[wd.USED_NOW] - taken == expected.used).all(), (
            "the sum of what is used is not that of tasks"
        )
    assert (expected.placed <= world.jobs["tasks"] - world.jobs["left"]).all(), (
        "a task runs that was never placed"
    )
    run.setup.architecture.check(run)
    if not run.setup.scenario.scheduler.queue:
        _check_queues(world)


class Expected:
    """The table as the running tasks, the claims and the migrations say it must be."""

    def __init__(self, run: Run) -> None:
        self.world, setup = run.world, run.setup
        start = setup.changes.start
        free = prefill_nodes(
            setup.resources, start, setup.scenario.cluster.prefill, setup.scenario.seed
        )
        self.prefilled = start - free
        self.free, self.unreserved = self.world.total - self.prefilled, self.world.total.copy()
        self.guaranteed, self.outgoing = np.zeros_like(free), np.zeros_like(self.world.outgoing)
        self.used = np.zeros(free.shape[1], dtype=np.int64)
        self.metered = np.stack([self.prefilled[:, 0], self.prefilled.any(axis=1)], axis=1)
        self.placed = np.zeros(len(self.world.jobs), dtype=np.int64)

    def run_tasks(self, run: int) -> None:
        world = self.world
        job, slot = world.runs["job"][run], world.runs["slot"][run]
        for _ in range(world.runs["count"][run]):
            self.task(int(job), int(slot), int(world.slots["node"][slot]))
            self.placed[job] += 1
            slot = world.slots["next"][slot]
        assert slot == -1, "a run has more tasks than it counts"

    def task(self, job: int, slot: int, node: int) -> None:
        """One task counts on one node."""
        world = self.world
        amounts = world.task_used[slot] if len(world.unreserved) else world.request[job]
        self.free[node] -= amounts
        self.used += amounts
        self.metered[node] += (amounts[0], 1)
        if world.jobs["production"][job]:
            self.guaranteed[node] += world.request[job]
        if self.is_reserved(job):
            self.unreserved[node] -= world.request[job]

    def is_reserved(self, job: int) -> bool:
        return bool(self.world.jobs["production"][job] or not self.world.state["reclaim"][0])

    def claims(self, agent: int) -> None:
        world, job = self.world, self.world.schedulers["job"][agent]
        table = (
            self.unreserved if len(world.unreserved) and self.is_reserved(int(job)) else self.free
        )
        for node in world.claim[agent, : world.schedulers["claimed"][agent]]:
            if node >= 0:
                table[node] -= world.request[job]

    def moving(self, slot: int) -> None:
        """A task under way counts on the node it leaves as well."""
        job, source = int(self.world.tasks["job"][slot]), int(self.world.tasks["source"][slot])
        self.task(job, slot, source)
        self.outgoing[source] += (
            self.world.task_used[slot] if len(self.world.unreserved) else self.world.request[job]
        )


def _check_queues(world: wd.World) -> None:
    """Each queue holds as many jobs as it counts, each of them waiting."""
    for agent in range(len(world.schedulers)):
        length = 0
        for head in world.queue[agent, :, 0]:
            job = head
            while job >= 0:
                assert world.jobs["status"][job] == WAITING and world.jobs["left"][job] > 0
                length += 1
                job = world.jobs["behind"][job]
        assert length == world.schedulers["queued"][agent], "a queue does not hold what it counts"
