"""What a run of negotiating agents has besides the world: settings, what brokers have heard, and
scratch space."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from murmuration.base.arrays import (
    Amounts,
    Flags,
    Floats,
    Integers,
    Placement,
    Records,
    Scores,
    Shares,
    SmallIntegers,
    Weights,
)
from murmuration.placement.allocation_scores import BASES
from murmuration.schedulers.negotiation.bulk import DECISION, PROGRESS, settings_record
from murmuration.schedulers.negotiation.settings import NegotiationSettings
from murmuration.simulation.engine.world import World
from murmuration.workload.jobs import JobList

#: Tasks of one node that selection looks at.
TASKS_MAX = 1024
DECISIONS_MAX = 1 << 16


class NegotiationArrays(NamedTuple):
    """The arrays of negotiation."""

    settings: Records
    progress: Records
    decisions: Records
    # What brokers have heard of each node: loads, what is not guaranteed, scores; and 1 ÷ total.
    views: Shares
    unguaranteed_views: Amounts
    scores: Scores
    inverse: Floats
    idle: Flags
    last_load: Shares
    # Whether the tasks of a job could run on more than one node.
    movable: Flags
    # The table as a round began, and scratch.
    asked: Amounts
    loads: Shares
    pool: SmallIntegers
    weights: Weights
    candidates: Placement
    values: Weights
    first: SmallIntegers
    next: SmallIntegers
    listing: SmallIntegers
    use: Amounts
    amounts: Amounts
    costs: Floats
    flags: Flags
    listed: Integers
    visited: Integers
    movers: SmallIntegers


def make_negotiation(
    rules: NegotiationSettings, world: World, max_total: Amounts, jobs: JobList
) -> NegotiationArrays:
    """The arrays of a run at time zero."""
    nodes, resources = world.total.shape
    scored = max(rules.scored_new, rules.scored_move) + rules.underused + 2 * rules.candidates
    return NegotiationArrays(
        settings=settings_record(rules, nodes),
        progress=np.zeros(1, PROGRESS),
        decisions=np.zeros(DECISIONS_MAX, DECISION),
        views=np.zeros((2, nodes, resources)),
        unguaranteed_views=np.zeros((2, nodes, resources), np.int64),
        scores=np.zeros((2, nodes, BASES)),
        inverse=np.zeros((nodes, resources)),
        idle=np.zeros(nodes, np.bool_),
        last_load=np.zeros((nodes, resources)),
        movable=movable(max_total, world.masks, world.jobs["mask"], jobs.request),
        asked=np.zeros((2, nodes, resources), np.int64),
        loads=np.zeros(resources),
        pool=np.zeros((3, max(nodes, scored)), np.int32),
        weights=np.zeros((2, scored)),
        candidates=np.zeros(rules.candidates, np.int32),
        values=np.zeros(rules.candidates),
        first=np.zeros(nodes, np.int32),
        next=np.zeros(len(world.slots), np.int32),
        listing=np.zeros(TASKS_MAX, np.int32),
        use=np.zeros((TASKS_MAX + 1, resources), np.int64),
        amounts=np.zeros((TASKS_MAX + 4, resources), np.int64),
        costs=np.zeros(TASKS_MAX),
        flags=np.zeros((4, TASKS_MAX), np.bool_),
        listed=np.zeros(TASKS_MAX, np.int64),
        visited=np.zeros(rules.tabu.restarts * (rules.tabu.steps + 1), np.int64),
        movers=np.zeros(len(world.slots), np.int32),
    )


def movable(max_total: Amounts, masks: Flags, mask: SmallIntegers, request: Amounts) -> Flags:
    """Whether a job's tasks fit on more than one node that its constraints allow (6.1: others are
    never given away).

    Nodes of one size are counted once, for there are few sizes."""
    sizes, size_of = np.unique(max_total, axis=0, return_inverse=True)
    size_of = size_of.ravel()
    answer = np.zeros(len(request), np.bool_)
    for which in np.unique(mask):
        rows = np.flatnonzero(mask == which)
        allowed = size_of if which < 0 else size_of[masks[which]]
        counts = np.bincount(allowed, minlength=len(sizes))
        fits = np.zeros(len(rows), np.int64)
        for size, count in zip(sizes, counts, strict=True):
            fits += count * (request[rows] <= size).all(axis=1)
        answer[rows] = fits > 1
    return answer


def grow_negotiation(p: NegotiationArrays, world: World) -> NegotiationArrays:
    """The same with room for more running tasks."""
    slots = len(world.slots)
    return p._replace(next=np.zeros(slots, np.int32), movers=np.zeros(slots, np.int32))


def count_negotiation(p: NegotiationArrays, seconds: float) -> dict[str, Any]:
    """The figures only negotiation has, per minute."""
    record, minutes = p.progress[0], seconds / 60.0
    requests, looks = int(record["requests"]), int(record["looks"])
    return {
        "placed_mb_per_min": float(record["placed_mb"] / minutes),
        "overloaded_seen": float(record["overloaded_seen"] / looks) if looks else None,
        "collision_fraction": float(record["collisions"] / requests) if requests else None,
        "broker_answers_per_min": float(record["answers"] / minutes),
        "selections_per_min": float(record["selections"] / minutes),
        "forced_new_per_min": float(record["forced_new"] / minutes),
        "suspensions_per_min": float(record["suspended"] / minutes),
        "production_short_per_min": float(record["short"] / minutes),
        "spikes_per_min": [float(count / minutes) for count in record["spikes"]],
        "spikes_peak": [int(count) for count in record["peaks"]],
    }
