"""Job lists as files: CSV and Parquet with the same columns; what is written reads back as the same
list."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from murmuration.base.arrays import Integers
from murmuration.base.errors import InputError, unknown
from murmuration.cluster.constraints import Constraint, parse_constraint
from murmuration.workload.formats.sizes import check_suffix, read_sizes, size_columns, write_frame
from murmuration.workload.formats.source import load
from murmuration.workload.formats.table import WHOLE_MAX, TraceTable, codes, of_source
from murmuration.workload.formats.usage_files import (
    Usage,
    attach_usage,
    curve_names,
    read_usage,
    usage_frame,
    usage_path,
)
from murmuration.workload.jobs import TASKS_MAX, JobList, job_list
from murmuration.workload.trace import LeftOut

if TYPE_CHECKING:
    import polars as pl

BASE = ("job_id", "workload", "submit_s", "tasks", "duration_s", "cpus_per_task", "mem_gb_per_task")
OPTIONAL = (
    "priority",
    "production",
    "gang",
    "constraints",
    "recorded",
    "curve",
    "user",
    "requested_s",
)
PER_TASK = "_per_task"
CONSTRAINTS_MAX = 10_000

ConstraintSet = tuple[Constraint, ...]


def read_jobs(path: str | Path, usage: str | Path | None = None) -> JobList:
    """A job list from a CSV (also .gz or .xz) or Parquet file, by submission, with what its jobs
    use."""
    return jobs_of(
        of_source(load(path)), None if usage is None else read_usage(usage, LeftOut(strict=True))
    )


def write_jobs(jobs: JobList, path: str | Path) -> Path | None:
    """A job list to a CSV or Parquet file, by its suffix; what its jobs use goes to a file beside
    it."""
    path = check_suffix(path)
    used = jobs.curves is not None and bool((jobs.curve >= 0).any())
    beside = usage_path(path) if used else None
    frame, usage = _frame(jobs, path), usage_frame(jobs) if used else None
    # What could not be read back is refused here, before anything is written.
    jobs_of(TraceTable(path, frame))
    if beside is not None and usage is not None:
        write_frame(usage, beside)
    write_frame(frame, path)
    return beside


def jobs_of(
    table: TraceTable, usage: Usage | None = None, left_out: LeftOut | None = None
) -> JobList:
    """The job list in a table of our own columns."""
    table.need(BASE, "jobs")
    _refuse_misspelt(table)
    resources, request = read_sizes(table, _size_columns(table))
    workloads, workload = codes(table.texts("workload").str.strip_chars().str.to_lowercase())
    sets, constraint = _read_constraints(table)
    has = table.columns
    nodes, recorded = _read_names(table, "recorded")
    users, user = _read_names(table, "user")
    asked = table.numbers("requested_s", default=0.0) if "requested_s" in has else 0.0
    jobs = job_list(
        resources,
        workloads,
        workload=workload,
        submit_s=table.numbers("submit_s"),
        tasks=table.integers("tasks", 1, TASKS_MAX),
        duration_s=table.numbers("duration_s"),
        request=request,
        job_id=table.names("job_id").to_list(),
        priority=table.integers("priority", -WHOLE_MAX, default=0) if "priority" in has else 0,
        production=table.flags("production") if "production" in has else False,
        gang=table.flags("gang") if "gang" in has else False,
        constraint=constraint,
        constraint_sets=sets,
        recorded=recorded,
        recorded_nodes=nodes,
        user=user,
        users=users,
        requested_s=asked,
    )
    if usage is None:
        return jobs
    return attach_usage(jobs, usage, _curve_of(table, jobs), left_out or LeftOut(strict=True))


def _read_names(table: TraceTable, column: str) -> tuple[tuple[str, ...], Integers | int]:
    """The names in an optional column and the index of each row's; −1 for an empty field."""
    if column not in table.columns:
        return (), -1
    names, code = codes(table.texts(column, optional=True))
    empty = int(bool(names) and names[0] == "")
    return names[empty:], code - empty


def _curve_of(table: TraceTable, jobs: JobList) -> list[str]:
    """For each job the name of its curve: its own, unless the list says another."""
    names: list[str] = jobs.job_id.tolist()
    if "curve" not in table.columns:
        return names
    pairs = zip(
        table.texts("job_id").to_list(), table.texts("curve", optional=True).to_list(), strict=True
    )
    curve = dict(pairs)
    return [curve[name] for name in names]


def unused_columns(table: TraceTable) -> list[str]:
    """The columns of a job list that mean nothing here."""
    used = {*BASE, *OPTIONAL, *_size_columns(table).values()}
    return [name for name in table.columns if name not in used]


def _refuse_misspelt(table: TraceTable) -> None:
    """An unused column is passed over, unless it looks like an optional one written wrong."""
    for name in unused_columns(table):
        if difflib.get_close_matches(name, OPTIONAL, n=1, cutoff=0.8):
            raise InputError(f"{table.path}: {unknown('column', name, OPTIONAL)}")


def _size_columns(table: TraceTable) -> dict[str, str]:
    """Resource to column: CPU and memory, then whatever else is named `<resource>_per_task`."""
    columns = {"cpu": "cpus_per_task", "memory": "mem_gb_per_task"}
    for column in table.columns:
        name = column.removesuffix(PER_TASK)
        if name in columns and name != column:
            raise InputError(f"{table.path}: expected column {columns[name]!r}, got {column!r}")
        if name and name != column and column not in BASE:
            columns[name] = column
    return columns


def _read_constraints(table: TraceTable) -> tuple[tuple[ConstraintSet, ...], Integers]:
    """The distinct sets of constraints, the empty one first, and the set of each row; each text is
    parsed once."""
    if "constraints" not in table.columns:
        return ((),), np.zeros(len(table), dtype=np.int64)
    texts, code = codes(table.texts("constraints", optional=True, length_max=CONSTRAINTS_MAX))
    sets: list[ConstraintSet] = [()]
    index = np.zeros(len(texts), dtype=np.int64)
    for k, text in enumerate(texts):
        row = int((code == k).argmax()) if text.strip() else 0
        parsed = _parse_set(text, f"{table.where(row)}: constraints")
        if parsed not in sets:
            sets.append(parsed)
        index[k] = sets.index(parsed)
    return tuple(sets), index[code]


def _parse_set(text: str, where: str) -> ConstraintSet:
    return tuple(parse_constraint(part, where) for part in text.split(";") if part.strip())


def _reads_back(text: str, constraints: ConstraintSet) -> bool:
    try:
        return _parse_set(text, "constraints") == constraints
    except InputError:
        return False


def constraint_text(constraints: Sequence[Constraint]) -> str:
    """A set of constraints as `_parse_set` reads it."""
    return "; ".join(map(str, constraints))


def _frame(jobs: JobList, path: Path) -> pl.DataFrame:
    """The columns of a list; optional ones only where they say something."""
    import polars as pl

    names = np.array(jobs.workloads, dtype=np.object_)
    sizes = size_columns(jobs.resources, jobs.request)
    columns = {
        "job_id": pl.Series(jobs.job_id.tolist(), dtype=pl.String),
        "workload": pl.Series(names[jobs.workload].tolist(), dtype=pl.String).str.to_lowercase(),
        "submit_s": jobs.submit_s,
        "tasks": jobs.tasks,
        "duration_s": jobs.duration_s,
        "cpus_per_task": sizes.pop("cpu"),
        "mem_gb_per_task": sizes.pop("memory"),
    }
    columns |= {f"{name}{PER_TASK}": size for name, size in sizes.items()}
    columns |= {
        name: getattr(jobs, name)
        for name in ("priority", "production", "gang")
        if getattr(jobs, name).any()
    }
    if jobs.constraint.any():
        columns["constraints"] = pl.Series(
            _constraint_texts(jobs, path)[jobs.constraint].tolist(), dtype=pl.String
        )
    named = (("recorded", jobs.recorded_nodes), ("user", jobs.users))
    for column, values in named:
        code = getattr(jobs, column)
        if (code >= 0).any():
            texts = np.array([*values, None], dtype=np.object_)[code]
            columns[column] = pl.Series(texts.tolist(), dtype=pl.String)
    if jobs.requested_s.any():
        asked = np.where(jobs.requested_s > 0.0, jobs.requested_s, np.nan)
        columns["requested_s"] = pl.Series(asked, nan_to_null=True)
    if (jobs.curve >= 0).any():
        columns["curve"] = pl.Series(curve_names(jobs).tolist(), dtype=pl.String)
    return pl.DataFrame(columns)


def _constraint_texts(jobs: JobList, path: Path) -> NDArray[np.object_]:
    """The text of each set, none for the empty one; a text that would read back as another is
    refused."""
    texts = [constraint_text(constraints) for constraints in jobs.constraint_sets]
    for text, constraints in zip(texts, jobs.constraint_sets, strict=True):
        if not _reads_back(text, constraints):
            raise InputError(
                f"{path}: constraints: {text!r} cannot be written as text that reads back the same"
            )
    return np.array([text or None for text in texts], dtype=np.object_)
