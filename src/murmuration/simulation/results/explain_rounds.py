"""Why, where what waits has its turn in rounds: what the table said of every node then, and where
the tasks went.

Brokers know the table as it was reported, score a sample of it and draw from the best, and a batch
is searched as a whole; so there is no ranking to show: the reasons are those for which the nodes
themselves would refuse.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from murmuration.base.errors import InputError
from murmuration.cluster.reasons import Explanation, Wait
from murmuration.simulation.architectures.genetic.steps import table_of
from murmuration.simulation.engine import run as engine
from murmuration.simulation.engine import world as wd
from murmuration.simulation.engine.run import Run


def in_round(run: Run, row: int, attempt: int) -> Explanation:
    """The round of an attempt at a job; the run is advanced past it."""
    filtered: dict[str, int] = {}
    before = engine.job_view(run, row)
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
            _refusals(run, row),
            engine.job_view(run, row),
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
        queued_behind=int(run.world.agents["queued"][0]),
        notes=_notes(run, row),
    )


def _notes(run: Run, row: int) -> tuple[str, ...]:
    if run.batches is None:
        return (_how(run),)
    rules, steps = (
        run.setup.scenario.scheduler.genetic,
        run.batches.steps[: run.batches.settings["steps"][0]],
    )
    mine = steps["node"][(steps["job"] == row) & (steps["slot"] < 0)]
    promised = sorted({run.setup.nodes.names[node] for node in mine})
    how = (
        f"every {rules.batch_s:g} s what waits is placed as one batch, then searched by "
        f"{', '.join(rules.objectives)}"
    )
    if promised:
        return (
            how,
            f"room is being made for it on {', '.join(promised)}: it starts there when "
            "migrations have ended",
        )
    moved = (
        "no moves of running tasks were found that make room"
        if rules.move
        else "running tasks are not moved"
    )
    return (how, moved) if run.world.jobs["left"][row] else (how,)


def _how(run: Run) -> str:
    rules = run.setup.scenario.scheduler.negotiation
    if rules.initial == "recorded":
        return "tasks go where the trace has them"
    return (
        f"a broker scores up to {rules.scored_new:,} of them ({rules.initial}) as reported up to "
        f"{rules.report_s:g} s "
        f"ago and returns {rules.candidates} drawn by score; the node is drawn from those that "
        "accept"
    )


def _next_round(world: wd.World) -> float:
    notes = world.agenda[: world.state["notes"][0]]
    return float(notes["time"][notes["what"] & wd.KIND_MASK == wd.AGENTS_ACT].min(initial=np.inf))


def _nodes_of(world: wd.World, row: int) -> Counter[int]:
    """How many tasks of a job run on each node."""
    return Counter(world.slots["node"][np.flatnonzero(world.tasks["job"] == row)].tolist())


def _refusals(run: Run, row: int) -> dict[str, int]:
    """How many nodes each reason rules out, the first that applies."""
    world, mask = run.world, int(run.world.jobs["mask"][row])
    request = world.request[row]
    left: NDArray[np.bool_] = (
        np.ones(len(world.total), np.bool_) if mask < 0 else world.masks[mask].copy()
    )
    reasons = {"not allowed by its constraints": int((~left).sum())}
    for r, name in enumerate(run.setup.resources.names):
        objections = {f"too small: {name}": world.total[:, r] >= request[r]}
        if run.batches is not None:
            objections[f"too little {name} free"] = table_of(world)[:, r] >= request[r]
        else:
            objections[f"too little {name} unused"] = world.free[:, r] >= _expected(run, row)[r]
            if world.jobs["production"][row]:
                objections[f"too much {name} guaranteed to others"] = world.firm[:, r] >= request[r]
        for reason, enough in objections.items():
            reasons[reason] = int((left & ~enough).sum())
            left &= enough
    return {reason: count for reason, count in reasons.items() if count}


def _expected(run: Run, row: int) -> NDArray[np.int64]:
    """What a task counts as using before it is measured, as `steps.unmeasured` has it."""
    request: NDArray[np.int64] = run.world.request[row]
    share = float(run.world.state["unmeasured"][0])
    if run.world.jobs["curve"][row] < 0:
        return request
    counted = (request * share).astype(np.int64) + 1
    return np.minimum(request, counted)
