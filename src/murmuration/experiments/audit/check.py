"""The verdict on a run: what its summary says beside what its tasks and attempts say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from murmuration.experiments.audit import scaling, scaling_rules
from murmuration.experiments.audit.conservation import find_broken, kept_within_capacity
from murmuration.experiments.audit.figures import job_outcomes, recompute
from murmuration.experiments.audit.folder import RecordedRun, read_recorded
from murmuration.experiments.runs import Summary, read_stored_tables
from murmuration.simulation.autoscale.scenario import AutoscaleScenario
from murmuration.simulation.autoscale.scenario import check as check_autoscale
from murmuration.simulation.results import snapshots
from murmuration.simulation.scenarios import scenario as sc

#: Sums over many rows, in another order.
RELATIVE, ABSOLUTE = 1e-7, 1e-9
#: Of a difference of two large sums.
SERIES_ABSOLUTE = 1e-6
#: What identifies a run and is no figure.
Differences = dict[str, tuple[object, object]]
NAMES = ("version", "scenario", "scheduler", "autoscaler", "seed", "days", "path", "notes")


@dataclass(frozen=True)
class RunAudit:
    """What was found: figures that agree, those that differ (stored, recomputed), those that tasks
    and attempts do not say, and rules that do not hold."""

    folder: Path
    agreed: tuple[str, ...]
    different: Differences
    unknown: tuple[str, ...]
    broken: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.different and not self.broken


def check_folder(folder: Path) -> RunAudit:
    """Check the recorded run in a folder, of whatever kind."""
    tables = read_stored_tables(folder)["tables"]
    source = str(folder / snapshots.SCENARIO)
    if "autoscaler" in tables:
        return check_scaling(folder, check_autoscale(tables, source))
    return check_run(folder, sc.check(tables, source))


def check_run(folder: Path, scenario: sc.Scenario) -> RunAudit:
    """Check one recorded run of a scheduler."""
    run = read_recorded(folder, scenario)
    agreed, different, unknown = _compare(run.summary, recompute(run))
    different |= _job_differences(run)
    return RunAudit(folder, agreed, different, unknown, tuple(find_broken(run)), _notes(run))


def check_scaling(folder: Path, scenario: AutoscaleScenario) -> RunAudit:
    """Check one recorded run of an auto-scaler: its summary and every sample of its series."""
    run = scaling.read_scaling(folder, scenario)
    agreed, different, unknown = _compare(run.summary, scaling.recompute_summary(run))
    different |= _series_differences(run)
    again = (f"series.{name}" for name in run.series)
    agreed += tuple(key for key in again if not any(each.startswith(key) for each in different))
    broken = tuple(scaling_rules.find_broken(run))
    return RunAudit(folder, agreed, different, unknown, broken, ())


def _compare(
    summary: Summary, again: Mapping[str, object]
) -> tuple[tuple[str, ...], Differences, tuple[str, ...]]:
    """The figures of a summary that agree, those that differ, and those that nothing says again."""
    stored = {
        key: value for key, value in flatten(summary).items() if key.split(".")[0] not in NAMES
    }
    different = {
        key: (stored[key], value)
        for key, value in again.items()
        if key in stored and not is_close(stored[key], value)
    }
    agreed = tuple(key for key in again if key in stored and key not in different)
    return agreed, different, tuple(key for key in stored if key not in again)


def _series_differences(run: scaling.RecordedScaling) -> Differences:
    """Columns of the series that requests and nodes contradict, with the first such sample."""
    different: Differences = {}
    for name, again in scaling.recompute_series(run).items():
        stored = run.series.get(name)
        if stored is None or len(stored) != len(again):
            got = None if stored is None else len(stored)
            different[f"series.{name} (samples)"] = (got, len(again))
            continue
        same = np.isclose(stored, again, rtol=RELATIVE, atol=SERIES_ABSOLUTE)
        for k in np.flatnonzero(~same)[:1]:
            key = f"series.{name} at {run.series['time_s'][k]:g} s ({int((~same).sum())} samples)"
            different[key] = (stored[k].item(), again[k].item())
    return different


def flatten(value: object, key: str = "") -> dict[str, object]:
    """Nested tables by dotted keys."""
    if not isinstance(value, dict):
        return {key: value}
    flat: dict[str, object] = {}
    for name, part in value.items():
        flat |= flatten(part, f"{key}.{name}" if key else str(name))
    return flat


def is_close(stored: object, value: object) -> bool:
    """Whether two figures are the same but for rounding."""
    numbers = isinstance(stored, int | float) and isinstance(value, int | float)
    if not numbers or isinstance(stored, bool):
        return bool(stored == value)
    assert isinstance(stored, int | float) and isinstance(value, int | float)
    return math.isclose(stored, value, rel_tol=RELATIVE, abs_tol=ABSOLUTE)


def _job_differences(run: RecordedRun) -> Differences:
    """Columns of `jobs.parquet` that tasks and attempts contradict, with the first such job."""
    from murmuration.experiments.audit.conservation import answers_later

    different: Differences = {}
    for name, again in job_outcomes(run).items():
        if name == "tasks_placed" and answers_later(run):
            continue
        stored = run.jobs.outcome[name]
        same = stored == again
        if again.dtype.kind == "f":
            same |= np.isclose(stored, again, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True)
        for k in np.flatnonzero(~same)[:1]:
            key = f"jobs.{run.jobs.ids[k]}.{name} ({int((~same).sum())} jobs)"
            different[key] = (stored[k].item(), again[k].item())
    return different


def _notes(run: RecordedRun) -> tuple[str, ...]:
    kept = kept_within_capacity(run)
    if kept is None:
        return ("no node is held to its capacity: agents decide by what tasks use",)
    if not kept.all():
        return ("production requests alone are held to the capacity of nodes",)
    return ()
