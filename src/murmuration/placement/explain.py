"""Why a policy sees the nodes it sees: what rules nodes out, which are best, and what would make
room."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from murmuration.base.resources import format_amount
from murmuration.cluster.reasons import ScoredNode
from murmuration.placement.plain import RankedPolicy
from murmuration.placement.view import JobView, Policy, View

BEST = 5


def filters(view: View, job: JobView) -> dict[str, int]:
    """How many nodes each reason rules out, the first that applies: constraints, then each resource
    in turn."""
    usable = view.allowed.copy()
    reasons = {"not allowed by its constraints": int((~usable).sum())}
    for r, name in enumerate(view.resources.names):
        enough = view.free[:, r] >= job.request[r]
        reasons[f"too little {name} free"] = int((usable & ~enough).sum())
        usable &= enough
    return {reason: count for reason, count in reasons.items() if count}


def best(policy: Policy, view: View, job: JobView) -> tuple[ScoredNode, ...]:
    """The best few nodes with their scores; without a score, the emptiest."""
    rows = np.flatnonzero(view.feasible(job.request))
    if isinstance(policy, RankedPolicy):
        scores = np.asarray(policy.score(view.total, view.free, job.request), dtype=np.float64)
        order = rows[np.argsort(-scores[rows], kind="stable")][:BEST]
        return tuple(
            ScoredNode(view.names[i], view.resources.describe(view.free[i]), float(scores[i]))
            for i in order
        )
    order = rows[np.argsort(-view.free[rows, 0], kind="stable")][:BEST]
    return tuple(ScoredNode(view.names[i], view.resources.describe(view.free[i])) for i in order)


def short_of(job: JobView, placed: int, filtered: dict[str, int]) -> str:
    worst = max(filtered, key=lambda reason: filtered[reason], default="no room")
    whole = " at once (it is a gang)" if job.gang else ""
    return f"{job.tasks - placed} of {job.tasks} tasks found no node{whole}; most nodes: {worst}"


def unblock(view: View, job: JobView) -> tuple[str, ...]:
    """What would make room: the same question with one thing relaxed."""
    relaxed = []
    everywhere = replace(view, allowed=np.ones_like(view.allowed))
    more = int(everywhere.feasible(job.request).sum() - view.feasible(job.request).sum())
    if more:
        relaxed.append(f"without its constraints {more} more nodes would fit")
    for r, name in enumerate(view.resources.names):
        smaller = job.request.copy()
        smaller[r] = 0
        more = int(view.feasible(smaller).sum() - view.feasible(job.request).sum())
        if more:
            relaxed.append(
                f"asking for less {name} than {format_amount(name, int(job.request[r]))}: up to "
                f"{more} more nodes"
            )
    return tuple(relaxed)
