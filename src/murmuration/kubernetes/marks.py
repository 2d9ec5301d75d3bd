"""What whoever carries a plan out must know of a snapshot: what is not in the cluster yet, and whom
closed nodes do not keep out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from murmuration.assignment.snapshots.builder import Snapshot
from murmuration.kubernetes.objects import Object, name_of
from murmuration.kubernetes.selectors import tolerated

#: The taint a cordoned node has.
CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def mark_for_execution(snapshot: Snapshot, things: Sequence[Object]) -> Snapshot:
    """The snapshot with the names of what is not among the cluster's own objects, and of pods that
    ignore cordons."""
    pods = {name_of(thing) for thing in things if thing["kind"] == "Pod"}
    nodes = {str(thing["metadata"].get("name")) for thing in things if thing["kind"] == "Node"}
    new = [task.name for task in snapshot.tasks if task.name not in pods]
    new += [node.name for node in snapshot.nodes if node.name not in nodes]
    ignoring = [
        task.name
        for task in snapshot.tasks
        if tolerated([CORDONED], (task.source.get("spec") or {}).get("tolerations") or [])
    ]
    return replace(snapshot, absent=frozenset(new), ignores_cordons=frozenset(ignoring))
