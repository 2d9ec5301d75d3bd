"""A job list: what arrives, as columns sorted by submission. A list is made once and replayed in
every architecture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.base.arrays import Amounts, Flags, Floats, Integers
from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.cluster.constraints import Constraint
from murmuration.workload.usage import Curves, join

TASKS_MAX = 1_000_000
#: Workloads whose ids are named to whoever asks for a job that is not there.
ENDS_SHOWN = 5


@dataclass(frozen=True)
class JobList:
    """Jobs in order of submission; row j of every column is job j. Tasks of a job are alike and
    share its duration."""

    resources: Resources
    workloads: tuple[str, ...]
    job_id: NDArray[np.str_]
    workload: Integers
    submit_s: Floats
    tasks: Integers
    duration_s: Floats
    request: Amounts
    priority: Integers
    gang: Flags
    production: Flags
    #: Index into `constraint_sets`; set 0 is "no constraint".
    constraint: Integers
    #: Index into `curves`: what each task uses over time; −1 for a job whose tasks use what they
    #: request.
    curve: Integers
    #: Index into `recorded_nodes`: where the tasks ran when the trace was recorded; −1 where that
    #: is not known.
    recorded: Integers
    #: Index into `users`: who submitted the job; −1 where that is not known.
    user: Integers
    #: The run time the job asked for; 0 where it asked for none.
    requested_s: Floats
    constraint_sets: tuple[tuple[Constraint, ...], ...] = ((),)
    curves: Curves | None = None
    recorded_nodes: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    #: What was assumed and what was left out when the list was read from a trace.
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.submit_s)

    def select(self, rows: Integers | Flags) -> JobList:
        """The jobs at these rows, in that order."""
        columns = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name in COLUMNS}
        return replace(self, **columns)

    def sorted(self) -> JobList:
        """By submission; jobs of one instant keep their order."""
        return self.select(np.argsort(self.submit_s, kind="stable"))

    def until(self, seconds: float) -> JobList:
        """The jobs submitted before this time."""
        return self.select(self.submit_s < seconds)

    def _ends(self, job_id: str) -> str:
        """The first and the last id of each workload, or of the one that an id seems to name."""
        near = [code for code, name in enumerate(self.workloads) if job_id.startswith(f"{name}-")]
        codes = near or range(len(self.workloads))
        lists = [self.job_id[self.workload == code] for code in codes]
        ends = [f"from {str(ids[0])!r} to {str(ids[-1])!r}" for ids in lists if len(ids)]
        return ", ".join(ends[:ENDS_SHOWN]) or "nowhere"

    def job_row(self, job_id: str) -> int:
        """The row of a job by its id."""
        rows = np.flatnonzero(self.job_id == job_id)
        if len(rows) == 0:
            raise InputError(f"no job {job_id!r}; ids run {self._ends(job_id)}")
        return int(rows[0])


COLUMNS = (
    "job_id",
    "workload",
    "submit_s",
    "tasks",
    "duration_s",
    "request",
    "priority",
    "gang",
    "production",
    "constraint",
    "curve",
    "recorded",
    "user",
    "requested_s",
)


def job_list(
    resources: Resources,
    workloads: Sequence[str],
    *,
    workload: Integers,
    submit_s: Floats,
    tasks: Integers,
    duration_s: Floats,
    request: Amounts,
    job_id: Sequence[str] | None = None,
    priority: Integers | int = 0,
    gang: Flags | bool = False,
    production: Flags | bool = False,
    constraint: Integers | int = 0,
    constraint_sets: tuple[tuple[Constraint, ...], ...] = ((),),
    curve: Integers | int = -1,
    curves: Curves | None = None,
    recorded: Integers | int = -1,
    recorded_nodes: tuple[str, ...] = (),
    user: Integers | int = -1,
    users: tuple[str, ...] = (),
    requested_s: Floats | float = 0.0,
) -> JobList:
    """A job list from columns; single values stand for every job, and jobs without ids are
    numbered."""
    count = len(submit_s)
    names = [str(j) for j in range(count)] if job_id is None else job_id

    def column(value: object, dtype: Any) -> Any:
        return np.ascontiguousarray(np.broadcast_to(np.asarray(value, dtype=dtype), (count,)))

    jobs = JobList(
        resources=resources,
        workloads=tuple(workloads),
        job_id=np.array(names, dtype=np.str_),
        workload=column(workload, np.int64),
        submit_s=column(submit_s, np.float64),
        tasks=column(tasks, np.int64),
        duration_s=column(duration_s, np.float64),
        request=np.ascontiguousarray(request, dtype=np.int64),
        priority=column(priority, np.int64),
        gang=column(gang, np.bool_),
        production=column(production, np.bool_),
        constraint=column(constraint, np.int64),
        constraint_sets=constraint_sets,
        curve=column(curve, np.int64),
        curves=curves,
        recorded=column(recorded, np.int64),
        recorded_nodes=recorded_nodes,
        user=column(user, np.int64),
        users=users,
        requested_s=column(requested_s, np.float64),
    )
    return jobs.sorted()


def merge(lists: Sequence[JobList]) -> JobList:
    """Several lists of one cluster as one, by submission; workloads of the same name become one."""
    if len(lists) == 1:
        return lists[0]
    names = tuple(dict.fromkeys(name for jobs in lists for name in jobs.workloads))
    sets: list[tuple[Constraint, ...]] = [()]
    curves = join([jobs.curves for jobs in lists])
    nodes = tuple(dict.fromkeys(name for jobs in lists for name in jobs.recorded_nodes))
    users = tuple(dict.fromkeys(name for jobs in lists for name in jobs.users))
    parts, before = [], 0
    for jobs in lists:
        known = np.array([names.index(name) for name in jobs.workloads], dtype=np.int64)
        moved = np.where(jobs.constraint > 0, jobs.constraint + len(sets) - 1, 0)
        sets.extend(jobs.constraint_sets[1:])
        curve = np.where(jobs.curve >= 0, jobs.curve + before, -1)
        before += len(jobs.curves) if jobs.curves is not None else 0
        parts.append(
            replace(
                jobs,
                workload=known[jobs.workload],
                constraint=moved,
                curve=curve,
                recorded=_renumber(jobs.recorded, jobs.recorded_nodes, nodes),
                user=_renumber(jobs.user, jobs.users, users),
            )
        )
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS
    }
    merged = JobList(
        resources=lists[0].resources,
        workloads=names,
        constraint_sets=tuple(sets),
        curves=curves,
        recorded_nodes=nodes,
        users=users,
        notes=tuple(note for jobs in lists for note in jobs.notes),
        **columns,
    )
    return merged.sorted()


def _renumber(codes: Integers, names: Sequence[str], every: Sequence[str]) -> Integers:
    """Indices into a longer list of names; −1 stays what it is."""
    row_of = {name: row for row, name in enumerate(every)}
    return np.array([*(row_of[name] for name in names), -1], dtype=np.int64)[codes]


def multiply(jobs: JobList, factor: float) -> JobList:
    """The list `factor` times over: each job is copied by a hash of its id, so that no seed changes
    the choice."""
    if not 0 < factor <= 1000:
        raise InputError(
            f"workload.multiply: expected a number above 0 and up to 1000, got {factor:g}"
        )
    shares = np.array([hash_share(name) for name in jobs.job_id])
    copies = np.floor(factor).astype(np.int64) + (shares < factor % 1.0).astype(np.int64)
    rows = np.repeat(np.arange(len(jobs)), copies)
    serial = np.arange(len(rows)) - np.repeat(np.cumsum(copies) - copies, copies)
    chosen = jobs.select(rows)
    names = [
        name if k == 0 else f"{name}+{k}" for name, k in zip(chosen.job_id, serial, strict=True)
    ]
    # A copy uses what its original used, but nobody recorded where it ran.
    recorded = np.where(serial == 0, chosen.recorded, -1)
    return replace(chosen, job_id=np.array(names, dtype=np.str_), recorded=recorded)


def hash_share(name: str) -> float:
    """A number in [0, 1) that depends on the name alone (FNV-1a, finished with a multiply and
    shift)."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & (2**64 - 1)
    value = ((value ^ (value >> 32)) * 0x9E3779B97F4A7C15) & (2**64 - 1)
    return (value >> 11) / 2**53
