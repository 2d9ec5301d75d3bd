"""A Kubernetes cluster as a snapshot: nodes, pods, disruption budgets and volumes, as the scheduler
would see them.

Fields that are not known are left alone, so objects of later versions load. What a plan must not
touch is pinned: pods of daemon sets, static pods, pods that no controller would create again, pods
of jobs, pods marked to be left alone, and pods on volumes the snapshot does not show. One odd
object does not keep the rest from being planned: it is pinned or left without a node, and a note
says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from murmuration.assignment.snapshots.additions import Added, new_nodes
from murmuration.assignment.snapshots.builder import NodeEntry, Snapshot, TaskEntry
from murmuration.base.arrays import Flags
from murmuration.base.errors import InputError
from murmuration.kubernetes.amounts import requests
from murmuration.kubernetes.claims.devices import Devices
from murmuration.kubernetes.claims.free_volumes import share_free_volumes
from murmuration.kubernetes.claims.volumes import Needs, Volumes, attach_limits
from murmuration.kubernetes.disruption import Budgets
from murmuration.kubernetes.exclusions import Exclusions
from murmuration.kubernetes.labels import LabelIndex, Namespaces
from murmuration.kubernetes.making import on_node
from murmuration.kubernetes.marks import seconds_until_ready
from murmuration.kubernetes.nodes import (
    CORDON,
    NodeMasks,
    allocatable,
    node_entry,
    taints_for_good,
)
from murmuration.kubernetes.objects import (
    Object,
    check_node,
    check_pod,
    controller_of,
    name_of,
    namespace_of,
)
from murmuration.kubernetes.ports import port_rules
from murmuration.kubernetes.rules import RuleMaker
from murmuration.kubernetes.selectors import tolerated

MIRROR = "kubernetes.io/config.mirror"
#: Annotations by which somebody asks that a pod be left alone, and what they say then.
LEAVE_ALONE = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": ("false",),
    "karpenter.sh/do-not-disrupt": ("true",),
    "karpenter.sh/do-not-evict": ("true",),
    "descheduler.alpha.kubernetes.io/prefer-no-eviction": ("true",),
}
DAEMON, STATIC = "a daemon set puts it there", "its node's own files start it"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
#: What pods use, by their names and resources.
Usage = Mapping[str, Mapping[str, float]]


def snapshot_of(
    things: Sequence[Object], add: Sequence[Added] = (), usage: Usage | None = None
) -> Snapshot:
    """The snapshot in a list of objects, with nodes added, and with what pods use if known."""
    kinds: dict[str, list[Object]] = {}
    for thing in things:
        kinds.setdefault(str(thing["kind"]), []).append(thing)
    if "Node" not in kinds:
        raise InputError(
            "the cluster is empty: expected Node objects (kubectl get nodes,pods,pdb -A), found "
            f"{', '.join(sorted(kinds))}"
        )
    for kind in ("Node", "Pod"):
        kinds[kind] = _without_copies(kinds.get(kind, []))
    reader = make_reader(kinds, add)
    for pod in kinds["Pod"]:
        check_pod(pod)
    pods = [pod for pod in kinds["Pod"] if is_alive(pod)]
    pods += reader.daemons_of_added(pods)
    every = [reader.task(pod) for pod in pods]
    _distinct("pod", [task.name for task in every])
    share_free_volumes(reader.volumes, every, reader.nodes, reader.node_masks)
    weighed = _weigh(every, usage) if usage is not None else []
    budgets, blocked = Budgets(kinds, every, LabelIndex(every)).apply()
    # A pod whose node is not in the list counts for its budget alone.
    names = {node.name for node in reader.nodes}
    tasks = [task for task in every if not task.node or task.node in names]
    index = LabelIndex(tasks)
    rules = reader.volumes.sharing_rules(tasks, len(reader.nodes))
    rules += reader.devices.sharing_rules(tasks, len(reader.nodes))
    masks = reader.masks(tasks)
    namespaces = Namespaces(kinds.get("Namespace", ()), index.spaces)
    maker = RuleMaker(tasks, reader.node_masks, masks, index, namespaces)
    rules += maker.rules()
    rules += port_rules(tasks, len(reader.nodes))
    away = [task for task in every if task.node and task.node not in names]
    notes = [*_notes_of_odd(kinds["Node"], away), *weighed, *_notes(tasks, blocked)]
    why = Exclusions(reader.things, reader.nodes)
    return Snapshot(
        reader.nodes,
        tasks,
        masks,
        rules,
        budgets,
        notes,
        "kubernetes",
        why_excluded=why,
        preferences=maker.preferences(),
    )


def _without_copies(things: Sequence[Object]) -> list[Object]:
    """Each object once: lists that are joined may hold the same one again, as it was."""
    found: dict[tuple[object, object], Object] = {}
    others = []
    for thing in things:
        mark = thing["metadata"].get("namespace"), thing["metadata"].get("name")
        if found.setdefault(mark, thing) is not thing and found[mark] != thing:
            others.append(thing)
    return [*found.values(), *others]


def _distinct(what: str, names: Sequence[str]) -> None:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"{what} {twice}: is in the snapshot twice")


def is_alive(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


@dataclass
class Reader:
    """The nodes of a snapshot, and what else its pods are read with."""

    things: list[Object]
    nodes: list[NodeEntry]
    added: list[NodeEntry]
    node_masks: NodeMasks
    volumes: Volumes
    devices: Devices

    def task(self, pod: Object) -> TaskEntry:
        """A pod as a task."""
        name, spec = name_of(pod), pod.get("spec") or {}
        needs = self.volumes.needs(pod)
        self.devices.add_needs(pod, needs)
        pinned = _why_pinned(pod) or needs.refused
        priority = spec.get("priority") or 0
        if not (type(priority) is int and -(2**31) <= priority < 2**31):
            raise InputError(f"pod {name}: expected a whole number as priority, got {priority!r}")
        # Where a pod may lie that goes with its node does not matter; one class for all of them
        # keeps the table of classes small.
        bound = pinned in (DAEMON, STATIC)
        return TaskEntry(
            name,
            {**requests(spec, name), **needs.attached},
            service_of(pod),
            spec.get("nodeName") or "",
            "pinned" if bound else _wants(spec, needs),
            pinned,
            priority,
            labels=pod["metadata"].get("labels") or {},
            source=pod,
            bound_to_node=bound,
            remade=not bound and controller_of(pod) is not None and not needs.refused,
            ready_s=seconds_until_ready(pod),
            namespace=namespace_of(pod),
        )

    def daemons_of_added(self, pods: Sequence[Object]) -> list[Object]:
        """A pod of each daemon set for every added node that it may use."""
        samples: dict[str, Object] = {}
        for pod in pods:
            if (controller_of(pod) or {}).get("kind") == "DaemonSet":
                samples.setdefault(service_of(pod), pod)
        first = len(self.nodes) - len(self.added)
        made: list[Object] = []
        for pod in samples.values() if self.added else ():
            spec = _of_any_node(pod.get("spec") or {})
            where = f"pod {name_of(pod)}"
            mask = self.node_masks.affinity(spec, where)
            mask &= self.node_masks.tolerated(spec.get("tolerations") or [])
            for node, takes in zip(self.added, mask[first:].tolist(), strict=True):
                if takes:
                    metadata = {**pod["metadata"], "name": f"{pod['metadata']['name']}-{node.name}"}
                    made.append({**pod, "metadata": metadata, "spec": _put(spec, node.name)})
        return made

    def masks(self, tasks: Sequence[TaskEntry]) -> dict[Hashable, Flags]:
        """The nodes open to each kind of pod: schedulable, tolerated, selected."""
        masks: dict[Hashable, Flags] = {"pinned": self.node_masks.everywhere}
        for task in tasks:
            if task.wants in masks:
                continue
            selector, required, tolerations, volumes, closed = msgspec.json.decode(str(task.wants))
            spec = {
                "nodeSelector": selector,
                "affinity": {"nodeAffinity": {REQUIRED: required}},
            }
            where = f"pod {task.name}: node affinity"
            mask = self.node_masks.ready if closed else self.node_masks.open
            mask = mask & self.node_masks.tolerated(tolerations)
            mask &= self.node_masks.affinity(spec, where)
            for each in volumes:
                mask &= self.node_masks.required(each, where)
            masks[task.wants] = mask
        return masks


def make_reader(kinds: dict[str, list[Object]], add: Sequence[Added] = ()) -> Reader:
    """Read the nodes, with those added, and what volumes and devices they have."""
    things = list(kinds["Node"])
    for thing in things:
        check_node(thing)
    nodes = [node_entry(thing) for thing in things]
    added: list[NodeEntry] = []
    for entry, like in new_nodes(add, nodes):
        taints = [] if like is None else taints_for_good(things[like])
        metadata = {"name": entry.name}
        things.append({"kind": "Node", "metadata": metadata, "spec": {"taints": taints}})
        added.append(entry)
    nodes += added
    _distinct("node", [node.name for node in nodes])
    masks = NodeMasks(things, nodes)
    devices = Devices(kinds)
    devices.give(nodes, masks)
    limited = attach_limits(kinds.get("CSINode", ()), nodes)
    return Reader(things, nodes, added, masks, Volumes(kinds, limited), devices)


def _wants(spec: Object, needs: Needs) -> str:
    """What decides which nodes a pod may use; pods that ask the same share it.

    A pod that waits and tolerates closed nodes is put there by Kubernetes, whoever plans; nobody
    who runs is sent there.
    """
    tolerations = spec.get("tolerations") or []
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    parts = [
        spec.get("nodeSelector") or {},
        affinity,
        tolerations,
        needs.selectors,
        not spec.get("nodeName") and tolerated([CORDON], tolerations),
    ]
    return msgspec.json.encode(parts, order="deterministic").decode()


def _of_any_node(spec: Object) -> Object:
    """A daemon pod's spec without the name of its node, in whose place its daemon set asks for
    nothing."""
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (node_affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()
    free = [{k: v for k, v in term.items() if k != "matchFields"} for term in terms]
    affinity = {k: v for k, v in (spec.get("affinity") or {}).items() if k != "nodeAffinity"}
    if free and all(term.get("matchExpressions") for term in free):
        affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": free}}
    return {**spec, "affinity": affinity}


def _put(spec: Object, node: str) -> Object:
    return {**spec, "affinity": on_node(spec, node), "nodeName": node}


def service_of(pod: Object) -> str:
    """Replicas are the pods one controller made."""
    owner = controller_of(pod)
    if owner is None:
        return name_of(pod)
    return f"{namespace_of(pod)}/{owner.get('kind')}/{owner.get('name')}"


def _why_pinned(pod: Object) -> str:
    """Why a pod stays where it is, or without a node; empty if it may move."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    owner = controller_of(pod)
    kind = owner.get("kind") if owner else None
    if not spec.get("nodeName"):
        gates = [str(gate.get("name")) for gate in spec.get("schedulingGates") or ()]
        if metadata.get("deletionTimestamp"):
            return "it is being deleted"
        return f"the scheduling gate {gates[0]} holds it back" if gates else ""
    if kind == "DaemonSet":
        return DAEMON
    if kind == "Node" or MIRROR in annotations:
        return STATIC
    if metadata.get("deletionTimestamp"):
        return "it is being deleted"
    for mark, values in LEAVE_ALONE.items():
        if str(annotations.get(mark)).lower() in values:
            return f"its annotation {mark} says so"
    if owner is None:
        return "nothing would make it again"
    return "its job would begin again" if kind == "Job" else ""


def _weigh(tasks: Sequence[TaskEntry], usage: Usage) -> list[str]:
    """Let pods that request nothing of CPU or memory weigh what they use; a note of how many."""
    weighed = 0
    for task in tasks:
        used = usage.get(task.name, {})
        bare = {key: used[key] for key in ("cpu", "memory") if key in used}
        bare = {key: amount for key, amount in bare.items() if not task.amounts.get(key)}
        weighed += bool(bare)
        task.amounts = {**task.amounts, **bare}
    missing = sum(bool(task.node) and task.name not in usage for task in tasks)
    notes = [f"{weighed} pods that request nothing weigh what they use"] if weighed else []
    return notes + ([f"{missing} running pods are not in the usage given"] if missing else [])


def _notes_of_odd(nodes: Sequence[Object], away: Sequence[TaskEntry]) -> list[str]:
    """Objects that are left out of the plan."""
    notes = [
        f"node {thing['metadata'].get('name')} does not yet say what it has: nothing goes there"
        for thing in nodes
        if not allocatable(thing)
    ]
    for task in away[:3]:
        notes.append(
            f"pod {task.name} lies on node {task.node!r}, which is not in the snapshot: it is left "
            "out"
        )
    return notes + ([f"so are {len(away) - 3} other pods"] if len(away) > 3 else [])


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
    scratch = sum(not task.pinned and bool(task.node) and _has_scratch(task) for task in tasks)
    if scratch:
        notes.append(f"{scratch} pods that may move keep data in emptyDir, which is lost then")
    soft = sum(_has_preferences(task.source.get("spec") or {}) for task in tasks)
    if soft:
        notes.append(
            f"{soft} pods have preferences about nodes or other pods; --objective preferences "
            "weighs them"
        )
    return [*notes, *blocked]


def _has_scratch(task: TaskEntry) -> bool:
    volumes = (task.source.get("spec") or {}).get("volumes") or ()
    return any("emptyDir" in volume for volume in volumes)


def _has_preferences(spec: Object) -> bool:
    affinity = spec.get("affinity") or {}
    preferred = any(
        (part or {}).get("preferredDuringSchedulingIgnoredDuringExecution")
        for part in affinity.values()
    )
    spread = spec.get("topologySpreadConstraints") or ()
    return preferred or any(c.get("whenUnsatisfiable") == "ScheduleAnyway" for c in spread)
