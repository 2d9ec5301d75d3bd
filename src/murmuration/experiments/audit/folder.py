"""The files of a run that was recorded with `--detail`, as columns with numbers for names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from murmuration.base import files
from murmuration.base.arrays import Column
from murmuration.base.errors import InputError
from murmuration.experiments.runs import Summary
from murmuration.simulation.scenarios import scenario as sc

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Texts = NDArray[np.str_]
DAY_S = 86_400.0
#: The ways in which a stay ends that end the task; any other goes on elsewhere.
ENDED = ("finished", "killed", "lost", "revoked")
PLACED_AGAIN = ("lost", "revoked")


@dataclass(frozen=True)
class RecordedJobs:
    """What each job asked for, and what `jobs.parquet` says became of it."""

    ids: Texts
    workload: Texts
    submit: Floats
    tasks: Integers
    duration: Floats
    production: Flags
    curve: Integers
    request: Integers
    outcome: dict[str, Column]


@dataclass(frozen=True)
class RecordedStays:
    """One task on one node; `job` and `node` are rows, `source` is −1 where it did not move."""

    job: Integers
    index: Integers
    node: Integers
    source: Integers
    start: Floats
    #: The horizon where the stay has not ended.
    end: Floats
    why: Texts
    megabytes: Floats
    forced: Flags
    curve_start: Floats

    @property
    def begins(self) -> Flags:
        """Whether a task starts here, rather than moving here."""
        return np.asarray(self.source < 0)

    @property
    def running(self) -> Flags:
        return np.asarray(self.why == "running")

    def ends(self, *ways: str) -> Flags:
        return np.isin(self.why, ways)


@dataclass(frozen=True)
class RecordedAttempts:
    """One try of one scheduler at one job; `ended` is False for those under way at the horizon."""

    job: Integers
    scheduler: Texts
    start: Floats
    end: Floats
    placed: Integers
    refused: Integers
    busy: Floats
    wasted: Floats
    ended: Flags


@dataclass(frozen=True)
class RecordedNodes:
    """What each node has at time 0 and from later times on; what tasks that never end have of it,
    and how many they are."""

    names: Texts
    start: Integers
    prefilled: Integers
    prefilled_tasks: int
    change_time: Floats
    change_node: Integers
    change_total: Integers


@dataclass(frozen=True)
class RecordedCurves:
    """Shares of the request by curve, point and resource."""

    share: NDArray[np.float32]
    step_s: float
    cyclic: bool


@dataclass(frozen=True)
class RecordedRun:
    """Everything a recorded run left behind."""

    path: Path
    scenario: sc.Scenario
    summary: Summary
    resources: tuple[str, ...]
    jobs: RecordedJobs
    stays: RecordedStays
    attempts: RecordedAttempts
    nodes: RecordedNodes
    curves: RecordedCurves | None
    sample_times: Floats

    @property
    def horizon(self) -> float:
        return self.scenario.days * DAY_S

    @property
    def kind(self) -> str:
        return self.scenario.scheduler.kind

    @property
    def has_usage(self) -> bool:
        """Whether what tasks use was measured apart from what they request."""
        return self.curves is not None or self.kind == "negotiation"


def read_recorded(path: Path, scenario: sc.Scenario) -> RecordedRun:
    """Read a run's folder; one sentence if it was not recorded."""
    if not (path / "tasks.parquet").exists():
        raise InputError(
            f"{path}: expected a run made with --detail; there is no tasks.parquet in it"
        )
    jobs, nodes = read_table(path / "jobs.parquet"), read_table(path / "nodes.parquet")
    resources = tuple(name[6:] for name in nodes if name.startswith("total."))
    horizon = scenario.days * DAY_S
    table = _nodes(nodes, resources)
    return RecordedRun(
        path=path,
        scenario=scenario,
        summary=files.read_json(path / "summary.json"),
        resources=resources,
        jobs=_jobs(jobs, resources),
        stays=_stays(read_table(path / "tasks.parquet"), jobs["job_id"], table.names, horizon),
        attempts=_attempts(read_table(path / "attempts.parquet"), jobs["job_id"], horizon),
        nodes=table,
        curves=_curves(path / "curves.parquet", resources),
        sample_times=read_table(path / "series.parquet")["time_s"],
    )


Columns = dict[str, Column]


def read_table(path: Path) -> Columns:
    """The columns of a Parquet file; texts as arrays of text."""
    import polars as pl

    try:
        frame = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}: expected a Parquet file of a run: {error}") from error
    return {
        name: frame[name].to_numpy()
        if frame[name].dtype != pl.String
        else np.array(frame[name].to_list(), dtype=np.str_)
        for name in frame.columns
    }


def _stack(columns: Columns, prefix: str, resources: tuple[str, ...]) -> Integers:
    return np.stack([columns[f"{prefix}.{name}"] for name in resources], axis=1)


def _rows_of(names: Texts, known: Texts, where: str) -> Integers:
    """The row of each name; −1 for the empty one."""
    order = np.argsort(known)
    at = np.minimum(np.searchsorted(known, names, sorter=order), len(known) - 1)
    rows = order[at]
    strange = (known[rows] != names) & (names != "")
    if strange.any():
        raise InputError(f"{where}: {names[strange][0]!r} is in no other file of the run")
    return np.where(names == "", -1, rows)


def _jobs(columns: Columns, resources: tuple[str, ...]) -> RecordedJobs:
    return RecordedJobs(
        ids=columns["job_id"],
        workload=columns["workload"],
        submit=columns["submit_s"],
        tasks=columns["tasks"],
        duration=columns["duration_s"],
        production=columns["production"],
        curve=columns["curve"],
        request=_stack(columns, "request", resources),
        outcome=columns,
    )


def _stays(columns: Columns, ids: Texts, names: Texts, horizon: float) -> RecordedStays:
    return RecordedStays(
        job=_rows_of(columns["job_id"], ids, "tasks.parquet"),
        index=columns["index"],
        node=_rows_of(columns["node"], names, "tasks.parquet"),
        source=_rows_of(columns["moved_from"], names, "tasks.parquet"),
        start=columns["start_s"],
        end=np.where(columns["why"] == "running", horizon, columns["end_s"]),
        why=columns["why"],
        megabytes=columns["moved_mb"],
        forced=columns["forced"],
        curve_start=columns["curve_start_s"],
    )


def _attempts(columns: Columns, ids: Texts, horizon: float) -> RecordedAttempts:
    ended = ~np.isnan(columns["end_s"])
    return RecordedAttempts(
        job=_rows_of(columns["job_id"], ids, "attempts.parquet"),
        scheduler=columns["scheduler"],
        start=columns["start_s"],
        end=np.where(ended, columns["end_s"], horizon),
        placed=columns["placed"],
        refused=columns["refused"],
        busy=columns["busy_s"],
        wasted=columns["wasted_s"],
        ended=ended,
    )


def _nodes(columns: Columns, resources: tuple[str, ...]) -> RecordedNodes:
    """The first row of each node is what it has at time 0; any other is a change."""
    _, first = np.unique(columns["node"], return_index=True)
    first = np.sort(first)
    later = np.setdiff1d(np.arange(len(columns["node"])), first)
    total, names = _stack(columns, "total", resources), columns["node"][first]
    return RecordedNodes(
        names=names,
        start=total[first],
        prefilled=_stack(columns, "prefilled", resources)[first],
        prefilled_tasks=int(columns["prefilled_tasks"][first].sum()),
        change_time=columns["time_s"][later],
        change_node=_rows_of(columns["node"][later], names, "nodes.parquet"),
        change_total=total[later],
    )


def _curves(path: Path, resources: tuple[str, ...]) -> RecordedCurves | None:
    if not path.exists():
        return None
    columns = read_table(path)
    count, points = int(columns["curve"].max()) + 1, int(columns["point"].max()) + 1
    share = np.stack([columns[f"share.{name}"] for name in resources], axis=1)
    return RecordedCurves(
        share.reshape(count, points, len(resources)).astype(np.float32),
        float(columns["step_s"][0]),
        bool(columns["cyclic"][0]),
    )
