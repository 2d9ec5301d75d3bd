"""The pods that manifests would bring: what `--place` reads.

Manifests hold much that makes no pods (services, roles, budgets, custom resources): that is left
out. Of a daemon set there is one pod for each node it may use, of a cron job those of one run.
"""

from __future__ import annotations

from collections.abc import Sequence

from murmuration.base.errors import InputError
from murmuration.kubernetes.admission import PodAdmission
from murmuration.kubernetes.nodes import NodeMasks, node_entry
from murmuration.kubernetes.objects import Object, controller_of, listed, name_of, namespace_of

#: What brings pods of its own.
MAKERS = (
    "Deployment",
    "StatefulSet",
    "ReplicaSet",
    "ReplicationController",
    "Job",
    "CronJob",
    "DaemonSet",
)
COUNT_MAX = 100_000
#: What stands between the name of a maker and the number of a pod it would make.
NEW = "-new-"
#: What the daemon set controller lets every pod of its own tolerate.
_CONDITIONS = ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
DAEMON_TOLERATIONS = [
    *(
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
        for key in ("not-ready", "unreachable")
    ),
    *(
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoSchedule"}
        for key in _CONDITIONS
    ),
]


def pods_to_place(manifests: Sequence[Object], cluster: Sequence[Object]) -> list[Object]:
    """New pods as the API server would store them, without a node: those listed, and those that a
    Deployment or the like would make."""
    pods: list[Object] = []
    for thing in manifests:
        if thing["kind"] == "Pod":
            pods.append(_without_node(thing))
        elif thing["kind"] == "DaemonSet":
            pods += _daemons(thing, cluster)
        elif thing["kind"] in MAKERS:
            pods += _replicas(thing)
    if not pods and not any(thing["kind"] in MAKERS for thing in manifests):
        kinds = ", ".join(sorted({str(thing["kind"]) for thing in manifests}))
        raise InputError(
            f"--place: expected pods or what makes them ({', '.join(MAKERS)}), got {kinds}"
        )
    admission = PodAdmission([*cluster, *manifests])
    return [admission.admit(pod) for pod in pods]


def _without_node(pod: Object) -> Object:
    spec = {key: value for key, value in (pod.get("spec") or {}).items() if key != "nodeName"}
    return {**pod, "spec": spec, "status": {"phase": "Pending"}}


def _template(maker: Object) -> tuple[Object, int]:
    """The template of a controller's pods, and how many it would make."""
    spec: Object = maker.get("spec") or {}
    where = f"{maker['kind']} {name_of(maker)}"
    if maker["kind"] == "CronJob":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    template = spec.get("template")
    if not isinstance(template, dict):
        raise InputError(f"{where}: expected spec.template")
    count = spec.get("parallelism" if maker["kind"] in ("Job", "CronJob") else "replicas", 1)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= COUNT_MAX:
        raise InputError(f"{where}: expected a number of replicas, got {count!r}")
    return template, count


def _replicas(maker: Object) -> list[Object]:
    """The pods a controller would make of its template."""
    template, count = _template(maker)
    claims = listed(maker.get("spec") or {}, "volumeClaimTemplates", f"{name_of(maker)}")
    spec = dict(template.get("spec") or {})
    if claims:
        # A claim of its own for each pod is where its volume is made with it.
        own = [
            {"name": str(c["metadata"].get("name")), "ephemeral": {"volumeClaimTemplate": c}}
            for c in claims
        ]
        spec["volumes"] = [*(spec.get("volumes") or ()), *own]
    return [_make_pod(maker, template, spec, k) for k in range(count)]


def _daemons(maker: Object, cluster: Sequence[Object]) -> list[Object]:
    """One pod for each ready node that the daemon set selects and tolerates, closed ones too."""
    template, _ = _template(maker)
    things = [thing for thing in cluster if thing["kind"] == "Node"]
    entries = [node_entry(thing) for thing in things]
    masks = NodeMasks(things, entries)
    spec = dict(template.get("spec") or {})
    tolerations = [*(spec.get("tolerations") or ()), *DAEMON_TOLERATIONS]
    where = f"DaemonSet {name_of(maker)}"
    open_nodes = masks.ready & masks.tolerated(tolerations) & masks.affinity(spec, where)
    pods: list[Object] = []
    for node, is_open in zip(entries, open_nodes.tolist(), strict=True):
        if is_open:
            body = {**spec, "tolerations": tolerations, "affinity": on_node(spec, node.name)}
            pods.append(_make_pod(maker, template, body, len(pods)))
    return pods


def on_node(spec: Object, name: str) -> Object:
    """A pod's affinity with its node's name in place of what it asks of nodes, as the daemon set
    controller writes it."""
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {
        **(spec.get("affinity") or {}),
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required},
    }


def _make_pod(maker: Object, template: Object, spec: Object, number: int) -> Object:
    name = maker["metadata"].get("name", "")
    owner = {"kind": maker["kind"], "name": name, "controller": True}
    metadata = {
        **(template.get("metadata") or {}),
        "namespace": namespace_of(maker),
        "ownerReferences": [owner],
        "name": f"{name}{NEW}{number}",
    }
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def maker_of_new(task: str) -> str:
    """The maker of a pod that was only planned, as namespace and name; empty for a pod that has a
    name of its own."""
    maker, new, number = task.rpartition(NEW)
    return maker if new and number.isdigit() else ""


def is_made_by(pod: Object, maker: str) -> bool:
    """Whether a pod comes of a maker: of itself, or of what it makes in turn, a replica set of a
    deployment or a job of a cron job, whose names are its own and one part more."""
    owner = controller_of(pod)
    if owner is None:
        return False
    name = str(owner.get("name") or "")
    return maker in (f"{namespace_of(pod)}/{each}" for each in (name, name.rpartition("-")[0]))
