"""Random fault schedules for the central protocol: a small cluster, everything going wrong for a
while, then calm.

Masters and node agents crash, at any point of a write too, and come back; nodes die; connections
break and partitions come and go; parties are suspended for longer than a lease; every host has a
clock of its own, and those of node agents jump forwards. (Backwards they do not: an agent's clock
is monotonic, and a lease can be kept by no other.) Clients submit, kill and drain meanwhile.

At every step no task may run twice at a time, the ledger must add up, and no run may be ordered
before it is on disk. In the end every job has come to its end or runs as it should, nothing runs
that should not, and what is on disk is what the master knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from murmuration.base.random import generator
from murmuration.base.resources import Resources
from murmuration.placement.registry import resolve
from murmuration.schedulers.agent import Effect, Message
from murmuration.schedulers.central.jobs import JobRecord, State
from murmuration.schedulers.central.master import CentralSettings
from murmuration.schedulers.central.messages import JOBS, Drain, KillJob, Launch
from murmuration.schedulers.offers.messages import MASTER
from murmuration.simulation.messages.central import (
    CentralCluster,
    ClusterChecker,
    LedgerAddsUp,
    NoTaskRunsTwice,
)
from murmuration.simulation.messages.drive import BrokenError, Driver
from murmuration.simulation.messages.network import FaultSettings, Jump, Pause, draw_faults
from murmuration.workload.job_spec import JobSpec

#: Faults until the first; looked at in the second.
FAULTS_S, END_S = 120.0, 320.0
TIMEOUT_S, MARGIN_S = 10.0, 2.0
CPU, GB = 1_000_000, 10**9

Disks = Callable[[], Any]


class OrderedRunIsOnDisk(ClusterChecker):
    """A node agent hears of a run only after the decision is on the master's disk."""

    def after(self, driver: Driver, name: str, event: Message, effects: Sequence[Effect]) -> None:
        if isinstance(event, Launch) and event.framework == JOBS:
            job, index, run = event.run.rsplit(".", 2)
            if self.cluster.disk.last_run(job, int(index)) < int(run):
                raise BrokenError(f"{event.run} was ordered on {name} and is not on disk")


class AllIsWellInTheEnd(ClusterChecker):
    """After the faults: every job is where it should be, on the nodes, in the master's table and
    on its disk."""

    def end(self, driver: Driver) -> None:
        master = self.cluster.master
        if master is None:
            raise BrokenError("the master did not come back")
        runs = {run for host in self.cluster.hosts.values() for run in host.processes}
        if runs != set(master.jobs.runs):
            different = sorted(runs ^ set(master.jobs.runs))
            raise BrokenError(f"what runs is not what the master knows: {different}")
        for job in master.jobs.jobs.values():
            self._check_job(job)
        self._check_disk(master.jobs.jobs)

    def _check_job(self, job: JobRecord) -> None:
        counts = job.counts()
        if job.spec.kind == "service" and not job.killed:
            wanted = counts == {State.RUNNING: job.spec.count}
        else:
            wanted = bool(job.status)
        if not wanted:
            raise BrokenError(f"job {job.name} has tasks {dict(counts)} in the end")

    def _check_disk(self, jobs: dict[str, JobRecord]) -> None:
        stored = {job.spec.name: job for job in self.cluster.disk.load().recover(0, 0).jobs}
        if set(stored) != set(jobs):
            raise BrokenError(f"jobs on disk and in memory differ: {set(stored) ^ set(jobs)}")
        for name, job in jobs.items():
            for run in stored[name].runs:
                task = job.tasks[run.index]
                # What waited when its job was killed is closed by that fact.
                waits = task.state is State.KILLED and stored[name].killed
                if run.run != task.run or run.status not in (
                    task.state,
                    "waiting" if waits else "",
                ):
                    raise BrokenError(f"{name}.{run.index} is {task.state}, on disk {run.status}")


CHECKERS = (NoTaskRunsTwice, OrderedRunIsOnDisk, LedgerAddsUp, AllIsWellInTheEnd)


def draw_cluster(seed: int, disk: Disks | None = None) -> CentralCluster:
    """A cluster and what goes wrong in it, all from one seed."""
    rng = generator(seed, "faults")
    nodes = {
        f"node-{k}": {"cpu": 2 * CPU, "memory": int(rng.choice([4, 8])) * GB}
        for k in range(int(rng.integers(2, 6)))
    }
    settings = CentralSettings(
        Resources(),
        resolve(str(rng.choice(["first-fit", "best-fit", "worst-fit"]))),
        by_offers=bool(rng.random() < 0.3),
        agent_timeout_s=TIMEOUT_S,
        margin_s=MARGIN_S,
    )
    clocks = {name: float(rng.uniform(0, 1e6)) for name in (*nodes, MASTER)}
    faults = draw_central_faults(rng, list(nodes))
    cluster = CentralCluster(settings, nodes, seed, rng, faults, disk, clocks=clocks)
    cluster.driver.checkers += [check(cluster) for check in CHECKERS]
    _draw_clients(cluster, rng)
    return cluster


def draw_central_faults(rng: np.random.Generator, nodes: list[str]) -> FaultSettings:
    """Crashes and partitions as in every protocol, and pauses and jumps of clocks."""
    base = draw_faults(rng, nodes[1:], [nodes[0], MASTER], FAULTS_S)
    names = [*nodes, MASTER]
    pauses = tuple(
        Pause(float(rng.uniform(0, FAULTS_S)), str(rng.choice(names)), float(rng.exponential(8.0)))
        for _ in range(int(rng.integers(0, 4)))
    )
    jumps = tuple(
        Jump(float(rng.uniform(0, FAULTS_S)), str(rng.choice(nodes)), float(rng.exponential(8.0)))
        for _ in range(int(rng.integers(0, 3)))
    )
    return FaultSettings(
        partitions=base.partitions, crashes=base.crashes, end_s=FAULTS_S, pauses=pauses, jumps=jumps
    )


def _draw_clients(cluster: CentralCluster, rng: np.random.Generator) -> None:
    """Jobs that all fit on one node together, so that they can run whichever nodes die."""
    driver = cluster.driver
    for k in range(int(rng.integers(3, 8))):
        service = bool(rng.random() < 0.4)
        spec = JobSpec(
            name=f"job-{k}",
            kind="service" if service else "terminating",
            command=["x"],
            count=int(rng.integers(1, 4)),
            resources={"cpu": 0.1, "memory": "100M"},
            gang=bool(rng.random() < 0.2),
            priority=int(rng.integers(0, 3)),
        )
        at, lasts = float(rng.uniform(0, FAULTS_S)), None if service else float(rng.uniform(1, 30))
        driver.at(at, cluster.submit_surely, spec, lasts)
        if rng.random() < 0.3:
            later = at + float(rng.exponential(20.0))
            driver.at(later, driver.tell, MASTER, KillJob(spec.name))
    for name in cluster.hosts:
        if rng.random() < 0.3:
            driver.at(float(rng.uniform(0, FAULTS_S)), driver.tell, MASTER, Drain(name))
            driver.at(FAULTS_S + 20.0, driver.tell, MASTER, Drain(name, on=False))
    # Whoever is down or was drained while a master was down is up and open by now.
    for name in (*cluster.hosts, MASTER):
        driver.at(FAULTS_S + 10.0, driver.start, name)


def run_schedule(seed: int, disk: Disks | None = None) -> dict[str, Any]:
    """One schedule; `BrokenError` says what went wrong and which command repeats it."""
    cluster = draw_cluster(seed, disk)
    driver = cluster.driver
    try:
        driver.run(END_S)
        driver.finish()
    except AssertionError as error:
        command = f"murmur faults --protocol central --schedules 1 --seed {seed}"
        raise BrokenError(f"{error} (at {driver.now:.3f} s; repeat with: {command})") from error
    tasks = {span.run.rpartition(".")[0] for span in cluster.spans}
    faults = cluster.connections.faults
    return {
        "seed": seed,
        "nodes": len(cluster.hosts),
        "tasks_ended": len(tasks),
        "runs_repeated": len(cluster.spans) - len(tasks),
        "crashes": len(faults.crashes),
        "partitions": len(faults.partitions),
        "pauses": len(faults.pauses),
        "clocks_jumped": len(faults.jumps),
        "messages": cluster.connections.sent,
        "messages_lost": cluster.connections.lost,
    }
