"""Google's cluster data of 2011: job events, machines, and the tasks that were there when the trace began."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from murmuration.cluster.errors import InputError
from murmuration.cluster.resources import Amounts, Resources
from murmuration.workload.files import Source
from murmuration.workload.jobs import TASKS_MAX, JobList, job_list
from murmuration.workload.nodes import NodeTable, read_attributes
from murmuration.workload.sizes import amounts
from murmuration.workload.table import WHOLE_MAX, Table, parse
from murmuration.workload.trace import Options, Trace, count_skipped

if TYPE_CHECKING:
    import polars as pl

RAW_COLUMNS = (
    "time_us", "missing_info", "job_id", "event_type", "user", "scheduling_class", "job_name", "logical_job_name",
)  # fmt: skip
EVENT_COLUMNS = ("time_us", "job_id", "event_type", "scheduling_class")
MACHINE_COLUMNS = ("machine_id", "platform_id", "cpus", "memory")
TASK_COLUMNS = ("job_id", "scheduling_class", "priority", "runtime_us", "end_time_us", "cpu_request", "memory_request")

SUBMIT, SCHEDULE, FIRST_END, LAST_END = 0, 1, 2, 6
MICROS = 1e6
#: Sizes are shares of the largest node; anything far above 1 is no share.
SHARE_MAX = 1000.0
PRODUCTION_PRIORITY = 9
CLASSES = ("batch", "service")
TIME_NOTE = "times are the trace's own: seconds, with the window beginning at 600 s"


def is_raw_job_events(line: str) -> bool:
    """A line of the published parts: eight fields without a header, the event type fourth and the class sixth."""
    fields = line.split(",")
    return len(fields) == len(RAW_COLUMNS) and fields[0].isdigit() and fields[2].isdigit() and fields[3] in "012345678"


def scale_note(options: Options) -> str:
    gib = options.full_memory / 2**30
    return f"sizes are shares of the largest node, taken as {options.full_cpu:g} CPU and {gib:g} GiB"


def split(production: NDArray[np.bool_], scheduling_class: NDArray[np.int64]) -> NDArray[np.int64]:
    """Omega's policy CMB_PBB: production jobs of class 2 or 3 are service (1), all others batch (0)."""
    return (production & (scheduling_class >= 2)).astype(np.int64)


def read_job_events(source: Source, options: Options) -> Trace:
    """Jobs submitted while the trace ran, each from SCHEDULE to its first end."""
    raw = is_raw_job_events(source.head(1)[0])
    table = parse(source, names=RAW_COLUMNS if raw else None)
    table.need(EVENT_COLUMNS, "job events")
    jobs, window_s = _lifetimes(_events(table))
    known = jobs.filter(jobs["submit"].is_not_null())
    before = known["submit"] == 0
    kept = known if options.initial else known.filter(~before)
    never = kept["start"].is_null() & kept["gone"].is_not_null()
    kept = kept.filter(~never)
    if kept.height == 0:
        raise InputError(f"{source.path}: expected SUBMIT events, no job was submitted after time 0")
    skipped = count_skipped(
        (0 if options.initial else int(before.sum()), "jobs that were there at time 0"),
        (jobs.height - known.height, "jobs submitted before this file begins"),
        (int(never.sum()), "jobs that ended without being scheduled"),
    )
    drawn, note = _shapes(kept, options)
    running = int(kept["end"].is_null().sum())
    assumptions = (
        TIME_NOTE,
        f"{running:,} jobs without an end run until the last event, at {window_s:.0f} s",
        "scheduling class 0 and 1 is batch, 2 and 3 is service", note,
    )  # fmt: skip
    return Trace(
        "google2011 job events", len(table), _event_jobs(kept, window_s, drawn), None, None, {}, assumptions, skipped
    )


def _events(table: Table) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame({
        "job": table.texts("job_id"), "time": table.integers("time_us"), "type": table.integers("event_type", 0, 8),
        "class": table.integers("scheduling_class", 0, 3, default=0),
    }).filter(pl.col("time") < WHOLE_MAX)  # fmt: skip


def _lifetimes(events: pl.DataFrame) -> tuple[pl.DataFrame, float]:
    """For each job its class, submission, start, first end after the start and first end at all; and the last time."""
    import polars as pl

    def first(frame: pl.DataFrame, name: str) -> pl.DataFrame:
        return frame.group_by("job").agg(pl.col("time").min().alias(name))

    ends = events.filter(pl.col("type").is_between(FIRST_END, LAST_END))
    starts = first(events.filter(pl.col("type") == SCHEDULE), "start")
    after = ends.join(starts, on="job").filter(pl.col("time") >= pl.col("start"))
    submissions = first(events.filter(pl.col("type") == SUBMIT), "submit")
    jobs = events.unique("job", keep="first", maintain_order=True).select("job", "class")
    for column in (submissions, starts, first(after, "end"), first(ends, "gone")):
        jobs = jobs.join(column, on="job", how="left", maintain_order="left")
    latest = events["time"].max()
    return jobs, float(latest) / MICROS if isinstance(latest, int) else 0.0


def _event_jobs(jobs: pl.DataFrame, window_s: float, drawn: tuple[Resources, NDArray[np.int64], Amounts]) -> JobList:
    """The columns of the list; a job that was never seen to start counts from its submission."""
    submit = jobs["submit"].to_numpy() / MICROS
    start = jobs["start"].fill_null(jobs["submit"]).to_numpy() / MICROS
    end = (jobs["end"].cast(float) / MICROS).fill_null(window_s).to_numpy()
    resources, tasks, request = drawn
    return job_list(
        resources, CLASSES, workload=_service(jobs), submit_s=submit, tasks=tasks,
        duration_s=np.maximum(end - start, 0.0), request=request, job_id=jobs["job"].to_list(),
    )  # fmt: skip


def _service(jobs: pl.DataFrame) -> NDArray[np.int64]:
    return (jobs["class"].to_numpy() >= 2).astype(np.int64)


def _shapes(jobs: pl.DataFrame, options: Options) -> tuple[tuple[Resources, NDArray[np.int64], Amounts], str]:
    """Tasks and sizes, which the job events lack: drawn whole from other jobs of the same workload, or all alike."""
    if options.shapes is None:
        one = np.ones(jobs.height)
        alike = amounts(one * options.task_cpu, one * options.task_memory)
        note = (
            f"the events have no task counts and no sizes: every job is one task of {options.task_cpu:g} CPU and "
            f"{options.task_memory / 1e9:g} GB"
        )
        return (Resources(), one.astype(np.int64), alike), note
    if options.rng is None:
        raise ValueError("shapes are drawn, which needs a generator")
    shapes, service = options.shapes, _service(jobs)
    rows = np.empty(jobs.height, dtype=np.int64)
    for k, name in enumerate(CLASSES):
        pool = _pool(shapes, name)
        rows[service == k] = pool[options.rng.integers(0, len(pool), int((service == k).sum()))]
    note = (
        f"the events have no task counts and no sizes: both are drawn together from {len(shapes):,} other jobs, "
        "batch from batch and service from service"
    )
    return (shapes.resources, shapes.tasks[rows], shapes.request[rows]), note


def _pool(shapes: JobList, workload: str) -> NDArray[np.int64]:
    """The jobs of that workload, or all of them if there are none."""
    if workload in shapes.workloads:
        rows = np.flatnonzero(shapes.workload == shapes.workloads.index(workload))
        if len(rows):
            return rows
    return np.arange(len(shapes))


def read_machines(source: Source, options: Options) -> Trace:
    """The nodes of the cell, with their platform."""
    table = parse(source)
    table.need(MACHINE_COLUMNS, "nodes")
    cpu = table.numbers("cpus", high=SHARE_MAX) * options.full_cpu
    memory = table.numbers("memory", high=SHARE_MAX) * options.full_memory
    names = tuple(table.names("machine_id").to_list())
    attributes = read_attributes(table, {"platform": "platform_id"})
    nodes = NodeTable(Resources(), names, amounts(cpu, memory), attributes)
    return Trace("google2011 machines", len(table), nodes=nodes, assumptions=(scale_note(options),))


def read_initial_tasks(source: Source, options: Options) -> Trace:
    """The jobs there at time 0, from their tasks."""
    import polars as pl

    table = parse(source)
    table.need(TASK_COLUMNS, "tasks")
    tasks = pl.DataFrame({
        "job": table.texts("job_id"), "class": table.integers("scheduling_class", 0, 3),
        "priority": table.integers("priority"), "runtime": table.numbers("runtime_us"),
        "cpu": table.numbers("cpu_request", high=SHARE_MAX), "memory": table.numbers("memory_request", high=SHARE_MAX),
        "alive": table.numbers("end_time_us", low=-1) < 0,
    })  # fmt: skip
    means = [pl.col(name).mean() for name in ("runtime", "cpu", "memory")]
    firsts = [pl.col(name).first() for name in ("class", "priority")]
    jobs = tasks.group_by("job", maintain_order=True).agg(*firsts, *means, pl.len().alias("tasks"))
    production = jobs["priority"].to_numpy() >= PRODUCTION_PRIORITY
    listed = job_list(
        Resources(), CLASSES, workload=split(production, jobs["class"].to_numpy()), submit_s=np.zeros(jobs.height),
        tasks=jobs["tasks"].to_numpy().clip(1, TASKS_MAX), duration_s=jobs["runtime"].to_numpy() / MICROS,
        request=amounts(jobs["cpu"].to_numpy() * options.full_cpu, jobs["memory"].to_numpy() * options.full_memory),
        job_id=jobs["job"].to_list(), priority=jobs["priority"].to_numpy(), production=production,
    )  # fmt: skip
    assumptions = (
        scale_note(options),
        "a job's size and duration are the means of its tasks, which differ in a few jobs",
        f"{int(tasks['alive'].sum()):,} tasks outlive the trace: their duration is what was seen of it",
        "service is priority 9 and above with scheduling class 2 or 3, all else is batch",
    )
    return Trace("google2011 initial tasks", len(table), listed, assumptions=assumptions)
