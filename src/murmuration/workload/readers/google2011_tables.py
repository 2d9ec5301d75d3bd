"""Google's trace of 2011 as published: a folder of six tables in parts, replayed task by task with
usage, constraints, the nodes that came and went, and the node each task first ran on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from murmuration.base.arrays import Floats, Integers
from murmuration.base.errors import InputError
from murmuration.cluster.constraints import node_mask
from murmuration.workload.formats.source import load
from murmuration.workload.formats.table import SplitTable, TraceTable, parse, stack_parts
from murmuration.workload.jobs import JobList
from murmuration.workload.node_events import nodes_at_zero
from murmuration.workload.nodes import NodeEvents, NodeTable
from murmuration.workload.readers import google2011_nodes as nodes
from murmuration.workload.readers import google2011_tasks as tasks
from murmuration.workload.readers.google2011 import TIME_NOTE, scale_note
from murmuration.workload.trace import LeftOut, Trace, TraceOptions, count_skipped

MACHINES, TASKS = "machine_events", "task_events"
COLUMNS = {
    MACHINES: nodes.EVENT_COLUMNS,
    "machine_attributes": nodes.ATTRIBUTE_COLUMNS,
    TASKS: tasks.EVENT_COLUMNS,
    "task_constraints": tasks.CONSTRAINT_COLUMNS,
    "task_usage": tasks.USAGE_COLUMNS,
}


def is_folder(path: Path) -> bool:
    return path.is_dir() and ((path / MACHINES).is_dir() or (path / TASKS).is_dir())


def read_folder(path: Path, options: TraceOptions) -> Trace:
    """The whole trace, or its nodes alone where that is all that is asked for."""
    left_out = LeftOut(options.strict)
    changed = _parts(path, MACHINES, needed=True)
    keep = nodes.mark_sized(changed, left_out)
    if not keep.any():
        raise InputError(
            f"{path / MACHINES}: expected nodes that are added with a size, there are none"
        )
    known = set(changed.texts("machine_id").to_numpy()[keep].tolist())
    attributes, later = _attributes(path, known, left_out)
    events = nodes.node_events(changed.select(keep), attributes, options)
    attribute_note = [f"{later:,} later changes of attributes are not replayed"] if later else []
    trace = Trace(
        "google2011 tables",
        len(changed),
        nodes=nodes_at_zero(events),
        events=events,
        assumptions=(scale_note(options), TIME_NOTE, *attribute_note),
        skipped=tuple(left_out.lines),
    )
    return trace if options.nodes_only else _add_tasks(trace, path, options, left_out)


def _attributes(path: Path, known: set[str], left_out: LeftOut) -> tuple[nodes.NodeAttributes, int]:
    table = _parts(path, "machine_attributes")
    return nodes.read_attributes(table, known, left_out) if len(table) else ({}, 0)


def _add_tasks(trace: Trace, path: Path, options: TraceOptions, left_out: LeftOut) -> Trace:
    """The trace with a job for each task."""
    assert trace.events is not None
    events, asked, used = (
        _parts(path, TASKS, needed=True),
        _parts(path, "task_constraints"),
        _parts(path, "task_usage"),
    )
    lifetimes, never, end_s = tasks.lifetimes(events, used)
    jobs = tasks.job_rows(lifetimes, end_s, options)
    jobs = replace(jobs, **tasks.constraints(asked, jobs, never, left_out)) if len(asked) else jobs
    if len(used):
        jobs = tasks.attach_usage(
            used, jobs, lifetimes["start"].to_numpy(), never, options, left_out
        )
    jobs = _on_known_nodes(jobs, events, lifetimes["start_row"].to_numpy(), trace.events, left_out)
    jobs = _keep_fitting(jobs, events, lifetimes["row"].to_numpy(), trace.events, left_out)
    if len(jobs) == 0:
        raise InputError(
            f"{path / TASKS}: expected tasks that ran and that a node can hold, there are none"
        )
    notes = tasks.notes(
        lifetimes["runs"].to_numpy(), end_s, int(lifetimes["spread"].sum()), usage=len(used) > 0
    )
    skipped = count_skipped((len(never), "tasks that ended without being scheduled"))
    return replace(
        trace,
        rows=trace.rows + len(events) + len(asked) + len(used),
        jobs=jobs.sorted(),
        assumptions=trace.assumptions + notes,
        skipped=(*skipped, *left_out.lines),
    )


def _on_known_nodes(
    jobs: JobList,
    table: TraceTable,
    start_row: Floats,
    events: NodeEvents,
    left_out: LeftOut,
) -> JobList:
    """A node that the machine events do not know is not where a task ran."""
    known = np.isin(np.array(jobs.recorded_nodes, dtype=np.str_), np.unique(events.node_id))
    strange = (jobs.recorded >= 0) & ~np.append(known, True)[jobs.recorded]
    rows = np.zeros(len(table), dtype=np.bool_)
    rows[start_row[strange].astype(np.int64)] = True
    left_out.without(table, rows, "a node that is not in machine_events")
    return replace(jobs, recorded=np.where(strange, -1, jobs.recorded))


def _keep_fitting(
    jobs: JobList, table: TraceTable, row: Integers, events: NodeEvents, left_out: LeftOut
) -> JobList:
    """The tasks that at least one node could hold when empty, whenever it was there."""
    cell = _all_nodes(events)
    masks = [node_mask(constraints, cell.attributes) for constraints in jobs.constraint_sets]
    kinds, which = np.unique(
        np.column_stack([jobs.constraint, jobs.request]), axis=0, return_inverse=True
    )
    fits = np.array(
        [bool((cell.total[masks[kind[0]]] >= kind[1:]).all(axis=1).any()) for kind in kinds]
    )
    homeless = ~fits[which.reshape(-1)]
    bad = np.zeros(len(table), dtype=np.bool_)
    bad[row[homeless]] = True
    left_out.without(table, bad, "a task that fits no node")
    return jobs.select(~homeless)


def _all_nodes(events: NodeEvents) -> NodeTable:
    """Every node that was ever there, at the largest it was."""
    names, first, which = np.unique(events.node_id, return_index=True, return_inverse=True)
    total = np.zeros((len(names), len(events.resources)), dtype=np.int64)
    np.maximum.at(total, which, events.total)
    return NodeTable(
        events.resources, tuple(names.tolist()), total, tuple(events.attributes[k] for k in first)
    )


def _parts(path: Path, name: str, needed: bool = False) -> SplitTable:
    """One table from all its parts, in the order of their names; without parts it has no rows."""
    columns = COLUMNS[name]
    files = sorted(file for file in (path / name).glob("part-*") if file.is_file())
    if needed and not files:
        raise InputError(
            f"{path / name}: expected files such as part-00000-of-00001.csv.gz, there are none"
        )
    tables = []
    for file in files:
        source = load(file)
        # The first version of the trace has one column less in task_usage.
        fields = source.head(1)[0].count(",") + 1
        tables.append(
            parse(source, names=columns[:fields] if fields == len(columns) - 1 else columns)
        )
    return stack_parts(path / name, tables, columns)
