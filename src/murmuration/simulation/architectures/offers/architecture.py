"""Offers as a value: an allocator makes offers, frameworks choose among the rows they are
offered."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, cast

from murmuration.base.errors import InputError, unknown
from murmuration.base.jit import AMOUNTS, FirstClass
from murmuration.base.loading import load_object
from murmuration.schedulers.architecture import Scheduler, frameworks
from murmuration.schedulers.offers.allocators import ALLOCATORS
from murmuration.simulation.architectures.architecture import Architecture
from murmuration.simulation.architectures.offers import python_decision
from murmuration.simulation.architectures.offers.batched import advance_batches
from murmuration.simulation.architectures.offers.loop import advance_offers, choose_offered
from murmuration.simulation.architectures.offers.settings import SETTINGS, OfferRules
from murmuration.simulation.architectures.offers.world import (
    DOUBLE_BOOKED_SLOTS,
    OfferWorld,
    make_world,
    rules_of,
    set_state,
)
from murmuration.simulation.architectures.timing import timing_of
from murmuration.simulation.engine.policies import compile_policy, compile_user_code, index_of
from murmuration.simulation.engine.run import Run
from murmuration.simulation.engine.setup import NodeChanges
from murmuration.simulation.scenarios import scenario as sc
from murmuration.workload.jobs import JobList

COUNTED = ("offers_made", "offers_rejected", "offers_rescinded", "tasks_revoked", "tasks_killed")


def make_schedulers(scenario: sc.Scenario, workloads: Sequence[str], nodes: int) -> list[Scheduler]:
    """One framework per workload."""
    rules = scenario.scheduler.settings_of(OfferRules)
    return frameworks(workloads, timing_of(scenario, workloads), rules.optimistic)


def check_inputs(scenario: sc.Scenario, jobs: JobList, changes: NodeChanges) -> None:
    """Offers hold rows of the table for as long as a framework thinks; nothing else may change them
    meanwhile."""
    if jobs.curves is not None or len(changes.time_s):
        what = "usage that is measured" if jobs.curves is not None else "nodes that come and go"
        raise InputError(
            f"{scenario.name}: scheduler.kind offers cannot run with {what}; choose another "
            "scheduler"
        )


def slots(scenario: sc.Scenario) -> int:
    """A framework that may be double-booked looks at several offers at once."""
    rules = scenario.scheduler.settings_of(OfferRules)
    return DOUBLE_BOOKED_SLOTS if rules.double_booked or rules.batch_s > 0.0 else 1


@cache
def compile_allocator(name: str) -> FirstClass:
    """The allocator's policy, ours or the user's own."""
    from numba import types

    if name not in ALLOCATORS and ":" not in name:
        raise InputError(f"scheduler.offers.allocator: {unknown('allocator', name, ALLOCATORS)}")
    vector, flags = types.int64[::1], types.boolean[::1]
    signature = types.int64(AMOUNTS, AMOUNTS, vector, types.float64[::1], flags, types.float64)
    if name in ALLOCATORS:
        return FirstClass(ALLOCATORS[name], signature)
    own = load_object(name)
    function = getattr(own, "function", own)
    return compile_user_code(
        lambda: FirstClass(function, signature, cache=False), f"{name}: expected an allocator"
    )


def advance(run: Run, ask: int, watch: int, until: float) -> int:
    """Call the loop of offers."""
    place, score = compile_policy(run.setup.placement)
    allocate = compile_allocator(rules_of(run.setup).allocator)
    world = cast(OfferWorld, run.world)
    loop = advance_batches if rules_of(run.setup).batch_s > 0.0 else advance_offers
    return int(loop(world, place, score, index_of(run), allocate, ask, watch, until))


def count(run: Run) -> dict[str, Any]:
    """What became of offers."""
    return {name: int(run.world.state[name][0]) for name in COUNTED}


def check(run: Run) -> None:
    """Offers add up, and no more is offered than there is."""
    world = cast(OfferWorld, run.world)
    amounts = world.set_amount
    assert (amounts >= 0).all() and (amounts.sum(axis=1) == world.set_sum).all(), (
        "offers do not add up"
    )
    assert (amounts.sum(axis=0) <= world.free).all(), "more is offered than there is"


OFFERS = Architecture(
    kind="offers",
    summary="one framework per workload, the rows it was offered, exclusive while it holds them",
    schedulers=make_schedulers,
    advance=advance,
    settings=SETTINGS,
    check_inputs=check_inputs,
    slots=slots,
    set_state=set_state,
    make_world=make_world,
    show_rows=python_decision.show_rows,
    claim=python_decision.claim,
    choose=choose_offered,
    queued_while_deciding=True,
    count=count,
    check=check,
)
