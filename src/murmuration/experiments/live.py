"""A scenario at real speed: its jobs are submitted to a live master whose nodes emulate their
tasks.

The decisions are then compared three ways: with the same master in virtual time, and with the
replay of the live log.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from murmuration.base.errors import InputError
from murmuration.runtime import supervisor
from murmuration.runtime.client.requests import ApiClient
from murmuration.runtime.master.settings import live_settings
from murmuration.runtime.options import AgentOptions, EmulatedNode, MasterOptions
from murmuration.runtime.store.interface import Entry
from murmuration.runtime.store.sqlite import read_log
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.messages import SubmitJob, TaskPlaced
from murmuration.schedulers.central.replaying import Replay, replay
from murmuration.simulation.messages.central_replay import joins, rehearse, submissions
from murmuration.simulation.scenarios import scenario as sc
from murmuration.simulation.scenarios.inputs import make_jobs, make_nodes
from murmuration.workload.nodes import NodeTable

NODES_MAX, TASKS_MAX = 10_000, 100_000
#: How long a job waits for ends that are overdue.
LATE_S = 60.0
Tell = Callable[[str], None]


def replay_log(path: Path) -> Replay:
    """Replay the log of a live cluster in virtual time."""

    def make(options: MasterOptions) -> CentralMaster:
        return CentralMaster(live_settings(options)[0], options.seed)

    return replay(((e.number, e.at_s, e.side, e.value) for e in read_entries(path)), make)


def read_entries(path: Path) -> list[Entry]:
    """The log of a live cluster, if a master can be started from it."""
    entries = read_log(path)
    if not entries:
        raise InputError(f"{path}: the log is empty")
    if not any(entry.side == "options" for entry in entries):
        raise InputError(
            f"{path}: the start of the log is no longer kept, and no master has started since"
        )
    return entries


def drive(scenario: sc.Scenario, speed: float, tell: Tell = lambda text: None) -> dict[str, Any]:
    """Run a scenario on a live master of its own, `speed` times as fast as it is written."""
    nodes = make_nodes(scenario.cluster)
    jobs = submissions(make_jobs(scenario, nodes.resources), speed)
    check_size(scenario, nodes, jobs)
    with tempfile.TemporaryDirectory(prefix="murmur-live-") as folder:
        options = master_options(scenario, nodes, folder)
        settings = live_settings(options)[0]
        simulated = rehearse(settings, scenario.seed, nodes, jobs)
        tell(f"{len(jobs)} jobs over {jobs[-1][0]:.1f} s on {len(nodes)} emulated nodes")
        try:
            wall_s, placed = _run(options, nodes, jobs, simulated.ended)
            again = replay_log(Path(folder))
        finally:
            supervisor.bring_down(Path(folder), keep=True)
    return _compare_runs(scenario.name, jobs, simulated.placed, placed, again, wall_s)


def check_size(
    scenario: sc.Scenario, nodes: NodeTable, jobs: list[tuple[float, SubmitJob]]
) -> None:
    tasks = sum(event.spec.count for _, event in jobs)
    if len(nodes) > NODES_MAX or tasks > TASKS_MAX:
        raise InputError(
            f"{scenario.name}: a live master takes up to {NODES_MAX:,} nodes and {TASKS_MAX:,} "
            f"tasks here, got {len(nodes):,} and {tasks:,}; --days makes it shorter"
        )
    if scenario.cluster.prefill:
        raise InputError(
            f"{scenario.name}: a live master begins with empty nodes; say --set cluster.prefill=0"
        )


def master_options(scenario: sc.Scenario, nodes: NodeTable, folder: str) -> MasterOptions:
    extra = list(nodes.resources.names[2:])
    kind, placement = scenario.scheduler.kind, scenario.scheduler.placement
    return MasterOptions(
        folder=folder, scheduler=kind, placement=placement, resources=extra, seed=scenario.seed
    )


def _run(
    options: MasterOptions, nodes: NodeTable, jobs: list[tuple[float, SubmitJob]], ended: list[int]
) -> tuple[float, list[TaskPlaced]]:
    """Submit each job in its time and wait for the last one; the decisions that were made.

    A job is submitted when its time has come and what should have ended before it has: a slow host
    delays, no more.
    """
    emulated = [EmulatedNode(join.node, join.total, join.attributes) for join in joins(nodes)]
    agent = AgentOptions(folder=options.folder, name="emulated", resources={}, emulated=emulated)
    supervisor.start_detached(supervisor.Parts(options, [agent]))
    client = ApiClient(Path(options.folder))
    began = time.monotonic()
    for (at_s, event), before in zip(jobs, ended, strict=True):
        time.sleep(max(0.0, began + at_s - time.monotonic()))
        deadline = time.monotonic() + LATE_S
        while (
            client.get("status")["tasks"].get("finished", 0) < before
            and time.monotonic() < deadline
        ):
            time.sleep(0.002)
        client.post("jobs", body=event.spec, duration_s=event.duration_s)
    for _, event in jobs:
        while not client.get("jobs", event.spec.name, wait_s=20)["ended"]:
            pass
    placed = [
        entry.value
        for entry in read_log(Path(options.folder))
        if isinstance(entry.value, TaskPlaced)
    ]
    return time.monotonic() - began, placed


def _compare_runs(
    name: str,
    jobs: list[tuple[float, SubmitJob]],
    simulated: list[TaskPlaced],
    placed: list[TaskPlaced],
    again: Replay,
    wall_s: float,
) -> dict[str, Any]:
    expected = {(p.job, p.index): p.node for p in simulated}
    decided = {(p.job, p.index): p.node for p in placed}
    same = sum(expected.get(task) == node for task, node in decided.items())
    return {
        "scenario": name,
        "jobs": len(jobs),
        "decisions": len(decided),
        "same_as_simulated": same,
        "replayed": again.decisions,
        "replay_agrees": again.agrees,
        "timing": {"wall_s": wall_s},
    }
