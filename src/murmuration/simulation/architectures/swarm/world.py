"""What a run of a swarm has besides the common arrays: its settings, its queues, its order of
nodes, and its groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.base.resources import Amounts
from murmuration.cluster.reasons import Never
from murmuration.schedulers.swarm.pheromone import PHEROMONES, STRATEGIES
from murmuration.schedulers.swarm.search import SEARCHES
from murmuration.simulation.engine import world as wd
from murmuration.simulation.scenarios import scenario as sc
from murmuration.workload.jobs import JobList
from murmuration.workload.nodes import NodeTable

#: Steps of fullness by which nodes are kept in order.
LEVELS = 256
NEVER_S = np.inf


def swarm_arrays(
    swarm: bool, rules: sc.SwarmRules, nodes: Amounts, jobs: JobList
) -> dict[str, NDArray[Any]]:
    """The arrays of a swarm; next to nothing where the architecture is another."""
    count = len(nodes) if swarm else 0
    return {
        "swarm": _settings(rules),
        "swarm_order": np.zeros((3, count), np.int32),
        "swarm_first": np.zeros(LEVELS + 1 if swarm else 0, np.int32),
        "swarm_nodes": np.zeros((7, count)),
        "swarm_rows": _rows(nodes, jobs.request),
        "swarm_groups": np.array([swarm and name in rules.affinity for name in jobs.workloads]),
    }


def _settings(rules: sc.SwarmRules) -> NDArray[Any]:
    record = np.zeros(1, wd.SWARM)
    values = {
        "strategy": STRATEGIES.index(rules.strategy),
        "switch_to": STRATEGIES.index(rules.switch_to),
        "switch_s": rules.switch_s if rules.switch_s > 0.0 else NEVER_S,
        "form": PHEROMONES.index(rules.pheromone),
        "search": SEARCHES.index(rules.search),
        "overload": rules.overload,
        "underload": rules.underload,
        "step_s": rules.step_s,
        "migration_s": rules.migration_s,
        "size_weighted": rules.size_weighted,
        "candidates": rules.candidates,
    }
    for name, value in values.items():
        record[name] = value
    return record


def _rows(total: Amounts, request: Amounts) -> NDArray[np.int64]:
    """Per resource: whether it counts for fullness, the most and the least a node has, and two rows
    of scratch.

    A resource that some task does not ask for cannot say how full a node is (section 2: a container
    uses all kinds)."""
    counted = (request > 0).all(axis=0)
    if not counted.any():
        counted = (request > 0).any(axis=0)
    rows = np.zeros((5, total.shape[1]), np.int64)
    rows[wd.COUNTED], rows[wd.MOST] = counted, total.max(axis=0)
    rows[wd.LEAST] = np.where(total > 0, total, np.iinfo(np.int64).max).min(axis=0)
    return rows


def gathered(scenario: sc.Scenario, jobs: JobList) -> JobList:
    """Jobs whose tasks must share a node are placed whole or not at all, so that all of a group are
    there to gather."""
    names = scenario.scheduler.swarm.affinity
    if scenario.scheduler.kind != "swarm" or not names:
        return jobs
    rows = np.isin(jobs.workload, [k for k, name in enumerate(jobs.workloads) if name in names])
    return replace(jobs, gang=jobs.gang | rows)


def never_together(
    scenario: sc.Scenario,
    nodes: NodeTable,
    jobs: JobList,
    free: Amounts,
    masks: NDArray[np.bool_],
    mask: NDArray[np.int64],
) -> dict[int, Never]:
    """The jobs whose tasks must share a node when no node could ever hold them all."""
    rules = scenario.scheduler.swarm
    if scenario.scheduler.kind != "swarm" or not rules.affinity:
        return {}
    room = np.floor(nodes.total * rules.overload).astype(np.int64) - (nodes.total - free)
    wanted = [k for k, name in enumerate(jobs.workloads) if name in rules.affinity]
    found: dict[int, Never] = {}
    for row in np.flatnonzero(np.isin(jobs.workload, wanted)):
        most = _most_on_one(room if mask[row] < 0 else room[masks[mask[row]]], jobs.request[row])
        if most < jobs.tasks[row]:
            found[int(row)] = Never(
                f"its {jobs.tasks[row]} tasks must share a node and no node holds more than "
                f"{most} of them"
            )
    return found


def _most_on_one(room: Amounts, request: Amounts) -> int:
    """How many tasks of this size the roomiest node holds."""
    asked = request > 0
    if not asked.any() or not len(room):
        return 2**31 if len(room) else 0
    return max(0, int((room[:, asked] // request[asked]).min(axis=1).max()))


def counts(world: wd.World) -> dict[str, Any]:
    """The figures only a swarm has."""
    record = world.swarm[0]
    migrations = int(world.state["migrations"][0])
    return {
        "migrations": migrations,
        "searches_failed": int(record["failed"]),
        "messages_per_migration": float(record["messages"] / migrations) if migrations else None,
        "migrations_cut_short": int(record["cut_short"]),
        "groups_together": _together(world),
    }


def _together(world: wd.World) -> float | None:
    """The share of groups whose tasks share a node at the end, null where nothing asks for it."""
    if not world.swarm_groups.any():
        return None
    slots_used = np.flatnonzero(world.tasks["job"] >= 0)
    slots_used = slots_used[
        world.swarm_groups[world.jobs["workload"][world.tasks["job"][slots_used]]]
    ]
    leaders = world.tasks["leader"][slots_used]
    apart = world.slots["node"][slots_used] != world.slots["node"][leaders]
    groups = len(np.unique(leaders))
    return 1.0 - len(np.unique(leaders[apart])) / groups if groups else None
