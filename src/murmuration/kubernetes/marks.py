"""What whoever carries a plan out must know of a snapshot: what is not in the cluster yet, whom
closed nodes do not keep out, and how long pods take until they are ready."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from murmuration.assignment.snapshots.builder import Snapshot
from murmuration.kubernetes.objects import Object, name_of
from murmuration.kubernetes.selectors import tolerated

#: The taint a cordoned node has.
CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}

#: A condition that changed later than this after the start tells of an illness, not of the start.
LONGEST_S = 3600.0


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


def seconds_until_ready(pod: Object) -> float:
    """From when a pod got its node until it was ready; NaN if it is not, has been restarted, or
    does not tell."""
    status = pod.get("status") or {}
    restarts = [c.get("restartCount") or 0 for c in status.get("containerStatuses") or ()]
    if any(restarts):
        return math.nan
    times = {
        str(c.get("type")): _time_of(c.get("lastTransitionTime"))
        for c in status.get("conditions") or ()
        if c.get("status") == "True"
    }
    seconds = times.get("Ready", math.nan) - times.get("PodScheduled", math.nan)
    return seconds if 0 <= seconds <= LONGEST_S else math.nan


def _time_of(text: object) -> float:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return math.nan
