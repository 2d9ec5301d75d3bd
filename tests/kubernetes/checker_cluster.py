"""The cluster as the checker sees it: plain dictionaries as the API server gives them.

Nothing of the planner is imported here or in the files beside it: what both get wrong the same way
would never be found.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
Thing = Mapping[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NAME_LABEL = "kubernetes.io/metadata.name"
HOSTNAME = "kubernetes.io/hostname"
#: The node controller writes these taints for conditions, with NoSchedule; the scheduler itself has
#: not looked at conditions since 1.12 (TaintNodesByCondition).
CONDITIONS = {
    ("Ready", "False"): "node.kubernetes.io/not-ready",
    ("Ready", "Unknown"): "node.kubernetes.io/unreachable",
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def name_of(thing: Thing) -> str:
    return str(thing["metadata"]["name"])


def namespace_of(thing: Thing) -> str:
    return str(thing["metadata"].get("namespace") or "default")


def key_of(thing: Thing) -> str:
    return f"{namespace_of(thing)}/{name_of(thing)}"


def labels_of(thing: Thing) -> dict[str, str]:
    return dict(thing["metadata"].get("labels") or {})


def annotations_of(thing: Thing) -> dict[str, str]:
    return dict(thing["metadata"].get("annotations") or {})


def spec_of(thing: Thing) -> Object:
    return dict(thing.get("spec") or {})


def status_of(thing: Thing) -> Object:
    return dict(thing.get("status") or {})


def controller_of(pod: Thing) -> Object | None:
    """The one owner that would make the pod again; there is at most one with `controller: true`."""
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return None


def terminating(pod: Thing) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def finished(pod: Thing) -> bool:
    """A pod that ended holds nothing: neither room nor ports."""
    return status_of(pod).get("phase") in ("Succeeded", "Failed")


def ready(pod: Thing) -> bool:
    """The condition Ready; a snapshot without conditions is believed if the pod runs."""
    told = [c for c in status_of(pod).get("conditions") or () if c.get("type") == "Ready"]
    if not told:
        return status_of(pod).get("phase") == "Running"
    return all(condition.get("status") == "True" for condition in told)


def taints_of(node: Thing) -> list[Object]:
    """The taints written on a node and those its controllers write within seconds."""
    found = [dict(taint) for taint in spec_of(node).get("taints") or ()]
    known = {(taint.get("key"), taint.get("effect")) for taint in found}
    more = [CORDON] if spec_of(node).get("unschedulable") else []
    for condition in status_of(node).get("conditions") or ():
        key = CONDITIONS.get((condition.get("type"), condition.get("status")))
        more += [{"key": key, "effect": "NoSchedule"}] if key else []
    return found + [dict(t) for t in more if (t["key"], t["effect"]) not in known]


def tolerates(toleration: Thing, taint: Thing) -> bool:
    """An empty effect stands for all effects; an empty key with Exists for all taints."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    operator = toleration.get("operator") or "Equal"
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if operator == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (
        taint.get("value") or ""
    )


def untolerated(pod: Thing, node: Thing) -> Object | None:
    """The first taint that keeps the pod away; PreferNoSchedule never does."""
    tolerations = spec_of(pod).get("tolerations") or ()
    for taint in taints_of(node):
        if taint.get("effect") not in ("NoSchedule", "NoExecute"):
            continue
        if not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def meets(labels: Mapping[str, str], want: Thing) -> bool:
    """One requirement of a selector. A label that is absent meets NotIn and DoesNotExist."""
    have, values = labels.get(str(want["key"])), [str(v) for v in want.get("values") or ()]
    operator = want["operator"]
    if operator == "In":
        return have in values
    if operator == "NotIn":
        return have not in values
    if operator == "Exists":
        return have is not None
    if operator == "DoesNotExist":
        return have is None
    return _compared(have, str(operator), values)


def _compared(have: str | None, operator: str, values: list[str]) -> bool:
    """Gt and Lt, of node selectors only: both sides are whole numbers or nothing matches."""
    if operator not in ("Gt", "Lt"):
        raise ValueError(f"no such operator: {operator}")
    try:
        left, right = int(have or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right


def selects(selector: Thing | None, labels: Mapping[str, str]) -> bool:
    """A label selector: none selects nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    listed = selector.get("matchExpressions") or ()
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        meets(labels, want) for want in listed
    )


def with_label_keys(selector: Thing | None, term: Thing, pod: Thing) -> Thing | None:
    """`matchLabelKeys` and `mismatchLabelKeys` add what the pod's own labels say.

    Keys the pod does not have are left out. For pod affinity the API server writes the result into
    the selector itself (beta in 1.31), for spread the scheduler does it (beta in 1.27).
    """
    if selector is None:
        return None
    own, more = labels_of(pod), []
    for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(name) or ():
            if key in own:
                more.append({"key": key, "operator": operator, "values": [own[key]]})
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *more]}


@dataclass
class Cluster:
    """Nodes by name, live pods by namespace/name, and every other object by kind."""

    nodes: dict[str, Object] = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    kinds: dict[str, list[Object]] = field(default_factory=dict)

    def of_kind(self, kind: str) -> list[Object]:
        return self.kinds.get(kind, [])

    def named(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        for thing in self.of_kind(kind):
            if name_of(thing) == name and namespace in (None, namespace_of(thing)):
                return thing
        return None

    def node_of(self, pod: Thing) -> Object | None:
        return self.nodes.get(str(spec_of(pod).get("nodeName") or ""))

    def placed(self, but: Thing | None = None) -> list[tuple[Object, Object]]:
        """Pods and their nodes; a pod on a node nobody knows is not counted anywhere."""
        skip = None if but is None else key_of(but)
        pairs = ((pod, self.node_of(pod)) for key, pod in self.pods.items() if key != skip)
        return [(pod, node) for pod, node in pairs if node is not None]

    def on(self, node: Thing, but: Thing | None = None) -> list[Object]:
        return [pod for pod, there in self.placed(but) if name_of(there) == name_of(node)]

    def namespace_labels(self, name: str) -> dict[str, str]:
        """Every namespace has had its name as a label since 1.21, told or not."""
        found = self.named("Namespace", name)
        return {**(labels_of(found) if found else {}), NAME_LABEL: name}

    def copy(self) -> Cluster:
        return copy.deepcopy(self)


def cluster_of(things: Iterable[Thing]) -> Cluster:
    """The cluster of a list of objects; pods that ended are left out."""
    found = Cluster()
    for thing in things:
        made = copy.deepcopy(dict(thing))
        if made["kind"] == "Node":
            found.nodes[name_of(made)] = made
        elif made["kind"] == "Pod" and not finished(made):
            found.pods[key_of(made)] = made
        elif made["kind"] != "Pod":
            found.kinds.setdefault(str(made["kind"]), []).append(made)
    return found
