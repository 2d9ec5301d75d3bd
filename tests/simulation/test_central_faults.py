"""The central protocol under random fault schedules; and that the checks would notice."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from murmuration.base.random import generator
from murmuration.base.resources import Resources
from murmuration.placement.registry import resolve
from murmuration.runtime.store.interface import Entry
from murmuration.runtime.store.sqlite import SqliteStore
from murmuration.schedulers.agent import Effect, Message, Note
from murmuration.schedulers.central import node_agent
from murmuration.schedulers.central.leases import Leases
from murmuration.schedulers.central.master import CentralMaster, CentralSettings
from murmuration.schedulers.central.messages import EndRecorded, KillJob, Launch, Recover
from murmuration.schedulers.central.node_agent import CentralNodeAgent
from murmuration.schedulers.offers.messages import MASTER
from murmuration.schedulers.queues.discipline import QueueSettings
from murmuration.simulation.messages.central import (
    WRITE_S,
    CentralCluster,
    FoldedDisk,
    MasterParty,
)
from murmuration.simulation.messages.central_checks import CHECKERS
from murmuration.simulation.messages.central_faults import draw_cluster, run_schedule
from murmuration.simulation.messages.drive import BrokenError, Checker, Disk, VirtualDriver
from murmuration.simulation.messages.network import FaultSettings
from murmuration.workload.job_spec import JobSpec


@pytest.mark.parametrize("seed", range(1, 1 + int(os.environ.get("SCHEDULES", "40"))))
def test_random_schedules(seed: int) -> None:
    figures = run_schedule(seed)
    assert figures["tasks_ended"] > 0 and figures["messages"] > 100


class SqliteDisk(Disk):
    """The store that ships, as the disk of a simulated master."""

    def __init__(self, path: Path) -> None:
        self._store, self._number = SqliteStore(path), 0

    def delay_s(self) -> float:
        return WRITE_S / 2

    def write(self, facts: Sequence[tuple[Message, float]]) -> None:
        entries = [
            Entry(self._number + k, noted_s, "fact", fact)
            for k, (fact, noted_s) in enumerate(facts, start=1)
        ]
        self._number += len(entries)
        self._store.write(entries)

    def load(self) -> Any:
        return self

    def recover(self, epoch: int, seed: int) -> Recover:
        return self._store.recover(seed)

    def has_job(self, name: str) -> bool:
        return bool(
            self._store._db.execute("SELECT 1 FROM jobs WHERE name = ?", (name,)).fetchall()
        )

    def last_run(self, job: str, index: int) -> int:
        query = "SELECT run FROM tasks WHERE job = ? AND idx = ?"
        rows = self._store._db.execute(query, (job, index)).fetchall()
        return int(rows[0][0]) if rows else 0


@pytest.mark.parametrize("seed", range(1, 7))
def test_the_store_that_ships_is_the_store_that_is_tested(seed: int, tmp_path: Path) -> None:
    """The same schedules with SQLite under the master: the same figures as on the virtual disk."""
    on_sqlite = run_schedule(seed, disk=lambda: SqliteDisk(tmp_path / "store.db"))
    assert on_sqlite == run_schedule(seed, disk=SteadyDisk)


class SteadyDisk(FoldedDisk):
    """The virtual disk, as fast as the one above and drawing as little."""

    def __init__(self) -> None:
        super().__init__(generator(1, "unused"))

    def delay_s(self) -> float:
        return WRITE_S / 2


@pytest.mark.parametrize("late", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(1, 11))
def test_orders_under_way_when_a_connection_breaks(seed: int, late: float) -> None:
    """Connections break while orders, stops and answers are under way. These are lost, and must be
    said again; or they come when the agents have long joined again, and must not be obeyed."""
    rng = generator(seed, "late")
    settings = CentralSettings(
        Resources(), resolve("first-fit"), agent_timeout_s=10.0, margin_s=2.0
    )
    nodes = {f"n{k}": {"cpu": 4_000_000, "memory": 8 * 10**9} for k in range(3)}
    cluster = CentralCluster(settings, nodes, seed, rng, FaultSettings(late=late, end_s=60.0))
    driver = cluster.driver
    driver.checkers += [check(cluster) for check in CHECKERS]
    for k in range(6):
        at = 5.0 + 8.0 * k
        spec = JobSpec(
            name=f"job-{k}",
            kind="service" if k % 2 else "terminating",
            command=["x"],
            count=4,
            resources={"cpu": 0.2},
        )
        lasts = None if k % 2 else float(rng.uniform(2.0, 20.0))
        driver.at(at, cluster.submit_surely, spec, lasts)
        if k % 2:
            driver.at(at + 4.0, driver.tell, MASTER, KillJob(spec.name))
        for name in nodes:
            for later in (0.06 * rng.random(), 4.0 + 0.06 * rng.random(), *rng.uniform(0, 8, 2)):
                driver.at(at + float(later), cluster.connections.break_all, name)
    driver.run(150.0)
    driver.finish()


@pytest.mark.parametrize("late", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(1, 11))
def test_suspensions_under_way_when_a_connection_breaks(seed: int, late: float) -> None:
    """Jobs of high priority come and go on full nodes, and connections break just then: what is to
    stand still or to go on is told the agent when it has joined again."""
    rng = generator(seed, "suspensions")
    settings = CentralSettings(
        Resources(),
        resolve("first-fit"),
        agent_timeout_s=10.0,
        margin_s=2.0,
        queue_settings=QueueSettings(preempt="suspend"),
    )
    nodes = {f"n{k}": {"cpu": 1_000_000, "memory": 8 * 10**9} for k in range(3)}
    cluster = CentralCluster(settings, nodes, seed, rng, FaultSettings(late=late, end_s=120.0))
    driver = cluster.driver
    driver.checkers += [check(cluster) for check in CHECKERS]
    low = JobSpec(name="low", command=["x"], count=3, resources={"cpu": 0.9})
    driver.at(1.0, cluster.submit_surely, low, 60.0)
    for k in range(6):
        at, lasts_s = 15.0 + 16.0 * k, 8.0
        high = JobSpec(name=f"high-{k}", command=["x"], count=3, resources={"cpu": 0.9}, priority=5)
        driver.at(at, cluster.submit, high, lasts_s)
        for name in nodes:
            for later in (0.08 * rng.random(), lasts_s + 0.4 * rng.random()):
                driver.at(at + float(later), cluster.connections.break_all, name)
    driver.run(250.0)
    driver.finish()
    assert cluster.preempted > 3


class Digest(Checker):
    def __init__(self) -> None:
        self.lines: list[tuple[float, str, str]] = []

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        self.lines.append((driver.now, name, repr(event)))


def test_a_seed_explains_everything() -> None:
    lines = []
    for seed in (3, 3, 4):
        cluster, digest = draw_cluster(seed), Digest()
        cluster.driver.checkers.append(digest)
        cluster.driver.run(150.0)
        lines.append(digest.lines)
    assert lines[0] == lines[1] != lines[2]


# Broken on purpose.


def sends_before_it_notes(patch: pytest.MonkeyPatch) -> None:
    handle = CentralMaster.handle

    def reordered(self: CentralMaster, event: Message, now: float) -> list[Effect]:
        effects = handle(self, event, now)
        return sorted(effects, key=lambda effect: isinstance(effect, Note))

    patch.setattr(CentralMaster, "handle", reordered)


def gives_up_too_early(patch: pytest.MonkeyPatch) -> None:
    start = MasterParty.start

    def hasty(self: MasterParty, memory: Any, life: int) -> CentralMaster:
        self._settings = replace(self._settings, margin_s=-6.0)
        return start(self, memory, life)

    patch.setattr(MasterParty, "start", hasty)


def forgets_leases_when_it_starts_again(patch: pytest.MonkeyPatch) -> None:
    """Nodes that the store knows get no lease: their tasks are never given up."""
    patch.setattr(Leases, "expect", lambda self, nodes, now: None)


def starts_runs_without_a_lease(patch: pytest.MonkeyPatch) -> None:
    launch = CentralNodeAgent._on_launch

    def careless(self: CentralNodeAgent, event: Any, now: float) -> None:
        self._leased_until_s = float("inf")
        launch(self, event, now)

    patch.setitem(node_agent._ON, Launch, careless)


def never_hears_that_an_end_is_recorded(patch: pytest.MonkeyPatch) -> None:
    """Not wrong for the tasks, but nothing may be told twice as a new end."""
    patch.setitem(node_agent._ON, EndRecorded, lambda self, event, now: None)


@pytest.mark.parametrize(
    "break_it",
    [
        sends_before_it_notes,
        gives_up_too_early,
        forgets_leases_when_it_starts_again,
        starts_runs_without_a_lease,
    ],
)
def test_a_broken_protocol_is_caught(
    break_it: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    with pytest.raises(BrokenError, match="murmur faults --protocol central --schedules 1 --seed"):
        for seed in range(1, 301):
            run_schedule(seed)


def test_ends_that_are_told_again_and_again_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    never_hears_that_an_end_is_recorded(monkeypatch)
    for seed in range(1, 11):
        run_schedule(seed)
