"""Devices that pods claim: where an allocated claim holds its pods, and how many devices nodes
have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from murmuration.assignment.snapshots.builder import NodeEntry
from murmuration.kubernetes.nodes import NodeMasks
from murmuration.kubernetes.objects import Object, listed, name_of, namespace_of
from murmuration.kubernetes.volumes import Needs

#: The resource that counts devices which claims made from templates take.
DEVICES = "claimed devices"
MISSING = "its resource claim is not in the snapshot"


class Devices:
    """The resource claims, templates and slices of a snapshot."""

    def __init__(self, kinds: Mapping[str, list[Object]]) -> None:
        self.claims = {name_of(c): c for c in kinds.get("ResourceClaim", ())}
        self.templates = {name_of(t): t for t in kinds.get("ResourceClaimTemplate", ())}
        self.slices = kinds.get("ResourceSlice", ())

    def give(self, nodes: Sequence[NodeEntry], masks: NodeMasks) -> None:
        """Give nodes the devices that slices list for them."""
        counts = [0.0] * len(nodes)
        for thing in self.slices:
            spec = thing.get("spec") or {}
            number = len(spec.get("devices") or ())
            selector = spec.get("nodeSelector")
            chosen = None if selector is None else masks.required(selector, "a ResourceSlice")
            for k, node in enumerate(nodes):
                here = spec.get("nodeName") == node.name or bool(spec.get("allNodes"))
                if here or (chosen is not None and chosen[k]):
                    counts[k] += number
        for node, count in zip(nodes, counts, strict=True):
            if count and node.amounts:
                node.amounts = {**node.amounts, DEVICES: count}

    def add_needs(self, pod: Object, needs: Needs) -> None:
        """What the claims of a pod ask of its node."""
        for entry in listed(pod.get("spec") or {}, "resourceClaims", f"pod {name_of(pod)}"):
            if name := entry.get("resourceClaimName"):
                claim = self.claims.get(f"{namespace_of(pod)}/{name}")
                allocation = ((claim or {}).get("status") or {}).get("allocation") or {}
                needs.refused = needs.refused or ("" if claim is not None else MISSING)
                if allocation.get("nodeSelector"):
                    needs.selectors.append(allocation["nodeSelector"])
                continue
            name = entry.get("resourceClaimTemplateName")
            template = self.templates.get(f"{namespace_of(pod)}/{name}")
            if template is None:
                needs.refused = needs.refused or MISSING
            else:
                needs.attached[DEVICES] = needs.attached.get(DEVICES, 0.0) + _count(template)


def _count(template: Object) -> int:
    """How many devices a claim of this template takes."""
    body = (template.get("spec") or {}).get("spec") or {}
    requests = (body.get("devices") or {}).get("requests") or ()
    return sum(int((request.get("exactly") or request).get("count", 1)) for request in requests)
