"""Random fault schedules for the central protocol: a small cluster, everything going wrong for a
while, then calm.

Masters and node agents crash, at any point of a write too, and come back; nodes die; connections
break, and bring late what was under way; partitions come and go; parties are suspended for longer
than a lease; messages come twice; every host has a clock of its own, and those of node agents jump
forwards. (Backwards they do not, but for a reboot: an agent's clock is monotonic, and a lease can
be kept by no other.) Hosts reboot, and lose what ran; watchdogs die apart from their agents; for a
while a host can start nothing; starting and killing take time. Clients submit jobs that end well or
fail, gangs, jobs with ports, jobs that must make way for others; they kill jobs and single tasks,
and drain nodes, at once or not.

What must hold is in `central_checks.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from murmuration.base.random import generator
from murmuration.base.resources import Resources
from murmuration.placement.registry import resolve
from murmuration.schedulers.central.master import CentralSettings
from murmuration.schedulers.central.messages import Drain, KillJob
from murmuration.schedulers.offers.messages import MASTER
from murmuration.schedulers.queues.discipline import QueueSettings, find_discipline
from murmuration.simulation.messages.central import CODE, CentralCluster
from murmuration.simulation.messages.central_checks import CHECKERS
from murmuration.simulation.messages.drive import BrokenError
from murmuration.simulation.messages.network import FaultSettings, Jump, Pause, draw_faults
from murmuration.workload.job_spec import JobSpec, Restart

#: Faults until the first; looked at in the second.
FAULTS_S, END_S = 120.0, 320.0
TIMEOUT_S, MARGIN_S = 10.0, 2.0
#: A watchdog that has died is missed and replaced within this.
WATCHDOG_S = 1.0
CPU, GB = 1_000_000, 10**9

Disks = Callable[[], Any]


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
    # A generator of its own, so that all else of a schedule is as it was without queues.
    queues = generator(seed, "faults", "queues")
    if not settings.by_offers:
        settings = _draw_queue(settings, queues)
    clocks = {name: float(rng.uniform(0, 1e6)) for name in (*nodes, MASTER)}
    faults = draw_central_faults(rng, list(nodes))
    cluster = CentralCluster(settings, nodes, seed, rng, faults, disk, clocks=clocks)
    cluster.driver.checkers += [check(cluster) for check in CHECKERS]
    draw_clients(cluster, rng)
    if settings.queue_settings.preempt != "no":
        _draw_rivals(cluster, queues)
    draw_host_faults(cluster, rng)
    return cluster


def _draw_queue(settings: CentralSettings, rng: np.random.Generator) -> CentralSettings:
    """Half of all clusters as they always were; the others with preemption, and half of those with
    a queue discipline."""
    if rng.random() < 0.5:
        return settings
    discipline = str(rng.choice(["", "", "", "fcfs", "priority", "priority-easy"]))
    return replace(
        settings,
        queue=find_discipline(discipline) if discipline else None,
        queue_settings=QueueSettings(preempt="requeue" if rng.random() < 0.6 else "suspend"),
    )


def _draw_rivals(cluster: CentralCluster, rng: np.random.Generator) -> None:
    """Jobs of half a node and different priorities, more of them than nodes have room for: some
    must make way for others. All end in time, on the one node that is sure to live too."""
    for k in range(int(rng.integers(6, 13))):
        count = int(rng.integers(1, 3))
        spec = JobSpec(
            name=f"rival-{k}",
            command=["x"],
            count=count,
            resources={"cpu": 0.9 / count, "memory": "100M"},
            gang=bool(rng.random() < 0.3),
            priority=int(rng.integers(-3, 6)),
            grace_s=float(rng.choice([0.0, 1.0, 5.0, 15.0])),
            time_limit_s=600.0,
        )
        at, lasts = float(rng.uniform(0, FAULTS_S)), float(rng.uniform(3, 15))
        cluster.driver.at(at, cluster.submit_surely, spec, lasts)


def draw_central_faults(rng: np.random.Generator, nodes: list[str]) -> FaultSettings:
    """Crashes and partitions as in every protocol, and pauses and jumps of clocks."""
    base = draw_faults(rng, nodes[1:], [nodes[0], MASTER], FAULTS_S)
    doubles = float(rng.choice([0.0, 0.0, 0.05, 0.3]))
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
        duplication=doubles,
        late=float(rng.choice([0.0, 0.5, 0.9])),
        partitions=base.partitions,
        crashes=base.crashes,
        end_s=FAULTS_S,
        pauses=pauses,
        jumps=jumps,
    )


def draw_host_faults(cluster: CentralCluster, rng: np.random.Generator) -> None:
    """Hosts reboot or can start nothing for a while; watchdogs die."""
    driver = cluster.driver
    for host in cluster.hosts.values():
        if rng.random() < 0.2:
            driver.at(float(rng.uniform(0, FAULTS_S)), host.reboot, float(rng.exponential(10.0)))
        if rng.random() < 0.3:
            sick_s = float(rng.exponential(10.0))
            driver.at(float(rng.uniform(0, FAULTS_S)), host.fall_sick, sick_s)
        for _ in range(int(rng.integers(0, 3))):
            at = float(rng.uniform(0, FAULTS_S))
            driver.at(at, host.kill_watchdog, float(rng.uniform(0.0, WATCHDOG_S)))


def draw_clients(cluster: CentralCluster, rng: np.random.Generator) -> None:
    """Jobs that all fit on one node together, so that they can run whichever nodes die."""
    driver = cluster.driver
    for k in range(int(rng.integers(3, 8))):
        service = bool(rng.random() < 0.4)
        fails = not service and bool(rng.random() < 0.3)
        ports = bool(rng.random() < 0.2)
        spec = JobSpec(
            name=f"job-{k}",
            kind="service" if service else "terminating",
            command=["x"],
            # Tasks with a port of their own need a node each, and one node is sure to live.
            count=1 if ports else int(rng.integers(1, 4)),
            resources={"cpu": 0.1, "memory": "100M"},
            gang=bool(rng.random() < 0.2),
            priority=int(rng.integers(0, 3)),
            ports=[4000 + k % 2] if ports and not service else [],
            environment={CODE: str(rng.integers(1, 10))} if fails else {},
            restart=Restart(retries=int(rng.integers(0, 3)) if fails else None),
        )
        at, lasts = float(rng.uniform(0, FAULTS_S)), None if service else float(rng.uniform(1, 30))
        driver.at(at, cluster.submit_surely, spec, lasts)
        if rng.random() < 0.3:
            later = at + float(rng.exponential(20.0))
            index = int(rng.integers(spec.count)) if rng.random() < 0.5 else None
            driver.at(later, cluster.tell_leader, KillJob(spec.name, index))
    for name in cluster.hosts:
        if rng.random() < 0.3:
            drain = Drain(name, now=bool(rng.random() < 0.5))
            driver.at(float(rng.uniform(0, FAULTS_S)), cluster.tell_leader, drain)
            driver.at(FAULTS_S + 20.0, cluster.tell_leader, Drain(name, on=False))
    # Whoever is down or was drained while a master was down is up and open by now.
    for name in (*cluster.hosts, *cluster.masters):
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
        "runs_preempted": cluster.preempted,
        "crashes": len(faults.crashes),
        "partitions": len(faults.partitions),
        "pauses": len(faults.pauses),
        "clocks_jumped": len(faults.jumps),
        "messages": cluster.connections.sent,
        "messages_lost": cluster.connections.lost,
    }
