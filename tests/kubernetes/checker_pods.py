"""Rules between pods: the filters InterPodAffinity, PodTopologySpread and NodePorts."""

from __future__ import annotations

from collections.abc import Iterator

from tests.kubernetes.checker_cluster import (
    REQUIRED,
    Cluster,
    Object,
    Thing,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    selects,
    spec_of,
    terminating,
    untolerated,
    with_label_keys,
)
from tests.kubernetes.checker_nodes import node_affinity_matches

ANYWHERE = ("", "0.0.0.0")


def terms_of(pod: Thing, part: str) -> list[Object]:
    affinity = spec_of(pod).get("affinity") or {}
    return list((affinity.get(part) or {}).get(REQUIRED) or ())


def in_namespaces(cluster: Cluster, owner: Thing, term: Thing, other: Thing) -> bool:
    """Neither list nor selector: the owner's own namespace. Both: either will do.

    An empty `namespaceSelector` is every namespace (stable in 1.24).
    """
    named, selector = term.get("namespaces") or (), term.get("namespaceSelector")
    space = namespace_of(other)
    if not named and selector is None:
        return space == namespace_of(owner)
    return space in named or selects(selector, cluster.namespace_labels(space))


def term_selects(cluster: Cluster, owner: Thing, term: Thing, other: Thing) -> bool:
    selector = with_label_keys(term.get("labelSelector"), term, owner)
    return in_namespaces(cluster, owner, term, other) and selects(selector, labels_of(other))


def same_domain(key: str, left: Thing, right: Thing) -> bool:
    """Nodes without the label are in no domain at all."""
    value = labels_of(left).get(key)
    return value is not None and value == labels_of(right).get(key)


def apart_refusals(cluster: Cluster, pod: Thing, node: Thing) -> list[str]:
    """Required anti-affinity holds both ways: the newcomer's and that of those who are there.

    Pods that are being deleted still count.
    """
    found = []
    for other, there in cluster.placed(pod):
        for owner, target in ((pod, other), (other, pod)):
            for term in terms_of(owner, "podAntiAffinity"):
                key = str(term["topologyKey"])
                if same_domain(key, there, node) and term_selects(cluster, owner, term, target):
                    found.append(f"anti-affinity of {key_of(owner)} by {key}: {key_of(other)}")
    return found


def together_refusals(cluster: Cluster, pod: Thing, node: Thing) -> list[str]:
    """Each term needs, in its domain, a pod that *all* terms select.

    The first of a group may go anywhere with the labels, if no pod of the cluster is selected and
    its own terms select the pod itself. Where a node lacks a key nothing helps.
    """
    terms = terms_of(pod, "podAffinity")
    if missing := [t["topologyKey"] for t in terms if t["topologyKey"] not in labels_of(node)]:
        return [f"affinity: {name_of(node)} has no label {missing[0]}"]
    wanted = [
        there
        for other, there in cluster.placed(pod)
        if terms and all(term_selects(cluster, pod, term, other) for term in terms)
    ]
    lonely = [
        str(t["topologyKey"])
        for t in terms
        if not any(same_domain(str(t["topologyKey"]), there, node) for there in wanted)
    ]
    counted = any(t["topologyKey"] in labels_of(there) for t in terms for there in wanted)
    if not lonely or (not counted and all(term_selects(cluster, pod, t, pod) for t in terms)):
        return []
    return [f"affinity by {key}: nobody it wants is there" for key in lonely]


def hard_spreads(pod: Thing) -> list[Object]:
    listed = spec_of(pod).get("topologySpreadConstraints") or ()
    return [c for c in listed if c.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"]


def counted_nodes(cluster: Cluster, pod: Thing, constraint: Thing) -> Iterator[Object]:
    """The nodes whose domains a spread compares.

    A node must have the keys of all hard constraints of the pod. `nodeAffinityPolicy` is Honor and
    `nodeTaintsPolicy` Ignore unless told (both beta in 1.26): tainted nodes are domains.
    """
    keys = [str(c["topologyKey"]) for c in hard_spreads(pod)]
    for node in cluster.nodes.values():
        if any(key not in labels_of(node) for key in keys):
            continue
        honoured = constraint.get("nodeAffinityPolicy", "Honor") == "Honor"
        if honoured and not node_affinity_matches(pod, node):
            continue
        if constraint.get("nodeTaintsPolicy", "Ignore") == "Honor" and untolerated(pod, node):
            continue
        yield node


def spread_counts(cluster: Cluster, pod: Thing, constraint: Thing) -> dict[str, int]:
    """Pods of the same namespace that the selector finds, by domain; those being deleted are not
    counted."""
    key = str(constraint["topologyKey"])
    selector = with_label_keys(constraint.get("labelSelector"), constraint, pod)
    names = {name_of(node) for node in counted_nodes(cluster, pod, constraint)}
    counts = {labels_of(cluster.nodes[name])[key]: 0 for name in names}
    for other, there in cluster.placed(pod):
        mine = namespace_of(other) == namespace_of(pod) and not terminating(other)
        if mine and name_of(there) in names and selects(selector, labels_of(other)):
            counts[labels_of(there)[key]] += 1
    return counts


def spread_refusals(cluster: Cluster, pod: Thing, node: Thing) -> list[str]:
    """Only the domain the pod comes to is judged, against the emptiest one.

    The pod counts itself if its own selector finds it. With fewer domains than `minDomains` (beta
    in 1.25) the emptiest counts as empty.
    """
    found = []
    for constraint in hard_spreads(pod):
        key = str(constraint["topologyKey"])
        domain = labels_of(node).get(key)
        if domain is None:
            found.append(f"spread: {name_of(node)} has no label {key}")
            continue
        skew = _skew(cluster, pod, constraint, domain)
        if skew > constraint.get("maxSkew", 1):
            found.append(f"spread by {key}: {domain} would be {skew} above the emptiest")
    return found


def _skew(cluster: Cluster, pod: Thing, constraint: Thing, domain: str) -> int:
    counts = spread_counts(cluster, pod, constraint)
    selector = with_label_keys(constraint.get("labelSelector"), constraint, pod)
    itself = int(selects(selector, labels_of(pod)))
    enough = len(counts) >= (constraint.get("minDomains") or 1)
    return counts.get(domain, 0) + itself - (min(counts.values()) if enough else 0)


def host_ports(pod: Thing) -> set[tuple[str, str, int]]:
    """Address, protocol and port of containers and sidecars.

    The API server writes `hostPort` for every declared port of a `hostNetwork` pod; init
    containers that end hold no port.
    """
    spec = spec_of(pod)
    started = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    found = set()
    for container in [*(spec.get("containers") or ()), *started]:
        for port in container.get("ports") or ():
            own = port.get("containerPort") if spec.get("hostNetwork") else 0
            if number := int(port.get("hostPort") or own or 0):
                found.add((port.get("hostIP") or "", port.get("protocol") or "TCP", number))
    return found


def port_refusals(cluster: Cluster, pod: Thing, node: Thing) -> list[str]:
    """0.0.0.0, which is also the default, stands for every address."""
    found = []
    for other in cluster.on(node, pod):
        for address, protocol, number in host_ports(other):
            for mine in host_ports(pod):
                meet = address in ANYWHERE or mine[0] in ANYWHERE or address == mine[0]
                if meet and mine[1:] == (protocol, number):
                    found.append(f"host port {number}/{protocol}: {key_of(other)} has it")
    return found
