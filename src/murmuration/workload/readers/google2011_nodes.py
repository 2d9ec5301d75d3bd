"""Nodes of Google's cell of 2011: machine events with their attributes, and removals published
without the returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from murmuration.base.arrays import Amounts, Flags, Floats
from murmuration.base.resources import Resources
from murmuration.cluster.constraints import Value, as_value
from murmuration.workload.formats.sizes import amounts
from murmuration.workload.formats.source import SourceFile, find_beside, load
from murmuration.workload.formats.table import TraceTable, parse
from murmuration.workload.node_events import UNCHANGED, join_events, sort_events
from murmuration.workload.nodes import ADD, REMOVE, NodeEvents
from murmuration.workload.readers.google2011 import MICROS, SHARE_MAX, TIME_NOTE, scale_note
from murmuration.workload.trace import LeftOut, Trace, TraceOptions

EVENT_COLUMNS = ("time_us", "machine_id", "event_type", "platform_id", "cpus", "memory")
ATTRIBUTE_COLUMNS = ("time_us", "machine_id", "name", "value", "deleted")
GONE_FILE = "machines_gone_for_good"
GONE_COLUMNS = ("machine_id", "last_event_time_us")
#: How long a node that was removed stays away, where the trace does not say: the median of the cell
#: of 2019.
AWAY_S = 1300.0

NodeAttributes = Mapping[str, dict[str, Value]]


def node_events(table: TraceTable, attributes: NodeAttributes, options: TraceOptions) -> NodeEvents:
    """Machine events as ours; a size that a row leaves out does not change."""
    cpu = table.numbers("cpus", high=SHARE_MAX, default=np.nan) * options.full_cpu
    memory = table.numbers("memory", high=SHARE_MAX, default=np.nan) * options.full_memory
    names = table.texts("machine_id").to_list()
    platforms = table.texts("platform_id", optional=True).to_list()
    described: dict[tuple[str, str], dict[str, Value]] = {}
    for pair in zip(names, platforms, strict=True):
        if pair not in described:
            platform: dict[str, Value] = {"platform": as_value(pair[1])} if pair[1] else {}
            described[pair] = platform | attributes.get(pair[0], {})
    events = NodeEvents(
        Resources(),
        table.integers("time_us") / MICROS,
        np.array(names, dtype=np.str_),
        table.integers("event_type", 0, 2),
        _sizes(cpu, memory),
        tuple(described[pair] for pair in zip(names, platforms, strict=True)),
    )
    return sort_events(events)


def _sizes(cpu: Floats, memory: Floats) -> Amounts:
    total = amounts(np.nan_to_num(cpu), np.nan_to_num(memory))
    total[np.isnan(cpu), 0] = UNCHANGED
    total[np.isnan(memory), 1] = UNCHANGED
    return total


def mark_sized(table: TraceTable, left_out: LeftOut) -> Flags:
    """The events of nodes whose size is given when they are first added."""
    import polars as pl

    frame = pl.DataFrame(
        {
            "node": table.texts("machine_id"),
            "time": table.integers("time_us"),
            "type": table.integers("event_type", 0, 2),
            "known": np.isfinite(table.measured("cpus")) & np.isfinite(table.measured("memory")),
        }
    )
    first = frame.sort("time", maintain_order=True).unique(
        "node", keep="first", maintain_order=True
    )
    good = first.filter((pl.col("type") == ADD) & pl.col("known"))["node"]
    bad = ~frame["node"].is_in(good.implode()).to_numpy()
    return left_out.without(table, bad, "a node that is not added with a size first")


def read_attributes(
    table: TraceTable, known: set[str], left_out: LeftOut
) -> tuple[NodeAttributes, int]:
    """For each node the first value of each attribute, and how many later rows would change one."""
    nodes, names = table.texts("machine_id").to_list(), table.texts("name").to_list()
    values = table.texts("value", optional=True).to_list()
    deleted, time = table.flags("deleted"), table.integers("time_us")
    strange = np.array([node not in known for node in nodes], dtype=np.bool_)
    keep = left_out.without(table, strange, "an attribute of a node that is not in machine_events")
    attributes: dict[str, dict[str, Value]] = {}
    changes = 0
    for row in np.argsort(time, kind="stable"):
        if not keep[row]:
            continue
        mine, value = attributes.setdefault(nodes[row], {}), as_value(values[row])
        if deleted[row] or names[row] in mine:
            changes += int(deleted[row] or mine[names[row]] != value)
        else:
            mine[names[row]] = value
    return attributes, changes


def read_removals(source: SourceFile, options: TraceOptions) -> Trace:
    """Removals alone: each node is back after a while, unless it is listed beside as gone for
    good."""
    table = parse(source)
    table.need(EVENT_COLUMNS, "node events")
    table.refuse(table.integers("event_type") != REMOVE, "event_type", "1 (removed) in every row")
    removed = node_events(table, {}, options)
    back = _returns(removed, _find_gone(source))
    note = (
        f"the trace has no returns: a node that was removed is back after {AWAY_S:,.0f} s, or "
        "half-way to its next "
        f"removal if that is sooner; {len(removed) - len(back):,} are listed as gone for good"
    )
    assumptions = (scale_note(options), TIME_NOTE, note)
    return Trace(
        "google2011 removals",
        len(table),
        events=join_events([removed, back]),
        assumptions=assumptions,
    )


def _find_gone(source: SourceFile) -> dict[str, float]:
    """The nodes that never came back, and when they were last removed."""
    path = find_beside(source.path, GONE_FILE)
    if path is None:
        return {}
    table = parse(load(path))
    table.need(GONE_COLUMNS, "nodes")
    times = table.integers("last_event_time_us") / MICROS
    return dict(zip(table.texts("machine_id").to_list(), times.tolist(), strict=True))


def _returns(removed: NodeEvents, gone: Mapping[str, float]) -> NodeEvents:
    """When the nodes come back, with the size and attributes they had."""
    order = np.lexsort((removed.time_s, removed.node_id))
    time_s, node = removed.time_s[order], removed.node_id[order]
    again = np.append(node[1:] == node[:-1], False)
    after = np.append(time_s[1:], 0.0)
    away = np.where(again, np.minimum(AWAY_S, (after - time_s) / 2), AWAY_S)
    lost = np.array([gone.get(str(name), -1.0) for name in node]) == time_s
    keep = order[~lost]
    kind = np.full(len(keep), ADD, dtype=np.int64)
    return replace(removed.select(keep), time_s=(time_s + away)[~lost], kind=kind)
