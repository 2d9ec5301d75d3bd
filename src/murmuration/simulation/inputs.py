"""The nodes and jobs a scenario asks for: generated, or read from its files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from murmuration.cluster.constraints import Attributes, as_value, parse_constraint
from murmuration.cluster.errors import InputError, unknown
from murmuration.cluster.random import generator
from murmuration.cluster.resources import Amounts, Resources
from murmuration.simulation import scenario as sc
from murmuration.workload.generators import Stream, Tables, generate
from murmuration.workload.jobs import JobList, merge, multiply
from murmuration.workload.nodes import NodeTable
from murmuration.workload.usage_curves import UsageRules, with_usage

if TYPE_CHECKING:
    from murmuration.workload.trace import Trace

DAY_S = 86_400.0


def make_nodes(cluster: sc.Cluster) -> NodeTable:
    """The nodes of the cluster."""
    if cluster.trace is not None:
        from murmuration.workload.detect import open_trace

        nodes = open_trace(cluster.trace).nodes
        if nodes is None:
            raise InputError(f"{cluster.trace}: expected a list of nodes, found none")
        return nodes
    groups = cluster.group or [
        sc.Group(
            count=cluster.nodes or 0, cpu=cluster.cpu, memory=cluster.memory, resources=cluster.resources,
            attributes=cluster.attributes,
        )
    ]  # fmt: skip
    extra = dict.fromkeys(name for group in groups for name in group.resources)
    resources = Resources(("cpu", "memory", *extra))
    rows, attributes = [], []
    for index, group in enumerate(groups):
        where = f"cluster.group[{index}]" if cluster.group else "cluster"
        row = resources.vector({"cpu": group.cpu, "memory": group.memory, **group.resources}, where)
        rows.append(np.tile(row, (group.count, 1)))
        attributes += [_attributes(group.attributes)] * group.count
    total = np.ascontiguousarray(np.concatenate(rows))
    names = tuple(f"node-{i}" for i in range(len(total)))
    if cluster.mixed:
        order = np.argsort(np.concatenate([(np.arange(group.count) + 0.5) / group.count for group in groups]))
        total, attributes = np.ascontiguousarray(total[order]), [attributes[i] for i in order]
    return NodeTable(resources, names, total, tuple(attributes))


def _attributes(given: Attributes) -> Attributes:
    """Values as constraints read them, so that `generation = "3"` on a node is met by `generation = 3` of a job."""
    return {name: as_value(str(value)) for name, value in given.items()}


def make_jobs(scenario: sc.Scenario, resources: Resources) -> JobList:
    """The jobs submitted before the horizon, with requests in the columns of the cluster."""
    seconds = scenario.days * DAY_S
    if sc.is_replay(scenario.workload):
        jobs = read_replay(sc.replay(scenario), scenario.seed, resources)
    else:
        # In the order of their names, as a job list read from a file has them: replayed, it gives the same run.
        streams = dict(sorted(sc.generators(scenario).items()))
        jobs = merge([_stream_jobs(name, g, resources, seconds, scenario.seed) for name, g in streams.items()])
    jobs = jobs.until(seconds)
    if len(jobs) == 0:
        raise InputError(f"{scenario.name}: no job is submitted within {scenario.days:g} days")
    return jobs


def read_replay(replay: sc.Replay, seed: int, resources: Resources) -> JobList:
    """The job list a scenario names, multiplied as asked."""
    jobs = _open(replay.trace, seed).jobs
    if jobs is None:
        raise InputError(f"{replay.trace}: expected jobs, found none")
    aligned = align(jobs, resources, replay.trace)
    return aligned if replay.multiply == 1.0 else multiply(aligned, replay.multiply)


def align(jobs: JobList, resources: Resources, where: str) -> JobList:
    """The same jobs with one request column for each resource of the cluster."""
    request = np.zeros((len(jobs), len(resources)), dtype=np.int64)
    for column, name in enumerate(jobs.resources.names):
        if name in resources.names:
            request[:, resources.names.index(name)] = jobs.request[:, column]
        elif jobs.request[:, column].any():
            raise InputError(f"{where}: its jobs ask for an {unknown('resource', name, resources.names)}")
    return replace(jobs, resources=resources, request=request)


def _stream_jobs(name: str, table: sc.Generator, resources: Resources, seconds: float, seed: int) -> JobList:
    where = f"workload.{name}"
    stream = Stream(
        name=name, arrivals_per_s=table.arrivals_per_s, tasks_per_job=table.tasks_per_job,
        task_duration_s=table.task_duration_s, request=_request(table, resources, where), priority=table.priority,
        gang=table.gang, production=table.production, initial=table.initial, spread=table.spread,
        constraints=tuple(parse_constraint(text, f"{where}.constraints") for text in table.constraints),
    )  # fmt: skip
    tables = Tables() if table.empirical is None else _tables(table.empirical, name, seed, resources)
    if table.arrivals_per_s == 0.0 and len(tables.gaps_s) == 0:
        raise InputError(f"{where}.empirical: {table.empirical} has too few jobs to draw gaps from")
    jobs = generate(stream, resources, seconds, generator(seed, "workload", name), tables)
    if table.usage is None:
        return jobs
    rules = UsageRules(**msgspec.structs.asdict(table.usage))
    return with_usage(jobs, rules, resources, generator(seed, "usage", name))


def _open(path: str, seed: int) -> Trace:
    """A trace, with what it leaves open drawn from the run's seed."""
    from murmuration.workload.detect import open_trace
    from murmuration.workload.trace import Options

    return open_trace(path, Options(rng=generator(seed, "trace")))


def _tables(path: str, name: str, seed: int, resources: Resources) -> Tables:
    """Tables to draw from: the jobs of the same workload in the trace, or all of them if it has none of that name."""
    from murmuration.workload.describe import tables_of

    trace = _open(path, seed)
    if name in trace.tables:
        return trace.tables[name]
    if trace.jobs is None:
        raise InputError(f"{path}: expected jobs or distributions of {name!r} to draw from, found none")
    jobs = align(trace.jobs, resources, path)
    return tables_of(jobs, name if name in jobs.workloads else None)


def _request(table: sc.Generator, resources: Resources, where: str) -> Amounts:
    row = resources.vector(table.resources, f"{where}.resources")
    row[0] += resources.exact("cpu", table.task_cpu, f"{where}.task_cpu")
    row[1] += resources.exact("memory", table.task_memory, f"{where}.task_memory")
    return row
