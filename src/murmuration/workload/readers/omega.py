"""The Omega simulator's files: the state a cell begins with, and observed distributions of jobs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from murmuration.base.arrays import Floats
from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.workload.formats.sizes import CPU_MAX, SIZE_MAX, amounts
from murmuration.workload.formats.source import SourceFile
from murmuration.workload.formats.table import TraceTable, parse, tabs_for_blanks
from murmuration.workload.generators import Tables
from murmuration.workload.jobs import TASKS_MAX, JobList, job_list
from murmuration.workload.readers.google2011 import (
    CLASSES,
    FIRST_PRODUCTION_CLASS,
    MICROS,
    name_workloads,
    split,
)
from murmuration.workload.trace import Trace, TraceOptions, count_skipped

if TYPE_CHECKING:
    import polars as pl

STATE_COLUMNS = ("type", "time", "job_id", "prod_job", "sched_class", "tasks", "cpus", "memory")
DISTRIBUTION_COLUMNS = ("cluster", "policy", "scheduler", "value")
PRESENT, ENDED = 11, 12
#: Times beyond three years of seconds are microseconds: the published logs and later ones differ.
SECONDS_MAX = 1e8
TRACE_DAYS = 29
#: What a file of a distribution holds stands in its name only.
FIELDS = {"interarrival": "gaps_s", "csizes": "tasks", "runtimes": "durations_s"}


def is_state(fields: list[str]) -> bool:
    return (
        (len(fields), fields[0]) in ((8, "11"), (6, "12"))
        and fields[3] in "01"
        and fields[4] in "0123"
    )


def is_distribution(fields: list[str]) -> bool:
    return (
        len(fields) == 4
        and fields[2] in ("0", "1")
        and re.fullmatch(r"[\d.eE+-]+", fields[3]) is not None
    )


def read_state(source: SourceFile, options: TraceOptions) -> Trace:
    """The jobs there at time 0: rows 11 say what they are, rows 12 when some of them ended."""
    # Rows 12 have two fields fewer.
    padded = re.sub(rb"(?m)^(12(?:\t[^\t\n]+){5})$", rb"\1\t\t", tabs_for_blanks(source).data)
    table = parse(
        SourceFile(source.path, padded), names=STATE_COLUMNS, separator="\t", quoted=False
    )
    kind = table.integers("type", PRESENT, ENDED)
    present = table.select(kind == PRESENT)
    present.need(STATE_COLUMNS, "jobs (rows of type 11)")
    names = present.names("job_id")
    end_s, strangers, unit = _ends(table.select(kind == ENDED), names)
    per_task = "request" in source.path.name
    last_s = TRACE_DAYS * 86400.0 if options.duration_s is None else options.duration_s
    assumptions = (
        f"{int(np.isnan(end_s).sum()):,} jobs without an end run for {last_s:,.0f} s",
        f"CPU and memory are {'per task' if per_task else 'sums over the tasks of a job'}, by "
        "the file's name",
        f"ends are in {unit}, by their size",
        "scheduling class 2 and 3 is production, each class a workload"
        if options.by_class
        else "service is production with scheduling class 2 or 3, all else is batch (CMB_PBB)",
    )
    duration_s = np.where(np.isnan(end_s), last_s, end_s)
    jobs = _state_jobs(present, names, duration_s, per_task, options)
    skipped = count_skipped((strangers, "ends of jobs that are not in the file"))
    return Trace("omega cell state", len(table), jobs, assumptions=assumptions, skipped=skipped)


def _ends(table: TraceTable, names: pl.Series) -> tuple[Floats, int, str]:
    """When each of these jobs ended (NaN: not known), how many ends are of other jobs, and the unit
    of time."""
    import polars as pl

    time = table.numbers("time")
    micros = bool(time.max(initial=0.0) > SECONDS_MAX)
    ends = pl.DataFrame({"job": table.texts("job_id"), "end": time / (MICROS if micros else 1.0)})
    first = ends.unique("job", keep="first", maintain_order=True)
    end_s = pl.DataFrame({"job": names}).join(first, on="job", how="left", maintain_order="left")[
        "end"
    ]
    strangers = ends.join(pl.DataFrame({"job": names}), on="job", how="anti").height
    return end_s.to_numpy(), strangers, "microseconds" if micros else "seconds"


def _state_jobs(
    table: TraceTable,
    names: pl.Series,
    duration_s: Floats,
    per_task: bool,
    options: TraceOptions,
) -> JobList:
    tasks = table.integers("tasks", 1, TASKS_MAX)
    share = np.ones(len(table)) if per_task else 1.0 / tasks
    production = table.integers("prod_job", 0, 1).astype(np.bool_)
    scheduling_class = table.integers("sched_class", 0, 3)
    workload = split(production, scheduling_class)
    if options.by_class:
        production, workload = scheduling_class >= FIRST_PRODUCTION_CLASS, scheduling_class
    request = amounts(
        table.numbers("cpus", high=CPU_MAX) * share, table.numbers("memory", high=SIZE_MAX) * share
    )
    return job_list(
        Resources(),
        name_workloads(options),
        workload=workload,
        submit_s=np.zeros(len(table)),
        tasks=tasks,
        duration_s=duration_s,
        request=request,
        job_id=names.to_list(),
        production=production,
    )


def read_distribution(source: SourceFile, options: TraceOptions) -> Trace:
    """One observed distribution, for batch and service apart."""
    table = parse(tabs_for_blanks(source), names=DISTRIBUTION_COLUMNS, separator="\t", quoted=False)
    field = _field(source.path)
    scheduler, values = table.integers("scheduler", 0, 1), table.numbers("value")
    mine = {
        name: values[scheduler == k] for k, name in enumerate(CLASSES) if (scheduler == k).any()
    }
    tables = {name: replace(Tables(), **{field: column}) for name, column in mine.items()}
    clusters = table.texts("cluster").unique().sort().to_list()
    note = (
        f"values of {', '.join(clusters)} are taken together"
        if len(clusters) > 1
        else f"values of {clusters[0]}"
    )
    what = {"gaps_s": "gaps between jobs", "tasks": "tasks of a job", "durations_s": "durations"}[
        field
    ]
    assumptions = (
        note,
        f"the values are {what}, by the file's name",
        "scheduler 0 is batch, 1 is service",
    )
    return Trace("omega distribution", len(table), tables=tables, assumptions=assumptions)


def _field(path: Path) -> str:
    for word, field in FIELDS.items():
        if word in path.name:
            return field
    raise InputError(
        f"{path}: expected interarrival, csizes or runtimes in the name of a distribution, to "
        "know what its values are"
    )
