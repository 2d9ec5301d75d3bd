"""What a pod asks of a node itself: the filters NodeName, NodeUnschedulable, TaintToleration and
NodeAffinity, and the gates before all of them."""

from __future__ import annotations

from tests.kubernetes.checker_cluster import (
    CORDON,
    REQUIRED,
    Thing,
    key_of,
    labels_of,
    meets,
    name_of,
    spec_of,
    terminating,
    tolerates,
    untolerated,
)


def term_matches(term: Thing, node: Thing) -> bool:
    """All of a term; a term that asks for nothing matches no node."""
    wants, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not wants and not fields:
        return False
    named = {"metadata.name": name_of(node)}
    return all(meets(labels_of(node), want) for want in wants) and all(
        meets(named, want) for want in fields
    )


def selector_matches(selector: Thing, node: Thing) -> bool:
    """A node selector: any of its terms."""
    return any(term_matches(term, node) for term in selector.get("nodeSelectorTerms") or ())


def node_affinity_matches(pod: Thing, node: Thing) -> bool:
    """`nodeSelector` and the required affinity must both hold."""
    spec, labels = spec_of(pod), labels_of(node)
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get(REQUIRED)
    return required is None or selector_matches(required, node)


def gate_refusals(pod: Thing) -> list[str]:
    """Neither a gated pod (stable in 1.30) nor one that is being deleted is looked at by the
    scheduler."""
    gates = spec_of(pod).get("schedulingGates") or ()
    gone = [f"{key_of(pod)} is being deleted"] if terminating(pod) else []
    return [*(f"scheduling gate {gate['name']}" for gate in gates), *gone]


def node_refusals(pod: Thing, node: Thing) -> list[str]:
    """A cordon is asked about as a taint would be: pods that tolerate it ignore it."""
    found = []
    tolerations = spec_of(pod).get("tolerations") or ()
    closed = spec_of(node).get("unschedulable")
    if closed and not any(tolerates(toleration, CORDON) for toleration in tolerations):
        found.append(f"{name_of(node)} is cordoned")
    taint = untolerated(pod, node)
    if taint is not None and not found:
        found.append(f"{name_of(node)} has the taint {taint.get('key')}:{taint.get('effect')}")
    if not node_affinity_matches(pod, node):
        found.append(f"{name_of(node)} is not what its node selector or affinity asks for")
    return found
