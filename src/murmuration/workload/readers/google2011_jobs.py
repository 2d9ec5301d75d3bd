"""Google's cluster data of 2011, job by job: arrivals and durations are real, tasks and sizes drawn from other jobs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from murmuration.cluster.errors import InputError
from murmuration.cluster.resources import Amounts, Resources
from murmuration.workload.files import Source, beside, load
from murmuration.workload.jobs import JobList, job_list
from murmuration.workload.readers.google2011 import (
    CLASSES,
    FIRST_END,
    LAST_END,
    MICROS,
    SCHEDULE,
    SUBMIT,
    TIME_NOTE,
    read_initial_tasks,
)
from murmuration.workload.readers.omega import read_state
from murmuration.workload.sizes import amounts
from murmuration.workload.table import WHOLE_MAX, Table, parse
from murmuration.workload.trace import Options, Trace, count_skipped

if TYPE_CHECKING:
    import polars as pl

RAW_COLUMNS = (
    "time_us", "missing_info", "job_id", "event_type", "user", "scheduling_class", "job_name", "logical_job_name",
)  # fmt: skip
EVENT_COLUMNS = ("time_us", "job_id", "event_type", "scheduling_class")
#: What was there at time 0, where it lies beside the events: every job in the Omega simulator's format, or some tasks.
STATE_FOLDER, STATE_FILE, TASKS_FILE = "omega-format", "init-cluster-state.request", "initial_tasks"


def is_raw_job_events(line: str) -> bool:
    """A line of the published parts: eight fields without a header, the event type fourth and the class sixth."""
    fields = line.split(",")
    return len(fields) == len(RAW_COLUMNS) and fields[0].isdigit() and fields[2].isdigit() and fields[3] in "012345678"


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
    drawn, note = _draw(kept, _shapes(source, options), options)
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


def _event_jobs(jobs: pl.DataFrame, window_s: float, drawn: _Drawn) -> JobList:
    """The columns of the list; a job that was never seen to start counts from its submission."""
    submit = jobs["submit"].to_numpy() / MICROS
    start = jobs["start"].fill_null(jobs["submit"]).to_numpy() / MICROS
    end = (jobs["end"].cast(float) / MICROS).fill_null(window_s).to_numpy()
    return job_list(
        drawn.resources, CLASSES, workload=_service(jobs), submit_s=submit, tasks=drawn.tasks,
        duration_s=np.maximum(end - start, 0.0), request=drawn.request, job_id=jobs["job"].to_list(),
        priority=drawn.priority, production=drawn.production,
    )  # fmt: skip


def _service(jobs: pl.DataFrame) -> NDArray[np.int64]:
    return (jobs["class"].to_numpy() >= 2).astype(np.int64)


@dataclass(frozen=True)
class _Drawn:
    """What the job events lack, for each job."""

    resources: Resources
    tasks: NDArray[np.int64]
    request: Amounts
    priority: NDArray[np.int64] | int = 0
    production: NDArray[np.bool_] | bool = False

    def but(self, rows: NDArray[np.bool_], other: _Drawn) -> _Drawn:
        """These, with those of another at some rows."""
        return _Drawn(
            self.resources, np.where(rows, other.tasks, self.tasks),
            np.where(rows[:, None], other.request, self.request), np.where(rows, other.priority, self.priority),
            np.where(rows, other.production, self.production),
        )  # fmt: skip


def _drawn(shapes: JobList, rows: NDArray[np.int64]) -> _Drawn:
    return _Drawn(
        shapes.resources, shapes.tasks[rows], shapes.request[rows], shapes.priority[rows], shapes.production[rows]
    )


@dataclass(frozen=True)
class _Shapes:
    """Jobs whose tasks are known, those of them that others are drawn from, and the rule of the draw in words."""

    known: JobList
    pool: JobList
    rule: str


def _shapes(source: Source, options: Options) -> _Shapes | None:
    """The shapes that were given; without them, those of the jobs that were there at time 0, if they lie beside."""
    if options.shapes is not None:
        return _Shapes(options.shapes, options.shapes, "batch from batch and service from service")
    if options.rng is None:
        return None
    there = _there_at_zero(source.path, options)
    if there is None:
        return None
    others = there.select(~there.production)
    return (
        _Shapes(there, others, "none of them production, as 99 % of the trace's tasks are not") if len(others) else None
    )


def _there_at_zero(path: Path, options: Options) -> JobList | None:
    if (state := beside(path.parent / STATE_FOLDER / path.name, STATE_FILE)) is not None:
        return read_state(load(state), options).jobs
    if (tasks := beside(path, TASKS_FILE)) is not None:
        return read_initial_tasks(load(tasks), options).jobs
    return None


def _draw(jobs: pl.DataFrame, shapes: _Shapes | None, options: Options) -> tuple[_Drawn, str]:
    """Tasks and sizes: a job's own if they are known, else drawn whole from another job; or all alike."""
    if shapes is None:
        one = np.ones(jobs.height)
        alike = amounts(one * options.task_cpu, one * options.task_memory)
        note = (
            f"the events have no task counts and no sizes: every job is one task of {options.task_cpu:g} CPU and "
            f"{options.task_memory / 1e9:g} GB"
        )
        return _Drawn(Resources(), one.astype(np.int64), alike), note
    if options.rng is None:
        raise ValueError("shapes are drawn, which needs a generator")
    service = _service(jobs)
    rows = np.empty(jobs.height, dtype=np.int64)
    for k, name in enumerate(CLASSES):
        pool = _pool(shapes.pool, name)
        rows[service == k] = pool[options.rng.integers(0, len(pool), int((service == k).sum()))]
    drawn = _drawn(shapes.pool, rows)
    row_of = {str(name): row for row, name in enumerate(shapes.known.job_id)}
    own = np.array([row_of.get(name, -1) for name in jobs["job"].to_list()], dtype=np.int64)
    note = (
        "this is a job-level replay with sampled tasks: arrivals and durations are real; tasks, sizes and production "
        f"are the job's own for {int((own >= 0).sum()):,} jobs, for the others all drawn together from "
        f"{len(shapes.pool):,} jobs, {shapes.rule}"
    )
    return drawn.but(own >= 0, _drawn(shapes.known, own)), note


def _pool(shapes: JobList, workload: str) -> NDArray[np.int64]:
    """The jobs of that workload, or all of them if there are none."""
    if workload in shapes.workloads:
        rows = np.flatnonzero(shapes.workload == shapes.workloads.index(workload))
        if len(rows):
            return rows
    return np.arange(len(shapes))
