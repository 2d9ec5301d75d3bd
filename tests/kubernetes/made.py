"""Builders of clusters for tests: nodes, pods and what belongs to them, as `kubectl get -o json`
shows them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.kubernetes.checker_cluster import REQUIRED, Cluster, Object, cluster_of
from tests.kubernetes.checker_eviction import allowed, desired, healthy

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
NODES = ("--objective", "nodes")
FEW = ("--objective", "nodes=10", "--objective", "moves")
PLAIN = ()
Question = tuple[str, ...]
#: What must hold of a plan beyond its steps: given the cluster at its end and the plan, what fails.
Expect = Callable[[Cluster, Object], list[str]]


@dataclass
class Case:
    """A cluster and the questions asked about it."""

    items: list[Object]
    questions: Sequence[Question] = (PLAIN, NODES)
    place: list[Object] = field(default_factory=list)
    added: dict[str, Object] = field(default_factory=dict)
    expect: Expect | None = None
    #: Steps that all questions together must at least have, or nothing was tried.
    steps: int = 1


def removing(*names: str) -> Question:
    return tuple(word for name in names for word in ("--remove", name))


@dataclass
class Made:
    """A list of objects that grows; what is drawn is drawn from its own generator."""

    seed: int = 1
    items: list[Object] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def add(self, kind: str, name: str, namespace: str = "", **parts: Any) -> Object:
        meta = {"name": name, **({"namespace": namespace} if namespace else {})}
        meta |= parts.pop("metadata", {})
        thing = {"apiVersion": parts.pop("version", "v1"), "kind": kind, "metadata": meta, **parts}
        self.items.append(thing)
        return thing

    def node(
        self,
        name: str,
        zone: str = "a",
        cpu: str = "4",
        memory: str = "16Gi",
        pods: str = "110",
        labels: dict[str, str] | None = None,
        more: dict[str, str] | None = None,
        state: str = "True",
        **spec: Any,
    ) -> Object:
        given = {"cpu": cpu, "memory": memory, "pods": pods, **(more or {})}
        status = {
            "allocatable": given,
            "capacity": given,
            "conditions": [{"type": "Ready", "status": state}],
        }
        marks = {HOST: name, ZONE: zone, "kubernetes.io/os": "linux", **(labels or {})}
        return self.add("Node", name, metadata={"labels": marks}, spec=spec, status=status)

    def nodes(self, count: int, zones: str = "abc", **more: Any) -> list[str]:
        names = [f"n{k}" for k in range(count)]
        for k, name in enumerate(names):
            self.node(name, zones[k % len(zones)], **more)
        return names

    def pod(
        self,
        app: str,
        on: str = "",
        cpu: str = "500m",
        memory: str = "512Mi",
        space: str = "shop",
        owner: str = "ReplicaSet",
        labels: dict[str, str] | None = None,
        requests: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        is_ready: bool = True,
        container: Object | None = None,
        **spec: Any,
    ) -> Object:
        """One more pod of an application, pending unless it is told a node."""
        number = self.counts[app] = self.counts.get(app, -1) + 1
        asked = {"cpu": cpu, "memory": memory, **(requests or {})}
        main = {"name": "main", "image": "x", "resources": {"requests": asked}}
        owners = [{"kind": owner, "name": app, "controller": True, "uid": app}] if owner else []
        meta = {
            "labels": {"app": app, **(labels or {})},
            "annotations": annotations or {},
            "ownerReferences": owners,
        }
        body = {
            "containers": [main | (container or {})],
            **spec,
            **({"nodeName": on} if on else {}),
        }
        status = pod_status(bool(on), is_ready)
        return self.add("Pod", f"{app}-{number}", space, metadata=meta, spec=body, status=status)

    def fill(self, names: Sequence[str], each: int, apps: int = 4, **more: Any) -> None:
        """As many ordinary pods on each node, of random sizes, from some applications."""
        for name in names:
            for _ in range(each):
                cpu = self.rng.choice(("200m", "300m", "500m", "700m"))
                memory = self.rng.choice(("256Mi", "512Mi", "1Gi"))
                self.pod(f"web{self.rng.randrange(apps)}", name, cpu, memory, **more)

    def daemons(self, names: Sequence[str], cpu: str = "100m", **more: Any) -> None:
        every = [{"operator": "Exists"}]
        for name in names:
            self.pod(
                "agent", name, cpu, "128Mi", "kube-system", "DaemonSet", tolerations=every, **more
            )

    def budget(self, name: str, selector: Object, space: str = "shop", **spec: Any) -> Object:
        body = {"selector": selector, **spec}
        return self.add("PodDisruptionBudget", name, space, version="policy/v1", spec=body)

    def counted(self) -> None:
        """Write what the disruption controller would write into every budget."""
        cluster = cluster_of(self.items)
        for thing in self.items:
            if thing["kind"] == "PodDisruptionBudget":
                thing["status"] = {
                    "desiredHealthy": desired(cluster, thing),
                    "currentHealthy": healthy(cluster, thing),
                    "disruptionsAllowed": allowed(cluster, thing),
                }

    def claim(self, name: str, volume: str = "", kind: str = "disk", **spec: Any) -> None:
        body = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": kind,
            "resources": {"requests": {"storage": "10Gi"}},
            **({"volumeName": volume} if volume else {}),
            **spec,
        }
        phase = {"phase": "Bound" if volume else "Pending"}
        self.add("PersistentVolumeClaim", name, "shop", spec=body, status=phase)

    def volume(
        self, name: str, claim: str, labels: dict[str, str] | None = None, **spec: Any
    ) -> None:
        body: Object = {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "disk",
            "csi": {"driver": "disk.example.com", "volumeHandle": name},
            "claimRef": {"namespace": "shop", "name": claim},
            **spec,
        }
        status = {"phase": "Bound"}
        body = {key: value for key, value in body.items() if value is not None}
        self.add(
            "PersistentVolume", name, metadata={"labels": labels or {}}, spec=body, status=status
        )

    def stored(self, app: str, on: str, labels: dict[str, str] | None = None, **spec: Any) -> None:
        """A pod of a stateful set with a bound volume of its own."""
        number = self.counts.get(app, -1) + 1
        claim = f"data-{app}-{number}"
        self.volume(f"pv-{claim}", claim, labels, **spec)
        self.claim(claim, f"pv-{claim}")
        self.pod(app, on, owner="StatefulSet", volumes=[using(claim)])


def pod_status(running: bool, is_ready: bool) -> Object:
    if not running:
        return {"phase": "Pending"}
    state = "True" if is_ready else "False"
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": state}]}


def using(claim: str) -> Object:
    return {"name": "data", "persistentVolumeClaim": {"claimName": claim}}


def app_is(*names: str) -> Object:
    return {"matchExpressions": [{"key": "app", "operator": "In", "values": list(names)}]}


def term(selector: Object, key: str = HOST, **more: Any) -> Object:
    return {"labelSelector": selector, "topologyKey": key, **more}


def apart(*terms: Object) -> Object:
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def together(*terms: Object) -> Object:
    return {"podAffinity": {REQUIRED: list(terms)}}


def on_nodes(*terms: Object) -> Object:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def where(key: str, operator: str, *values: str) -> Object:
    want: Object = {"key": key, "operator": operator}
    return {"matchExpressions": [want | ({"values": list(values)} if values else {})]}


def spread(selector: Object, key: str = ZONE, skew: int = 1, **more: Any) -> list[Object]:
    rule = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**rule, "labelSelector": selector, **more}]
