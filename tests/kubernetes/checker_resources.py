"""What a pod asks for and whether a node has it: the filter NodeResourcesFit.

Only requests count here, those of pods that ask for nothing count as nothing (the 100 millicores
and 200 MB that the scheduler assumes for them serve its scores alone).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tests.kubernetes.checker_cluster import Cluster, Thing, name_of, spec_of, status_of

Amounts = Counter[str]

SUFFIXES: dict[str, Fraction] = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{s: Fraction(10 ** (3 * k)) for k, s in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{s + "i": Fraction(2 ** (10 * k)) for k, s in enumerate("KMGTPE", 1)},
}
NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+)|([a-zA-Z]*))")


def quantity(text: Any) -> Fraction:
    """`250m`, `1.5Gi`, `1e3`, `2E`; an E followed by digits is an exponent, else it is exa."""
    found = NUMBER.fullmatch(str(text).strip())
    if found is None or (found[3] or "") not in SUFFIXES:
        raise ValueError(f"no quantity: {text!r}")
    return Fraction(found[1]) * Fraction(10) ** int(found[2] or 0) * SUFFIXES[found[3] or ""]


def units(resource: str, text: Any) -> int:
    """Thousandths of a CPU, whole units of all else, both rounded up (`MilliValue`, `Value`)."""
    return math.ceil(quantity(text) * (1000 if resource == "cpu" else 1))


def amounts(listed: Mapping[str, Any] | None) -> Amounts:
    return Counter({name: units(name, text) for name, text in (listed or {}).items()})


def container_requests(container: Thing) -> Amounts:
    """Where a container has a limit and no request the API server takes the limit as request."""
    resources = container.get("resources") or {}
    return Counter({**amounts(resources.get("limits")), **amounts(resources.get("requests"))})


def most(left: Amounts, right: Amounts) -> Amounts:
    return Counter({name: max(left[name], right[name]) for name in {*left, *right}})


def containers_together(spec: Thing) -> Amounts:
    """All containers with the sidecars, or what is needed at some moment of the start.

    An init container runs beside the sidecars (`restartPolicy: Always`, beta in 1.29) that were
    started before it, so the sum of those is added to it.
    """
    together: Amounts = Counter()
    for container in spec.get("containers") or ():
        together += container_requests(container)
    sidecars: Amounts = Counter()
    starting: Amounts = Counter()
    for container in spec.get("initContainers") or ():
        wanted = container_requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars += wanted
            starting = most(starting, sidecars)
        else:
            starting = most(starting, wanted + sidecars)
    return most(together + sidecars, starting)


def requests(pod: Thing) -> Amounts:
    """Containers, then pod-level resources (beta in 1.34) in their place, then the overhead."""
    spec = spec_of(pod)
    found = containers_together(spec)
    whole = spec.get("resources") or {}
    if whole:
        found = pod_level(found, whole)
    return Counter(found) + amounts(spec.get("overhead"))


def pod_level(found: Amounts, whole: Thing) -> Amounts:
    """CPU, memory and huge pages may be asked for by the pod as a whole.

    With limits alone the API server takes the containers' requests where there are any, and
    the limit where there are none.
    """
    asked, limits = amounts(whole.get("requests")), amounts(whole.get("limits"))
    result = Counter(found)
    for name in {*asked, *limits}:
        if name not in ("cpu", "memory") and not name.startswith("hugepages-"):
            continue
        if name in asked:
            result[name] = asked[name]
        elif not found[name]:
            result[name] = limits[name]
    return result


def free(cluster: Cluster, node: Thing, but: Thing | None = None) -> Amounts:
    """What a node has left, pods included; it may be below zero."""
    left = amounts(status_of(node).get("allocatable"))
    for other in cluster.on(node, but):
        left.subtract(requests(other))
        left["pods"] -= 1
    return left


def resource_refusals(cluster: Cluster, pod: Thing, node: Thing) -> list[str]:
    """A pod that asks for nothing of a resource does not care how much is left of it."""
    left = free(cluster, node, pod)
    found = [] if left["pods"] >= 1 else [f"{name_of(node)} has no room for one more pod"]
    for name, wanted in requests(pod).items():
        if wanted > 0 and wanted > left[name]:
            found.append(f"{name}: wants {wanted}, {name_of(node)} has {left[name]} left")
    return found
