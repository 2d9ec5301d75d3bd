"""Nodes as the scheduler sees them: what they give, their taints, and which a pod may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from murmuration.assignment.snapshots.builder import NodeEntry
from murmuration.base.arrays import Flags, Floats, Indices, resize
from murmuration.base.errors import InputError
from murmuration.base.resources import parse_quantity
from murmuration.kubernetes.amounts import amounts_of
from murmuration.kubernetes.objects import Object
from murmuration.kubernetes.selectors import count_disliked, requirement, tolerated

ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
TYPES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
HOST = "kubernetes.io/hostname"
#: Labels or annotations of a node by which its owner tells what it costs and draws.
PRICE, IDLE, PEAK = "murmuration/price", "murmuration/idle-watts", "murmuration/peak-watts"
#: Taints that controllers write for a cordon or a condition.
STATE = "node.kubernetes.io/"
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
#: The taints that controllers write for the conditions of a node.
CONDITIONS = {
    ("Ready", "False"): "node.kubernetes.io/not-ready",
    ("Ready", "Unknown"): "node.kubernetes.io/unreachable",
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}


def node_entry(thing: Object) -> NodeEntry:
    """A node of the snapshot; one that does not yet say what it has gives nothing."""
    name = thing["metadata"].get("name")
    if not name:
        raise InputError("a node in the snapshot has no name")
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
    amounts = amounts_of(allocatable(thing), f"node {name}")
    return NodeEntry(str(name), amounts, labels, zone, price, watts, kind)


def allocatable(thing: Object) -> Object:
    """What a node says it can give; empty while it has not said so."""
    status = thing.get("status") or {}
    told = status.get("allocatable") or status.get("capacity") or {}
    return told if isinstance(told, Mapping) and {"cpu", "memory"} <= told.keys() else {}


def taints_of(thing: Object) -> list[Object]:
    """The taints written on a node, and those that its cordon and conditions stand for."""
    spec = thing.get("spec") or {}
    taints = list(spec.get("taints") or ())
    if spec.get("unschedulable"):
        taints.append(CORDON)
    for condition in (thing.get("status") or {}).get("conditions") or ():
        key = CONDITIONS.get((condition.get("type"), condition.get("status")))
        if key is not None:
            taints.append({"key": key, "effect": "NoSchedule"})
    return taints


def taints_for_good(thing: Object) -> list[Object]:
    """The taints of a node that a new one like it has too: not those that tell of its state."""
    written = (thing.get("spec") or {}).get("taints") or ()
    return [t for t in written if not str(t.get("key")).startswith(STATE)]


def is_open(thing: Object) -> bool:
    """Whether a plan may send tasks to a node: it is ready and not cordoned.

    Kubernetes lets pods that tolerate everything go to closed and lost nodes; a plan does not.
    """
    return is_ready(thing) and not (thing.get("spec") or {}).get("unschedulable")


def is_ready(thing: Object) -> bool:
    """Whether the node says so, or says nothing about it."""
    conditions = (thing.get("status") or {}).get("conditions") or ()
    ready = [condition for condition in conditions if condition.get("type") == "Ready"]
    return all(condition.get("status") == "True" for condition in ready)


@dataclass
class KnownRequirement:
    """A requirement that was asked for, and the nodes that meet it."""

    want: Object
    of_fields: bool
    where: str
    nodes: Flags = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    def meets(self, node: NodeEntry) -> bool:
        labels = {"metadata.name": node.name} if self.of_fields else node.labels
        return requirement(labels, self.want, self.where)


class NodeMasks:
    """For requirements on nodes the nodes that meet them; each distinct one is asked once.

    Rows can be changed, added and deleted: what is known of the other rows stays."""

    def __init__(self, things: Sequence[Object], nodes: list[NodeEntry]) -> None:
        self.nodes = nodes
        self.everywhere: Flags = np.ones(len(nodes), dtype=np.bool_)
        #: The nodes that say what they have.
        self.given: Flags = np.array([bool(node.amounts) for node in nodes], dtype=np.bool_)
        self.ready: Flags = np.array([is_ready(t) for t in things], dtype=np.bool_) & self.given
        self.open: Flags = np.array([is_open(t) for t in things], dtype=np.bool_) & self.given
        self.row_of = {node.name: row for row, node in enumerate(nodes)}
        #: Every distinct list of taints, and which of them each node has.
        self._taints: list[list[Object]] = []
        self._taint_marks: dict[bytes, int] = {}
        self._taints_of: Indices = np.array([self._mark(t) for t in things], dtype=np.int64)
        self._known: dict[bytes, KnownRequirement] = {}

    def put(self, thing: Object, node: NodeEntry) -> None:
        """A node is new, or has changed."""
        row = self.row_of.get(node.name)
        if row is None:
            row = self.row_of[node.name] = len(self.nodes)
            self.nodes.append(node)
            self._resize(None)
        self.nodes[row] = node
        self.everywhere[row] = True
        self.given[row] = bool(node.amounts)
        self.ready[row] = is_ready(thing) and self.given[row]
        self.open[row] = is_open(thing) and self.given[row]
        self._taints_of[row] = self._mark(thing)
        for known in self._known.values():
            known.nodes[row] = known.meets(node)

    def delete(self, name: str) -> None:
        """A node is gone: the rows after it move up."""
        row = self.row_of[name]
        del self.nodes[row]
        self.row_of = {node.name: k for k, node in enumerate(self.nodes)}
        self._resize(row)

    def _resize(self, gone: int | None) -> None:
        """Make room for one more row, or take one away."""
        self.everywhere, self.given = resize(self.everywhere, gone), resize(self.given, gone)
        self.open, self.ready = resize(self.open, gone), resize(self.ready, gone)
        self._taints_of = resize(self._taints_of, gone)
        for known in self._known.values():
            known.nodes = resize(known.nodes, gone)

    def _mark(self, thing: Object) -> int:
        """The number of a node's list of taints. When a taint was added changes nothing."""
        taints: list[Object] = [
            {k: v for k, v in t.items() if k != "timeAdded"} for t in taints_of(thing)
        ]
        key = msgspec.json.encode(taints, order="deterministic")
        if key not in self._taint_marks:
            self._taint_marks[key] = len(self._taints)
            self._taints.append(taints)
        return self._taint_marks[key]

    def tolerated(self, tolerations: Sequence[Object]) -> Flags:
        """The nodes whose taints do not keep a pod off."""
        kinds = np.array([tolerated(taints, tolerations) for taints in self._taints], np.bool_)
        mask: Flags = kinds[self._taints_of]
        return mask

    def required(self, selector: Object, where: str) -> Flags:
        """A node selector: the nodes that meet one of its terms whole; a term that asks for
        nothing matches nothing."""
        mask = np.zeros(len(self.nodes), dtype=np.bool_)
        for term in selector.get("nodeSelectorTerms") or ():
            wants = [(want, False) for want in term.get("matchExpressions") or ()]
            wants += [(want, True) for want in term.get("matchFields") or ()]
            if wants:
                mask |= np.logical_and.reduce([self._meets(w, f, where) for w, f in wants])
        return mask

    def affinity(self, spec: Object, where: str) -> Flags:
        """The nodes a pod's `nodeSelector` and required node affinity allow."""
        mask = self.everywhere.copy()
        for key, value in (spec.get("nodeSelector") or {}).items():
            want = {"key": key, "operator": "In", "values": [value]}
            mask &= self._meets(want, False, where)
        required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        )
        return mask if required is None else mask & self.required(required, where)

    def penalty(self, spec: Object, where: str) -> Floats:
        """What a pod pays on each node: the weights of preferred node affinity it does not meet,
        and 100 for each taint that asks it to stay away."""
        tolerations = spec.get("tolerations") or []
        disliked = [100.0 * count_disliked(taints, tolerations) for taints in self._taints]
        amount: Floats = np.array(disliked, dtype=np.float64)[self._taints_of]
        node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        for wish in node_affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            met = self.required({"nodeSelectorTerms": [wish.get("preference") or {}]}, where)
            amount += float(wish.get("weight") or 0) * ~met
        return amount

    def labelled(self, key: str) -> Flags:
        return self._meets({"key": key, "operator": "Exists"}, False, key)

    def _meets(self, want: Object, of_fields: bool, where: str) -> Flags:
        if of_fields and want.get("key") == "metadata.name" and want.get("operator") == "In":
            return self._named(want.get("values") or ())
        key = msgspec.json.encode([want, of_fields], order="deterministic")
        if key not in self._known:
            known = self._known[key] = KnownRequirement(want, of_fields, where)
            known.nodes = np.array([known.meets(node) for node in self.nodes], dtype=np.bool_)
        return self._known[key].nodes

    def _named(self, names: Sequence[object]) -> Flags:
        """The nodes of these names. Every pod of a daemon set names another, so nothing is kept."""
        mask = np.zeros(len(self.nodes), dtype=np.bool_)
        mask[[self.row_of[str(name)] for name in names if str(name) in self.row_of]] = True
        return mask
