"""The nodes and jobs a scenario asks for: generated, or read from its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from murmuration.base.errors import InputError, unknown
from murmuration.base.random import generator
from murmuration.base.resources import Amounts, Resources, parse_quantity
from murmuration.cluster.constraints import Attributes, as_value, parse_constraint
from murmuration.simulation.scenarios import scenario as sc
from murmuration.workload.exports.rows import ENDLESS_S
from murmuration.workload.generators import Stream, Tables, generate
from murmuration.workload.jobs import JobList, merge, multiply
from murmuration.workload.node_events import (
    add_later_nodes,
    align_resources,
    drop_redundant,
    join_events,
)
from murmuration.workload.nodes import ADD, REMOVE, NodeEvents, NodeTable
from murmuration.workload.reshape import (
    bootstrap,
    multiply_tasks,
    scale_use,
    shift_arrivals,
    split_runs,
)
from murmuration.workload.usage import Curves
from murmuration.workload.usage_curves import UsageRules, attach_usage

if TYPE_CHECKING:
    from murmuration.workload.trace import Trace

DAY_S = 86_400.0
#: A trace in which nothing arrives later, such as a snapshot, is simulated for an hour.
DAYS_MIN = 1 / 24


def make_nodes(cluster: sc.ClusterSettings) -> NodeTable:
    """The nodes of the cluster, those that join later among them."""
    nodes = _group_nodes(cluster) if cluster.trace is None else _read_nodes(cluster.trace)
    if cluster.events is None:
        return nodes
    return add_later_nodes(nodes, _read_events(cluster.events), cluster.events)


def make_events(
    cluster: sc.ClusterSettings, nodes: NodeTable, start_s: float = 0.0
) -> NodeEvents | None:
    """What happens to these nodes, in seconds from the start of the run, which is `start_s` into
    the trace; what happened before it has a negative time. A node whose first event
    is ADD is absent until then; a node is added only when absent, removed or resized only when
    there."""
    parts = [_group_events(cluster, nodes)] if cluster.group else []
    if cluster.events is not None:
        recorded = _read_events(cluster.events)
        recorded = replace(recorded, time_s=recorded.time_s - start_s)
        parts.append(align_resources(recorded, nodes.resources, cluster.events))
    parts = [events for events in parts if len(events)]
    return drop_redundant(join_events(parts), nodes) if parts else None


def keep_share(
    nodes: NodeTable, events: NodeEvents | None, share: float, seed: int
) -> tuple[NodeTable, NodeEvents | None]:
    """A share of the nodes, and what happens to them. The order in which nodes go depends on the
    seed alone."""
    if share == 1.0:
        return nodes, events
    order = generator(seed, "keep").permutation(len(nodes))
    few = nodes.select(np.sort(order[: max(1, round(share * len(nodes)))]))
    if events is None:
        return few, None
    theirs = events.select(np.flatnonzero(np.isin(events.node_id, few.names)))
    return few, theirs if len(theirs) else None


def _read_nodes(path: str) -> NodeTable:
    from murmuration.workload.detect import open_trace
    from murmuration.workload.trace import TraceOptions

    nodes = open_trace(path, TraceOptions(nodes_only=True)).nodes
    if nodes is None:
        raise InputError(f"{path}: expected a list of nodes, found none")
    return nodes


def _read_events(path: str) -> NodeEvents:
    from murmuration.workload.detect import open_trace
    from murmuration.workload.trace import TraceOptions

    events = open_trace(path, TraceOptions(nodes_only=True)).events
    if events is None:
        raise InputError(f"{path}: expected events of nodes, found none")
    return events


def _group_events(cluster: sc.ClusterSettings, nodes: NodeTable) -> NodeEvents:
    """The nodes of a group join and leave together."""
    member = _group_of(cluster)
    rows: list[int] = []
    times: list[float] = []
    kinds: list[int] = []
    for index, group in enumerate(cluster.group):
        mine = np.flatnonzero(member == index).tolist()
        for time_s, kind in ((group.join_s, ADD), (group.leave_s, REMOVE)):
            if time_s is not None and time_s > 0:
                rows += mine
                times += [time_s] * len(mine)
                kinds += [kind] * len(mine)
    names = np.array([nodes.names[row] for row in rows], dtype=np.str_)
    return NodeEvents(
        nodes.resources,
        np.array(times, dtype=np.float64),
        names,
        np.array(kinds, dtype=np.int64),
        nodes.total[np.array(rows, dtype=np.int64)],
        tuple(nodes.attributes[row] for row in rows),
    )


def _group_of(cluster: sc.ClusterSettings) -> NDArray[np.int64]:
    """For each node its group: one group after the other, or mixed evenly."""
    counts = [group.count for group in cluster.group] or [cluster.nodes or 0]
    member = np.repeat(np.arange(len(counts)), counts)
    if not cluster.mixed:
        return member
    return member[
        np.argsort(np.concatenate([(np.arange(count) + 0.5) / count for count in counts]))
    ]


def _group_nodes(cluster: sc.ClusterSettings) -> NodeTable:
    groups = cluster.group or [
        sc.Group(
            count=cluster.nodes or 0,
            cpu=cluster.cpu,
            memory=cluster.memory,
            resources=cluster.resources,
            attributes=cluster.attributes,
        )
    ]
    extra = dict.fromkeys(name for group in groups for name in group.resources)
    resources = Resources(("cpu", "memory", *extra))
    rows, attributes = [], []
    for index, group in enumerate(groups):
        where = f"cluster.group[{index}]" if cluster.group else "cluster"
        rows.append(
            resources.vector({"cpu": group.cpu, "memory": group.memory, **group.resources}, where)
        )
        attributes.append(_attributes(group.attributes))
    member = _group_of(cluster)
    names = tuple(f"node-{i}" for i in range(len(member)))
    return NodeTable(
        resources,
        names,
        np.ascontiguousarray(np.array(rows)[member]),
        tuple(attributes[k] for k in member),
    )


def _attributes(given: Attributes) -> Attributes:
    """Values as constraints read them, so that `generation = "3"` on a node is met by `generation =
    3` of a job."""
    return {name: as_value(str(value)) for name, value in given.items()}


def make_jobs(scenario: sc.Scenario, resources: Resources, total: Amounts | None = None) -> JobList:
    """The jobs submitted before the horizon, with requests in the columns of the cluster, whose
    nodes have this much in `total`."""
    seconds, factor = scenario.days * DAY_S, sc.find_multiple(scenario)
    if sc.is_replay(scenario.workload):
        replay = sc.replay(scenario)
        if scenario.needs and not Path(replay.trace).exists():
            raise InputError(f"{replay.trace}: no such file. {scenario.needs}")
        jobs = begin_at(read_replay(replay, scenario.seed, resources), replay)
        if replay.arrivals == "bootstrap":
            jobs, factor = bootstrap(jobs, factor, generator(scenario.seed, "arrivals")), 1.0
        jobs = _say_cut(jobs, seconds).until(seconds)
        if replay.runs != 1.0:
            jobs = split_runs(jobs, replay.runs).until(seconds)
        if replay.used and total is not None:
            jobs = scale_use(jobs, total, seconds, replay.used)
        if replay.copies == "tasks":
            jobs, factor = multiply_tasks(jobs, factor), 1.0
    else:
        # In the order of their names, as a job list read from a file has them: replayed, it gives
        # the same run.
        streams = dict(sorted(sc.generators(scenario).items()))
        jobs = merge(
            [
                _stream_jobs(name, g, resources, seconds, scenario.seed)
                for name, g in streams.items()
            ]
        )
    jobs = (jobs if factor == 1.0 else multiply(jobs, factor)).until(seconds)
    if len(jobs) == 0:
        raise InputError(f"{scenario.name}: no job is submitted within {scenario.days:g} days")
    return jobs


def _say_cut(jobs: JobList, seconds: float) -> JobList:
    """The same jobs, with a note if some come after the end of the run."""
    cut = int((jobs.submit_s >= seconds).sum())
    if not cut:
        return jobs
    length = f"{seconds / DAY_S:g} days"
    text = f"left out: {cut:,} of {len(jobs):,} jobs, which come after the {length} of the run"
    return replace(jobs, notes=(*jobs.notes, text))


def begin_at(jobs: JobList, replay: sc.ReplaySettings) -> JobList:
    """The jobs submitted from `start_s` on, which is time 0 of the run; with `initial` also those
    that would be running then, for the rest of their time."""
    if replay.arrivals_from_s > 0.0:
        jobs = shift_arrivals(jobs, replay.arrivals_from_s)
    if replay.start_s == 0.0:
        return jobs
    submit, end = jobs.submit_s - replay.start_s, jobs.submit_s + jobs.duration_s - replay.start_s
    running = (submit < 0.0) & (end > 0.0)
    duration = np.where(running, end, jobs.duration_s)
    shifted = replace(jobs, submit_s=np.maximum(submit, 0.0), duration_s=duration)
    return shifted.select((submit >= 0.0) | (running & replay.initial))


def trace_days(scenario: sc.Scenario) -> float:
    """How long the trace of a scenario is: until the last job has come and would have ended, had it
    started at once. Jobs that run without end do not count with their end."""
    replay = sc.replay(scenario)
    trace = _open(replay.trace, scenario.seed, replay)
    if trace.jobs is None:
        raise InputError(f"{replay.trace}: expected jobs, found none")
    jobs = begin_at(trace.jobs, replay)
    ends = np.where(jobs.duration_s < ENDLESS_S, jobs.submit_s + jobs.duration_s, jobs.submit_s)
    return max(float(ends.max(initial=0.0)) / DAY_S * (1 + 1e-9), DAYS_MIN)


def read_replay(replay: sc.ReplaySettings, seed: int, resources: Resources) -> JobList:
    """The job list a scenario names."""
    trace = _open(replay.trace, seed, replay)
    if trace.jobs is None:
        raise InputError(f"{replay.trace}: expected jobs, found none")
    notes = (*trace.assumptions, *(f"left out: {reason}" for reason in trace.skipped))
    return replace(align(trace.jobs, resources, replay.trace), notes=notes)


def align(jobs: JobList, resources: Resources, where: str) -> JobList:
    """The same jobs with one request column, and one column of usage, for each resource of the
    cluster."""
    request = np.zeros((len(jobs), len(resources)), dtype=np.int64)
    columns = {}
    for column, name in enumerate(jobs.resources.names):
        if name in resources.names:
            columns[column] = resources.names.index(name)
            request[:, columns[column]] = jobs.request[:, column]
        elif jobs.request[:, column].any():
            raise InputError(
                f"{where}: its jobs ask for an {unknown('resource', name, resources.names)}"
            )
    return replace(
        jobs,
        resources=resources,
        request=request,
        curves=_align_curves(jobs.curves, columns, resources),
    )


def _align_curves(
    curves: Curves | None, columns: dict[int, int], resources: Resources
) -> Curves | None:
    """Of a resource that the curves do not know, all that is requested is used."""
    if curves is None:
        return None
    share = np.ones((*curves.share.shape[:2], len(resources)), dtype=np.float32)
    share[:, :, list(columns.values())] = curves.share[:, :, list(columns)]
    return replace(curves, share=share)


def _stream_jobs(
    name: str, table: sc.Generator, resources: Resources, seconds: float, seed: int
) -> JobList:
    where = f"workload.{name}"
    stream = Stream(
        name=name,
        arrivals_per_s=table.arrivals_per_s,
        tasks_per_job=table.tasks_per_job,
        task_duration_s=table.task_duration_s,
        request=_request(table, resources, where),
        priority=table.priority,
        gang=table.gang,
        production=table.production,
        initial=table.initial,
        spread=table.spread,
        constraints=tuple(
            parse_constraint(text, f"{where}.constraints") for text in table.constraints
        ),
    )
    tables = (
        Tables() if table.empirical is None else _tables(table.empirical, name, seed, resources)
    )
    if table.arrivals_per_s == 0.0 and len(tables.gaps_s) == 0:
        raise InputError(f"{where}.empirical: {table.empirical} has too few jobs to draw gaps from")
    jobs = generate(stream, resources, seconds, generator(seed, "workload", name), tables)
    if table.usage is None:
        return jobs
    rules = UsageRules(**msgspec.structs.asdict(table.usage))
    return attach_usage(jobs, rules, resources, generator(seed, "usage", name))


def _open(path: str, seed: int, replay: sc.ReplaySettings | None = None) -> Trace:
    """A trace, with what it leaves open drawn from the run's seed."""
    from murmuration.workload.detect import open_trace
    from murmuration.workload.trace import TraceOptions

    replay = replay or sc.ReplaySettings(trace=path)
    options = TraceOptions(
        rng=generator(seed, "trace"),
        initial=replay.initial,
        strict=replay.strict,
        usage=replay.usage,
        by_class=replay.by_class,
        full_cpu=replay.full_cpu,
        full_memory=parse_quantity(replay.full_memory, "workload.full_memory"),
    )
    return open_trace(path, options)


def _tables(path: str, name: str, seed: int, resources: Resources) -> Tables:
    """Tables to draw from: the jobs of the same workload in the trace, or all of them if it has
    none of that name."""
    from murmuration.workload.describe import tables_of

    trace = _open(path, seed)
    if name in trace.tables:
        return trace.tables[name]
    if trace.jobs is None:
        raise InputError(
            f"{path}: expected jobs or distributions of {name!r} to draw from, found none"
        )
    jobs = align(trace.jobs, resources, path)
    return tables_of(jobs, name if name in jobs.workloads else None)


def _request(table: sc.Generator, resources: Resources, where: str) -> Amounts:
    row = resources.vector(table.resources, f"{where}.resources")
    row[0] += resources.exact("cpu", table.task_cpu, f"{where}.task_cpu")
    row[1] += resources.exact("memory", table.task_memory, f"{where}.task_memory")
    return row
