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


def gang_of(pod: Object, workloads: Mapping[str, Object]) -> tuple[str, int]:
    """The gang a pod belongs to, with its namespace, and how many pods that needs: by its labels,
    or as the workload it refers to says."""
    metadata = pod["metadata"]
    reference = (pod.get("spec") or {}).get("workloadRef") or {}
    workload = workloads.get(f"{namespace_of(pod)}/{reference.get('name')}")
    if workload is not None:
        for group in (workload.get("spec") or {}).get("podGroups") or ():
            count = ((group.get("policy") or {}).get("gang") or {}).get("minCount")
            if group.get("name") == reference.get("podGroup") and isinstance(count, int):
                parts = (reference["name"], group["name"], reference.get("podGroupReplicaKey"))
                return f"{namespace_of(pod)}/" + ".".join(str(p) for p in parts if p), count
    marks = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    for name, size in GANGS:
        if name in marks:
            told = str(marks.get(size, ""))
            return f"{namespace_of(pod)}/{marks[name]}", int(told) if told.isdigit() else 1
    return "", 1
