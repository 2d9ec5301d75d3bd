"""Nodes a cluster could have: of a type one can rent, or like one it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from murmuration.assignment.snapshots import catalogue
from murmuration.assignment.snapshots.builder import NodeEntry
from murmuration.base.errors import InputError, unknown

HOST, TYPE = "kubernetes.io/hostname", "node.kubernetes.io/instance-type"


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
            entry = _of_type(name, fresh, nodes) if like is None else _like(nodes[like], fresh)
            added.append((entry, like))
    return added


def _like(node: NodeEntry, name: str) -> NodeEntry:
    return replace(node, name=name, labels={**node.labels, HOST: name})


def _of_type(kind: str, name: str, nodes: Sequence[NodeEntry]) -> NodeEntry:
    known = catalogue.types()
    if kind not in known:
        raise InputError(
            f"--add: {unknown('node type or node', kind, [*known, *(node.name for node in nodes)])}"
        )
    size = known[kind]
    amounts: dict[str, str | float] = {
        "cpu": size.cpu,
        "memory": size.memory_gib * catalogue.GIB,
        "pods": 110.0,
    }
    return NodeEntry(name, amounts, {HOST: name, TYPE: kind}, "", size.price, None, kind)
