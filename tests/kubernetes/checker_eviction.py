"""Evictions: what `POST pods/NAME/eviction` answers, and what the disruption controller allows."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Any

from tests.kubernetes.checker_cluster import (
    Cluster,
    Object,
    Thing,
    controller_of,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    ready,
    selects,
    spec_of,
    status_of,
    terminating,
)


def budgets_over(cluster: Cluster, pod: Thing) -> list[Object]:
    """In policy/v1 an empty selector is every pod of the namespace, in v1beta1 (gone in 1.25) it
    was none."""
    return [
        budget
        for budget in cluster.of_kind("PodDisruptionBudget")
        if namespace_of(budget) == namespace_of(pod) and covers(budget, pod)
    ]


def covers(budget: Thing, pod: Thing) -> bool:
    selector = spec_of(budget).get("selector")
    old = str(budget.get("apiVersion")).endswith("v1beta1")
    return not (old and not selector) and selects(selector, labels_of(pod))


def pods_of(cluster: Cluster, budget: Thing) -> list[Object]:
    return [
        pod
        for pod in cluster.pods.values()
        if namespace_of(pod) == namespace_of(budget) and covers(budget, pod)
    ]


def healthy(cluster: Cluster, budget: Thing) -> int:
    """Ready and not on their way out."""
    return sum(ready(pod) and not terminating(pod) for pod in pods_of(cluster, budget))


def expected(cluster: Cluster, budget: Thing) -> int:
    """How many replicas the controllers of the pods want in all; pods without one do not count."""
    owners = {}
    for pod in pods_of(cluster, budget):
        if owner := controller_of(pod):
            owners[owner["kind"], owner["name"]] = owner
    return sum(_scale(cluster, namespace_of(budget), owner) for owner in owners.values())


def _scale(cluster: Cluster, namespace: str, owner: Thing) -> int:
    """The controller's `replicas` if it is in the snapshot, else as many as there are."""
    found = cluster.named(str(owner["kind"]), str(owner["name"]), namespace)
    if found is not None and "replicas" in spec_of(found):
        return int(spec_of(found)["replicas"])
    mine = (p for p in cluster.pods.values() if namespace_of(p) == namespace)
    controllers = [controller_of(p) for p in mine if not terminating(p)]
    named = (owner["kind"], owner["name"])
    return sum(c is not None and (c["kind"], c["name"]) == named for c in controllers)


def scaled(value: Any, total: int) -> int:
    """A number, or a percentage, which is rounded up for minAvailable and maxUnavailable alike."""
    text = str(value)
    return ceil(Fraction(text[:-1]) * total / 100) if text.endswith("%") else int(text)


def desired(cluster: Cluster, budget: Thing) -> int:
    """How many must be healthy: percentages and maxUnavailable are of what controllers expect."""
    told = status_of(budget).get("desiredHealthy")
    if told is not None:
        return int(told)
    spec = spec_of(budget)
    if spec.get("maxUnavailable") is not None:
        total = expected(cluster, budget)
        return max(total - scaled(spec["maxUnavailable"], total), 0)
    least = spec.get("minAvailable", 0)
    return scaled(least, expected(cluster, budget) if str(least).endswith("%") else 0)


def allowed(cluster: Cluster, budget: Thing) -> int:
    """`status.disruptionsAllowed` as the controller would write it for the pods there are now."""
    return max(healthy(cluster, budget) - desired(cluster, budget), 0)


def eviction_refusals(cluster: Cluster, pod: Thing) -> list[str]:
    """Why an eviction would not be carried out, none if it would.

    Pods that have not begun or are being deleted are let go without asking any budget.
    """
    if terminating(pod) or status_of(pod).get("phase") == "Pending":
        return []
    budgets = budgets_over(cluster, pod)
    if len(budgets) > 1:
        return [f"500: {key_of(pod)} has more than one disruption budget"]
    return [sentence for budget in budgets for sentence in _asked(cluster, budget, pod)]


def _asked(cluster: Cluster, budget: Thing, pod: Thing) -> list[str]:
    """The policy for unhealthy pods is stable since 1.31; before 1.26 there was only the default,
    and a budget whose controller has not seen its latest version lets nobody go."""
    if not ready(pod):
        if spec_of(budget).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
            return []
        wanted = desired(cluster, budget)
        if healthy(cluster, budget) >= wanted > 0:
            return []
    seen = status_of(budget).get("observedGeneration")
    if seen is not None and seen < budget["metadata"].get("generation", 0):
        return [f"429: budget {name_of(budget)} is still being processed"]
    if allowed(cluster, budget) < 1:
        return [f"429: budget {name_of(budget)} allows no disruption of {key_of(pod)}"]
    return []
