"""A swarm as a value: one scheduler places what arrives, then every task decides for itself whether
to move."""

from __future__ import annotations

from typing import cast

from murmuration.simulation.architectures.architecture import Architecture
from murmuration.simulation.architectures.queues.architecture import make_one
from murmuration.simulation.architectures.swarm.loop import advance_swarm
from murmuration.simulation.architectures.swarm.settings import SETTINGS, SwarmRules
from murmuration.simulation.architectures.swarm.world import (
    SwarmWorld,
    count,
    find_infeasible,
    make_groups_gangs,
    make_world,
)
from murmuration.simulation.engine.policies import compile_policy, index_of
from murmuration.simulation.engine.run import Run
from murmuration.simulation.scenarios import scenario as sc


def advance(run: Run, ask: int, watch: int, until: float) -> int:
    """Call the loop of a swarm."""
    place, score = compile_policy(run.setup.placement)
    world = cast(SwarmWorld, run.world)
    return int(advance_swarm(world, place, score, index_of(run), ask, watch, until))


def first_step_s(scenario: sc.Scenario) -> float:
    """Tasks decide for the first time one step after the start."""
    return scenario.scheduler.settings_of(SwarmRules).step_s


SWARM = Architecture(
    kind="swarm",
    summary="one scheduler places what arrives; then each task reads its node and those it asks",
    schedulers=make_one,
    advance=advance,
    settings=SETTINGS,
    change_jobs=make_groups_gangs,
    find_infeasible=find_infeasible,
    has_tasks=True,
    make_world=make_world,
    first_act_s=first_step_s,
    count=count,
)
