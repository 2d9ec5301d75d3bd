"""What is looked at before a plan is carried out: is it for this cluster, may we steer its pods,
and would every move work."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from murmuration.base.errors import InputError
from murmuration.kubernetes.api.client import LEASES, NAMESPACES, PODS, ApiError, KubeClient
from murmuration.kubernetes.applying.moves import (
    SYSTEM,
    PlanFile,
    PlannedMove,
    cluster_identity,
)
from murmuration.kubernetes.applying.run import ChangedError, PlanRun
from murmuration.kubernetes.objects import Object
from murmuration.kubernetes.scheduling import words
from murmuration.kubernetes.scheduling.cluster import LiveCluster
from murmuration.kubernetes.scheduling.shared.ledgers import MEMBER, ROLE, SCHEDULER, member_of
from murmuration.kubernetes.scheduling.words import split_key

NAMED_MAX = 5


async def check_cluster(client: KubeClient, path: Path, plan: PlanFile) -> None:
    """A plan is for one cluster alone."""
    meant = cluster_identity(path, plan)
    namespace = await client.get(NAMESPACES.path(None, SYSTEM))
    if meant and meant != namespace["metadata"]["uid"]:
        raise InputError(
            f"{path}: this plan was made for another cluster than {client.access.name}"
        )


async def refuse_sharing(client: KubeClient, name: str) -> None:
    """A plan needs to be the only scheduler of its pods; schedulers that share a cluster do not
    stand back for it. Whoever may not list leases is not told."""
    leases = replace(LEASES, selector=f"{SCHEDULER}={name},{ROLE}={MEMBER}")
    try:
        listed = await client.list_all(leases)
    except ApiError as error:
        if error.status != 403:
            raise
        return
    holders = sorted(member_of(lease) for lease in listed.items if _is_fresh(lease))
    if holders:
        raise InputError(
            f"{', '.join(holders)}: {name!r} is the name of schedulers that share the cluster "
            "(shared-state), and a plan needs to be alone; stop them first"
        )


def _is_fresh(lease: Object) -> bool:
    """Whether a lease was renewed lately. It is a warning, so the clocks of two hosts will do."""
    spec = lease.get("spec") or {}
    renewed = datetime.fromisoformat(str(spec.get("renewTime") or "1970-01-01T00:00:00Z"))
    return time.time() - renewed.timestamp() < 2.0 * float(spec.get("leaseDurationSeconds") or 0)


def foreign_pods(cluster: LiveCluster, moves: Sequence[PlannedMove], name: str) -> list[str]:
    """Pods of a plan whose successors somebody else would schedule."""
    keys = dict.fromkeys(move.task for move in moves)
    return [
        key
        for key in keys
        if key in cluster.records
        and (cluster.records[key].thing.get("spec") or {}).get("schedulerName") != name
    ]


def refuse_foreign(pods: Sequence[str], name: str) -> None:
    """Say before anything moves what cannot be promised, and what can be done."""
    if not pods:
        return
    shown = ", ".join(pods[:NAMED_MAX]) + (" …" if len(pods) > NAMED_MAX else "")
    raise InputError(
        f"{len(pods)} pods of this plan do not say schedulerName: {name}, so nobody can say where "
        f"their successors go ({shown}); set it in their owners' templates and plan again, leave "
        "them where they are with --skip-others, or run the plan's moves.sh, which closes nodes "
        "for a moment instead"
    )


def refuse_unknown_nodes(cluster: LiveCluster, moves: Sequence[PlannedMove]) -> None:
    """A node that was only added to the plan has another name in the cluster, once it is there."""
    absent = dict.fromkeys(move.to for move in moves if move.to not in cluster.table.rows)
    if absent:
        name = next(iter(absent))
        raise InputError(
            f"{len(absent)} nodes of this plan are not in the cluster ({name}); when they are, say "
            f"which is which: --as {name}=NAME"
        )


async def rehearse_live(run: PlanRun) -> list[str]:
    """Every move checked in order against the cluster, and every eviction asked for without being
    carried out; what would go wrong. Of pods that are not there yet nothing can be said."""
    faults = []
    for move in run.moves:
        try:
            record = run.cluster.records.get(move.task)
            if record is None and move.kind == "place":
                continue
            if record is None:
                raise ChangedError(f"{move.task} is gone")
            run.check(move, move.task, record)
            if move.kind != "place":
                await _ask_eviction(run, move.task, record.uid)
            run.cluster.pretend(move.task, move.to)
        except ChangedError as error:
            faults.append(f"step {move.step}: {error}")
    return faults


async def _ask_eviction(run: PlanRun, key: str, uid: str) -> None:
    space, name = split_key(key)
    thing = words.eviction(key, uid, run.settings.eviction_version)
    options = {**thing["deleteOptions"], "dryRun": ["All"]}
    try:
        path = PODS.path(space, name, "eviction")
        await run.client.create(path, {**thing, "deleteOptions": options})
    except ApiError as error:
        # A budget that allows none now makes the run wait; it does not make it fail.
        if error.status != 429:
            raise ChangedError(f"{key} cannot be evicted: {error.sentence}") from None
