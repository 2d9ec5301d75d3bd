"""A Kubernetes cluster as a snapshot: nodes, pods, disruption budgets and volumes, as the scheduler
would see them.

Fields that are not known are left alone, so objects of later versions load. What a plan must not
touch is pinned: pods of daemon sets, static pods, pods nobody would make again, pods of jobs, and
pods on volumes the snapshot does not show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from murmuration.assignment.snapshots.additions import new_nodes
from murmuration.assignment.snapshots.builder import NodeEntry, Snapshot, TaskEntry
from murmuration.base.arrays import Flags
from murmuration.base.errors import InputError
from murmuration.base.resources import parse_quantity
from murmuration.kubernetes.disruption import apply_budgets
from murmuration.kubernetes.objects import Object, name_of, namespace_of
from murmuration.kubernetes.rules import check_affinity, rules_of
from murmuration.kubernetes.selectors import (
    contradiction,
    node_matches,
    node_term_matches,
    pod_wants,
    tolerated,
)

ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
TYPES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
HOST = "kubernetes.io/hostname"
MIRROR = "kubernetes.io/config.mirror"
KEEP = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DAEMON, STATIC = "a daemon set puts it there", "its node's own files start it"
#: Labels or annotations of a node by which its owner tells what it costs and draws.
PRICE, IDLE, PEAK = "murmuration/price", "murmuration/idle-watts", "murmuration/peak-watts"


def snapshot_of(things: Sequence[Object], add: Sequence[str] = ()) -> Snapshot:
    """The snapshot in a list of objects, with nodes added."""
    kinds: dict[str, list[Object]] = {}
    for thing in things:
        kinds.setdefault(str(thing["kind"]), []).append(thing)
    if "Node" not in kinds:
        raise InputError(
            "the cluster is empty: expected Node objects (kubectl get nodes,pods,pdb -A), found "
            f"{', '.join(sorted(kinds))}"
        )
    nodes = [_node(thing) for thing in kinds["Node"]]
    for entry, like in new_nodes(add, nodes):
        spec = {} if like is None else kinds["Node"][like].get("spec") or {}
        kinds["Node"].append({"kind": "Node", "metadata": {"name": entry.name}, "spec": spec})
        nodes.append(entry)
    _distinct("node", [node.name for node in nodes])
    pods = [pod for pod in kinds.get("Pod", ()) if _alive(pod)]
    volumes = _volumes(kinds)
    tasks = [_task(pod, volumes) for pod in pods]
    _distinct("pod", [task.name for task in tasks])
    _check_nodes(tasks, {node.name for node in nodes})
    check_affinity(tasks)
    budgets, blocked = apply_budgets(kinds.get("PodDisruptionBudget", ()), tasks)
    masks = _masks(tasks, kinds["Node"], nodes)
    rules = rules_of(tasks, nodes, masks)
    return Snapshot(nodes, tasks, masks, rules, budgets, _notes(tasks, blocked), "kubernetes")


def _distinct(what: str, names: Sequence[str]) -> None:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"{what} {twice}: is in the snapshot twice")


def _alive(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _node(thing: Object) -> NodeEntry:
    name = thing["metadata"].get("name")
    if not name:
        raise InputError("a node in the snapshot has no name")
    status = thing.get("status") or {}
    amounts = status.get("allocatable") or status.get("capacity")
    if not amounts or "cpu" not in amounts or "memory" not in amounts:
        raise InputError(f"node {name}: expected status.allocatable with cpu and memory")
    labels = {HOST: str(name), **(thing["metadata"].get("labels") or {})}
    marks = {**(thing["metadata"].get("annotations") or {}), **labels}
    zone = next((labels[key] for key in ZONES if key in labels), "")
    kind = next((labels[key] for key in TYPES if key in labels), "")
    price = parse_quantity(marks[PRICE], f"node {name}: {PRICE}") if PRICE in marks else None
    watts = None
    if IDLE in marks and PEAK in marks:
        watts = (
            parse_quantity(marks[IDLE], f"node {name}: {IDLE}"),
            parse_quantity(marks[PEAK], f"node {name}: {PEAK}"),
        )
    return NodeEntry(str(name), amounts, labels, zone, price, watts, kind)


def _task(pod: Object, volumes: Callable[[Object], list[Object] | None]) -> TaskEntry:
    name, spec, metadata = name_of(pod), pod.get("spec") or {}, pod["metadata"]
    affinity = volumes(pod)
    wants = msgspec.json.encode(
        [
            spec.get("nodeSelector") or {},
            ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
                "requiredDuringSchedulingIgnoredDuringExecution"
            ),
            spec.get("tolerations") or [],
            affinity if isinstance(affinity, list) else [],
        ],
        order="deterministic",
    ).decode()
    for terms in pod_wants(spec):
        if key := contradiction(terms):
            raise InputError(
                f"pod {name}: its node selector and node affinity ask two things of the label "
                f"{key!r}"
            )
    pinned = _pinned(pod) or ("its volume is not in the snapshot" if affinity is None else "")
    priority = spec.get("priority") or 0
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise InputError(f"pod {name}: expected a whole number as priority, got {priority!r}")
    # Where a pinned pod may lie does not matter; one class for all of them keeps the table of
    # classes small.
    return TaskEntry(
        name,
        requests(spec, name),
        service_of(pod),
        spec.get("nodeName") or "",
        "pinned" if pinned else wants,
        pinned,
        priority,
        labels=metadata.get("labels") or {},
        source=pod,
        bound_to_node=pinned in (DAEMON, STATIC),
    )


def service_of(pod: Object) -> str:
    """Replicas are the pods one controller made."""
    owner = _controller(pod)
    if owner is None:
        return name_of(pod)
    return f"{namespace_of(pod)}/{owner.get('kind')}/{owner.get('name')}"


def _controller(pod: Object) -> Object | None:
    owners = pod["metadata"].get("ownerReferences") or []
    return next(
        (owner for owner in owners if owner.get("controller")), owners[0] if owners else None
    )


def _pinned(pod: Object) -> str:
    """Why a running pod stays where it is; empty if it may move."""
    metadata = pod["metadata"]
    annotations = metadata.get("annotations") or {}
    owner = _controller(pod)
    kind = owner.get("kind") if owner else None
    running = bool((pod.get("spec") or {}).get("nodeName"))
    if kind == "DaemonSet":
        return DAEMON
    if not running:
        return ""
    if kind == "Node" or MIRROR in annotations:
        return STATIC
    if metadata.get("deletionTimestamp"):
        return "it is being deleted"
    if str(annotations.get(KEEP, "true")).lower() == "false":
        return f"its annotation {KEEP} says so"
    if owner is None:
        return "nothing would make it again"
    return "its job would begin again" if kind == "Job" else ""


def requests(spec: Object, name: str) -> dict[str, float]:
    """What a pod asks for: its containers together, or an init container if that asks for more, and
    its overhead."""
    containers = [_container(c, name) for c in spec.get("containers") or ()]
    together: Counter[str] = Counter()
    for amounts in containers:
        together.update(amounts)
    init: dict[str, float] = {}
    for container in spec.get("initContainers") or ():
        amounts = _container(container, name)
        if container.get("restartPolicy") == "Always":
            together.update(amounts)
            continue
        for key, amount in amounts.items():
            init[key] = max(init.get(key, 0.0), amount)
    asked = {key: max(together[key], init.get(key, 0.0)) for key in {*together, *init}}
    whole = (spec.get("resources") or {}).get("requests") or {}
    asked.update({key: _quantity(value, name, key) for key, value in whole.items()})
    for key, value in (spec.get("overhead") or {}).items():
        asked[key] = asked.get(key, 0.0) + _quantity(value, name, key)
    return {"cpu": 0.0, "memory": 0.0, **asked, "pods": 1.0}


def _container(container: Object, pod: str) -> dict[str, float]:
    """A container's requests; where it only limits itself, that is what it asks for."""
    where = f"{pod}, container {container.get('name', '?')}"
    resources = container.get("resources") or {}
    limits = {
        key: _quantity(value, where, key) for key, value in (resources.get("limits") or {}).items()
    }
    asked = {
        key: _quantity(value, where, key)
        for key, value in (resources.get("requests") or {}).items()
    }
    for key, amount in asked.items():
        if amount > limits.get(key, amount):
            raise InputError(f"pod {where}: it requests more {key} than its limit")
    return {**limits, **asked}


def _quantity(value: Any, where: str, key: str) -> float:
    return parse_quantity(value, f"pod {where}: {key}")


def _check_nodes(tasks: Sequence[TaskEntry], names: set[str]) -> None:
    for task in tasks:
        if task.node and task.node not in names:
            raise InputError(
                f"pod {task.name}: lies on node {task.node!r}, which is not in the snapshot"
            )


def _volumes(kinds: Mapping[str, list[Object]]) -> Callable[[Object], list[Object] | None]:
    """For a pod the node selectors of its volumes; None where a volume is not in the snapshot."""
    claims = {name_of(claim): claim for claim in kinds.get("PersistentVolumeClaim", ())}
    volumes = {
        str(volume["metadata"].get("name")): volume for volume in kinds.get("PersistentVolume", ())
    }

    def selectors(pod: Object) -> list[Object] | None:
        required_terms: list[Object] = []
        for volume in (pod.get("spec") or {}).get("volumes") or ():
            claim_name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if claim_name is None:
                continue
            claim = claims.get(f"{namespace_of(pod)}/{claim_name}")
            bound = volumes.get(str(((claim or {}).get("spec") or {}).get("volumeName")))
            if bound is None:
                return None
            required = ((bound.get("spec") or {}).get("nodeAffinity") or {}).get("required")
            required_terms += [required] if required else []
        return required_terms

    return selectors


def _masks(
    tasks: Sequence[TaskEntry], things: Sequence[Object], nodes: Sequence[NodeEntry]
) -> dict[Hashable, Flags]:
    """The nodes open to each kind of pod: schedulable, tolerated, selected."""
    open_nodes = [_schedulable(thing) for thing in things]
    taints = [(thing.get("spec") or {}).get("taints") or [] for thing in things]
    masks: dict[Hashable, Flags] = {"pinned": np.ones(len(nodes), dtype=np.bool_)}
    for task in tasks:
        if task.wants in masks:
            continue
        selector, required, tolerations, volumes = msgspec.json.decode(str(task.wants))
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        spec = {"nodeSelector": selector, "affinity": affinity}
        where = f"pod {task.name}: node affinity"
        masks[task.wants] = np.array(
            [
                usable
                and tolerated(mine, tolerations)
                and node_matches(spec, node.labels, node.name, where)
                and all(
                    node_term_matches(volume, node.labels, node.name, where) for volume in volumes
                )
                for usable, mine, node in zip(open_nodes, taints, nodes, strict=True)
            ],
            dtype=np.bool_,
        )
    return masks


def _schedulable(thing: Object) -> bool:
    if (thing.get("spec") or {}).get("unschedulable"):
        return False
    ready = [
        c for c in (thing.get("status") or {}).get("conditions") or () if c.get("type") == "Ready"
    ]
    return all(condition.get("status") == "True" for condition in ready)


def _notes(tasks: Sequence[TaskEntry], blocked: Sequence[str]) -> list[str]:
    """What the reader of a plan should know about the snapshot."""
    notes = []
    bare = sum(not task.amounts["cpu"] and not task.amounts["memory"] for task in tasks)
    if bare:
        notes.append(
            f"{bare} of {len(tasks)} pods request neither CPU nor memory and weigh nothing here"
        )
    reasons = Counter(task.pinned for task in tasks if task.pinned and task.node)
    notes += [
        f"{count} pods stay where they are: {reason}" for reason, count in reasons.most_common()
    ]
    soft = sum(_has_preferences(task.source.get("spec") or {}) for task in tasks)
    if soft:
        notes.append(
            f"{soft} pods have preferences about nodes or other pods, which are not weighed"
        )
    return [*notes, *blocked]


def _has_preferences(spec: Object) -> bool:
    affinity = spec.get("affinity") or {}
    preferred = any(
        (part or {}).get("preferredDuringSchedulingIgnoredDuringExecution")
        for part in affinity.values()
    )
    spread = spec.get("topologySpreadConstraints") or ()
    return preferred or any(c.get("whenUnsatisfiable") == "ScheduleAnyway" for c in spread)
