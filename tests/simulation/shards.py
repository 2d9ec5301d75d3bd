"""An architecture of our own, to show that one needs no change elsewhere: `scheduler.shards.count`
schedulers have every n-th node each, and take the jobs of all workloads in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from murmuration.base.arrays import Counts
from murmuration.base.settings import check_number
from murmuration.schedulers.architecture import Scheduler
from murmuration.simulation.architectures.architecture import Architecture, SettingsTable
from murmuration.simulation.architectures.queues.architecture import advance as advance_queues
from murmuration.simulation.architectures.timing import timing_of
from murmuration.simulation.engine.run import Run
from murmuration.simulation.engine.setup import Setup
from murmuration.simulation.engine.world import World
from murmuration.simulation.scenarios import scenario as sc


class ShardSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How many schedulers share the nodes."""

    count: int = 2


def find_problems(settings: ShardSettings, scheduler: sc.SchedulerSettings) -> Iterator[str]:
    yield from check_number("scheduler.shards.count", settings.count, low=1, high=64)


class ShardState(NamedTuple):
    """How often the kernel was called."""

    calls: Counts


def make_schedulers(scenario: sc.Scenario, workloads: Sequence[str], nodes: int) -> list[Scheduler]:
    count = scenario.scheduler.settings_of(ShardSettings).count
    timing = {name: timing_of(scenario, workloads)[name] for name in workloads}
    return [
        Scheduler(f"shard-{k}", tuple(workloads), timing, rows=np.arange(nodes) % count == k)
        for k in range(count)
    ]


def make_state(setup: Setup, world: World) -> ShardState:
    return ShardState(np.zeros(1, np.int64))


def advance(run: Run, ask: int, watch: int, until: float) -> int:
    run.state.calls[0] += 1
    return advance_queues(run, ask, watch, until)


def count(run: Run) -> dict[str, Any]:
    return {"shards": len(run.setup.schedulers), "kernel_calls": int(run.state.calls[0])}


def check(run: Run) -> None:
    """Nobody has claimed a node of another shard."""
    world, shards = run.world, len(run.setup.schedulers)
    for scheduler in np.flatnonzero(world.schedulers["job"] >= 0):
        nodes = world.claim[scheduler, : world.schedulers["claimed"][scheduler]]
        assert (nodes % shards == scheduler).all(), "a scheduler left its shard"


SHARDS = Architecture(
    kind="shards",
    summary="several schedulers, each with every n-th node, exclusive",
    schedulers=make_schedulers,
    advance=advance,
    settings=SettingsTable("shards", ShardSettings, find_problems),
    make_state=make_state,
    state_name="shards",
    count=count,
    check=check,
)
