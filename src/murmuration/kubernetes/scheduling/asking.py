"""Why a pod waits, asked by somebody who is not its scheduler: a snapshot, and the same rules."""

from __future__ import annotations

import math
from collections.abc import Sequence

from murmuration.base.errors import InputError
from murmuration.kubernetes.objects import Object
from murmuration.kubernetes.scheduling.cluster import LiveCluster
from murmuration.placement.registry import Placement
from murmuration.placement.view import JobView
from murmuration.schedulers.pods.explain import PodExplanation, explain_pod


def cluster_from(things: Sequence[Object]) -> LiveCluster:
    """The cluster that a list of objects shows."""
    kinds: dict[str, list[Object]] = {}
    for thing in things:
        kinds.setdefault(str(thing["kind"]), []).append(thing)
    cluster = LiveCluster()
    # Pods last: they are read with everything else at hand.
    for kind in sorted(kinds, key=lambda kind: kind == "Pod"):
        cluster.replace(kind, kinds[kind])
    return cluster


def pending_pods(cluster: LiveCluster) -> list[str]:
    """The pods without a node, the most important first."""
    waiting = [
        (-record.task.priority, str(record.thing["metadata"].get("creationTimestamp") or ""), key)
        for key, record in cluster.records.items()
        if not record.node and not record.leaving
    ]
    return [key for _, _, key in sorted(waiting)]


def explain_waiting(cluster: LiveCluster, key: str, placement: Placement) -> PodExplanation:
    """Why a pod has no node, or what speaks for one."""
    record = cluster.records.get(key)
    if record is None:
        raise InputError(f"no pod {key}: expected NAMESPACE/NAME of a pod that has not ended")
    if record.node:
        raise InputError(f"pod {key} has a node: {record.node}")
    job = JobView(
        id=key,
        workload=key.partition("/")[0],
        tasks=1,
        request=cluster.request(key),
        duration_s=math.nan,
        priority=record.task.priority,
    )
    return explain_pod(cluster, key, placement, job, 0.0)
