"""Volumes that wait for a claim: pods that wait too must not count on the same one.

A class that makes no volumes has those an administrator put there, mostly one disk on one node. As
a plan sees it they are a resource of the nodes that reach them, of which every claim takes one.
Where large claims are served by a part of the volumes that serve small ones, each such part is a
resource of its own, and a claim counts in its own and in all that hold it: then whoever fits finds
a volume (Hall's theorem, for sets that lie in each other).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from murmuration.assignment.snapshots.builder import NodeEntry, TaskEntry
from murmuration.kubernetes.claims.volumes import WAITS, Volumes, reach_of
from murmuration.kubernetes.nodes import NodeMasks

NONE_LEFT = "no free volume is left for its claim"
#: The names of volumes that serve a claim.
Served = frozenset[str]


def share_free_volumes(
    volumes: Volumes, tasks: Sequence[TaskEntry], nodes: Sequence[NodeEntry], masks: NodeMasks
) -> None:
    """Let waiting pods ask for free volumes, and nodes have those they reach."""
    wanted = _find_wanted(volumes, tasks)
    for number, served in enumerate(wanted):
        asking = [task for other in wanted if other <= served for task in wanted[other]]
        if len(asking) < 2 or not served:
            continue
        resource = f"free volumes ({number + 1})"
        for task in asking:
            task.amounts = {**task.amounts, resource: float(task.amounts.get(resource, 0.0)) + 1.0}
        counts = _count_reached(volumes, served, masks)
        for node, count in zip(nodes, counts.tolist(), strict=True):
            if node.amounts:
                node.amounts = {**node.amounts, resource: float(count)}
        for task in asking[len(served) :]:
            task.pinned = task.pinned or NONE_LEFT


def _find_wanted(volumes: Volumes, tasks: Sequence[TaskEntry]) -> dict[Served, list[TaskEntry]]:
    """Pods without a node by what serves their claims, once for each claim."""
    wanted: dict[Served, list[TaskEntry]] = {}
    for task in tasks:
        if task.node or task.pinned or not (task.source.get("spec") or {}).get("volumes"):
            continue
        for _, claim in volumes.claims_of(task.source):
            if claim is None or (claim.get("spec") or {}).get("volumeName"):
                continue
            kind = volumes.class_of(claim)
            waits = kind is not None and kind.get("volumeBindingMode") == WAITS
            if waits and not volumes.is_made(claim):
                served = frozenset(name for name, _ in volumes.free_for(claim))
                wanted.setdefault(served, []).append(task)
    return wanted


def _count_reached(volumes: Volumes, served: Served, masks: NodeMasks) -> np.ndarray:
    """How many of these volumes each node reaches."""
    counts = np.zeros(len(masks.nodes), dtype=np.int64)
    for name in served:
        reached = masks.everywhere.copy()
        for selector in reach_of(volumes.volumes[name]):
            reached &= masks.required(selector, f"volume {name}")
        counts += reached
    return counts
