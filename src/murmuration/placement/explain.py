"""Why a policy sees the nodes it sees: what rules nodes out, which are best, and what would make
room."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

import numpy as np

from murmuration.base.arrays import Flags, Floats
from murmuration.base.resources import format_amount
from murmuration.cluster.reasons import PickedNode, ScoredNode
from murmuration.placement.plain import FirstFit, RankedPolicy
from murmuration.placement.view import JobView, Policy, View

BEST = 5
#: Nodes that were chosen and are shown.
PICKS = 12


def filters(view: View, job: JobView, partition: Flags | None = None) -> dict[str, int]:
    """How many nodes each reason rules out, the first that applies: the partition of its scheduler,
    if that has one, then constraints, then each resource in turn."""
    own = np.ones_like(view.allowed) if partition is None else partition
    usable = view.allowed & own
    reasons = {
        "in another scheduler's partition": int((~own).sum()),
        "not allowed by its constraints": int((own & ~usable).sum()),
    }
    for r, name in enumerate(view.resources.names):
        enough = view.free[:, r] >= job.request[r]
        reasons[f"too little {name} free"] = int((usable & ~enough).sum())
        usable &= enough
    return {reason: count for reason, count in reasons.items() if count}


def best(policy: Policy, view: View, job: JobView) -> tuple[ScoredNode, ...]:
    """The best few nodes with their scores; without a score, the emptiest."""
    rows = np.flatnonzero(view.feasible(job.request))
    scores = _scores(policy, view, job)
    if scores is not None:
        order = rows[np.argsort(-scores[rows], kind="stable")][:BEST]
        return tuple(
            ScoredNode(view.names[i], view.resources.describe(view.free[i]), float(scores[i]))
            for i in order
        )
    order = rows[np.argsort(-view.free[rows, 0], kind="stable")][:BEST]
    return tuple(ScoredNode(view.names[i], view.resources.describe(view.free[i])) for i in order)


def how(policy: Policy) -> str:
    """How a policy chooses among nodes with room."""
    if isinstance(policy, RankedPolicy):
        return (
            "the node with the highest score; of equal ones the first from a node drawn at random"
        )
    if isinstance(policy, FirstFit):
        return "nodes are drawn at random, each as likely as any other, until one has room"
    return f"as {type(policy).__name__} decides, which gives no scores"


def picks(
    policy: Policy, view: View, job: JobView, chosen: Iterable[tuple[int, int]]
) -> tuple[PickedNode, ...]:
    """The first of the rows a policy chose, with how many tasks went to each."""
    first = list(islice(chosen, PICKS))
    scores = _scores(policy, view, job)
    rows = np.flatnonzero(view.feasible(job.request))
    return tuple(
        PickedNode(
            view.names[row],
            tasks,
            view.resources.describe(view.free[row]),
            None if scores is None else float(scores[row]),
            None if scores is None else int((scores[rows] > scores[row]).sum()) + 1,
        )
        for row, tasks in first
    )


def _scores(policy: Policy, view: View, job: JobView) -> Floats | None:
    """The score of every node, if the policy has any."""
    if not isinstance(policy, RankedPolicy):
        return None
    return np.asarray(policy.score(view.total, view.free, job.request), dtype=np.float64)


def short_of(job: JobView, placed: int, filtered: dict[str, int]) -> str:
    worst = max(filtered, key=lambda reason: filtered[reason], default="no room")
    whole = " at once (it is a gang)" if job.gang else ""
    return f"{job.tasks - placed} of {job.tasks} tasks found no node{whole}; most nodes: {worst}"


def unblock(view: View, job: JobView, partition: Flags | None = None) -> tuple[str, ...]:
    """What would make room: the same question with one thing relaxed."""
    relaxed = []
    own = np.ones_like(view.allowed) if partition is None else partition
    everywhere = replace(view, allowed=np.ones_like(view.allowed)).feasible(job.request)
    more = int((everywhere & own).sum() - view.feasible(job.request).sum())
    if more:
        relaxed.append(f"without its constraints {more} more nodes would fit")
    elsewhere = int((everywhere & ~own).sum())
    if elsewhere:
        relaxed.append(f"in other partitions {elsewhere} nodes have room")
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
