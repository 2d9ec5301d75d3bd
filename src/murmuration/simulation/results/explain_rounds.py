"""Explanations where jobs are placed in rounds: what the table said of every node at the time, and
where the tasks went.

Brokers know the table as it was reported, score a sample of it and draw from the best, and a batch
is searched as a whole; so there is no ranking to show: the reasons are those for which the nodes
themselves would refuse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from murmuration.base.arrays import Flags
from murmuration.base.errors import InputError
from murmuration.cluster.reasons import Explanation, Wait
from murmuration.simulation.engine import run as engine
from murmuration.simulation.engine import world as wd
from murmuration.simulation.engine.python_decision import job_view
from murmuration.simulation.engine.run import Run

#: The nodes with enough of one resource, by the reason for which all others are refused.
Enough = dict[str, Flags]


class RoundExplainer(NamedTuple):
    """What the explanation of a round needs to know of its architecture: which nodes have enough of
    a resource for a job, and a few sentences on how a round decides."""

    what_is_enough: Callable[[Run, int, int], Enough]
    describe: Callable[[Run, int], tuple[str, ...]]


def explain_round(run: Run, row: int, attempt: int, rounds: RoundExplainer) -> Explanation:
    """The round of an attempt at a job; the run is advanced past it."""
    filtered: dict[str, int] = {}
    before = job_view(run, row)
    where: Counter[int] = Counter()
    engine.advance(run, float(np.nextafter(before.submit_s, -np.inf)))
    while (made := int(run.world.jobs["attempts"][row])) < attempt:
        at = _next_round(run.world)
        if at > run.horizon_s:
            times = "never" if made == 0 else f"{made} time{'s' if made > 1 else ''}"
            raise InputError(
                f"job {before.id!r} had its round {times} before the end of the run, not {attempt}"
            )
        engine.advance(run, float(np.nextafter(at, -np.inf)))
        filtered, before, where = (
            _refusals(run, row, rounds),
            job_view(run, row),
            _nodes_of(run.world, row),
        )
        engine.advance(run, at)
    names, placed = run.setup.nodes.names, before.tasks - int(run.world.jobs["left"][row])
    worst = max(filtered, key=lambda reason: filtered[reason], default="no room")
    short = f"{before.tasks - placed} of {before.tasks} tasks found no node; most nodes: {worst}"
    return Explanation(
        job=before.id,
        workload=before.workload,
        attempt=made,
        at_s=run.now_s,
        tasks=before.tasks,
        request=run.setup.resources.describe(before.request),
        considered=len(names),
        filtered=filtered,
        feasible=len(names) - sum(filtered.values()),
        best=(),
        chosen=tuple(
            (names[node], count) for node, count in (_nodes_of(run.world, row) - where).items()
        ),
        placed=placed,
        verdict=None if placed == before.tasks else Wait(short, "the next round"),
        queued_behind=int(run.world.schedulers["queued"][0]),
        notes=rounds.describe(run, row),
    )


def _next_round(world: wd.World) -> float:
    notes = world.event_queue[: world.state["scheduled"][0]]
    return float(notes["time"][notes["what"] & wd.KIND_MASK == wd.AGENTS_ACT].min(initial=np.inf))


def _nodes_of(world: wd.World, row: int) -> Counter[int]:
    """How many tasks of a job run on each node."""
    return Counter(world.slots["node"][np.flatnonzero(world.tasks["job"] == row)].tolist())


def _refusals(run: Run, row: int, rounds: RoundExplainer) -> dict[str, int]:
    """How many nodes each reason rules out, the first that applies."""
    world, mask = run.world, int(run.world.jobs["mask"][row])
    left: Flags = np.ones(len(world.total), np.bool_) if mask < 0 else world.masks[mask].copy()
    reasons = {"not allowed by its constraints": int((~left).sum())}
    for r, name in enumerate(run.setup.resources.names):
        objections = {f"too small: {name}": world.total[:, r] >= world.request[row, r]}
        objections |= rounds.what_is_enough(run, row, r)
        for reason, enough in objections.items():
            reasons[reason] = int((left & ~enough).sum())
            left &= enough
    return {reason: count for reason, count in reasons.items() if count}
