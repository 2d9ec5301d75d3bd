"""Random fault schedules for a virtual cluster: clients that submit, kill and drain, and everything
going wrong for a while; then calm.

Agent and watchdog of one node never fail at once for longer than a supervisor takes to start the
agent again: that is the one case in which tasks may run twice, and the documentation says so.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from tests.runtime.virtual.cluster import MASTER_HOST, VirtualCluster
from tests.runtime.virtual.hosts import CODE, LASTS, VirtualHost

from murmuration.workload.job_spec import JobSpec, Restart

#: Faults until the first, jobs all ended by the second.
FAULTS_S, END_S = 60.0, 150.0
LEASE_S = 6.0
#: The agent looks for its watchdog once a second; it may be late.
UNWATCHED_S = 2.5
HOUR_S = 3600.0
#: The job that may never find its room.
GANG = "gang"


def draw(seed: int, folder: Path) -> VirtualCluster:
    """A cluster, its clients and its faults, all from one seed."""
    rng = random.Random(f"faults {seed}")
    cluster = VirtualCluster(
        folder,
        seed,
        rng.randint(2, 4),
        agent_timeout_s=LEASE_S,
        scheduler=rng.choice(["monolithic", "shared-state", "offers"]),
        placement=rng.choice(["first-fit", "best-fit", "worst-fit"]),
    )
    cluster.network.doubling = rng.choice([0.0, 0.0, 0.05])
    draw_clients(cluster, rng)
    # From calm, where nothing may be lost at all, to very bad.
    for _ in range(rng.choice([0, 1, 2, 4, 8, 12])):
        cluster.world.at(rng.uniform(1.0, FAULTS_S), Faults(cluster, rng).strike)
    return cluster


def draw_clients(cluster: VirtualCluster, rng: random.Random) -> None:
    at = cluster.world.at
    for k in range(rng.randint(2, 6)):
        spec = draw_job(f"job-{k}", rng)
        begins = rng.uniform(0.5, FAULTS_S)
        at(begins, cluster.submit_surely, spec)
        if rng.random() < 0.3:
            index = rng.randrange(spec.count) if rng.random() < 0.5 else None
            at(begins + rng.expovariate(0.1), cluster.kill, spec.name, index)
        if rng.random() < 0.3:
            at(begins + rng.uniform(5.0, 60.0), cluster.submit_again, spec)
    if rng.random() < 0.4:
        at(rng.uniform(0.5, FAULTS_S), cluster.submit_surely, draw_gang(rng))
    for name in cluster.hosts:
        if rng.random() < 0.3:
            at(rng.uniform(0, FAULTS_S), cluster.drain, name, True, rng.random() < 0.5)
            for again in range(5):
                at(FAULTS_S + 5.0 * again, cluster.drain, name, False)


def draw_job(name: str, rng: random.Random) -> JobSpec:
    """All fit on one node together, so that they can run whichever nodes die."""
    is_service, has_port = rng.random() < 0.4, rng.random() < 0.25
    fails = not is_service and rng.random() < 0.4
    environment = {} if is_service else {LASTS: str(rng.uniform(0.5, 15.0))}
    return JobSpec(
        name=name,
        kind="service" if is_service else "terminating",
        command=["x"],
        # Tasks with a port of their own need a node each, and one node is sure to live.
        count=1 if has_port else rng.randint(1, 3),
        resources={"cpu": 0.1, "memory": "100M"},
        gang=rng.random() < 0.2,
        ports=[4000] if has_port and not is_service else [],
        environment={**environment, **({CODE: str(rng.randint(1, 9))} if fails else {})},
        restart=Restart(retries=rng.randint(0, 2) if fails else None, backoff_max_s=4.0),
    )


def draw_gang(rng: random.Random) -> JobSpec:
    """One that needs more than one node, so that there may be room for a part of it."""
    return JobSpec(
        name=GANG,
        command=["x"],
        count=3,
        gang=True,
        resources={"cpu": 0.9, "memory": "100M"},
        environment={LASTS: str(rng.uniform(0.5, 15.0))},
        restart=Restart(backoff_max_s=4.0),
    )


class Faults:
    """What may go wrong with a cluster, one thing at a time."""

    def __init__(self, cluster: VirtualCluster, rng: random.Random) -> None:
        self.cluster, self.rng = cluster, rng
        self.world, self.network = cluster.world, cluster.network

    def strike(self, name: str = "") -> None:
        """Misfortunes seldom come singly: the next one may hit the same node."""
        name = name or self.rng.choice(list(self.cluster.hosts))
        self.rng.choice(FAULTS)(self, name, self.cluster.hosts[name])
        if self.rng.random() < 0.4 and self.world.now < FAULTS_S:
            self.world.after(self.rng.uniform(0.0, LEASE_S / 2), self.strike, name)

    def note(self, host: str, seconds: float = 0.0) -> None:
        self.cluster.seen.faults.append((self.world.now, self.world.now + seconds, host))

    def _seconds(self) -> float:
        """From a moment to several leases."""
        return self.rng.choice([self.rng.uniform(0.1, 2.0), self.rng.uniform(2.0, 4 * LEASE_S)])

    def _is_watched(self, host: VirtualHost) -> bool:
        """Whether a watchdog stands by, for as long as an agent may now fail."""
        watchdog = host.watchdog
        is_there = watchdog is not None and not watchdog.is_paused
        return is_there and self.world.now >= host.unwatched_until_s

    def _is_awake(self, host: VirtualHost) -> bool:
        return host.agent is not None and not host.agent.is_paused and not host.agent.is_dead

    # The master.

    def kill_master(self, name: str, host: VirtualHost) -> None:
        seconds = self._seconds()
        self.note(MASTER_HOST, seconds)
        self.cluster.kill_master()
        self.world.after(seconds, self.cluster.start_master)

    def end_master(self, name: str, host: VirtualHost) -> None:
        self.note(MASTER_HOST, 1.0)
        self.cluster.terminate(MASTER_HOST)

    def pause_master(self, name: str, host: VirtualHost) -> None:
        loop, seconds = self.cluster.master_host.agent, self._seconds()
        if loop is not None:
            self.note(MASTER_HOST, seconds)
            loop.pause(seconds)

    # Node agents and watchdogs.

    def kill_agent(self, name: str, host: VirtualHost) -> None:
        """A supervisor starts it again soon; if that is gone too, much later."""
        if self._is_awake(host):
            seconds = self._seconds() if self._is_watched(host) else self.rng.uniform(0.1, 1.0)
            self.note(name, seconds)
            self.cluster.kill_agent(name)
            self.world.after(seconds, self.cluster.start_agent, name)
            if seconds > UNWATCHED_S:
                self._leave_alone(host, seconds)

    def kill_within(self, name: str, host: VirtualHost) -> None:
        """The agent is killed in the middle of its next start."""

        def kill() -> None:
            self.kill_agent(name, host)
            self.cluster.kill_agent(name)  # also if it is no time to be away for long
            self.world.after(0.5, self.cluster.start_agent, name)

        self.note(name, FAULTS_S)
        host.dies_at = self.rng.choice(["ports", "start", "locked", "begun"]), kill

    def end_agent(self, name: str, host: VirtualHost) -> None:
        if self._is_awake(host):
            self.note(name, LEASE_S)
            self.cluster.terminate(name)
            if self.rng.random() < 0.3:
                # Ended, and killed before it has.
                self.world.after(self.rng.uniform(0.1, 2.0), self.kill_agent, name, host)

    def pause_agent(self, name: str, host: VirtualHost) -> None:
        if self._is_watched(host) and self._is_awake(host):
            seconds = self._seconds()
            self.note(name, seconds)
            assert host.agent is not None
            host.agent.pause(seconds)
            self._leave_alone(host, seconds)

    def _leave_alone(self, host: VirtualHost, seconds: float) -> None:
        host.alone_until_s = max(host.alone_until_s, self.world.now + seconds + UNWATCHED_S)

    def kill_watchdog(self, name: str, host: VirtualHost) -> None:
        if self._is_awake(host) and self.world.now >= host.alone_until_s:
            host.end_watchdog()
            host.unwatched_until_s = self.world.now + UNWATCHED_S

    def pause_watchdog(self, name: str, host: VirtualHost) -> None:
        is_alone = self.world.now < host.alone_until_s
        if self._is_awake(host) and host.watchdog is not None and not is_alone:
            seconds = self._seconds()
            host.watchdog.pause(seconds)
            host.unwatched_until_s = self.world.now + seconds

    # The network.

    def reset(self, name: str, host: VirtualHost) -> None:
        if host.agent is not None:
            self.note(name, LEASE_S)
            self.network.reset(host.agent)

    def cut_off(self, name: str, host: VirtualHost) -> None:
        seconds, name = self._seconds(), self.rng.choice([name, name, MASTER_HOST])
        self.note(name, seconds)
        self.network.isolated.add(name)
        self.world.after(seconds, self.network.isolated.discard, name)

    def cut_off_unwatched(self, name: str, host: VirtualHost) -> None:
        """Its watchdog hangs, and its agent has no master: it must end its tasks itself."""
        if self._is_awake(host) and self.world.now >= host.alone_until_s:
            self.pause_watchdog(name, host)
            self.cut_off(name, host)

    # Hosts.

    def reboot(self, name: str, host: VirtualHost) -> None:
        seconds = self._seconds()
        self.note(name, seconds)
        self.cluster.reboot(name, seconds)

    def die(self, name: str, host: VirtualHost) -> None:
        """A node never returns; the first one always does."""
        if name != next(iter(self.cluster.hosts)) and name not in self.cluster.gone:
            self.note(name, float("inf"))
            self.cluster.reboot(name, float("inf"))

    def fall_sick(self, name: str, host: VirtualHost) -> None:
        seconds = self._seconds()
        self.note(name, seconds)
        host.sick_until_s = self.world.now + seconds

    def set_clock(self, name: str, host: VirtualHost) -> None:
        seconds = self.rng.choice([-HOUR_S, HOUR_S, -5.0, 5.0])
        self.rng.choice([host, self.cluster.master_host]).set_clock(seconds)


FAULTS: tuple[Callable[[Faults, str, VirtualHost], None], ...] = (
    Faults.kill_master,
    Faults.kill_master,
    Faults.end_master,
    Faults.pause_master,
    Faults.kill_agent,
    Faults.kill_within,
    Faults.kill_within,
    Faults.end_agent,
    Faults.pause_agent,
    Faults.pause_agent,
    Faults.kill_watchdog,
    Faults.pause_watchdog,
    Faults.reset,
    Faults.reset,
    Faults.cut_off,
    Faults.cut_off_unwatched,
    Faults.cut_off_unwatched,
    Faults.reboot,
    Faults.die,
    Faults.fall_sick,
    Faults.set_clock,
)
