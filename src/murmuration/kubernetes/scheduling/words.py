"""What a scheduler writes into a cluster: bindings, conditions, events, evictions and its lease, as
the API wants them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from murmuration.kubernetes.objects import Object

#: The annotation of a bound pod that says which scheduler bound it, and in which turn of leading.
BOUND_BY = "murmuration/bound-by"
#: The annotation of a lease by which somebody asks its holder for it.
ASKED_BY = "murmuration/asked-by"


def stamp(seconds: float) -> str:
    """A point in time as the API writes it."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def whole_stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def split_key(key: str) -> tuple[str, str]:
    space, _, name = key.partition("/")
    return space, name


def binding(key: str, uid: str, node: str, by: str) -> Object:
    space, name = split_key(key)
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": name,
            "namespace": space,
            "uid": uid,
            "annotations": {BOUND_BY: by},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def pending_condition(reason: str, sentence: str, seconds: float) -> Object:
    """A patch of a pod's status: why it is not scheduled."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": sentence,
        "lastTransitionTime": whole_stamp(seconds),
    }
    return {"status": {"conditions": [condition]}}


def event(key: str, uid: str, told: tuple[str, str, str], source: str, seconds: float) -> Object:
    """An event about a pod; `told` is its type, its reason and its sentence."""
    space, name = split_key(key)
    type_, reason, sentence = told
    at = whole_stamp(seconds)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{name}.{int(seconds * 1e9):x}",
            "namespace": space,
        },
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": space,
            "name": name,
            "uid": uid,
        },
        "type": type_,
        "reason": reason,
        "message": sentence[:1000],
        "source": {"component": source},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }


def eviction(key: str, uid: str, version: str) -> Object:
    """An eviction of this very pod, not of one that has taken its name."""
    space, name = split_key(key)
    return {
        "apiVersion": f"policy/{version}",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": space},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }


def claim_of_volume(volume: Object, claim: Object) -> Object:
    """A patch that keeps a volume for a claim, if the volume is still as it was read."""
    metadata = claim["metadata"]
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    marks = {"pv.kubernetes.io/bound-by-controller": "yes"}
    version = volume["metadata"]["resourceVersion"]
    return {
        "metadata": {"resourceVersion": version, "annotations": marks},
        "spec": {"claimRef": reference},
    }


def lease(
    name: str,
    space: str,
    holder: str,
    transitions: int,
    lease_s: float,
    seconds: float,
    labels: Mapping[str, str] | None = None,
) -> dict[str, object]:
    at = stamp(seconds)
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": space, "labels": dict(labels or {})},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": int(lease_s),
            "acquireTime": at,
            "renewTime": at,
            "leaseTransitions": transitions,
        },
    }
