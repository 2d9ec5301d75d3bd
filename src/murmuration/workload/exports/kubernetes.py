"""Kubernetes: nodes and pods of `kubectl get nodes,pods -A -o json`.

Only what a simulation needs: what nodes can allocate, what pods request, their node selectors, and
when they were made, started and finished. `murmur plan` reads the same file with all its rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from murmuration.base.documents import JsonObject
from murmuration.base.resources import parse_quantity
from murmuration.cluster.constraints import Attributes
from murmuration.workload.exports.rows import (
    ENDLESS_S,
    ExportedJob,
    ExportedNode,
    jobs_of,
    node_table,
    seconds_of,
)
from murmuration.workload.trace import Trace, count_skipped

Thing = JsonObject
#: What pods of a daemon set take is the node's own; they come and go with it.
DAEMON, MIRROR = "DaemonSet", "kubernetes.io/config.mirror"
#: Resources that are no room for tasks.
NOT_COUNTED = ("pods", "ephemeral-storage", "hugepages-1Gi", "hugepages-2Mi")
GROUPS = ("ReplicaSet", "StatefulSet", "ReplicationController", "Job")


def is_objects(things: Sequence[Thing]) -> bool:
    return all(thing.get("kind") in KINDS or "apiVersion" in thing for thing in things)


KINDS = ("Node", "Pod", "List")


def read_objects(things: Sequence[Thing], where: str) -> Trace:
    """Nodes that take pods, and the pods on them by who made them."""
    nodes = [thing for thing in things if thing.get("kind") == "Node"]
    pods = [thing for thing in things if thing.get("kind") == "Pod"]
    usable = [node for node in nodes if not (node.get("spec") or {}).get("unschedulable")]
    daemons = [pod for pod in pods if _is_of_node(pod)]
    taken = _taken_by(daemons, where)
    table = node_table([_node(node, taken, where) for node in usable]) if usable else None
    mine = [pod for pod in pods if not _is_of_node(pod)]
    jobs = list(_jobs(mine, where))
    notes = (
        "pods of one controller are one job; those that run are there at time 0 and run on",
        f"{len(daemons):,} pods of daemon sets and of nodes themselves are taken off their nodes",
    )
    return Trace(
        "kubernetes objects",
        len(things),
        jobs_of(jobs, where) if jobs else None,
        table,
        assumptions=notes,
        skipped=count_skipped((len(nodes) - len(usable), "nodes that are cordoned")),
    )


def _metadata(thing: Thing) -> Thing:
    return thing.get("metadata") or {}


def _owner(pod: Thing) -> Thing:
    owners = _metadata(pod).get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})


def _is_of_node(pod: Thing) -> bool:
    annotations = _metadata(pod).get("annotations") or {}
    return _owner(pod).get("kind") in (DAEMON, "Node") or MIRROR in annotations


def _taken_by(pods: Sequence[Thing], where: str) -> dict[str, dict[str, float]]:
    taken: dict[str, dict[str, float]] = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if node and not _has_ended(pod):
            _add(taken.setdefault(node, {}), _request(pod, where))
    return taken


def _node(node: Thing, taken: Mapping[str, Mapping[str, float]], where: str) -> ExportedNode:
    name, status = str(_metadata(node).get("name")), node.get("status") or {}
    sizes = _sizes(status.get("allocatable") or status.get("capacity") or {}, f"{where}: {name}")
    for resource, amount in taken.get(name, {}).items():
        sizes[resource] = max(sizes.get(resource, 0.0) - amount, 0.0)
    labels: Attributes = {key: str(v) for key, v in (_metadata(node).get("labels") or {}).items()}
    return ExportedNode(name, sizes, labels)


def _sizes(given: JsonObject, where: str) -> dict[str, float]:
    sizes = {"cpu": 0.0, "memory": 0.0}
    for name, amount in given.items():
        if name not in NOT_COUNTED and not name.startswith("attachable-volumes"):
            sizes[name] = parse_quantity(amount, f"{where}: {name}")
    return sizes


def _request(pod: Thing, where: str) -> dict[str, float]:
    """What a pod asks for: its containers together, or an init container that asks for more."""
    spec, name = pod.get("spec") or {}, str(_metadata(pod).get("name"))
    total: dict[str, float] = {}
    for container in spec.get("containers") or ():
        _add(total, _sizes(_requests(container), f"{where}: pod {name}"))
    for container in spec.get("initContainers") or ():
        for resource, amount in _sizes(_requests(container), f"{where}: pod {name}").items():
            total[resource] = max(total.get(resource, 0.0), amount)
    _add(total, _sizes(spec.get("overhead") or {}, f"{where}: pod {name}"))
    return total


def _add(total: dict[str, float], sizes: Mapping[str, float]) -> None:
    for resource, amount in sizes.items():
        total[resource] = total.get(resource, 0.0) + amount


def _requests(container: Thing) -> Thing:
    """A limit without a request is the request."""
    resources = container.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _has_ended(pod: Thing) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _jobs(pods: Sequence[Thing], where: str) -> Iterator[ExportedJob]:
    """Pods of one controller that are alike are one job; each that has ended is its own, since it
    says when it ran."""
    begin = min((_created_s(pod, where) for pod in pods if _has_ended(pod)), default=0.0)
    groups: dict[tuple[object, ...], list[Thing]] = {}
    for pod in pods:
        if _has_ended(pod):
            span = _span(pod, where)
            if span is not None:
                yield _job(pod, 1, _created_s(pod, where), max(span, 1.0), where)
            continue
        owner = _owner(pod)
        key = str(owner.get("uid") or owner.get("name") or _metadata(pod).get("name"))
        shape = tuple(sorted(_request(pod, where).items()))
        groups.setdefault((key, shape), []).append(pod)
    for alike in groups.values():
        yield _job(alike[0], len(alike), begin, ENDLESS_S, where)


def _created_s(pod: Thing, where: str) -> float:
    return seconds_of(str(_metadata(pod).get("creationTimestamp", "1970-01-01T00:00:00Z")), where)


def _span(pod: Thing, where: str) -> float | None:
    """How long the containers of a pod ran that has ended."""
    states = [
        (status.get("state") or {}).get("terminated") or {}
        for status in (pod.get("status") or {}).get("containerStatuses") or ()
    ]
    known = [each for each in states if each.get("startedAt") and each.get("finishedAt")]
    if not known:
        return None
    began = min(seconds_of(each["startedAt"], where) for each in known)
    return max(seconds_of(each["finishedAt"], where) for each in known) - began


def _job(pod: Thing, count: int, submit_s: float, duration_s: float, where: str) -> ExportedJob:
    owner, spec, metadata = _owner(pod), pod.get("spec") or {}, _metadata(pod)
    is_batch = owner.get("kind") == "Job" or spec.get("restartPolicy", "Always") != "Always"
    selector = spec.get("nodeSelector") or {}
    name = metadata.get("name") if duration_s < ENDLESS_S else owner.get("name")
    return ExportedJob(
        name=f"{metadata.get('namespace', 'default')}/{name or metadata.get('name')}",
        workload="batch" if is_batch else "service",
        submit_s=submit_s,
        tasks=count,
        duration_s=duration_s,
        request=_request(pod, where),
        priority=int(spec.get("priority") or 0),
        production=not is_batch,
        constraints=tuple(f"{key} = {value}" for key, value in sorted(selector.items())),
        user=str(metadata.get("namespace") or ""),
    )
