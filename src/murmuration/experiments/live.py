"""A scenario at real speed: its jobs are submitted to a live master whose nodes emulate their
tasks.

The decisions are then compared three ways: with the same master in virtual time, and with the
replay of the live log.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from murmuration.base.errors import InputError
from murmuration.runtime import supervisor
from murmuration.runtime.client.requests import ApiClient
from murmuration.runtime.master.queues import FIELDS, PATH
from murmuration.runtime.master.settings import live_settings
from murmuration.runtime.options import AgentOptions, EmulatedNode, MasterOptions
from murmuration.runtime.store.interface import Entry
from murmuration.runtime.store.sqlite import read_log
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.messages import SubmitJob, TaskPlaced
from murmuration.schedulers.central.replaying import Replay, replay
from murmuration.schedulers.queues.discipline import QueueSettings
from murmuration.simulation.architectures.queues.batch_build import estimate_times
from murmuration.simulation.messages.central_replay import joins, rehearse, submissions
from murmuration.simulation.scenarios import scenario as sc
from murmuration.simulation.scenarios.inputs import make_jobs, make_nodes
from murmuration.workload.jobs import JobList
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
    jobs = submissions(ask_for_times(make_jobs(scenario, nodes.resources), scenario), speed)
    check_size(scenario, nodes, jobs)
    with tempfile.TemporaryDirectory(prefix="murmur-live-") as folder:
        options = master_options(scenario, nodes, folder, speed)
        settings = live_settings(options)[0]
        simulated = rehearse(settings, scenario.seed, nodes, jobs)
        tell(f"{len(jobs)} jobs over {jobs[-1][0]:.1f} s on {len(nodes)} emulated nodes")
        try:
            starting = {decision.job for decision in simulated.placed}
            if len(starting) < len(jobs):
                tell(f"{len(jobs) - len(starting)} of them never start, in virtual time either")
            wall_s, placed = _run(options, nodes, jobs, simulated.ended, starting)
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


def ask_for_times(jobs: JobList, scenario: sc.Scenario) -> JobList:
    """Under a discipline jobs ask for the run times that a simulation would go by."""
    if not scenario.scheduler.queue:
        return jobs
    asked = estimate_times(jobs, scenario.scheduler.queue_settings, scenario.seed)
    return replace(jobs, requested_s=asked)


def master_options(
    scenario: sc.Scenario, nodes: NodeTable, folder: str, speed: float = 1.0
) -> MasterOptions:
    """A master that decides as the scenario says, so many times as fast."""
    scheduler = scenario.scheduler
    if scheduler.reservation:
        raise InputError(
            f"{scenario.name}: scheduler.reservation: a live master has reservations by date; take "
            "them out, or use murmur simulate"
        )
    return MasterOptions(
        folder=folder,
        scheduler=scheduler.kind,
        placement=scheduler.placement,
        queue=scheduler.queue,
        settings=list_queue_settings(scheduler.queue_settings, speed),
        resources=list(nodes.resources.names[2:]),
        seed=scenario.seed,
    )


def list_queue_settings(settings: QueueSettings, speed: float) -> list[str]:
    """What differs from the defaults, as an operator would say it to a master whose clock runs so
    many times as fast."""
    settings = msgspec.structs.replace(
        settings,
        half_life_s=settings.half_life_s / speed,
        age_max_s=settings.age_max_s / speed,
        ageing_per_h=settings.ageing_per_h * speed,
    )
    defaults, given = msgspec.to_builtins(QueueSettings()), msgspec.to_builtins(settings)
    changed = {key: given[key] for key in FIELDS if given[key] != defaults[key]}
    return [
        f"{PATH}queue_settings.{key}.{name}={amount}"
        if name
        else f"{PATH}queue_settings.{key}={amount}"
        for key, value in changed.items()
        for name, amount in (value.items() if isinstance(value, dict) else [("", value)])
    ]


def _run(
    options: MasterOptions,
    nodes: NodeTable,
    jobs: list[tuple[float, SubmitJob]],
    ended: list[int],
    starting: set[str],
) -> tuple[float, list[TaskPlaced]]:
    """Submit each job in its time and wait for the last one of those that ever start; the decisions
    that were made.

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
    for _, event in [each for each in jobs if each[1].spec.name in starting]:
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
