"""The architectures that the plain loop runs. They differ only in their schedulers: which jobs each
has, which rows it may use, and whether it commits optimistically."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

from murmuration.base.errors import InputError
from murmuration.schedulers import architecture as arch
from murmuration.schedulers.architecture import Scheduler
from murmuration.simulation.architectures.architecture import Architecture
from murmuration.simulation.architectures.queues.batch import advance_batch
from murmuration.simulation.architectures.queues.batch_build import (
    check_queue_inputs,
    count_queue,
    widen_for_queue,
)
from murmuration.simulation.architectures.queues.batch_world import BatchWorld
from murmuration.simulation.architectures.timing import timing_of
from murmuration.simulation.engine import loop
from murmuration.simulation.engine.policies import compile_policy, decides_compiled, index_of
from murmuration.simulation.engine.run import Run
from murmuration.simulation.scenarios import scenario as sc


def advance(run: Run, ask: int, watch: int, until: float) -> int:
    """Call the plain loop, or that of a batch queue."""
    place, score = compile_policy(run.setup.placement)
    if run.setup.scenario.scheduler.queue:
        if not decides_compiled(run):
            raise InputError(
                f"{run.setup.placement.name}: expected a placement by a score with scheduler.queue"
            )
        world = cast(BatchWorld, run.world)
        return int(advance_batch(world, place, score, index_of(run), until))
    return int(loop.advance(run.world, place, score, index_of(run), ask, watch, until))


def make_one(scenario: sc.Scenario, workloads: Sequence[str], nodes: int) -> list[Scheduler]:
    """One scheduler for everything."""
    timing = timing_of(scenario, workloads)
    return arch.make_monolithic(workloads, timing, scenario.scheduler.paths == "single")


def make_one_per_part(
    scenario: sc.Scenario, workloads: Sequence[str], nodes: int
) -> list[Scheduler]:
    """One scheduler per workload, with rows of its own."""
    timing = timing_of(scenario, workloads)
    return arch.make_partitioned(workloads, timing, scenario.scheduler.partition, nodes)


def make_many(scenario: sc.Scenario, workloads: Sequence[str], nodes: int) -> list[Scheduler]:
    """Any number of schedulers per workload, all rows, committed optimistically."""
    rules = scenario.scheduler
    return arch.make_shared_state(
        workloads,
        timing_of(scenario, workloads),
        rules.agents,
        machine=rules.conflict == "machine",
        atomic=rules.transaction == "all-or-nothing",
    )


#: What a queue discipline needs, wherever schedulers have queues.
make_queued = partial(
    Architecture,
    orders_queue=True,
    check_inputs=check_queue_inputs,
    make_world=widen_for_queue,
    count=count_queue,
)
MONOLITHIC = make_queued(
    kind="monolithic",
    summary="one scheduler, all rows, exclusive",
    schedulers=make_one,
    advance=advance,
    logs_changes=True,
)
PARTITIONED = make_queued(
    kind="partitioned",
    summary="one scheduler per workload, its own rows, exclusive",
    schedulers=make_one_per_part,
    advance=advance,
    logs_changes=True,
    whole_jobs=True,
)
SHARED_STATE = make_queued(
    kind="shared-state",
    summary="any number of schedulers per workload, all rows, committed optimistically",
    schedulers=make_many,
    advance=advance,
    logs_changes=True,
)
