"""Usage tables: what jobs use over time, in a file beside a job list.

A row says which share of its request a task of a job uses from `time_s` after its start: `job_id,
time_s` and one column `<resource>_share` for each resource that is not used whole. A share holds
until the next row of the job, the last one for good; with `cyclic`, every task begins at a point of
its own and goes round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from murmuration.base.arrays import Floats, Integers
from murmuration.base.errors import InputError, unknown
from murmuration.base.resources import Resources
from murmuration.workload.formats.source import load
from murmuration.workload.formats.table import TraceTable, codes, of_source
from murmuration.workload.jobs import JobList
from murmuration.workload.trace import LeftOut
from murmuration.workload.usage import Curves
from murmuration.workload.windows import resample

if TYPE_CHECKING:
    import polars as pl

BASE = ("job_id", "time_s")
SHARE = "_share"
CYCLIC = "cyclic"
#: The step where no job has a second row to tell it.
STEP_S = 300.0
SHARE_MAX = 1000.0
POINTS_MAX = 400_000_000
#: Times this close to a whole number of steps are one: decimals do not hold every fraction.
CLOSE = 1e-6


@dataclass(frozen=True)
class Usage:
    """Curves by name, with the place where each is first named."""

    table: TraceTable
    names: tuple[str, ...]
    first_row: Integers
    resources: Resources
    curves: Curves

    def curve(self, names: Sequence[str]) -> Integers:
        """For each of these names its curve, or −1."""
        known = {name: k for k, name in enumerate(self.names)}
        return np.array([known.get(name, -1) for name in names], dtype=np.int64)


def read_usage(path: str | Path, left_out: LeftOut) -> Usage:
    """A usage table from a CSV (also .gz or .xz) or Parquet file."""
    return usage_of(of_source(load(path)), left_out)


def usage_of(table: TraceTable, left_out: LeftOut) -> Usage:
    """The usage in a table of our own columns."""
    table.need(BASE, "usage")
    shares = [name for name in table.columns if name.endswith(SHARE) and name != SHARE]
    if not shares:
        raise InputError(f"{table.path}: expected a column such as 'cpu{SHARE}', there is none")
    resources = Resources(
        tuple(dict.fromkeys(["cpu", "memory", *(name.removesuffix(SHARE) for name in shares)]))
    )
    table, used = _read_shares(table, shares, resources, left_out)
    names, job = codes(table.texts("job_id"))
    time = table.numbers("time_s")
    order = np.lexsort((time, job))
    again = np.flatnonzero((np.diff(job[order]) == 0) & (np.diff(time[order]) == 0))
    if len(again):
        raise InputError(
            f"{table.where(int(order[again + 1].min()))}: time_s: expected one row for each job "
            "and time"
        )
    share, step_s = _points(job[order], time[order], used[order], len(names), table.path)
    first = np.full(len(names), len(table), dtype=np.int64)
    np.minimum.at(first, job, np.arange(len(table)))
    return Usage(table, names, first, resources, Curves(share, step_s, _cyclic(table)))


def _read_shares(
    table: TraceTable, shares: Sequence[str], resources: Resources, left_out: LeftOut
) -> tuple[TraceTable, Floats]:
    """The rows that hold shares, and the share of each resource in them; of one without a column
    all is used."""
    used = np.ones((len(table), len(resources)))
    for name in shares:
        used[:, resources.names.index(name.removesuffix(SHARE))] = table.measured(name)
    bad = ~((used >= 0) & (used <= SHARE_MAX))
    keep = left_out.without(
        table, np.logical_or.reduce(bad, axis=1), "usage that is negative or no number"
    )
    if not keep.any():
        raise InputError(
            f"{table.path}: expected at least one row with a share that is not negative, there "
            "is none"
        )
    return table.select(keep), used[keep]


def _points(
    job: Integers,
    time: Floats,
    used: Floats,
    jobs: int,
    path: Path,
) -> tuple[NDArray[np.float32], float]:
    """The rows, in order, as points one step apart: the step is the shortest time between two rows
    of a job."""
    same = np.append(np.diff(job) == 0, False)
    gaps = np.diff(time, append=np.inf)[same]
    step_s = float(gaps.min(initial=np.inf)) if len(gaps) else STEP_S
    start = time / step_s
    start = np.where(np.abs(start - np.rint(start)) < CLOSE, np.rint(start), start)
    end = np.where(same, np.append(start[1:], 0.0), np.floor(start) + 1.0)
    points = int(end.max())
    if jobs * points > POINTS_MAX:
        raise InputError(
            f"{path}: expected at most {POINTS_MAX:,} points in steps of {step_s:g} s, got "
            f"{jobs * points:,}"
        )
    return resample(job, start, end, used, jobs, points, 1.0).astype(np.float32), step_s


def _cyclic(table: TraceTable) -> bool:
    if CYCLIC not in table.columns:
        return False
    flags = table.flags(CYCLIC)
    table.refuse(flags != flags[0], CYCLIC, "the same in every row")
    return bool(flags[0])


def attach_usage(jobs: JobList, usage: Usage, names: Sequence[str], left_out: LeftOut) -> JobList:
    """The jobs, each with the curve of the name given for it; a curve that no job follows is left
    out."""
    for name in usage.resources.names[2:]:
        if name not in jobs.resources.names:
            raise InputError(
                f"{usage.table.path}: {unknown('resource', name, jobs.resources.names)}"
            )
    curve = usage.curve(names)
    strange = np.ones(len(usage.names), dtype=np.bool_)
    strange[curve[curve >= 0]] = False
    bad = np.zeros(len(usage.table), dtype=np.bool_)
    bad[usage.first_row[strange]] = True
    left_out.without(usage.table, bad, "usage of an unknown job")
    share = np.ones(
        (len(usage.names), usage.curves.share.shape[1], len(jobs.resources)), dtype=np.float32
    )
    share[:, :, [jobs.resources.names.index(name) for name in usage.resources.names]] = (
        usage.curves.share
    )
    return replace(jobs, curve=curve, curves=replace(usage.curves, share=share))


def curve_names(jobs: JobList) -> NDArray[np.str_]:
    """For each job the name of its curve, which is the first job that follows it; empty for
    none."""
    kinds, first = np.unique(jobs.curve, return_index=True)
    named = jobs.job_id[first[np.searchsorted(kinds, jobs.curve)]]
    return np.where(jobs.curve >= 0, named, "")


def usage_frame(jobs: JobList) -> pl.DataFrame:
    """The curves that are followed, as a usage table."""
    import polars as pl

    assert jobs.curves is not None
    kinds, first = np.unique(jobs.curve, return_index=True)
    names, share = jobs.job_id[first[kinds >= 0]], jobs.curves.share[kinds[kinds >= 0]]
    points = share.shape[1]
    columns = {
        "job_id": pl.Series(np.repeat(names, points).tolist(), dtype=pl.String),
        "time_s": np.tile(np.arange(points) * jobs.curves.step_s, len(names)),
    }
    columns |= {
        f"{name}{SHARE}": share[:, :, k].reshape(-1) for k, name in enumerate(jobs.resources.names)
    }
    frame = pl.DataFrame(columns)
    return frame.with_columns(pl.lit(True).alias(CYCLIC)) if jobs.curves.cyclic else frame


def usage_path(path: Path) -> Path:
    """Where the usage of a job list is written: beside it."""
    return path.with_name(f"{path.stem}.usage{path.suffix}")
