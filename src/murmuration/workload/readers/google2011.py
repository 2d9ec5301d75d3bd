"""Google's cluster data of 2011: machines, and the tasks that were there when the trace began."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from murmuration.base.arrays import Flags, Integers
from murmuration.base.resources import Resources
from murmuration.workload.formats.sizes import amounts
from murmuration.workload.formats.source import SourceFile
from murmuration.workload.formats.table import parse
from murmuration.workload.jobs import TASKS_MAX, job_list
from murmuration.workload.nodes import NodeTable, read_attributes
from murmuration.workload.trace import Trace, TraceOptions

if TYPE_CHECKING:
    pass

MACHINE_COLUMNS = ("machine_id", "platform_id", "cpus", "memory")
TASK_COLUMNS = (
    "job_id",
    "scheduling_class",
    "priority",
    "runtime_us",
    "end_time_us",
    "cpu_request",
    "memory_request",
)

SUBMIT, SCHEDULE, FIRST_END, LAST_END = 0, 1, 2, 6
MICROS = 1e6
#: Sizes are shares of the largest node; anything far above 1 is no share.
SHARE_MAX = 1000.0
PRODUCTION_PRIORITY = 9
CLASSES = ("batch", "service")
#: With `TraceOptions.by_class`: the scheduling classes as workloads, and the first that is
#: production. By class 87 % of the CPUs and 68 % of the memory of the cell at time 0 are
#: guaranteed, by priority 81 and 64 %; and the log of Sliwko and Getov (6.1) has production tasks
#: of priority 0.
SCHEDULING_CLASSES = ("class-0", "class-1", "class-2", "class-3")
FIRST_PRODUCTION_CLASS = 2
TIME_NOTE = "times are the trace's own: seconds, with the window beginning at 600 s"


def scale_note(options: TraceOptions) -> str:
    gib = options.full_memory / 2**30
    return (
        f"sizes are shares of the largest node, taken as {options.full_cpu:g} CPU and {gib:g} GiB"
    )


def name_workloads(options: TraceOptions) -> tuple[str, ...]:
    """The workloads that jobs are parted into."""
    return SCHEDULING_CLASSES if options.by_class else CLASSES


def split(production: Flags, scheduling_class: Integers) -> Integers:
    """Omega's policy CMB_PBB: production jobs of class 2 or 3 are service (1), all others batch
    (0)."""
    return (production & (scheduling_class >= 2)).astype(np.int64)


def read_machines(source: SourceFile, options: TraceOptions) -> Trace:
    """The nodes of the cell, with their platform."""
    table = parse(source)
    table.need(MACHINE_COLUMNS, "nodes")
    cpu = table.numbers("cpus", high=SHARE_MAX) * options.full_cpu
    memory = table.numbers("memory", high=SHARE_MAX) * options.full_memory
    names = tuple(table.names("machine_id").to_list())
    attributes = read_attributes(table, {"platform": "platform_id"})
    nodes = NodeTable(Resources(), names, amounts(cpu, memory), attributes)
    return Trace("google2011 machines", len(table), nodes=nodes, assumptions=(scale_note(options),))


def read_initial_tasks(source: SourceFile, options: TraceOptions) -> Trace:
    """The jobs there at time 0, from their tasks."""
    import polars as pl

    table = parse(source)
    table.need(TASK_COLUMNS, "tasks")
    tasks = pl.DataFrame(
        {
            "job": table.texts("job_id"),
            "class": table.integers("scheduling_class", 0, 3),
            "priority": table.integers("priority"),
            "runtime": table.numbers("runtime_us"),
            "cpu": table.numbers("cpu_request", high=SHARE_MAX),
            "memory": table.numbers("memory_request", high=SHARE_MAX),
            "alive": table.numbers("end_time_us", low=-1) < 0,
        }
    )
    means = [pl.col(name).mean() for name in ("runtime", "cpu", "memory")]
    firsts = [pl.col(name).first() for name in ("class", "priority")]
    jobs = tasks.group_by("job", maintain_order=True).agg(*firsts, *means, pl.len().alias("tasks"))
    production = jobs["priority"].to_numpy() >= PRODUCTION_PRIORITY
    listed = job_list(
        Resources(),
        CLASSES,
        workload=split(production, jobs["class"].to_numpy()),
        submit_s=np.zeros(jobs.height),
        tasks=jobs["tasks"].to_numpy().clip(1, TASKS_MAX),
        duration_s=jobs["runtime"].to_numpy() / MICROS,
        request=amounts(
            jobs["cpu"].to_numpy() * options.full_cpu,
            jobs["memory"].to_numpy() * options.full_memory,
        ),
        job_id=jobs["job"].to_list(),
        priority=jobs["priority"].to_numpy(),
        production=production,
    )
    assumptions = (
        scale_note(options),
        "a job's size and duration are the means of its tasks, which differ in a few jobs",
        f"{int(tasks['alive'].sum()):,} tasks outlive the trace: their duration is what was seen "
        "of it",
        "service is priority 9 and above with scheduling class 2 or 3, all else is batch",
    )
    return Trace("google2011 initial tasks", len(table), listed, assumptions=assumptions)
