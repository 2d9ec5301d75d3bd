"""What the API server would write into a pod of a manifest before the scheduler sees it.

Manifests say less than the pods that come of them: a runtime class adds its overhead and where its
pods may run, a limit range what a container asks for that says nothing, a priority class a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from murmuration.kubernetes.objects import Object, listed, namespace_of

#: What a manifest brings that its own pods need, beside the pods.
CONTEXT = (
    "LimitRange",
    "Namespace",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PriorityClass",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "RuntimeClass",
    "StorageClass",
)
#: Priority classes that every cluster has.
PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def context_of(manifests: Sequence[Object], cluster: Sequence[Object]) -> list[Object]:
    """What pods of the manifests refer to and the cluster does not have yet."""
    there = {_mark(thing) for thing in cluster}
    return [thing for thing in manifests if thing["kind"] in CONTEXT and _mark(thing) not in there]


def _mark(thing: Object) -> tuple[object, ...]:
    return thing["kind"], thing["metadata"].get("namespace"), thing["metadata"].get("name")


class PodAdmission:
    """The classes and limits of a cluster that change new pods."""

    def __init__(self, things: Iterable[Object]) -> None:
        self._runtimes: dict[str, Object] = {}
        self._priorities: dict[str, object] = dict(PRIORITIES)
        self._defaults: dict[str, dict[str, object]] = {}
        self._priority: object = 0
        for thing in things:
            name = str(thing["metadata"].get("name"))
            if thing["kind"] == "RuntimeClass":
                self._runtimes[name] = thing
            elif thing["kind"] == "PriorityClass":
                self._priorities[name] = thing.get("value")
                self._priority = (
                    thing.get("value") if thing.get("globalDefault") else self._priority
                )
            elif thing["kind"] == "LimitRange":
                self._defaults.setdefault(namespace_of(thing), {}).update(_defaults_of(thing))

    def admit(self, pod: Object) -> Object:
        """The pod as it would be stored."""
        spec = dict(self._with_runtime(pod.get("spec") or {}))
        if spec.get("priority") is None:
            name = spec.get("priorityClassName")
            spec["priority"] = self._priorities.get(str(name)) if name else self._priority
        defaults = self._defaults.get(namespace_of(pod))
        if defaults:
            for part in ("initContainers", "containers"):
                containers = listed(spec, part, "a pod")
                spec[part] = [_with_requests(each, defaults) for each in containers]
        return {**pod, "spec": spec}

    def _with_runtime(self, spec: Object) -> Object:
        runtime = self._runtimes.get(str(spec.get("runtimeClassName")))
        if runtime is None:
            return spec
        scheduling = runtime.get("scheduling") or {}
        overhead = (runtime.get("overhead") or {}).get("podFixed")
        selector = {**(spec.get("nodeSelector") or {}), **(scheduling.get("nodeSelector") or {})}
        tolerations = [*(spec.get("tolerations") or ()), *(scheduling.get("tolerations") or ())]
        more = {"overhead": overhead} if overhead else {}
        return {**spec, **more, "nodeSelector": selector, "tolerations": tolerations}


def _defaults_of(limits: Object) -> dict[str, object]:
    """What a container asks for that says nothing: the default request, else the default limit."""
    defaults: dict[str, object] = {}
    for item in listed(limits.get("spec") or {}, "limits", "a LimitRange"):
        if item.get("type") == "Container":
            defaults |= {**(item.get("default") or {}), **(item.get("defaultRequest") or {})}
    return defaults


def _with_requests(container: Object, defaults: dict[str, object]) -> Object:
    """A container with the defaults for what it neither requests nor limits itself to."""
    resources = container.get("resources") or {}
    told = {**defaults, **(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": told}}
