"""What the figures of a paper show: curves and points with their 95 % intervals, from the folders
of runs.

Runs of one scheduler with different seeds are one curve: its mean over the seeds, and Student's
interval as a band round it. Nothing here knows how a figure is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from murmuration.base import files
from murmuration.base.errors import InputError
from murmuration.experiments.python.stored import RunInFolder
from murmuration.experiments.statistics import interval
from murmuration.reports.formats import DAY_S, time_unit
from murmuration.simulation.results import snapshots

Values = NDArray[np.float64]
#: Points of a curve of waits.
QUANTILES = np.linspace(0.0, 1.0, 201)


@dataclass(frozen=True)
class PaperCurve:
    """A line or points: a value for each x, and the ends of its interval. Of a distribution the
    interval is that of x."""

    name: str
    x: Values
    y: Values
    low: Values | None = None
    high: Values | None = None


@dataclass(frozen=True)
class PaperFigure:
    """What is drawn. With `categories` the x of each curve counts them; `dotted` names the curves
    that are no measurement."""

    x_label: str
    y_label: str
    curves: tuple[PaperCurve, ...]
    categories: tuple[str, ...] = ()
    log_x: bool = False
    log_y: bool = False
    percent: bool = False
    #: Whether the intervals are those of x.
    sideways: bool = False
    dotted: tuple[str, ...] = ()


Groups = Mapping[str, Sequence[RunInFolder]]


def group_runs(runs: Sequence[RunInFolder]) -> dict[str, list[RunInFolder]]:
    """The runs of each scheduler, one for each seed."""
    groups: dict[str, list[RunInFolder]] = {}
    for run in runs:
        groups.setdefault(str(run.summary["scheduler"]), []).append(run)
    return groups


def band(name: str, x: Values, rows: Sequence[Values]) -> PaperCurve:
    """The mean of several curves over the same x, with its interval where there are several."""
    table = np.array(rows, dtype=np.float64)
    if len(rows) == 1:
        return PaperCurve(name, x, table[0])
    return _points(name, x, [interval(column.tolist()) for column in table.T])


ENDS = ("mean", "low", "high")
#: A mean and its interval for each x.
Ends = Sequence[Mapping[str, float | None]]
#: From this ratio on an axis has a logarithmic scale.
WIDE = 20


def _read_table(folder: str | None, name: str) -> dict[str, Values]:
    import polars as pl

    assert folder is not None, "it was read from there"
    return {c: s.to_numpy() for c, s in pl.read_parquet(Path(folder) / name).to_dict().items()}


def _over_time(column: str, y_label: str, percent: bool = False) -> Callable[[Groups], PaperFigure]:
    def figure(groups: Groups) -> PaperFigure:
        curves, longest = [], 0.0
        for name, runs in groups.items():
            tables = [_read_table(run.spec.folder, snapshots.SERIES) for run in runs]
            missing = [table for table in tables if column not in table]
            if missing:
                raise InputError(f"{runs[0].spec.folder}: there is no {column} in its series")
            # Seeds of one scenario are sampled at the same times.
            x = tables[0]["time_s"]
            longest = max(longest, float(x[-1]))
            curves.append(band(name, x, [table[column] for table in tables]))
        unit, name = time_unit(longest)
        scaled = tuple(PaperCurve(c.name, c.x / unit, c.y, c.low, c.high) for c in curves)
        return PaperFigure(f"time ({name})", y_label, scaled, percent=percent)

    return figure


def waits_by_share(groups: Groups) -> PaperFigure:
    """The distribution of waits: for each share of the jobs, how long they wait at most."""
    curves = []
    for name, runs in groups.items():
        rows = []
        for run in runs:
            table = _read_table(run.spec.folder, snapshots.JOBS)
            # A job that never started has waited until the end at least.
            horizon_s = float(run.summary["days"]) * DAY_S
            start = np.nan_to_num(table["start_s"], nan=horizon_s)
            if not len(start):
                raise InputError(f"{run.spec.folder}: there is no job in it, so no wait to draw")
            rows.append(np.quantile(start - table["submit_s"], QUANTILES))
        curves.append(band(name, QUANTILES, rows))
    # Student's interval may reach below zero; no wait does, and a logarithmic axis has no zero.
    least = min(float(curve.y.min()) for curve in curves)
    turned = tuple(
        PaperCurve(c.name, c.y, c.x, None if c.low is None else np.maximum(c.low, least), c.high)
        for c in curves
    )
    return PaperFigure("wait (s)", "share of jobs", turned, log_x=True, percent=True, sideways=True)


def _points(name: str, x: Values, ends: Ends) -> PaperCurve:
    """Means with their intervals; a single seed has none."""
    mean, low, high = (np.array([end[key] for end in ends], float) for key in ENDS)
    if np.isnan(low).all():
        return PaperCurve(name, x, mean)
    return PaperCurve(name, x, mean, low, high)


def mean_waits(groups: Groups) -> PaperFigure:
    """The mean wait of each workload under each scheduler, with its interval."""
    x = np.arange(len(groups), dtype=np.float64)
    curves = [_points(name, x, ends) for name, ends in _waits_by_workload([*groups.values()])]
    return PaperFigure(
        "", "mean wait (s)", tuple(curves), categories=tuple(groups), log_y=_is_wide(curves)
    )


def _waits_by_workload(groups: Sequence[Sequence[RunInFolder]]) -> list[tuple[str, Ends]]:
    """The mean wait of each workload in each group of seeds. A run without jobs of a workload has
    no wait of it; a workload without any is left out."""
    found: list[tuple[str, Ends]] = []
    for workload in groups[0][0].summary["workloads"]:
        waits = [
            [run.summary["workloads"][workload]["wait_s_mean"] for run in runs] for runs in groups
        ]
        ends = [interval([wait for wait in each if wait is not None]) for each in waits]
        if any(end["n"] for end in ends):
            found.append((workload, ends))
    if not found:
        raise InputError("no run has a job; there is no wait to draw")
    return found


def _is_wide(curves: Sequence[PaperCurve]) -> bool:
    """Whether small values could not be told apart beside the large ones."""
    values = np.concatenate([curve.y for curve in curves])
    least, most = np.nanmin(values), np.nanmax(values)
    return bool(least > 0 and most / least >= WIDE)


def sweep_waits(groups: Groups) -> PaperFigure:
    """The mean wait of each workload against the key that was varied."""
    key, by_value = _find_varied(groups)
    values = np.array(sorted(by_value))
    waits = _waits_by_workload([by_value[value] for value in values])
    curves = [_points(name if len(waits) > 1 else "", values, ends) for name, ends in waits]
    wide = values[0] > 0 and values[-1] / values[0] >= WIDE
    return PaperFigure(
        key, "mean wait (s)", tuple(curves), log_x=bool(wide), log_y=_is_wide(curves)
    )


def _find_varied(groups: Groups) -> tuple[str, dict[float, Sequence[RunInFolder]]]:
    """The key of a sweep in the words of its labels, and the runs of each value."""
    parts = {name: name.partition("=") for name in groups}
    keys = {key for key, _, _ in parts.values()}
    try:
        by_value = {float(parts[name][2]): runs for name, runs in groups.items()}
    except ValueError:
        by_value = {}
    if len(keys) != 1 or not by_value:
        raise InputError("--figure sweep: expected the runs of a sweep over one key with numbers")
    return keys.pop(), by_value


def capacity_over_time(folders: Sequence[Path]) -> PaperFigure:
    """The capacity of auto-scaling runs on the optimum and its band."""
    curves: list[PaperCurve] = []
    name = ""
    for folder in folders:
        table = _read_table(str(folder), snapshots.SERIES)
        label = str(files.read_json(folder / snapshots.SCENARIO)["label"])
        unit, name = time_unit(float(table["time_s"][-1]))
        times = table["time_s"] / unit
        if not curves:
            ends = (table["band_low"], table["band_high"])
            curves.append(PaperCurve("optimum and band", times, table["optimum"], *ends))
        curves.append(PaperCurve(label, times, table["capacity"]))
    dotted = ("optimum and band",)
    return PaperFigure(f"time ({name})", "requests in parallel", tuple(curves), dotted=dotted)


#: What can be drawn, by name; the first that fits is drawn unless another is asked for.
FIGURES: dict[str, Callable[[Groups], PaperFigure]] = {
    "waits": mean_waits,
    "cdf": waits_by_share,
    "sweep": sweep_waits,
    "cpu": _over_time("required.cpu", "CPU required", percent=True),
    "memory": _over_time("required.memory", "memory required", percent=True),
    "tasks": _over_time("tasks_running", "tasks running"),
    "fragmentation": _over_time("fragmentation", "fragmentation", percent=True),
    "power": _over_time("power_w", "power (W)"),
}


def usual_figure(groups: Groups) -> str:
    """What most people would draw of these runs."""
    if len(groups) == 1:
        return "cpu"
    return "sweep" if all("=" in name and "," not in name for name in groups) else "waits"
