"""Alibaba's GPU cluster of 2023 ("openb"): pods and nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from murmuration.base.arrays import Floats, Integers
from murmuration.base.resources import Resources
from murmuration.cluster.constraints import Constraint, as_value
from murmuration.workload.formats.sizes import CPU_MAX, MIB, SIZE_MAX, amounts
from murmuration.workload.formats.source import SourceFile
from murmuration.workload.formats.table import TraceTable, codes, parse
from murmuration.workload.jobs import job_list
from murmuration.workload.nodes import NodeTable, read_attributes
from murmuration.workload.trace import Trace, TraceOptions

if TYPE_CHECKING:
    import polars as pl

POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
TIMES = ("creation_time", "deletion_time", "scheduled_time")
MILLI = 1000
GPUS_MAX = 10_000
#: For the one list without times; the order of what half of the others last.
DURATION_S = 3600.0
RESOURCES = Resources(("cpu", "memory", "gpu"))


def _cpu(table: TraceTable) -> Floats:
    return table.numbers("cpu_milli", high=CPU_MAX * MILLI) / MILLI


def _memory(table: TraceTable) -> Floats:
    return table.numbers("memory_mib", high=SIZE_MAX / MIB) * MIB


def read_pods(source: SourceFile, options: TraceOptions) -> Trace:
    """Every pod a job of one task, its workload the quality of service."""
    table = parse(source)
    table.need(POD_COLUMNS, "pods")
    gpu = table.numbers("num_gpu", high=GPUS_MAX) * table.numbers("gpu_milli", high=MILLI) / MILLI
    names, workload = codes(_qos(table))
    submit, duration, note = _times(table, options)
    sets, constraint = _models(table)
    jobs = job_list(
        RESOURCES,
        names,
        workload=workload,
        submit_s=submit,
        tasks=np.ones(len(table), dtype=np.int64),
        duration_s=duration,
        request=amounts(_cpu(table), _memory(table), gpu),
        job_id=table.names("name").to_list(),
        constraint=constraint,
        constraint_sets=sets,
    )
    assumptions = (note, "gpu is the number of GPUs times the share of each, as one amount")
    return Trace("alibaba pods", len(table), jobs, assumptions=assumptions)


def _qos(table: TraceTable) -> pl.Series:
    """One of the published lists has neither a quality of service nor times."""
    import polars as pl

    if "qos" not in table.columns:
        return pl.Series(["pods"] * len(table), dtype=pl.String)
    return table.texts("qos").str.strip_chars().str.to_lowercase()


def _times(table: TraceTable, options: TraceOptions) -> tuple[Floats, Floats, str]:
    """Submission and duration: from scheduling, or creation if it never was, to deletion."""
    if not set(TIMES) <= set(table.columns):
        duration = DURATION_S if options.duration_s is None else options.duration_s
        note = f"the trace has no times: every pod is submitted at 0 and runs for {duration:g} s"
        return np.zeros(len(table)), np.full(len(table), duration), note
    created, deleted = table.numbers("creation_time"), table.numbers("deletion_time")
    scheduled = table.numbers("scheduled_time", low=-1, default=-1.0)
    duration_s = deleted - np.where(scheduled >= 0, scheduled, created)
    table.refuse(duration_s < 0, "deletion_time", "a time that is not before the pod's start")
    note = f"{int((scheduled < 0).sum()):,} pods that never ran last from creation to deletion"
    return created, duration_s, note


def _models(table: TraceTable) -> tuple[tuple[tuple[Constraint, ...], ...], Integers]:
    """`A|B` asks for a node of one of these models."""
    if "gpu_spec" not in table.columns:
        return ((),), np.zeros(len(table), dtype=np.int64)
    texts, code = codes(table.texts("gpu_spec", optional=True))
    sets: list[tuple[Constraint, ...]] = [()]
    index = np.zeros(len(texts), dtype=np.int64)
    for k, text in enumerate(texts):
        if models := tuple(as_value(model) for model in text.split("|") if model.strip()):
            index[k] = len(sets)
            sets.append((Constraint("model", "in", models),))
    return tuple(sets), index[code]


def read_nodes(source: SourceFile, options: TraceOptions) -> Trace:
    """The nodes, their GPUs a resource and their GPU model an attribute."""
    table = parse(source)
    table.need(NODE_COLUMNS, "nodes")
    total = amounts(_cpu(table), _memory(table), table.numbers("gpu", high=GPUS_MAX))
    nodes = NodeTable(
        RESOURCES,
        tuple(table.names("sn").to_list()),
        total,
        read_attributes(table, {"model": "model"}),
    )
    return Trace("alibaba nodes", len(table), nodes=nodes)
