"""Alibaba's containers of 2018 (the contest on global scheduling): instances, what their apps use
in a day, and nodes.

The files have no header. Instances lie in one file and the usage of their apps in another beside
it.
"""

from __future__ import annotations

import re

import numpy as np

from murmuration.base.arrays import Floats, Integers
from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.workload.formats.sizes import CPU_MAX, GB, amounts
from murmuration.workload.formats.source import SourceFile, find_beside, load
from murmuration.workload.formats.table import TraceTable, codes, parse
from murmuration.workload.jobs import job_list
from murmuration.workload.nodes import NodeTable
from murmuration.workload.trace import Trace, TraceOptions
from murmuration.workload.usage import Curves

RESOURCES = Resources(("cpu", "memory", "disk", "p", "m", "pm"))
INSTANCE_COLUMNS = ("instance", "app", "machine")
APP_COLUMNS = ("app", "cpu", "memory", "disk", "p", "m", "pm")
NODE_COLUMNS = ("machine", "cpu", "memory", "disk", "p", "m", "pm")
APPS_FILE = "app_resources"
DAY_S = 86_400.0
#: Text of a curve: a hundred points of up to a dozen digits.
CURVE_MAX = 5000


def is_instances(line: str) -> bool:
    return re.fullmatch(r"inst_\w+,app_\w+,(machine_\w+)?", line) is not None


def is_apps(line: str) -> bool:
    return re.match(r"app_\w+,[\d.]+\|", line) is not None


def is_nodes(line: str) -> bool:
    return re.fullmatch(r"machine_\w+(,[\d.]+){6}", line) is not None


def read_instances(source: SourceFile, options: TraceOptions) -> Trace:
    """Every instance a service of one task, on the node it ran on, that uses what its app
    uses in a day."""
    table = parse(source, names=INSTANCE_COLUMNS)
    table.need(INSTANCE_COLUMNS, "instances")
    path = find_beside(source.path, APPS_FILE)
    if path is None:
        raise InputError(
            f"{source.path}: expected a file {APPS_FILE}.csv beside it, with what the apps use"
        )
    apps, request, curves = _read_apps(load(path))
    known = {name: row for row, name in enumerate(apps)}
    app = np.array([known.get(name, -1) for name in table.texts("app").to_list()], dtype=np.int64)
    table.refuse(app < 0, "app", f"an app of {path}")
    nodes, recorded = codes(table.texts("machine", optional=True))
    # The empty name sorts first.
    unplaced = int(bool(nodes) and nodes[0] == "")
    duration = DAY_S if options.duration_s is None else options.duration_s
    one = np.ones(len(table))
    jobs = job_list(
        RESOURCES,
        ["service"],
        workload=np.zeros(len(table), dtype=np.int64),
        submit_s=np.zeros(len(table)),
        tasks=one.astype(np.int64),
        duration_s=one * duration,
        request=request[app],
        job_id=table.names("instance").to_list(),
        curve=app,
        curves=curves,
        recorded=recorded - unplaced,
        recorded_nodes=nodes[unplaced:],
    )
    assumptions = (
        "an instance asks for the most CPU and memory its app uses in the day, and for its disk, "
        "p, m and pm",
        f"the {curves.share.shape[1]} points of a curve part the day evenly, {curves.step_s:.1f} "
        "s each",
        f"all are there from 0 s and run for {duration:,.0f} s",
        f"{int((recorded < unplaced).sum()):,} instances were not yet on a node",
    )
    return Trace("alibaba containers", len(table), jobs, assumptions=assumptions)


def read_apps(source: SourceFile, options: TraceOptions) -> Trace:
    raise InputError(
        f"{source.path}: this is what apps use; open the file of instances (instance_deploy) "
        "beside it"
    )


def _read_apps(source: SourceFile) -> tuple[list[str], Integers, Curves]:
    """The apps, what an instance of each asks for, and its curve as shares of that."""
    table = parse(source, names=APP_COLUMNS)
    table.need(APP_COLUMNS, "apps")
    used = np.stack([_points(table, name) for name in ("cpu", "memory")], axis=2)
    peak = used.max(axis=1)
    share = np.ones((*used.shape[:2], len(RESOURCES)), dtype=np.float32)
    share[:, :, :2] = used / np.where(peak > 0, peak, 1.0)[:, None, :]
    rest = (table.numbers(name, high=CPU_MAX) for name in RESOURCES.names[2:])
    request = amounts(peak[:, 0], peak[:, 1] * GB, *rest)
    return table.names("app").to_list(), request, Curves(share, DAY_S / used.shape[1])


def _points(table: TraceTable, name: str) -> Floats:
    """The points of a curve, separated by `|`, the same number in every row."""
    import polars as pl

    parts = table.texts(name, length_max=CURVE_MAX).str.split("|")
    count = int(parts.list.len()[0])
    table.refuse((parts.list.len() != count).to_numpy(), name, f"{count} numbers separated by |")
    values = (
        parts.explode()
        .cast(pl.Float64, strict=False)
        .fill_null(np.nan)
        .to_numpy()
        .reshape(len(table), count)
    )
    bad = ~(np.isfinite(values) & (values >= 0) & (values <= CPU_MAX)).all(axis=1)
    table.refuse(bad, name, "numbers that are not negative, separated by |")
    return values


def read_nodes(source: SourceFile, options: TraceOptions) -> Trace:
    """The nodes, with disk and the limits of the contest as further resources."""
    table = parse(source, names=NODE_COLUMNS)
    table.need(NODE_COLUMNS, "nodes")
    cpu, memory, *rest = (table.numbers(name, high=CPU_MAX) for name in NODE_COLUMNS[1:])
    names = tuple(table.names("machine").to_list())
    nodes = NodeTable(RESOURCES, names, amounts(cpu, memory * GB, *rest), ({},) * len(table))
    return Trace(
        "alibaba container nodes",
        len(table),
        nodes=nodes,
        assumptions=("memory and disk are in GB",),
    )
