"""The arrays of offers: who holds which free resources, and what the allocator knows."""

from __future__ import annotations

from typing import Any

import numpy as np

from murmuration.base.arrays import (
    Amounts,
    Column,
    Counts,
    Flags,
    Placement,
    Placements,
    Records,
    Shares,
    Weights,
)
from murmuration.base.errors import InputError
from murmuration.cluster.constraints import node_mask, parse_constraint
from murmuration.simulation.architectures.offers.settings import FrameworkRules, OfferRules
from murmuration.simulation.engine.setup import Setup
from murmuration.simulation.engine.world import OWN_FIRST, World, extend_world, widen_world

#: Events of offers alone.
OFFER_MADE, OFFER_TIMES_OUT, OFFER_SENT, OFFER_ANSWERED = range(OWN_FIRST, OWN_FIRST + 4)
DOUBLE_BOOKED_SLOTS = 32


#: A chosen node, and the next of the same offer.
CHOICE = np.dtype([("job", "i4"), ("node", "i4"), ("next", "i8")], align=True)


def make_batch_type(resources: int) -> np.dtype[np.void]:
    """An offer that was batched: for how long its framework thinks, the first and the last node it
    chose, and how much of each resource."""
    return np.dtype(
        [("thinks", "f8"), ("first", "i8"), ("last", "i8"), ("chosen", "i8", (resources,))],
        align=True,
    )


@widen_world
class OfferWorld(World):
    """A world with offers. One set of free resources is the bulk: all that no other set lists.
    Every other set is sparse: the rows it has something of, how much of each, and in all. Set
    s < schedulers is the offer outstanding with scheduler s; the last set is what is available.
    `long_free` is what is left of each row for tasks that are not short. The `offer_` arrays are
    the small table a framework chooses from."""

    set_rows: Placements
    set_size: Counts
    set_listed: Flags
    set_amount: Amounts
    set_sum: Amounts
    weight: Weights
    guarantee: Shares
    filters: Flags
    long_free: Amounts
    offered: Amounts
    wants: Flags
    offer_rows: Placement
    offer_free: Amounts
    offer_total: Amounts
    offer_mask: Flags
    #: Batched offers: what each holds, and the tasks that were chosen nodes of it.
    batches: Records
    pool: Records


def rules_of(setup: Setup) -> OfferRules:
    return setup.scenario.scheduler.settings_of(OfferRules)


def set_state(setup: Setup) -> dict[str, Any]:
    """The allocator's settings among the scalars of a world. At first nobody holds the bulk: it is
    the last set, what is available."""
    rules = rules_of(setup)
    min_cpu = setup.resources.exact("cpu", rules.min_cpu, "scheduler.offers.min_cpu")
    if min_cpu > setup.nodes.total[:, 0].max():
        raise InputError(
            "scheduler.offers.min_cpu: no node has that much, so nothing would be offered"
        )
    return {
        "bulk": len(setup.schedulers) * setup.slots,
        "optimistic": rules.optimistic,
        "min_cpu": min_cpu,
        "offer_time_s": rules.offer_time_s,
        "period_s": rules.period_s,
        "timeout_s": rules.timeout_s,
        "short_max_s": rules.short_max_s,
        "batch_s": rules.batch_s,
        "steps_of": -1,
        "batch_min_cpu": setup.resources.exact(
            "cpu", rules.batch_min_cpu, "scheduler.offers.batch_min_cpu"
        ),
    }


def make_world(setup: Setup, world: World) -> World:
    """The world with the allocator's arrays."""
    frameworks = _frameworks(setup)
    _set_frameworks(setup, world, frameworks)
    return extend_world(world, OfferWorld, _arrays(setup, world, frameworks))


def _frameworks(setup: Setup) -> list[FrameworkRules]:
    """The settings of the framework of each workload."""
    rules = rules_of(setup)
    return [rules.framework.get(name, FrameworkRules()) for name in setup.jobs.workloads]


def _set_frameworks(setup: Setup, world: World, frameworks: list[FrameworkRules]) -> None:
    """What the allocator knows of each framework stands with its workload."""
    key = "scheduler.offers.framework.filter_cpu"
    world.workloads["revoked_at"] = -1.0
    for row, framework in zip(world.workloads, frameworks, strict=True):
        row["short"] = framework.short
        row["filter_cpu"] = setup.resources.exact("cpu", framework.filter_cpu, key)


def _arrays(setup: Setup, world: World, frameworks: list[FrameworkRules]) -> dict[str, Column]:
    sets, (nodes, resources) = len(world.schedulers) + 1, world.free.shape
    return {
        "set_rows": np.zeros((sets, nodes), np.int32),
        "set_size": np.zeros(sets, np.int64),
        "set_listed": np.zeros((sets, nodes), np.bool_),
        "set_amount": np.zeros((sets, nodes, resources), np.int64),
        "set_sum": np.zeros((sets, resources), np.int64),
        "weight": np.array([f.weight for f in frameworks]),
        "guarantee": np.array([f.guaranteed for f in frameworks]),
        "filters": _filters(setup, frameworks),
        "long_free": _long_free(setup, world.free),
        "offered": np.zeros((len(frameworks), resources), np.int64),
        "wants": np.zeros(len(frameworks), np.bool_),
        "offer_rows": np.zeros(nodes, np.int32),
        "offer_free": np.zeros((max(nodes, 1), resources), np.int64),
        "offer_total": np.zeros((nodes, resources), np.int64),
        "offer_mask": np.zeros(nodes, np.bool_),
        "batches": np.zeros(len(world.schedulers), make_batch_type(resources)),
        "pool": np.zeros(_chosen_max(setup), CHOICE),
    }


def _chosen_max(setup: Setup) -> int:
    """How many tasks can be chosen nodes for while an offer is out: each of them once."""
    return int(setup.jobs.tasks.sum()) if rules_of(setup).batch_s > 0.0 else 0


def _long_free(setup: Setup, free: Amounts) -> Amounts:
    """What of each node is left to tasks that are not short; no rows where nothing is reserved."""
    share, total = rules_of(setup).short_share, setup.nodes.total
    if share == 0.0:
        return np.zeros((0, free.shape[1]), np.int64)
    long_free: Amounts = np.floor(total * (1.0 - share)).astype(np.int64) - (total - free)
    return long_free


def _filters(setup: Setup, frameworks: list[FrameworkRules]) -> Flags:
    """The nodes each framework lets through; no columns at all if none filters."""
    if not any(f.filter for f in frameworks):
        return np.zeros((len(frameworks), 0), dtype=np.bool_)
    parsed = [
        [parse_constraint(text, "scheduler.offers.framework.filter") for text in f.filter]
        for f in frameworks
    ]
    masks = np.stack([node_mask(constraints, setup.nodes.attributes) for constraints in parsed])
    for name, mask in zip(setup.jobs.workloads, masks, strict=True):
        if not mask.any():
            raise InputError(
                f"scheduler.offers.framework.{name}.filter: no node passes, so nothing would be "
                "offered"
            )
    return masks
