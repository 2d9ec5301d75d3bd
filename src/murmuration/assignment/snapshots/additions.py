"""Nodes a cluster could have: of a type one can rent, or like one it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from murmuration.assignment.snapshots import catalogue
from murmuration.assignment.snapshots.builder import NodeEntry
from murmuration.base.errors import InputError, unknown

HOST, TYPE = "kubernetes.io/hostname", "node.kubernetes.io/instance-type"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


@dataclass(frozen=True)
class TypeEntry:
    """A type of nodes one can rent: what pods get of one, what it costs an hour, and where there
    are any; no zones means all that the cluster has."""

    name: str
    amounts: Mapping[str, str | float]
    price: float
    labels: Mapping[str, str] = field(default_factory=dict)
    zones: tuple[str, ...] = ()
    most: int | None = None


class Addition(NamedTuple):
    """So many nodes of a type."""

    type: TypeEntry
    nodes: int


#: What `--add` may say: a text, or what a catalogue of the user's made of it.
Added = str | Addition


def new_nodes(
    added: Sequence[Added], nodes: Sequence[NodeEntry]
) -> list[tuple[NodeEntry, int | None]]:
    """`m5.large=3` or `node-7=2`, as written after `--add`; with the place of the node each one is
    like."""
    fresh: list[tuple[NodeEntry, int | None]] = []
    taken = {node.name for node in nodes}
    for addition in added:
        name, number = _name_and_count(addition)
        like = next((k for k, node in enumerate(nodes) if node.name == name), None)
        kind = addition.type if isinstance(addition, Addition) else None
        for k in range(1, number + 1):
            new_name = _new_name(name, k, taken)
            if like is not None and kind is None:
                fresh.append((_like(nodes[like], new_name), like))
            else:
                entry = _of_type(kind or _known_type(name, nodes), new_name, nodes, k)
                fresh.append((entry, None))
    return fresh


def _name_and_count(addition: Added) -> tuple[str, int]:
    if isinstance(addition, Addition):
        return addition.type.name, addition.nodes
    return split_addition(addition)


def split_addition(text: str) -> tuple[str, int]:
    """The name and the number of `m5.large=3`."""
    name, _, number = text.partition("=")
    if not number.strip().isdigit() or not 0 < int(number) <= 100_000:
        raise InputError(f"--add: expected TYPE=COUNT such as m5.large=3, got {text!r}")
    return name.strip(), int(number)


def _new_name(name: str, number: int, taken: set[str]) -> str:
    new_name = f"new-{name}-{number}"
    while new_name in taken:
        new_name += "-more"
    taken.add(new_name)
    return new_name


def _like(node: NodeEntry, name: str) -> NodeEntry:
    return replace(node, name=name, labels={**node.labels, HOST: name})


def type_of(name: str) -> TypeEntry | None:
    """A type of the built-in catalogue; None if it has none of this name."""
    known = catalogue.types()
    if name not in known:
        return None
    labels = {"kubernetes.io/arch": catalogue.architecture_of(name)}
    return TypeEntry(name, dict(catalogue.allocatable(name)), known[name].price, labels)


def _known_type(name: str, nodes: Sequence[NodeEntry]) -> TypeEntry:
    known = type_of(name)
    if known is None:
        names = [*catalogue.types(), *(node.name for node in nodes)]
        raise InputError(f"--add: {unknown('node type or node', name, names)}")
    return known


def _of_type(kind: TypeEntry, name: str, nodes: Sequence[NodeEntry], number: int) -> NodeEntry:
    """A node of a type as it would join: with what pods get of it, and the labels every node has.
    One after the other they come to the zones the cluster has."""
    labels = {HOST: name, TYPE: kind.name, "kubernetes.io/os": "linux", **kind.labels}
    regions = {n.zone: n.labels.get(REGION, "") for n in nodes if n.zone}
    zones = kind.zones or tuple(sorted(regions))
    zone = zones[(number - 1) % len(zones)] if zones else ""
    region = regions.get(zone, "")
    labels |= {ZONE: zone} if zone else {}
    labels |= {REGION: region} if region else {}
    return NodeEntry(name, kind.amounts, labels, zone, kind.price, None, kind.name)
