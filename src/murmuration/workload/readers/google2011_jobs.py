"""Google's cluster data of 2011, job by job: arrivals and durations are real, tasks and sizes drawn
from other jobs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from murmuration.base.arrays import Integers
from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.workload.formats.sizes import amounts
from murmuration.workload.formats.source import SourceFile, find_beside, load
from murmuration.workload.formats.table import WHOLE_MAX, TraceTable, parse
from murmuration.workload.jobs import JobList, job_list
from murmuration.workload.readers.google2011 import (
    CLASSES,
    FIRST_END,
    FIRST_PRODUCTION_CLASS,
    LAST_END,
    MICROS,
    SCHEDULE,
    SUBMIT,
    TIME_NOTE,
    name_workloads,
    read_initial_tasks,
)
from murmuration.workload.readers.omega import read_state
from murmuration.workload.trace import Trace, TraceOptions, count_skipped
from murmuration.workload.usage import Curves
from murmuration.workload.usage_curves import UsageRules, shares

if TYPE_CHECKING:
    import polars as pl

RAW_COLUMNS = (
    "time_us",
    "missing_info",
    "job_id",
    "event_type",
    "user",
    "scheduling_class",
    "job_name",
    "logical_job_name",
)
EVENT_COLUMNS = ("time_us", "job_id", "event_type", "scheduling_class")
#: What was there at time 0, where it lies beside the events: every job in the Omega simulator's
#: format (what it asked for, and what it used), or some tasks.
STATE_FOLDER, STATE_FILE, USED_FILE = (
    "omega-format",
    "init-cluster-state.request",
    "init-cluster-state.usage",
)
TASKS_FILE = "initial_tasks"
#: How usage changes about its mean, of which the state says nothing.
WANDERING = UsageRules(noise=0.25, daily=0.1, spikes_per_hour=0.2, spike=2.0)


def is_raw_job_events(line: str) -> bool:
    """A line of the published parts: eight fields without a header, the event type fourth and the
    class sixth."""
    fields = line.split(",")
    return (
        len(fields) == len(RAW_COLUMNS)
        and fields[0].isdigit()
        and fields[2].isdigit()
        and fields[3] in "012345678"
    )


def read_job_events(source: SourceFile, options: TraceOptions) -> Trace:
    """Jobs submitted while the trace ran, each from SCHEDULE to its first end."""
    raw = is_raw_job_events(source.head(1)[0])
    table = parse(source, names=RAW_COLUMNS if raw else None)
    table.need(EVENT_COLUMNS, "job events")
    jobs, window_s = _lifetimes(_events(table))
    known = jobs.filter(jobs["submit"].is_not_null())
    before = known["submit"] == 0
    remaining = known if options.initial else known.filter(~before)
    never = remaining["start"].is_null() & remaining["gone"].is_not_null()
    remaining = remaining.filter(~never)
    if remaining.height == 0:
        raise InputError(
            f"{source.path}: expected SUBMIT events, no job was submitted after time 0"
        )
    skipped = count_skipped(
        (0 if options.initial else int(before.sum()), "jobs that were there at time 0"),
        (jobs.height - known.height, "jobs submitted before this file begins"),
        (int(never.sum()), "jobs that ended without being scheduled"),
    )
    drawn, notes = _draw(remaining, _shapes(source, options), options)
    running = int(remaining["end"].is_null().sum())
    assumptions = (
        TIME_NOTE,
        f"{running:,} jobs without an end run until the last event, at {window_s:.0f} s",
        "each scheduling class is a workload, 2 and 3 production"
        if options.by_class
        else "scheduling class 0 and 1 is batch, 2 and 3 is service",
        *notes,
    )
    return Trace(
        "google2011 job events",
        len(table),
        _event_jobs(remaining, window_s, drawn, options),
        None,
        None,
        {},
        assumptions,
        skipped,
    )


def _events(table: TraceTable) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(
        {
            "job": table.texts("job_id"),
            "time": table.integers("time_us"),
            "type": table.integers("event_type", 0, 8),
            "class": table.integers("scheduling_class", 0, 3, default=0),
        }
    ).filter(pl.col("time") < WHOLE_MAX)


def _lifetimes(events: pl.DataFrame) -> tuple[pl.DataFrame, float]:
    """For each job its class, submission, start, first end after the start and first end at all;
    and the last time."""
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


def _event_jobs(
    jobs: pl.DataFrame, window_s: float, drawn: JobList, options: TraceOptions
) -> JobList:
    """The columns of the list; a job that was never seen to start counts from its submission."""
    submit = jobs["submit"].to_numpy() / MICROS
    start = jobs["start"].fill_null(jobs["submit"]).to_numpy() / MICROS
    end = (jobs["end"].cast(float) / MICROS).fill_null(window_s).to_numpy()
    return job_list(
        drawn.resources,
        name_workloads(options),
        workload=_workload(jobs, options),
        submit_s=submit,
        tasks=drawn.tasks,
        duration_s=np.maximum(end - start, 0.0),
        request=drawn.request,
        job_id=jobs["job"].to_list(),
        priority=drawn.priority,
        production=drawn.production,
        curve=drawn.curve,
        curves=drawn.curves,
    )


def _workload(jobs: pl.DataFrame, options: TraceOptions) -> Integers:
    """The scheduling class of each job, or whether it is a service."""
    scheduling_class: Integers = jobs["class"].to_numpy().astype(np.int64)
    if options.by_class:
        return scheduling_class
    return (scheduling_class >= FIRST_PRODUCTION_CLASS).astype(np.int64)


@dataclass(frozen=True)
class _Shapes:
    """Jobs whose tasks are known, the rows of them that others are drawn from, and the rule of the
    draw in words."""

    known: JobList
    pool: Integers
    rule: str


def _shapes(source: SourceFile, options: TraceOptions) -> _Shapes | None:
    """The shapes that were given; without them, those of the jobs that were there at time 0, if
    they lie beside."""
    given = options.shapes
    if given is not None:
        return _Shapes(given, np.arange(len(given)), "batch from batch and service from service")
    initial = None if options.rng is None else _read_initial(source.path, options)
    if initial is None or initial.production.all():
        return None
    if options.by_class:
        return _Shapes(initial, np.arange(len(initial)), "each from those of its class")
    return _Shapes(
        initial,
        np.flatnonzero(~initial.production),
        "none of them production, as 99 % of its tasks are not",
    )


def _read_initial(path: Path, options: TraceOptions) -> JobList | None:
    """The jobs that ran at time 0, with what they used on average if the files have that too."""
    folder = path.parent / STATE_FOLDER / path.name
    if (state := find_beside(folder, STATE_FILE)) is None:
        tasks = find_beside(path, TASKS_FILE)
        return None if tasks is None else read_initial_tasks(load(tasks), options).jobs
    jobs, used = read_state(load(state), options).jobs, find_beside(folder, USED_FILE)
    mean = None if used is None else read_state(load(used), options).jobs
    if jobs is not None and mean is not None and options.rng is not None:
        jobs = _attach_usage(jobs, mean, options.rng)
    return None if jobs is None else _resize(jobs, options)


def _resize(jobs: JobList, options: TraceOptions) -> JobList:
    """Sizes in the state are those of a largest node of 32 CPUs and 128 GiB; here it may have
    others."""
    usual = TraceOptions()
    factor = (options.full_cpu / usual.full_cpu, options.full_memory / usual.full_memory)
    return replace(jobs, request=np.rint(jobs.request * factor).astype(np.int64))


def _attach_usage(jobs: JobList, used: JobList, rng: np.random.Generator) -> JobList:
    """Curves that wander about the mean of what each job used; a job whose use is not known uses
    what it requests."""
    row_of = {str(name): row for row, name in enumerate(used.job_id)}
    row = np.array([row_of.get(str(name), -1) for name in jobs.job_id], dtype=np.int64)
    known = (row >= 0)[:, None] & (jobs.request > 0)
    share = np.where(known, used.request[row] / np.maximum(jobs.request, 1), 1.0)
    about_one = shares(WANDERING, len(jobs.resources), rng)
    curve = np.arange(len(jobs))
    return replace(
        jobs,
        curve=curve,
        curves=Curves(
            about_one[curve % len(about_one)] * share[:, None, :].astype(np.float32),
            WANDERING.step_s,
            cyclic=True,
        ),
    )


def _draw(
    jobs: pl.DataFrame, shapes: _Shapes | None, options: TraceOptions
) -> tuple[JobList, tuple[str, ...]]:
    """For each job one with its tasks and sizes: itself if they are known, else drawn from the
    others; or all alike."""
    if shapes is None:
        note = (
            "the events have no task counts and no sizes: every job is one task of "
            f"{options.task_cpu:g} CPU and "
            f"{options.task_memory / 1e9:g} GB"
        )
        return _alike(options).select(np.zeros(jobs.height, dtype=np.int64)), (note,)
    if options.rng is None:
        raise ValueError("shapes are drawn, which needs a generator")
    workload, known = _workload(jobs, options), shapes.known
    rows = np.empty(jobs.height, dtype=np.int64)
    for k, name in enumerate(name_workloads(options)):
        pool = _pool(known, shapes.pool, name)
        mine = workload == k
        rows[mine] = pool[options.rng.integers(0, len(pool), int(mine.sum()))]
    row_of = {str(name): row for row, name in enumerate(known.job_id)}
    known_row = np.array([row_of.get(name, -1) for name in jobs["job"].to_list()], dtype=np.int64)
    note = (
        "this is a job-level replay with sampled tasks: arrivals and durations are real; tasks, "
        "sizes and production "
        f"are the job's own for {int((known_row >= 0).sum()):,} jobs, for the others all drawn "
        "together from "
        f"{len(shapes.pool):,} jobs, {shapes.rule}"
    )
    usage = (
        ()
        if known.curves is None
        else ("usage is the mean of each job's tasks, with made-up changes about it",)
    )
    return known.select(np.where(known_row >= 0, known_row, rows)), (note, *usage)


def _alike(options: TraceOptions) -> JobList:
    """A job of one task, for all whose tasks nothing tells of."""
    one = np.ones(1, dtype=np.int64)
    size = amounts(np.array([options.task_cpu]), np.array([options.task_memory]))
    return job_list(
        Resources(),
        CLASSES,
        workload=0 * one,
        submit_s=np.zeros(1),
        tasks=one,
        duration_s=np.zeros(1),
        request=size,
    )


def _pool(shapes: JobList, rows: Integers, workload: str) -> Integers:
    """Those of the rows that are of that workload, or all of them if none is."""
    if workload in shapes.workloads:
        mine: Integers = rows[shapes.workload[rows] == shapes.workloads.index(workload)]
        if len(mine):
            return mine
    return rows
