"""Which pods belong together."""

from __future__ import annotations

from collections.abc import Mapping

from murmuration.kubernetes.objects import Object, namespace_of

#: How pods say that they belong together, ours first; and how many there are of them.
GANGS = (
    ("murmuration/gang", "murmuration/gang-size"),
    ("pod-group.scheduling.sigs.k8s.io/name", "pod-group.scheduling.sigs.k8s.io/min-available"),
    ("pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/min-available"),
)


WORKLOAD, POD_GROUP = "Workload", "PodGroup"
#: Objects by kind and name.
Things = Mapping[str, Mapping[str, Object]]


def group_of(pod: Object) -> tuple[str, str]:
    """The object that says whether a pod belongs to a gang: its kind and name, empty if the pod
    names none. 1.35 refers to a group inside a Workload, later versions to a PodGroup."""
    spec = pod.get("spec") or {}
    if name := (spec.get("schedulingGroup") or {}).get("podGroupName"):
        return POD_GROUP, f"{namespace_of(pod)}/{name}"
    if name := (spec.get("workloadRef") or {}).get("name"):
        return WORKLOAD, f"{namespace_of(pod)}/{name}"
    return "", ""


def missing_group(pod: Object, things: Things) -> str:
    """Why a pod must wait for the object that describes its group; empty if it need not."""
    kind, name = group_of(pod)
    return f"its {kind} {name} is not known" if kind and name not in things.get(kind, {}) else ""


def gang_of(pod: Object, things: Things) -> tuple[str, int]:
    """The gang a pod belongs to, with its namespace, and how many pods that needs: as the object it
    refers to says, or by its labels."""
    kind, name = group_of(pod)
    thing = things.get(kind, {}).get(name, {})
    if kind == POD_GROUP:
        return _of_policy(name, (thing.get("spec") or {}).get("schedulingPolicy"))
    if kind == WORKLOAD:
        reference = pod["spec"]["workloadRef"]
        for group in (thing.get("spec") or {}).get("podGroups") or ():
            if group.get("name") == reference.get("podGroup"):
                parts = (name, group["name"], reference.get("podGroupReplicaKey"))
                return _of_policy(".".join(str(p) for p in parts if p), group.get("policy"))
        return "", 1
    metadata = pod["metadata"]
    marks = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    for label, size in GANGS:
        if label in marks:
            told = str(marks.get(size, ""))
            return f"{namespace_of(pod)}/{marks[label]}", int(told) if told.isdigit() else 1
    return "", 1


def _of_policy(name: str, policy: Object | None) -> tuple[str, int]:
    """A gang by its policy; pods of any other policy go each by itself."""
    count = ((policy or {}).get("gang") or {}).get("minCount")
    return (name, count) if isinstance(count, int) else ("", 1)
