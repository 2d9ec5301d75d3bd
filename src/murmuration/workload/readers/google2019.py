"""Google's cluster data of 2019: changes of nodes, requests of tasks, and nodes counted by size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from murmuration.base.errors import InputError
from murmuration.base.resources import Amounts, Resources
from murmuration.cluster.constraints import Attributes
from murmuration.workload.formats.sizes import amounts
from murmuration.workload.formats.source import SourceFile
from murmuration.workload.formats.table import TraceTable, of_columns, parse
from murmuration.workload.jobs import TASKS_MAX, job_list
from murmuration.workload.node_events import nodes_at_zero, sort_events
from murmuration.workload.nodes import ADD, NodeEvents, NodeTable, read_attributes
from murmuration.workload.readers.google2011 import MICROS, SHARE_MAX, scale_note
from murmuration.workload.trace import Trace, TraceOptions

EVENT_COLUMNS = ("time_us", "machine_id", "event_type", "switch", "platform", "cpus", "memory")
REQUEST_COLUMNS = ("time", "collection_id", "instance_index", "cpus", "ram", "collection_type")
COUNT_COLUMNS = ("cpus", "ram", "machine_count")
FIRST_TYPE, LAST_TYPE = 1, 3
COUNT_MAX = 1_000_000
COLLECTIONS = ("jobs", "alloc-sets")
#: The mean of batch tasks in the Omega study, for want of any in the trace.
DURATION_S = 274.0


class _Capacity(msgspec.Struct):
    cpus: float | None = None
    memory: float | None = None


class _Event(msgspec.Struct):
    """One line of the published JSON, whose whole numbers are strings."""

    machine_id: str | int
    type: str | int
    time: str | int = "0"
    switch_id: str | None = None
    platform_id: str | None = None
    capacity: _Capacity = msgspec.field(default_factory=_Capacity)

    def row(self) -> tuple[Any, ...]:
        return (
            self.time,
            self.machine_id,
            self.type,
            self.switch_id,
            self.platform_id,
            self.capacity.cpus,
            self.capacity.memory,
        )


def read_machine_events(source: SourceFile, options: TraceOptions) -> Trace:
    """Nodes that come, go and change; the node table is those there at time 0."""
    table = _json_table(source) if source.data.lstrip().startswith(b"{") else parse(source)
    table.need(EVENT_COLUMNS, "node events")
    cpu = table.numbers("cpus", high=SHARE_MAX, default=0.0) * options.full_cpu
    memory = table.numbers("memory", high=SHARE_MAX, default=0.0) * options.full_memory
    events = NodeEvents(
        Resources(),
        table.integers("time_us") / MICROS,
        np.array(table.texts("machine_id").to_list(), dtype=np.str_),
        table.integers("event_type", FIRST_TYPE, LAST_TYPE) - FIRST_TYPE,
        amounts(cpu, memory),
        read_attributes(table, {"platform": "platform", "switch": "switch"}),
    )
    events = sort_events(events)
    empty = int(((events.kind == ADD) & ~events.total.any(axis=1)).sum())
    note = f"{empty:,} nodes are added without a size: they have none until their update"
    assumptions = (scale_note(options), *([note] if empty else []))
    return Trace(
        "google2019 machine events",
        len(table),
        None,
        nodes_at_zero(events),
        events,
        {},
        assumptions,
    )


def _json_table(source: SourceFile) -> TraceTable:
    """One JSON object a line to the columns of the CSV form."""
    decoder = msgspec.json.Decoder(_Event)
    rows: list[tuple[Any, ...]] = []
    lines: list[int] = []
    for number, line in enumerate(source.data.split(b"\n"), start=1):
        if line.strip():
            try:
                rows.append(decoder.decode(line).row())
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise InputError(
                    f"{source.path} line {number}: expected a node event in JSON: {error}"
                ) from None
            lines.append(number)
    texts = (
        [None if value is None else str(value) for value in column]
        for column in zip(*rows, strict=True)
    )
    return of_columns(source, dict(zip(EVENT_COLUMNS, texts, strict=True)), lines)


def read_requests(source: SourceFile, options: TraceOptions) -> Trace:
    """Requests of single tasks to jobs: the tasks of a collection that are in the file."""
    import polars as pl

    table = parse(source)
    table.need(REQUEST_COLUMNS, "requests")
    rows = pl.DataFrame(
        {
            "job": table.texts("collection_id"),
            "time": table.integers("time"),
            "kind": table.integers("collection_type", 0, 1),
            "cpu": table.numbers("cpus", high=SHARE_MAX),
            "memory": table.numbers("ram", high=SHARE_MAX),
        }
    )
    jobs = rows.group_by("job", maintain_order=True).agg(
        pl.col("time").min(),
        pl.col("kind").first(),
        pl.col("cpu").mean(),
        pl.col("memory").mean(),
        pl.len().alias("tasks"),
    )
    duration = DURATION_S if options.duration_s is None else options.duration_s
    listed = job_list(
        Resources(),
        COLLECTIONS,
        workload=jobs["kind"].to_numpy(),
        submit_s=jobs["time"].to_numpy() / MICROS,
        tasks=jobs["tasks"].to_numpy().clip(1, TASKS_MAX),
        duration_s=np.full(jobs.height, duration),
        request=amounts(
            jobs["cpu"].to_numpy() * options.full_cpu,
            jobs["memory"].to_numpy() * options.full_memory,
        ),
        job_id=jobs["job"].to_list(),
    )
    assumptions = (
        scale_note(options),
        f"the trace has no durations: every task runs for {duration:g} s",
        "a job is submitted with its first task, and its size is the mean of its tasks in the file",
    )
    return Trace("google2019 requests", len(table), listed, assumptions=assumptions)


def read_machine_counts(source: SourceFile, options: TraceOptions) -> Trace:
    """Nodes counted by size, one after the other."""
    table = parse(source)
    table.need(COUNT_COLUMNS, "nodes")
    count = table.integers("machine_count", 0, COUNT_MAX)
    cpu = table.numbers("cpus", high=SHARE_MAX) * options.full_cpu
    memory = table.numbers("ram", high=SHARE_MAX) * options.full_memory
    nodes = number_nodes(np.repeat(amounts(cpu, memory), count, axis=0))
    return Trace("google2019 machines", len(table), nodes=nodes, assumptions=(scale_note(options),))


def number_nodes(total: Amounts, attributes: Sequence[Attributes] = ()) -> NodeTable:
    names = tuple(f"node-{n}" for n in range(len(total)))
    return NodeTable(Resources(), names, total, tuple(attributes) or ({},) * len(total))
