"""Tasks of Google's trace of 2011: their lives, what they may run on and what they used, from three
of its tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from murmuration.base.arrays import Flags, Floats, Integers
from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.cluster.constraints import Constraint, as_value
from murmuration.workload.formats.sizes import amounts
from murmuration.workload.formats.table import WHOLE_MAX, TraceTable, codes
from murmuration.workload.jobs import JobList, job_list
from murmuration.workload.readers.google2011 import (
    CLASSES,
    FIRST_END,
    LAST_END,
    MICROS,
    PRODUCTION_PRIORITY,
    SCHEDULE,
    SHARE_MAX,
    SUBMIT,
    split,
)
from murmuration.workload.trace import LeftOut, TraceOptions
from murmuration.workload.usage import Curves
from murmuration.workload.windows import resample

if TYPE_CHECKING:
    import polars as pl

EVENT_COLUMNS = (
    "time_us",
    "missing_info",
    "job_id",
    "task_index",
    "machine_id",
    "event_type",
    "user",
    "scheduling_class",
    "priority",
    "cpu_request",
    "memory_request",
    "disk_request",
    "different_machines",
)
CONSTRAINT_COLUMNS = ("time_us", "job_id", "task_index", "operator", "name", "value")
USAGE_COLUMNS = (
    "start_us",
    "end_us",
    "job_id",
    "task_index",
    "machine_id",
    "cpu_rate",
    "canonical_memory",
    "assigned_memory",
    "unmapped_page_cache",
    "total_page_cache",
    "maximum_memory",
    "disk_io_time",
    "local_disk",
    "maximum_cpu_rate",
    "maximum_disk_io_time",
    "cycles_per_instruction",
    "memory_accesses_per_instruction",
    "sample_portion",
    "aggregation_type",
    "sampled_cpu",
)
EQUAL, NOT_EQUAL, LESS, GREATER = 0, 1, 2, 3
OPERATORS = ("=", "!=", "<", ">")
STEP_S = 300.0
#: Points of all curves together: 3 GB of them.
POINTS_MAX = 400_000_000
CHUNK_POINTS = 5_000_000


def _task_names(table: TraceTable) -> pl.Series:
    """A task by its job and its index."""
    return (
        table.texts("job_id").str.strip_chars() + "-" + table.texts("task_index").str.strip_chars()
    )


def lifetimes(table: TraceTable, used: TraceTable) -> tuple[pl.DataFrame, set[str], float]:
    """The tasks that ran or waited to, the names of those that ended without running, and when the
    trace ends.

    A task that was evicted or failed and was scheduled again is one task, from its first start to
    its last end.
    """
    import polars as pl

    frame = _task_events(table)
    kind, time = pl.col("type"), pl.col("time")
    began, turned = kind == SCHEDULE, kind.is_between(SCHEDULE, LAST_END)
    per_task = frame.group_by("task", maintain_order=True).agg(
        [
            time.filter(kind == SUBMIT).first().alias("submit"),
            time.first().alias("seen"),
            pl.col("row").first(),
            time.filter(began).first().alias("start"),
            pl.col("machine").filter(began).first(),
            pl.col("row").filter(began).first().alias("start_row"),
            began.sum().alias("runs"),
            kind.filter(turned).last().alias("last"),
            time.filter(turned).last().alias("last_time"),
            pl.col("class", "priority").first(),
            pl.col("spread").any(),
            *(
                pl.col(name).filter(pl.col(name) > 0).first().fill_null(0.0)
                for name in ("cpu", "memory")
            ),
        ]
    )
    never = per_task["start"].is_null() & per_task["last"].is_not_null()
    ran = per_task.filter(~never).with_columns(
        pl.min_horizontal(pl.col("submit").fill_null(pl.col("seen")), "start").alias("submit"),
        pl.col("start").fill_null(pl.col("seen")),
        pl.when(pl.col("last").is_between(FIRST_END, LAST_END)).then("last_time").alias("end"),
    )
    latest = [
        int(values.max()) for values in (frame["time"].to_numpy(), _ends(used)) if len(values)
    ]
    return ran, set(per_task.filter(never)["task"].to_list()), max(latest, default=0) / MICROS


def _task_events(table: TraceTable) -> pl.DataFrame:
    """In order of time; rows that are only known to lie after the trace are left out."""
    import polars as pl

    return (
        pl.DataFrame(
            {
                "task": _task_names(table),
                "row": np.arange(len(table)),
                "time": table.integers("time_us"),
                "type": table.integers("event_type", 0, 8),
                "machine": table.texts("machine_id", optional=True),
                "class": table.integers("scheduling_class", 0, 3, default=0),
                "priority": table.integers("priority"),
                "cpu": table.numbers("cpu_request", high=SHARE_MAX, default=0.0),
                "memory": table.numbers("memory_request", high=SHARE_MAX, default=0.0),
                "spread": table.flags("different_machines"),
            }
        )
        .filter(pl.col("time") < WHOLE_MAX)
        .sort("time", maintain_order=True)
    )


def _ends(used: TraceTable) -> Integers:
    ends = used.integers("end_us") if len(used) else np.empty(0, dtype=np.int64)
    return ends[ends < WHOLE_MAX]


def job_rows(frame: pl.DataFrame, end_s: float, options: TraceOptions) -> JobList:
    """One job of one task for each row of `lifetimes`, in that order."""
    start = frame["start"].to_numpy() / MICROS
    end = (frame["end"].cast(float) / MICROS).fill_null(end_s).to_numpy()
    priority = frame["priority"].to_numpy()
    production = priority >= PRODUCTION_PRIORITY
    places, recorded = codes(frame["machine"].fill_null(""))
    nowhere = int(bool(places) and places[0] == "")
    count = frame.height
    jobs = job_list(
        Resources(),
        CLASSES,
        workload=split(production, frame["class"].to_numpy()),
        submit_s=np.zeros(count),
        tasks=np.ones(count, dtype=np.int64),
        duration_s=np.maximum(end - start, 0.0),
        request=amounts(
            frame["cpu"].to_numpy() * options.full_cpu,
            frame["memory"].to_numpy() * options.full_memory,
        ),
        job_id=frame["task"].to_list(),
        priority=priority,
        production=production,
        recorded=recorded - nowhere,
        recorded_nodes=places[nowhere:],
    )
    # Put in order only when the columns that follow the order of `frame` have been added.
    return replace(jobs, submit_s=frame["submit"].to_numpy() / MICROS)


def constraints(
    table: TraceTable, jobs: JobList, never: set[str], left_out: LeftOut
) -> dict[str, Any]:
    """The columns `constraint` and `constraint_sets` from what each task asked for when it was
    first submitted."""
    import polars as pl

    row, strange = _rows(table, jobs, never)
    operator = table.integers("operator", EQUAL, GREATER)
    name, value = table.texts("name"), table.texts("value", optional=True)
    empty = (value.str.strip_chars() == "").to_numpy()
    number = np.isfinite(table.measured("value"))
    keep = left_out.without(table, strange, "a constraint of an unknown task") & (row >= 0)
    keep &= left_out.without(
        table, (operator == EQUAL) & empty, "a constraint that a node must lack an attribute"
    )
    keep &= left_out.without(
        table, (operator >= LESS) & ~number, "a comparison with something that is no number"
    )
    asked = (
        pl.DataFrame(
            {
                "row": row,
                "time": table.integers("time_us"),
                "operator": operator,
                "name": name,
                "value": value,
            }
        )
        .filter(pl.Series(keep))
        .filter(pl.col("time") == pl.col("time").min().over("row"))
    )
    sets: dict[tuple[Constraint, ...], int] = {(): 0}
    column = np.zeros(len(jobs), dtype=np.int64)
    for key, rows in asked.unique(maintain_order=True).group_by("row", maintain_order=True):
        mine = sorted(
            (_constraint(*given) for given in rows.select("operator", "name", "value").iter_rows()),
            key=str,
        )
        column[int(str(key[0]))] = sets.setdefault(tuple(mine), len(sets))
    return {"constraint": column, "constraint_sets": tuple(sets)}


def _constraint(operator: int, name: str, value: str) -> Constraint:
    if operator == NOT_EQUAL and not value.strip():
        return Constraint(name, "exists")
    return Constraint(name, OPERATORS[operator], (as_value(value),))


def _rows(table: TraceTable, jobs: JobList, never: set[str]) -> tuple[Integers, Flags]:
    """For each row of a table the job of its task, or −1; and whether nothing is known of the task
    at all."""
    row_of = {str(name): row for row, name in enumerate(jobs.job_id)} | dict.fromkeys(never, -1)
    row = np.array([row_of.get(name, -2) for name in _task_names(table).to_list()], dtype=np.int64)
    return np.maximum(row, -1), row == -2


def attach_usage(
    table: TraceTable,
    jobs: JobList,
    start_us: Integers,
    never: set[str],
    options: TraceOptions,
    left_out: LeftOut,
) -> JobList:
    """The jobs with a curve for each that has usage: CPU rate and canonical memory, from the task's
    first start.

    A task without a request in one resource asks for the most it used of it.
    """
    row, strange = _rows(table, jobs, never)
    used = np.column_stack([table.measured("cpu_rate"), table.measured("canonical_memory")])
    start, end = table.integers("start_us"), table.integers("end_us")
    keep = left_out.without(table, strange, "usage of an unknown task") & (row >= 0)
    invalid = ~((used >= 0) & (used <= SHARE_MAX))
    keep &= left_out.without(
        table, invalid[:, 0] | invalid[:, 1], "usage that is negative or no number"
    )
    keep &= left_out.without(table, end <= start, "a window that ends before it begins")
    owner = row[keep]
    rows, curve = np.unique(owner, return_inverse=True)
    begin = start_us[owner]
    window = (curve, (start[keep] - begin) / MICROS, (end[keep] - begin) / MICROS, used[keep])
    points = int(np.ceil(jobs.duration_s[rows].max(initial=0.0) / STEP_S)) or 1
    if len(rows) * points > POINTS_MAX:
        raise InputError(
            f"{table.path}: expected at most {POINTS_MAX:,} points of usage, got "
            f"{len(rows) * points:,}"
        )
    amount = _curves(*window, len(rows), points) * np.array(
        [options.full_cpu * 1e6, options.full_memory], np.float32
    )
    return _convert_to_shares(jobs, rows, amount)


def _curves(
    row: Integers,
    start: Floats,
    end: Floats,
    used: Floats,
    rows: int,
    points: int,
) -> NDArray[np.float32]:
    """All curves, some rows at a time so that the work in between stays small."""
    curves = np.empty((rows, points, used.shape[1]), dtype=np.float32)
    order = np.argsort(row, kind="stable")
    step = max(CHUNK_POINTS // points, 1)
    for first in range(0, rows, step):
        last = min(first + step, rows)
        mine = order[slice(*np.searchsorted(row[order], [first, last]))]
        curves[first:last] = resample(
            row[mine] - first, start[mine], end[mine], used[mine], last - first, points, STEP_S
        )
    return curves


def _convert_to_shares(jobs: JobList, rows: Integers, amount: NDArray[np.float32]) -> JobList:
    """Amounts used, as shares of the request of each of these rows."""
    seen = ~np.isnan(amount[:, 0, 0])
    rows, amount = rows[seen], amount[seen]
    request = jobs.request.copy()
    peak = np.ceil(amount.max(axis=1, initial=0.0)).astype(np.int64)
    request[rows] = np.where(request[rows] > 0, request[rows], peak)
    amount /= np.maximum(request[rows], 1)[:, None, :].astype(np.float32)
    curve = np.full(len(jobs), -1, dtype=np.int64)
    curve[rows] = np.arange(len(rows))
    curves = Curves(amount, STEP_S) if len(rows) else None
    return replace(jobs, request=request, curve=curve, curves=curves)


def notes(runs: Integers, end_s: float, spread: int, usage: bool) -> tuple[str, ...]:
    """What had to be decided about the tasks."""
    used = (
        f"usage is CPU rate and canonical memory in steps of {STEP_S:g} s; where there is no "
        "row, the last one holds"
        if usage
        else "there is no task_usage: every task uses what it requests"
    )
    return (
        "every task is a job of its own, named by its job and its index; its request is its first",
        f"tasks without an end run until the last row, at {end_s:,.0f} s",
        f"{int((runs > 1).sum()):,} tasks were evicted or failed and scheduled again: each is "
        "one task from its first "
        "start to its last end, on the node of its first start",
        f"service is priority {PRODUCTION_PRIORITY} and above (production) with scheduling class "
        "2 or 3, all else is "
        "batch",
        used,
        *(
            [f"{spread:,} tasks ask for a node without others of their job, which is not replayed"]
            if spread
            else []
        ),
    )
