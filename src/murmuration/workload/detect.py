"""Which format is this? Decided by what a file holds, not by its name."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from murmuration.base.errors import InputError
from murmuration.workload import node_events, nodes
from murmuration.workload.exports import opening as exports
from murmuration.workload.formats import job_lists as store
from murmuration.workload.formats.source import SourceFile, load
from murmuration.workload.formats.table import of_source, parquet
from murmuration.workload.formats.usage_files import attach_usage, read_usage
from murmuration.workload.readers import (
    alibaba,
    bitbrains,
    containers,
    google2011,
    google2011_jobs,
    google2011_nodes,
    google2011_tables,
    google2019,
    omega,
    planetlab,
    swf,
    swim,
)
from murmuration.workload.trace import LeftOut, Trace, TraceOptions


@dataclass(frozen=True)
class Head:
    """What a format is known by: the first line that is no comment, its fields, and the columns it
    may name."""

    line: str
    fields: list[str]
    columns: frozenset[str]

    def has(self, names: Iterable[str], at_least: int | None = None) -> bool:
        wanted = set(names)
        return len(wanted & self.columns) >= (len(wanted) if at_least is None else at_least)


@dataclass(frozen=True)
class Format:
    kind: str
    matches: Callable[[Head], bool]
    read: Callable[[SourceFile, TraceOptions], Trace]


def _read_jobs(source: SourceFile, options: TraceOptions) -> Trace:
    table, left_out = of_source(source), LeftOut(options.strict)
    usage = None if options.usage is None else read_usage(options.usage, left_out)
    jobs = store.jobs_of(table, usage, left_out)
    notes = tuple(f"column {name!r} is not used" for name in store.unused_columns(table))
    return Trace("job list", len(table), jobs, assumptions=notes, skipped=tuple(left_out.lines))


def _attach_usage(trace: Trace, options: TraceOptions) -> Trace:
    """A trace of another format with the usage that is named for it."""
    if options.usage is None or trace.jobs is None or trace.kind == "job list":
        return trace
    left_out = LeftOut(options.strict)
    jobs = attach_usage(
        trace.jobs, read_usage(options.usage, left_out), trace.jobs.job_id.tolist(), left_out
    )
    return replace(trace, jobs=jobs, skipped=(*trace.skipped, *left_out.lines))


def _read_nodes(source: SourceFile, options: TraceOptions) -> Trace:
    table = of_source(source)
    return Trace("node table", len(table), nodes=nodes.nodes_of(table))


def _read_events(source: SourceFile, options: TraceOptions) -> Trace:
    table = of_source(source)
    return Trace("node events", len(table), events=node_events.events_of(table))


#: Our own come first. A file with some of their columns is theirs, so that a missing one is named.
FORMATS = (
    Format("job list", lambda head: head.has(store.BASE, 3), _read_jobs),
    Format("node events", lambda head: head.has(node_events.BASE), _read_events),
    Format("node table", lambda head: head.has(nodes.BASE, 2), _read_nodes),
    Format(
        "google2011 job events",
        lambda head: (
            head.has(google2011_jobs.EVENT_COLUMNS) or google2011_jobs.is_raw_job_events(head.line)
        ),
        google2011_jobs.read_job_events,
    ),
    Format(
        "google2011 initial tasks",
        lambda head: head.has(google2011.TASK_COLUMNS),
        google2011.read_initial_tasks,
    ),
    Format(
        "google2011 machines",
        lambda head: head.has(google2011.MACHINE_COLUMNS) and not head.has(["event_type"]),
        google2011.read_machines,
    ),
    Format(
        "google2011 removals",
        lambda head: head.has(google2011_nodes.EVENT_COLUMNS),
        google2011_nodes.read_removals,
    ),
    Format(
        "google2019 machine events",
        lambda head: (
            head.has(google2019.EVENT_COLUMNS)
            or (head.line[0] == "{" and '"machine_id"' in head.line)
        ),
        google2019.read_machine_events,
    ),
    Format(
        "google2019 requests",
        lambda head: head.has(google2019.REQUEST_COLUMNS),
        google2019.read_requests,
    ),
    Format(
        "google2019 machines",
        lambda head: head.has(google2019.COUNT_COLUMNS),
        google2019.read_machine_counts,
    ),
    Format("alibaba pods", lambda head: head.has(alibaba.POD_COLUMNS), alibaba.read_pods),
    Format("alibaba nodes", lambda head: head.has(alibaba.NODE_COLUMNS), alibaba.read_nodes),
    Format(
        "alibaba containers",
        lambda head: containers.is_instances(head.line),
        containers.read_instances,
    ),
    Format(
        "alibaba container apps", lambda head: containers.is_apps(head.line), containers.read_apps
    ),
    Format(
        "alibaba container nodes",
        lambda head: containers.is_nodes(head.line),
        containers.read_nodes,
    ),
    Format("planetlab", lambda head: head.has(planetlab.COLUMNS), planetlab.read_planetlab),
    Format("bitbrains", lambda head: head.has(bitbrains.COLUMNS), bitbrains.read_bitbrains),
    Format("omega cell state", lambda head: omega.is_state(head.fields), omega.read_state),
    Format(
        "omega distribution",
        lambda head: omega.is_distribution(head.fields),
        omega.read_distribution,
    ),
    Format("swim", lambda head: swim.is_swim(head.line), swim.read_swim),
    Format("swf", lambda head: swf.is_swf(head.fields) or head.line[0] == ";", swf.read_swf),
)


def open_trace(path: str | Path, options: TraceOptions | None = None) -> Trace:
    """Read a trace of any known format."""
    options = options or TraceOptions()
    if google2011_tables.is_folder(Path(path)):
        return _attach_usage(google2011_tables.read_folder(Path(path), options), options)
    if exports.is_folder(Path(path)):
        return _attach_usage(exports.read_folder(Path(path), options), options)
    source = load(path)
    export = exports.open_export(source, options)
    if export is not None:
        return _attach_usage(export, options)
    head = _head(source)
    for known in FORMATS:
        if known.matches(head):
            return _attach_usage(known.read(source, options), options)
    raise InputError(
        f"{source.path}: not a trace of a known format: {_describe(head)}; a job list has the "
        f"columns {', '.join(store.BASE)} (docs/traces.md has the others)"
    )


def _describe(head: Head) -> str:
    """What a file has instead of columns that are known."""
    for separator, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if head.line.count(separator) > head.line.count(","):
            return f"its columns are separated by {name}, expected commas"
    return f"its first line is {head.line[:80]!r}"


def _head(source: SourceFile) -> Head:
    if source.is_parquet:
        return Head("?", ["?"], frozenset(_parquet_columns(source)))
    lines = source.head()
    line = next((line for line in lines if not line.startswith(";")), lines[0] if lines else "?")
    names = (name.strip().strip('"') for name in line.split(","))
    return Head(line, line.split(), frozenset(names))


def _parquet_columns(source: SourceFile) -> list[str]:
    """The names alone, without reading the rows; a file that has none to give fails as when it is
    read."""
    import polars as pl

    try:
        return list(pl.read_parquet_schema(io.BytesIO(source.data)))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return parquet(source).columns
