"""Why a pod has no node: how many nodes each reason rules out, the best of the rest, and what would
unblock it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from murmuration.base.arrays import Flags
from murmuration.base.resources import format_amount
from murmuration.placement.explain import best, unblock
from murmuration.placement.registry import Placement
from murmuration.placement.view import JobView, View
from murmuration.schedulers.pods.cluster import PodCluster


@dataclass(frozen=True)
class PodExplanation:
    """One pod, as a decision saw it."""

    key: str
    nodes: int
    #: How many nodes each reason rules out, the first that applies.
    filtered: dict[str, int]
    feasible: int
    #: The best few nodes with what is free there and, if the policy has scores, theirs.
    best: tuple[tuple[str, str, float | None], ...]
    unblock: tuple[str, ...]
    blocked: str = ""

    def sentence(self) -> str:
        """As it stands in the pod's condition."""
        if self.blocked:
            return self.blocked
        if not self.nodes:
            return "there are no nodes"
        counts = sorted(self.filtered.items(), key=lambda entry: (-entry[1], entry[0]))
        parts = ", ".join(f"{count} {reason}" for reason, count in counts)
        free = f"{self.feasible}/{self.nodes} nodes are available"
        return f"{free}: {parts}" if parts else free


def explain_pod(
    cluster: PodCluster, key: str, placement: Placement, job: JobView, now: float
) -> PodExplanation:
    """Every node is counted once, under the first reason that rules it out."""
    blocked = cluster.blocked(key)
    if blocked:
        return PodExplanation(key, 0, {}, 0, (), (), blocked)
    view = cluster.view(key, now)
    left = np.ones(len(view.names), dtype=np.bool_)
    filtered: dict[str, int] = {}
    for reason, open_rows in cluster.reasons(key):
        _take(filtered, reason, left & ~open_rows)
        left &= open_rows
    left = _take_short(view, job, filtered, left)
    nodes = tuple((each.node, each.free, each.score) for each in best(placement.policy, view, job))
    return PodExplanation(
        key, len(view.names), filtered, int(left.sum()), nodes, unblock(view, job)
    )


def _take_short(view: View, job: JobView, filtered: dict[str, int], left: Flags) -> Flags:
    """What nodes have too little of."""
    for r, name in enumerate(view.resources.names):
        enough = view.free[:, r] >= job.request[r]
        if name == "pods":
            reason = "hold as many pods as they may"
        else:
            unit = view.resources.unit(name)
            wanted = format_amount(name, int(job.request[r]), unit)
            reason = f"have less than {wanted} free"
        _take(filtered, reason, left & ~enough)
        left = left & enough
    return left


def _take(filtered: dict[str, int], reason: str, rows: Flags) -> None:
    count = int(rows.sum())
    if count:
        filtered[reason] = filtered.get(reason, 0) + count
