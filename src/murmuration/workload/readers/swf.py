"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a job, `;` before
comments."""

from __future__ import annotations

import re

import numpy as np

from murmuration.base.arrays import Flags, Integers
from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.workload.formats.sizes import SIZE_MAX, amounts
from murmuration.workload.formats.source import SourceFile
from murmuration.workload.formats.table import TraceTable, parse, tabs_for_blanks
from murmuration.workload.jobs import TASKS_MAX, job_list
from murmuration.workload.trace import Trace, TraceOptions, count_skipped

COLUMNS = (
    "job",
    "submit",
    "wait",
    "runtime",
    "processors",
    "cpu_used",
    "memory_used_kb",
    "processors_asked",
    "time_asked",
    "memory_asked_kb",
    "status",
    "user",
    "group",
    "program",
    "queue",
    "partition",
    "job_before",
    "think_time",
)
KB = 1024
NONE = -1.0


def is_swf(fields: list[str]) -> bool:
    return len(fields) == len(COLUMNS) and all(
        re.fullmatch(r"[\d.eE+-]+", field) for field in fields
    )


def _read_users(table: TraceTable, keep: Flags) -> tuple[tuple[str, ...], Integers]:
    """The users of the jobs that are kept, by number, and the index of each job's (−1: unknown)."""
    number = table.integers("user", -1)[keep]
    known = np.unique(number[number >= 0])
    code = np.where(number >= 0, np.searchsorted(known, number), -1)
    return tuple(map(str, known.tolist())), code


def read_swf(source: SourceFile, options: TraceOptions) -> Trace:
    """Every processor a task, all of a job started together; rows without a time or a processor are
    left out."""
    table = parse(tabs_for_blanks(source), names=COLUMNS, separator="\t", quoted=False, comment=";")
    if len(table) == 0:
        raise InputError(f"{source.path}: expected at least one row, there are no jobs")
    submit, runtime = table.numbers("submit", low=NONE), table.numbers("runtime", low=NONE)
    processors = table.integers("processors", -1, TASKS_MAX)
    used, asked = (
        table.numbers(f"memory_{name}_kb", low=NONE, high=SIZE_MAX / KB)
        for name in ("used", "asked")
    )
    names = np.array(table.names("job").to_list(), dtype=np.str_)
    keep = (submit >= 0) & (runtime >= 0) & (processors >= 1)
    if not keep.any():
        raise InputError(
            f"{source.path}: expected jobs with a submit time, a runtime and processors, there "
            "are none"
        )
    memory = np.select([used > 0, asked > 0], [used * KB, asked * KB], options.task_memory)
    count = int(keep.sum())
    asked_s = table.numbers("time_asked", low=NONE)
    users, user = _read_users(table, keep)
    jobs = job_list(
        Resources(),
        ["batch"],
        workload=np.zeros(count, dtype=np.int64),
        submit_s=submit[keep],
        tasks=processors[keep],
        duration_s=runtime[keep],
        request=amounts(np.full(count, 1.0), memory[keep]),
        job_id=names[keep].tolist(),
        gang=True,
        requested_s=np.maximum(asked_s[keep], 0.0),
        user=user,
        users=users,
    )
    unknown = int(((used <= 0) & (asked <= 0) & keep).sum())
    assumptions = (
        "every processor is a task of 1 CPU, and the tasks of a job start together",
        f"{unknown:,} jobs without a memory take {options.task_memory / 1e9:g} GB a task",
    )
    skipped = count_skipped(
        (len(table) - count, "jobs without a submit time, a runtime or processors (-1)")
    )
    return Trace("swf", len(table), jobs, assumptions=assumptions, skipped=skipped)
