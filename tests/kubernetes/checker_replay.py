"""Whole plans: the steps of a `plan.json` carried out one by one, each held against Kubernetes.

A move is an eviction; the controller then makes another pod from the same template, with another
name unless it is a stateful set, and the scheduler must find the planned node fit for it once the
old pod is gone. Each new pod is taken to be as ready as the old one was before the next step.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from tests.kubernetes.checker import refusals, takers
from tests.kubernetes.checker_cluster import (
    HOSTNAME,
    REQUIRED,
    Cluster,
    Object,
    Thing,
    annotations_of,
    controller_of,
    key_of,
    name_of,
    namespace_of,
    ready,
    spec_of,
    terminating,
)
from tests.kubernetes.checker_eviction import eviction_refusals
from tests.kubernetes.checker_nodes import node_refusals
from tests.kubernetes.checker_resources import resource_refusals
from tests.kubernetes.checker_volumes import bind

MIRROR = "kubernetes.io/config.mirror"
#: Marks by which somebody asks that a pod be left alone, and the value that means it.
LEAVE_ALONE = {
    "karpenter.sh/do-not-disrupt": "true",
    "karpenter.sh/do-not-evict": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}


def of_node(pod: Thing) -> bool:
    """A pod that belongs to its node: of a daemon set, or static, shown as a mirror."""
    owner = controller_of(pod)
    return MIRROR in annotations_of(pod) or (
        owner is not None and owner["kind"] in ("DaemonSet", "Node")
    )


def untouchable(pod: Thing) -> list[str]:
    """Why nobody should evict the pod, whatever the budgets say."""
    if of_node(pod):
        return [f"{key_of(pod)} belongs to its node and would come back there"]
    if terminating(pod):
        return [f"{key_of(pod)} is being deleted already"]
    if controller_of(pod) is None:
        return [f"{key_of(pod)} has no controller: nobody would make it again"]
    told = annotations_of(pod)
    marks = [key for key, value in LEAVE_ALONE.items() if str(told.get(key)).lower() == value]
    return [f"{key_of(pod)} is marked {marks[0]}"] if marks else []


@dataclass
class Replay:
    """A cluster on which steps are carried out; `wrong` says what Kubernetes would not have done.

    `makers` are objects with a pod template whose pods are not there yet, `added` the nodes that
    somebody means to add, by type or by the name of the node they are like.
    """

    cluster: Cluster
    makers: Sequence[Object] = ()
    added: Mapping[str, Object] = field(default_factory=dict)
    removed: Sequence[str] = ()
    wrong: list[str] = field(default_factory=list)
    #: The pod that a task of the plan has become; replacements have names of their own.
    now: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Nodes that go are closed first, as `kubectl drain` does. What comes with new pods and
        makes none is there before them."""
        for thing in self.makers:
            kind = str(thing["kind"])
            if not template_of(thing) and kind != "Pod":
                self.cluster.kinds.setdefault(kind, []).append(copy.deepcopy(thing))
        for name in self.removed:
            self.cluster.nodes[name].setdefault("spec", {})["unschedulable"] = True

    def run(self, steps: Sequence[Thing]) -> list[str]:
        """All steps; waves are looked at before they are carried out."""
        for _, wave in groupby(steps, key=lambda step: step.get("wave")):
            listed = list(wave)
            self._side_by_side(listed)
            for step in listed:
                self.step(step)
        return self.wrong

    def say(self, step: Thing, *sentences: str) -> None:
        where = f"step {step.get('step')}: {step['task']} to {step['to']}: "
        self.wrong += [where + sentence for sentence in sentences]

    def pod(self, task: str) -> Object | None:
        """The pod a task stands for now; pods of makers come to be when they are asked for."""
        found = self.cluster.pods.get(self.now.get(task, task))
        return found if found is not None else self._made(task)

    def _made(self, task: str) -> Object | None:
        space, _, name = task.rpartition("/")
        for maker in self.makers:
            mine = namespace_of(maker) == space and name.startswith(name_of(maker))
            if mine and (template_of(maker) or maker["kind"] == "Pod"):
                made = admit(self.cluster, made_pod(maker, name))
                self._claim(maker, made)
                self.cluster.pods[key_of(made)] = made
                return made
        return None

    def _claim(self, maker: Thing, pod: Object) -> None:
        """A stateful set makes a claim of each template for each of its pods."""
        for claim in spec_of(maker).get("volumeClaimTemplates") or ():
            meta = {"name": f"{name_of(claim)}-{name_of(pod)}", "namespace": namespace_of(pod)}
            made = {"kind": "PersistentVolumeClaim", "metadata": meta, "spec": claim["spec"]}
            self.cluster.kinds.setdefault("PersistentVolumeClaim", []).append(made)
            using = {"persistentVolumeClaim": {"claimName": meta["name"]}, "name": name_of(claim)}
            pod["spec"]["volumes"] = [*(pod["spec"].get("volumes") or ()), using]

    def node(self, name: str) -> Object | None:
        """A node; one that is added comes to be, with its daemon sets, when a step names it."""
        if name not in self.cluster.nodes:
            kinds = [kind for kind in self.added if kind in name]
            if kinds:
                self._add(name, self.added[max(kinds, key=len)])
        return self.cluster.nodes.get(name)

    def _add(self, name: str, like: Object) -> None:
        node = copy.deepcopy(like)
        node["metadata"]["name"] = name
        node["metadata"].setdefault("labels", {})[HOSTNAME] = name
        # A new machine is open and ready, whatever has become of the one it is like.
        node["spec"] = {
            "taints": [t for t in spec_of(node).get("taints") or () if not _of_state(t)]
        }
        node.setdefault("status", {})["conditions"] = [{"type": "Ready", "status": "True"}]
        self.cluster.nodes[name] = node
        for pod in daemons(self.cluster):
            pod["metadata"]["name"] += f"-{name}"
            pod["spec"].pop("nodeName", None)
            if not refusals(self.cluster, pod, node):
                pod["spec"]["nodeName"] = name
                self.cluster.pods[key_of(pod)] = pod

    def step(self, step: Thing) -> None:
        """One step: gone from where it was, then taken where it should go."""
        pod, node = self.pod(str(step["task"])), self.node(str(step["to"]))
        if pod is None or node is None:
            self.say(step, "there is no such pod" if pod is None else "there is no such node")
            return
        here = spec_of(pod).get("nodeName")
        if (step.get("from") or None) != (here or None):
            self.say(step, f"the pod is on {here or 'no node'}, not on {step.get('from')}")
            return
        if here:
            self.say(step, *untouchable(pod), *eviction_refusals(self.cluster, pod))
            del self.cluster.pods[key_of(pod)]
            pod = replacement(pod)
        elif of_node(pod):
            self.say(step, *node_refusals(pod, node))
            _bind_daemon(pod, node)
        self.say(step, *refusals(self.cluster, pod, node))
        self.put(str(step["task"]), pod, node)

    def put(self, task: str, pod: Object, node: Object) -> None:
        """The new pod runs; claims that waited for it now belong to its node."""
        pod["spec"]["nodeName"] = name_of(node)
        pod["status"]["phase"] = "Running"
        bind(self.cluster, pod, node)
        self.cluster.pods[key_of(pod)] = pod
        self.now[task] = key_of(pod)

    def _side_by_side(self, steps: Sequence[Thing]) -> None:
        """Steps of one wave may all be under way at once: budgets must bear it, and rooms too.

        Every old pod still takes its room, and no new one is ready.
        """
        if len(steps) < 2:
            return
        during = self.cluster.copy()
        for step in steps:
            pod, node = self.pod(str(step["task"])), self.node(str(step["to"]))
            old = during.pods.get(key_of(pod)) if pod is not None else None
            there = during.nodes.get(str(step["to"]))
            if pod is None or node is None or there is None:
                continue
            if old is not None and spec_of(old).get("nodeName"):
                self.say(step, *(f"in its wave: {s}" for s in eviction_refusals(during, old)))
                old["metadata"]["deletionTimestamp"] = "now"
            new = {**replacement(pod), "status": {"phase": "Pending"}}
            new["metadata"]["name"] += "-coming"
            self.say(step, *(f"in its wave: {s}" for s in resource_refusals(during, new, there)))
            new["spec"]["nodeName"] = name_of(there)
            during.pods[key_of(new)] = new


def _bind_daemon(pod: Object, node: Thing) -> None:
    """The daemon set controller asks for the node by name, in place of what its template asks of
    nodes; a spread then knows of that node alone."""
    here = {"key": "metadata.name", "operator": "In", "values": [name_of(node)]}
    required = {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [here]}]}}
    pod["spec"]["affinity"] = {**(spec_of(pod).get("affinity") or {}), "nodeAffinity": required}


def _of_state(taint: Thing) -> bool:
    return str(taint.get("key")).startswith("node.kubernetes.io/")


def daemons(cluster: Cluster) -> list[Object]:
    """One pod of each daemon set, without its node."""
    found: dict[tuple[str, str], Object] = {}
    for pod in cluster.pods.values():
        owner = controller_of(pod)
        if owner is not None and owner["kind"] == "DaemonSet":
            found.setdefault((namespace_of(pod), owner["name"]), pod)
    return [copy.deepcopy(pod) for pod in found.values()]


def template_of(maker: Thing) -> Object:
    """The pod that a controller makes; a cron job has it one level deeper, a budget nowhere."""
    job = spec_of(maker).get("jobTemplate") or {}
    return dict(spec_of(maker).get("template") or spec_of(job).get("template") or {})


def made_pod(maker: Thing, name: str) -> Object:
    """A pod of a template, as a controller would make it, or one that comes as it is."""
    if maker["kind"] == "Pod":
        return {**copy.deepcopy(dict(maker)), "status": {"phase": "Pending"}}
    template = copy.deepcopy(template_of(maker))
    if maker["kind"] == "DaemonSet":
        template["spec"].setdefault("tolerations", []).extend(DAEMONS_TOLERATE)
    owner = {"kind": maker["kind"], "name": name_of(maker), "controller": True}
    meta = {
        **(template.get("metadata") or {}),
        "namespace": namespace_of(maker),
        "name": name,
        "ownerReferences": [owner],
    }
    status = {"phase": "Pending"}
    return {"kind": "Pod", "metadata": meta, "spec": template.get("spec") or {}, "status": status}


#: What the daemon set controller adds to its pods.
DAEMONS_TOLERATE = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoSchedule"}
    for key in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
]


def admit(cluster: Cluster, pod: Object) -> Object:
    """What admission adds to a new pod: of its runtime class the overhead and where it may run, of
    the limit ranges of its namespace what its containers ask for."""
    spec = pod["spec"]
    if runtime := cluster.named("RuntimeClass", str(spec.get("runtimeClassName"))):
        if fixed := (runtime.get("overhead") or {}).get("podFixed"):
            spec["overhead"] = fixed
        scheduling = runtime.get("scheduling") or {}
        spec["nodeSelector"] = {
            **(spec.get("nodeSelector") or {}),
            **(scheduling.get("nodeSelector") or {}),
        }
        spec.setdefault("tolerations", []).extend(scheduling.get("tolerations") or ())
    for limits in cluster.of_kind("LimitRange"):
        for item in spec_of(limits).get("limits") or ():
            if namespace_of(limits) == namespace_of(pod) and item["type"] == "Container":
                for container in (*spec["containers"], *(spec.get("initContainers") or ())):
                    _ask_by_default(container, item.get("defaultRequest") or {})
    return pod


def _ask_by_default(container: Object, defaults: Thing) -> None:
    resources = container.setdefault("resources", {})
    asked = resources.setdefault("requests", {})
    for name, amount in defaults.items():
        if name not in (resources.get("limits") or {}):
            asked.setdefault(name, amount)


def replacement(pod: Thing) -> Object:
    """What the controller makes for a pod that is gone: the same but for node, name and state."""
    made = copy.deepcopy(dict(pod))
    made["spec"].pop("nodeName", None)
    made["metadata"].pop("deletionTimestamp", None)
    owner = controller_of(pod)
    if owner is None or owner["kind"] != "StatefulSet":
        made["metadata"]["name"] = f"{name_of(pod).removesuffix('-again')}-again"
    state = "True" if ready(pod) else "False"
    made["status"] = {"phase": "Pending", "conditions": [{"type": "Ready", "status": state}]}
    return made


def in_use(cluster: Cluster) -> set[str]:
    """Nodes that somebody pays for: those with pods that do not belong to the node itself."""
    return {name_of(node) for pod, node in cluster.placed() if not of_node(pod)}


def _takers(cluster: Cluster, pod: Thing) -> list[str]:
    """Nodes that would take a pod; of a daemon set those that have none of its pods."""
    owner, free = controller_of(pod), takers(cluster, pod)
    if owner is None or owner["kind"] != "DaemonSet":
        return free
    others = [(controller_of(other), name_of(node)) for other, node in cluster.placed(pod)]
    return [name for name in free if (owner, name) not in others]


def claims(replay: Replay, plan: Mapping[str, Any]) -> list[str]:
    """What else a plan says that is not so: pods left out although a node takes them, pods of
    nodes called stranded."""
    found = []
    for kind in replay.added:
        replay.node(f"new-{kind}-1")
    for entry in plan.get("unplaced") or ():
        if "--only and --exclude" in entry.get("reason", ""):
            continue
        pod = replay.pod(str(entry["task"]))
        free = _takers(replay.cluster, pod) if pod is not None else []
        free = [name for name in free if name not in replay.removed]
        if free:
            found.append(f"no node for {entry['task']}, it says, but {free[0]} would take it")
    for entry in plan.get("stranded") or ():
        pod = replay.cluster.pods.get(str(entry["task"]))
        if pod is not None and of_node(pod):
            found.append(f"{entry['task']} belongs to its node and is not stranded")
    return found
