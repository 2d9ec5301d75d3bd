"""What a run of a swarm has besides the common arrays: its settings, its order of nodes, and its
groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from murmuration.base.arrays import Amounts, Flags, Floats, Records, SmallIntegers
from murmuration.cluster.reasons import Never
from murmuration.schedulers.swarm.bulk_table import COUNTED, LARGEST_NODE, SMALLEST_NODE, SWARM
from murmuration.schedulers.swarm.pheromone import PHEROMONES, STRATEGIES
from murmuration.schedulers.swarm.search import SEARCHES
from murmuration.simulation.architectures.architecture import Admission
from murmuration.simulation.architectures.swarm.settings import SwarmRules
from murmuration.simulation.engine.run import Run
from murmuration.simulation.engine.setup import Setup
from murmuration.simulation.engine.world import World, extend_world, widen_world
from murmuration.simulation.scenarios import scenario as sc
from murmuration.workload.jobs import JobList

#: Steps of fullness by which nodes are kept in order.
LEVELS = 256
NEVER_S = np.inf


@widen_world
class SwarmWorld(World):
    """A world and: settings and counts; nodes in order of fullness; pheromones and what else a step
    knows of each node; amounts by resource; which workloads' tasks must share a node."""

    swarm: Records
    swarm_order: SmallIntegers
    swarm_first: SmallIntegers
    swarm_nodes: Floats
    swarm_rows: Amounts
    swarm_groups: Flags


def rules_of(setup: Setup) -> SwarmRules:
    return setup.scenario.scheduler.settings_of(SwarmRules)


def make_world(setup: Setup, world: World) -> World:
    """The world with the arrays of a swarm."""
    rules, nodes = rules_of(setup), setup.changes.max_total
    own = {
        "swarm": _settings(rules),
        "swarm_order": np.zeros((3, len(nodes)), np.int32),
        "swarm_first": np.zeros(LEVELS + 1, np.int32),
        "swarm_nodes": np.zeros((7, len(nodes))),
        "swarm_rows": _rows(nodes, setup.jobs.request),
        "swarm_groups": np.array([name in rules.affinity for name in setup.jobs.workloads]),
    }
    return extend_world(world, SwarmWorld, own)


def _settings(rules: SwarmRules) -> Records:
    record = np.zeros(1, SWARM)
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


def _rows(total: Amounts, request: Amounts) -> Amounts:
    """Per resource: whether it counts for fullness, the most and the least a node has, and two rows
    to reckon in.

    A resource that some task does not ask for cannot say how full a node is (section 2: a container
    uses all kinds)."""
    counted = (request > 0).all(axis=0)
    if not counted.any():
        counted = (request > 0).any(axis=0)
    rows = np.zeros((5, total.shape[1]), np.int64)
    rows[COUNTED], rows[LARGEST_NODE] = counted, total.max(axis=0)
    rows[SMALLEST_NODE] = np.where(total > 0, total, np.iinfo(np.int64).max).min(axis=0)
    return rows


def make_groups_gangs(scenario: sc.Scenario, jobs: JobList) -> JobList:
    """Jobs whose tasks must share a node are placed whole or not at all, so that all of a group are
    there to gather."""
    names = scenario.scheduler.settings_of(SwarmRules).affinity
    if not names:
        return jobs
    rows = np.isin(jobs.workload, [k for k, name in enumerate(jobs.workloads) if name in names])
    return replace(jobs, gang=jobs.gang | rows)


def find_infeasible(admission: Admission) -> dict[int, Never]:
    """The jobs whose tasks must share a node when no node could ever hold them all."""
    scenario, nodes, jobs, free, masks, mask = admission
    rules = scenario.scheduler.settings_of(SwarmRules)
    room = np.floor(nodes.total * rules.overload).astype(np.int64) - (nodes.total - free)
    grouped = [k for k, name in enumerate(jobs.workloads) if name in rules.affinity]
    reasons: dict[int, Never] = {}
    for row in np.flatnonzero(np.isin(jobs.workload, grouped)):
        usable = room if mask[row] < 0 else room[masks[mask[row]]]
        max_tasks = _max_on_one(usable, jobs.request[row])
        if max_tasks < jobs.tasks[row]:
            reasons[int(row)] = Never(
                f"its {jobs.tasks[row]} tasks must share a node and no node holds more than "
                f"{max_tasks} of them"
            )
    return reasons


def _max_on_one(room: Amounts, request: Amounts) -> int:
    """How many tasks of this size the roomiest node holds."""
    asked = request > 0
    if not asked.any() or not len(room):
        return 2**31 if len(room) else 0
    return max(0, int((room[:, asked] // request[asked]).min(axis=1).max()))


def count(run: Run) -> dict[str, Any]:
    """The figures only a swarm has."""
    world = cast(SwarmWorld, run.world)
    record = world.swarm[0]
    migrations = int(world.state["migrations"][0])
    return {
        "migrations": migrations,
        "searches_failed": int(record["failed"]),
        "messages_per_migration": float(record["messages"] / migrations) if migrations else None,
        "migrations_cut_short": int(record["cut_short"]),
        "groups_together": _together(world),
    }


def _together(world: SwarmWorld) -> float | None:
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
