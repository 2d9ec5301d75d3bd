"""Nodes a cluster could have: of a type one can rent, or like one it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from murmuration.assignment.snapshots import catalogue
from murmuration.assignment.snapshots.builder import NodeEntry
from murmuration.base.errors import InputError, unknown

HOST, TYPE = "kubernetes.io/hostname", "node.kubernetes.io/instance-type"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


def new_nodes(
    texts: Sequence[str], nodes: Sequence[NodeEntry]
) -> list[tuple[NodeEntry, int | None]]:
    """`m5.large=3` or `node-7=2`, as written after `--add`; with the place of the node each one is
    like."""
    added: list[tuple[NodeEntry, int | None]] = []
    taken = {node.name for node in nodes}
    for text in texts:
        name, _, number = text.partition("=")
        name = name.strip()
        if not number.strip().isdigit() or not 0 < int(number) <= 100_000:
            raise InputError(f"--add: expected TYPE=COUNT such as m5.large=3, got {text!r}")
        like = next((k for k, node in enumerate(nodes) if node.name == name), None)
        for k in range(1, int(number) + 1):
            fresh = f"new-{name}-{k}"
            while fresh in taken:
                fresh += "-more"
            taken.add(fresh)
            entry = _of_type(name, fresh, nodes, k) if like is None else _like(nodes[like], fresh)
            added.append((entry, like))
    return added


def _like(node: NodeEntry, name: str) -> NodeEntry:
    return replace(node, name=name, labels={**node.labels, HOST: name})


def _of_type(kind: str, name: str, nodes: Sequence[NodeEntry], number: int) -> NodeEntry:
    """A node of a type as it would join: with what pods get of it, and the labels every node has.
    One after the other they come to the zones the cluster has."""
    known = catalogue.types()
    if kind not in known:
        raise InputError(
            f"--add: {unknown('node type or node', kind, [*known, *(node.name for node in nodes)])}"
        )
    labels = {
        HOST: name,
        TYPE: kind,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": catalogue.architecture_of(kind),
    }
    places = sorted({(n.zone, n.labels.get(REGION, "")) for n in nodes if n.zone})
    zone, region = places[(number - 1) % len(places)] if places else ("", "")
    labels |= {ZONE: zone} if zone else {}
    labels |= {REGION: region} if region else {}
    amounts: dict[str, str | float] = dict(catalogue.allocatable(kind))
    return NodeEntry(name, amounts, labels, zone, known[kind].price, None, kind)
