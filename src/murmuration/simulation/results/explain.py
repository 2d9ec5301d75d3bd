"""Explanations: one decision of a run, made again. The plain policy decides on the same rows with
the same generator as the kernel, and the explanation is only given if both choose the same
nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from murmuration.base.arrays import Flags, Placement
from murmuration.base.errors import InputError
from murmuration.base.random import load
from murmuration.cluster.reasons import Explanation, Never, Wait
from murmuration.placement.explain import best, filters, how, picks, short_of, unblock
from murmuration.simulation.engine import loop
from murmuration.simulation.engine import run as engine
from murmuration.simulation.engine.python_decision import (
    answer,
    decide,
    job_view,
    kernel_choice,
    pending_view,
)
from murmuration.simulation.engine.run import Run

#: Values of an attribute that are named.
VALUES = 5


@dataclass(frozen=True)
class Attempt:
    """One try at a job: when it was decided, for how many tasks, how many nodes had room for one,
    and what ruled out most of the others."""

    number: int
    at_s: float
    tasks: int
    nodes_with_room: int
    commonest_refusal: str


def explain(run: Run, job_id: str, attempt: int) -> Explanation:
    """The decision of one attempt at a job; the run is advanced to it."""
    row = run.setup.jobs.job_row(job_id)
    if row in run.setup.infeasible:
        return _infeasible(run, row)
    return (run.setup.architecture.explain or explain_attempt)(run, row, attempt)


def explain_attempt(run: Run, row: int, attempt: int) -> Explanation:
    """The same where a scheduler decides on one job after the other: that decision, seen again."""
    job_id = str(run.setup.jobs.job_id[row])
    for made in range(attempt):
        if made > 0:
            answer(run)
        if engine.advance(run, watch=row) != loop.DECIDE:
            raise InputError(_no_attempt(job_id, made, attempt))
    return _decision(run, attempt)


def list_attempts(run: Run, job_id: str, count: int) -> list[Attempt]:
    """The first `count` attempts at a job, where a scheduler decides on one job after the other;
    the run is advanced past them."""
    row, attempts = run.setup.jobs.job_row(job_id), list[Attempt]()
    if run.setup.architecture.explain is not None:
        return attempts
    while len(attempts) < count and engine.advance(run, watch=row) == loop.DECIDE:
        view, job, rows = pending_view(run)
        feasible = int(view.feasible(job.request).sum())
        reasons = filters(view, job, _partition(run, rows))
        commonest = max(reasons, key=lambda reason: reasons[reason], default="")
        attempts.append(Attempt(len(attempts) + 1, run.now_s, job.tasks, feasible, commonest))
        answer(run)
    return attempts


def _no_attempt(job_id: str, made: int, attempt: int) -> str:
    if made == 0:
        return (
            f"job {job_id!r} was still queued at the end of the run: nothing was decided about it"
        )
    return f"job {job_id!r} was decided {made} time{'s' if made > 1 else ''}, not {attempt}"


def _decision(run: Run, attempt: int) -> Explanation:
    view, job, rows = pending_view(run)
    agent = int(run.world.state["pending"][0])
    bits = np.random.SFC64(0)
    load(bits, run.world.rng[agent])
    chosen = decide(run, view, job, bits)
    _must_equal_kernel(run, agent, rows[chosen])
    counts = Counter(int(node) for node in chosen)
    if job.gang and len(chosen) < job.tasks:
        counts.clear()
    placed = sum(counts.values())
    partition = _partition(run, rows)
    filtered = filters(view, job, partition)
    return Explanation(
        job=job.id,
        workload=job.workload,
        attempt=attempt,
        at_s=run.now_s,
        tasks=job.tasks,
        request=view.resources.describe(job.request),
        considered=len(view.names),
        filtered=filtered,
        feasible=int(view.feasible(job.request).sum()),
        best=best(run.setup.placement.policy, view, job),
        chosen=tuple((view.names[node], count) for node, count in counts.items()),
        placed=placed,
        verdict=None if placed == job.tasks else Wait(short_of(job, placed, filtered)),
        unblock=unblock(view, job, partition) if placed < job.tasks else (),
        queued_behind=_count_queued(run, agent),
        how=how(run.setup.placement.policy),
        picked=picks(run.setup.placement.policy, view, job, counts.items()),
    )


def _partition(run: Run, rows: Placement) -> Flags | None:
    """Which of the rows that the scheduler of the pending decision is shown are its own; None if
    all are."""
    slots = int(run.world.state["slots"][0])
    own = run.setup.schedulers[int(run.world.state["pending"][0]) // slots].rows
    return None if own is None else own[rows]


def _count_queued(run: Run, agent: int) -> int:
    """How many jobs wait behind this one, which may still be in the queue itself."""
    slots = int(run.world.state["slots"][0])
    return int(run.world.schedulers["queued"][agent // slots * slots]) - int(
        run.setup.architecture.queued_while_deciding
    )


def _must_equal_kernel(run: Run, agent: int, chosen: NDArray[np.int32]) -> None:
    """Let the kernel decide on a copy of the world and compare."""
    if not run.setup.placement.fast:
        return
    arrays = {name: array.copy() for name, array in run.world._asdict().items()}
    copy = Run(run.setup, type(run.world)(**arrays))
    claimed = kernel_choice(copy)
    if list(claimed) != list(chosen):
        raise AssertionError(
            "the explainer and the kernel chose different nodes; please report this run"
        )


def _infeasible(run: Run, row: int) -> Explanation:
    job = job_view(run, row)
    reason: Never = run.setup.infeasible[row]
    return Explanation(
        job=job.id,
        workload=job.workload,
        attempt=0,
        at_s=job.submit_s,
        tasks=job.tasks,
        request=run.setup.resources.describe(job.request),
        considered=len(run.setup.nodes.names),
        filtered={reason.reason: len(run.setup.nodes.names)},
        feasible=0,
        best=(),
        chosen=(),
        placed=0,
        verdict=reason,
        notes=tuple(_constraint_notes(run, row)),
    )


def _constraint_notes(run: Run, row: int) -> Iterator[str]:
    """For each constraint of a job how many nodes meet it, and what nodes have where none does."""
    jobs, nodes = run.setup.jobs, run.setup.nodes.attributes
    for test in jobs.constraint_sets[jobs.constraint[row]]:
        met = sum(test.meets(node) for node in nodes)
        if met:
            yield f"{test}: {met:,} of {len(nodes):,} nodes"
            continue
        values = sorted({str(node[test.key]) for node in nodes if test.key in node})
        shown = f"{', '.join(values[:VALUES])}{', …' if len(values) > VALUES else ''}"
        known = f"nodes have {test.key} = {shown}" if values else f"no node has {test.key}"
        yield f"{test}: no node; {known}"
