"""Which volumes the claims of a pod get that wait for it to have a node: local disks and others
that are there already, chosen as kube-scheduler does."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from murmuration.base.arrays import Flags
from murmuration.base.resources import parse_quantity
from murmuration.kubernetes.claims.volumes import Volumes, reach_of
from murmuration.kubernetes.nodes import NodeMasks
from murmuration.kubernetes.objects import Object
from murmuration.kubernetes.snapshot import Reader

#: A claim, and the volume it gets; empty for one that its class makes.
Pair = tuple[str, str]


def unbound_claims(volumes: Volumes, pod: Object) -> list[tuple[str, Object]]:
    """The claims of a pod that have no volume yet, the smallest first."""
    claims = [
        (name, claim)
        for name, claim in volumes.claims_of(pod)
        if claim is not None and not (claim.get("spec") or {}).get("volumeName")
    ]
    return sorted(claims, key=lambda each: _asked_bytes(each[1]))


def match_volumes(reader: Reader, pod: Object, row: int) -> list[Pair] | None:
    """A volume for each of them that the node of a row reaches: the smallest that will do. None if
    one gets none and its class makes none."""
    pairs: list[Pair] = []
    volumes = reader.volumes
    for name, claim in unbound_claims(volumes, pod):
        taken = {volume for _, volume in pairs}
        fitting = (
            other
            for other, volume in volumes.free_for(claim)
            if other not in taken and _reaches(reader.node_masks, volume, row)
        )
        volume = next(fitting, "")
        if not volume and not volumes.is_made(claim):
            return None
        pairs.append((name, volume))
    return pairs


def nodes_with_all(reader: Reader, pod: Object, allowed: Flags) -> Flags:
    """The rows of those allowed where every claim of a pod gets a volume: where two want one, a
    look at each claim by itself does not tell."""
    mask = np.zeros_like(allowed)
    for row in np.flatnonzero(allowed).tolist():
        mask[row] = match_volumes(reader, pod, row) is not None
    return mask


@dataclass
class VolumePromises:
    """The volumes that claims of pods get which were given a node, until the pods are gone."""

    of: dict[str, list[Pair]] = field(default_factory=dict)

    def make(self, key: str, reader: Reader, pod: Object, row: int) -> bool:
        """A pod goes to the node of a row: whether its claims get anything there."""
        pairs = match_volumes(reader, pod, row)
        if pairs:
            self.of[key] = pairs
        return bool(pairs)

    def end(self, key: str) -> bool:
        """A pod does not go there, or is gone; whether anything was promised."""
        return self.of.pop(key, None) is not None

    def volumes(self) -> set[str]:
        return {volume for pairs in self.of.values() for _, volume in pairs if volume}


def _reaches(nodes: NodeMasks, volume: Object, row: int) -> bool:
    where = f"volume {volume['metadata'].get('name')}"
    return all(bool(nodes.required(each, where)[row]) for each in reach_of(volume))


def _asked_bytes(claim: Object) -> float:
    resources = (claim.get("spec") or {}).get("resources") or {}
    return parse_quantity((resources.get("requests") or {}).get("storage", 0), "storage")
