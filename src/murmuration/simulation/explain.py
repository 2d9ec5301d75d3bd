"""Why: one decision of a run, seen again. The plain policy decides on the same rows with the same generator as the
kernel, and the explanation is only given if both choose the same nodes."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from murmuration.cluster.errors import InputError
from murmuration.cluster.random import load
from murmuration.cluster.reasons import Candidate, Explanation, Never, Wait
from murmuration.cluster.resources import format_amount
from murmuration.placement.plain import Ranked
from murmuration.placement.view import JobView, View
from murmuration.simulation import engine, loop
from murmuration.simulation import world as wd
from murmuration.simulation.engine import Run
from murmuration.simulation.explain_negotiation import negotiated

BEST = 5


def explain(run: Run, job_id: str, attempt: int) -> Explanation:
    """The decision of one attempt at a job; the run is advanced to it."""
    row = run.setup.jobs.job_row(job_id)
    if row in run.setup.hopeless:
        return _hopeless(run, row)
    if run.parley is not None:
        return negotiated(run, row, attempt)
    for made in range(attempt):
        if made > 0:
            engine.answer(run)
        if engine.advance(run, watch=row) != loop.DECIDE:
            raise InputError(_no_attempt(job_id, made, attempt))
    return _decision(run, attempt)


def _no_attempt(job_id: str, made: int, attempt: int) -> str:
    if made == 0:
        return f"job {job_id!r} was still queued at the end of the run: nothing was decided about it"
    return f"job {job_id!r} was decided {made} time{'s' if made > 1 else ''}, not {attempt}"


def _decision(run: Run, attempt: int) -> Explanation:
    view, job, rows = engine.pending_view(run)
    agent = int(run.world.state["pending"][0])
    bits = np.random.SFC64(0)
    load(bits, run.world.rng[agent])
    chosen = engine.decide(run, view, job, bits)
    _must_equal_kernel(run, agent, rows[chosen])
    counts = Counter(int(node) for node in chosen)
    if job.gang and len(chosen) < job.tasks:
        counts.clear()
    placed = sum(counts.values())
    filtered = _filters(view, job)
    return Explanation(
        job=job.id, workload=job.workload, attempt=attempt, at_s=run.now_s, tasks=job.tasks,
        request=view.resources.describe(job.request), considered=len(view.names), filtered=filtered,
        feasible=int(view.feasible(job.request).sum()), best=_best(run, view, job),
        chosen=tuple((view.names[node], count) for node, count in counts.items()), placed=placed,
        verdict=None if placed == job.tasks else Wait(_short_of(view, job, placed, filtered)),
        unblock=_unblock(view, job) if placed < job.tasks else (),
        queued_behind=_queued(run, agent),
    )  # fmt: skip


def _queued(run: Run, agent: int) -> int:
    """How many jobs wait behind this one, which a framework takes off its queue only when its offer has room."""
    slots = int(run.world.state["slots"][0])
    return int(run.world.agents["queued"][agent // slots * slots]) - int(run.setup.is_offers)


def _must_equal_kernel(run: Run, agent: int, chosen: NDArray[np.int32]) -> None:
    """Let the kernel decide on a copy of the world and compare."""
    if not run.setup.placement.fast:
        return
    copy = Run(run.setup, wd.World(*(array.copy() for array in run.world)))
    claimed = engine.kernel_choice(copy)
    if list(claimed) != list(chosen):
        raise AssertionError("the explainer and the kernel chose different nodes; please report this run")


def _filters(view: View, job: JobView) -> dict[str, int]:
    """How many nodes each reason rules out, the first that applies: constraints, then each resource in turn."""
    left = view.allowed.copy()
    reasons = {"not allowed by its constraints": int((~left).sum())}
    for r, name in enumerate(view.resources.names):
        enough = view.free[:, r] >= job.request[r]
        reasons[f"too little {name} free"] = int((left & ~enough).sum())
        left &= enough
    return {reason: count for reason, count in reasons.items() if count}


def _best(run: Run, view: View, job: JobView) -> tuple[Candidate, ...]:
    """The best few nodes with their scores; without a score, the emptiest."""
    rows = np.flatnonzero(view.feasible(job.request))
    policy = run.setup.placement.policy
    if isinstance(policy, Ranked):
        scores = np.asarray(policy.score(view.total, view.free, job.request), dtype=np.float64)
        order = rows[np.argsort(-scores[rows], kind="stable")][:BEST]
        return tuple(Candidate(view.names[i], view.resources.describe(view.free[i]), float(scores[i])) for i in order)
    order = rows[np.argsort(-view.free[rows, 0], kind="stable")][:BEST]
    return tuple(Candidate(view.names[i], view.resources.describe(view.free[i])) for i in order)


def _short_of(view: View, job: JobView, placed: int, filtered: dict[str, int]) -> str:
    worst = max(filtered, key=lambda reason: filtered[reason], default="no room")
    whole = " at once (it is a gang)" if job.gang else ""
    return f"{job.tasks - placed} of {job.tasks} tasks found no node{whole}; most nodes: {worst}"


def _unblock(view: View, job: JobView) -> tuple[str, ...]:
    """What would make room: the same question with one thing relaxed."""
    relaxed = []
    everywhere = View(**{**vars(view), "allowed": np.ones_like(view.allowed)})
    more = int(everywhere.feasible(job.request).sum() - view.feasible(job.request).sum())
    if more:
        relaxed.append(f"without its constraints {more} more nodes would fit")
    for r, name in enumerate(view.resources.names):
        smaller = job.request.copy()
        smaller[r] = 0
        more = int(view.feasible(smaller).sum() - view.feasible(job.request).sum())
        if more:
            relaxed.append(
                f"asking for less {name} than {format_amount(name, int(job.request[r]))}: up to {more} more nodes"
            )
    return tuple(relaxed)


def _hopeless(run: Run, row: int) -> Explanation:
    job = engine.job_view(run, row)
    reason: Never = run.setup.hopeless[row]
    return Explanation(
        job=job.id, workload=job.workload, attempt=0, at_s=job.submit_s, tasks=job.tasks,
        request=run.setup.resources.describe(job.request), considered=len(run.setup.nodes.names),
        filtered={reason.reason: len(run.setup.nodes.names)}, feasible=0, best=(), chosen=(), placed=0, verdict=reason,
    )  # fmt: skip
