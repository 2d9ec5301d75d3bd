"""Nodes that come, go and change size: events from a file, and the same events reduced to those
that change a given table of nodes.

A node whose first event adds it after time 0 is not there before; every other node of the table is
there from the start. A size of `UNCHANGED` says that the node keeps the one it had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from murmuration.base.arrays import Amounts, Flags, Integers
from murmuration.base.errors import InputError, unknown
from murmuration.base.resources import Resources
from murmuration.workload.formats.sizes import SIZE_MAX, unit
from murmuration.workload.formats.table import TraceTable
from murmuration.workload.nodes import (
    ADD,
    EVENT_NAMES,
    REMOVE,
    RESOURCE,
    UPDATE,
    NodeEvents,
    NodeTable,
    read_attributes,
)

BASE = ("time_s", "node_id", "event")
SIZES = {"cpu": "cpu", "mem_gb": "memory"}
UNCHANGED = -1


def events_of(table: TraceTable) -> NodeEvents:
    """The events in a table of our own columns; an empty size is one that does not change."""
    table.need(BASE, "node events")
    words = table.texts("event").str.strip_chars().str.to_lowercase()
    table.refuse(~words.is_in(list(EVENT_NAMES)).to_numpy(), "event", ", ".join(EVENT_NAMES))
    kind = np.array([EVENT_NAMES.index(word) for word in words], dtype=np.int64)
    columns = {
        SIZES.get(c, c.removeprefix(RESOURCE)): c
        for c in table.columns
        if c in SIZES or c.startswith(RESOURCE)
    }
    resources = Resources(
        ("cpu", "memory", *(name for name in columns if name not in SIZES.values()))
    )
    attributes = {
        name: name for name in table.columns if name not in BASE and name not in columns.values()
    }
    events = NodeEvents(
        resources,
        table.numbers("time_s"),
        np.array(table.texts("node_id").to_list(), dtype=np.str_),
        kind,
        _sizes(table, resources, columns),
        read_attributes(table, attributes),
    )
    return sort_events(events)


def _sizes(table: TraceTable, resources: Resources, columns: dict[str, str]) -> Amounts:
    total = np.full((len(table), len(resources)), UNCHANGED, dtype=np.int64)
    for k, name in enumerate(resources.names):
        if name in columns:
            natural = table.numbers(columns[name], high=SIZE_MAX // unit(name), default=np.nan)
            given = np.isfinite(natural)
            total[given, k] = np.rint(natural[given] * unit(name)).astype(np.int64)
    return total


def sort_events(events: NodeEvents) -> NodeEvents:
    """By time, then by node; events of one node at one time keep their order."""
    return events.select(np.lexsort((events.node_id, events.time_s)))


def join_events(parts: Sequence[NodeEvents]) -> NodeEvents:
    """The events of several sources, in order; all have the same resources."""
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(events, name) for events in parts])
        for name in ("time_s", "node_id", "kind", "total")
    }
    attributes = tuple(row for events in parts for row in events.attributes)
    return sort_events(NodeEvents(resources=parts[0].resources, attributes=attributes, **columns))


def nodes_at_zero(events: NodeEvents) -> NodeTable:
    """The nodes added at time 0 or before, each as it was last added."""
    rows = np.flatnonzero((events.kind == ADD) & (events.time_s <= 0))
    last = {str(events.node_id[row]): row for row in rows}
    initial = events.select(np.array(list(last.values()), dtype=np.int64))
    return NodeTable(
        initial.resources, tuple(last), np.maximum(initial.total, 0), initial.attributes
    )


def add_later_nodes(nodes: NodeTable, events: NodeEvents, where: str) -> NodeTable:
    """The table with the nodes that only the events know, each with its attributes and the first
    size it has."""
    events = align_resources(events, nodes.resources, where)
    first: dict[str, int] = {}
    sized: dict[str, int] = {}
    for row in np.flatnonzero(~np.isin(events.node_id, nodes.names)).tolist():
        first.setdefault(str(events.node_id[row]), row)
        if (events.total[row] > 0).any():
            sized.setdefault(str(events.node_id[row]), row)
    for name, row in first.items():
        if events.kind[row] != ADD or name not in sized:
            raise InputError(
                f"{where}: expected node {name!r} to be in the node table, or to be added with "
                "a size"
            )
    added = events.select(np.array([sized[name] for name in first], dtype=np.int64))
    total = np.concatenate([nodes.total, np.maximum(added.total, 0)])
    return NodeTable(
        nodes.resources, nodes.names + tuple(first), total, nodes.attributes + added.attributes
    )


def align_resources(events: NodeEvents, resources: Resources, where: str) -> NodeEvents:
    """The same events with one column for each resource of the nodes; what they do not name does
    not change."""
    total = np.full((len(events), len(resources)), UNCHANGED, dtype=np.int64)
    for k, name in enumerate(events.resources.names):
        if name in resources.names:
            total[:, resources.names.index(name)] = events.total[:, k]
        elif (events.total[:, k] > 0).any():
            raise InputError(f"{where}: {unknown('resource', name, resources.names)}")
    return replace(events, resources=resources, total=total)


def drop_redundant(events: NodeEvents, nodes: NodeTable, where: str = "node events") -> NodeEvents:
    """Only what changes something: a node is added when it is absent, removed or resized when it is
    there, and the size of every event is the one the node has after it."""
    events = align_resources(events, nodes.resources, where)
    row_of = {name: row for row, name in enumerate(nodes.names)}
    size, here = nodes.total.copy(), ~absent(events, nodes.names)
    kind, total, effective = events.kind.copy(), events.total.copy(), []
    for e, name in enumerate(events.node_id.tolist()):
        n = row_of[name]
        before = size[n].copy()
        if kind[e] != REMOVE:
            size[n] = np.where(total[e] < 0, before, total[e])
        if kind[e] == ADD and here[n]:
            kind[e] = UPDATE
        changes = (
            not here[n]
            if kind[e] == ADD
            else here[n] and (kind[e] == REMOVE or (size[n] != before).any())
        )
        if changes:
            here[n] = kind[e] != REMOVE
            total[e] = size[n]
            effective.append(e)
    return replace(events, kind=kind, total=total).select(np.array(effective, dtype=np.int64))


def absent(events: NodeEvents, names: Sequence[str]) -> Flags:
    """Which of these nodes are not there at the start: those that their first event adds later."""
    row_of = {name: row for row, name in enumerate(names)}
    missing = np.zeros(len(names), dtype=np.bool_)
    seen: set[str] = set()
    for e, name in enumerate(events.node_id.tolist()):
        if name not in seen:
            seen.add(name)
            missing[row_of[name]] = events.kind[e] == ADD and events.time_s[e] > 0
    return missing


def rows_of(events: NodeEvents, names: Sequence[str]) -> Integers:
    """For each event the row of its node in a table of these names."""
    row_of = {name: row for row, name in enumerate(names)}
    return np.array([row_of[name] for name in events.node_id.tolist()], dtype=np.int64)
