"""The verdict on a run: what its summary says beside what its tasks and attempts say."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from murmuration.experiments.audit.conservation import find_broken, kept_within_capacity
from murmuration.experiments.audit.figures import job_outcomes, recompute
from murmuration.experiments.audit.folder import RecordedRun, read_recorded
from murmuration.simulation.scenarios import scenario as sc

#: Sums over many rows, in another order.
RELATIVE, ABSOLUTE = 1e-7, 1e-9
#: What identifies a run and is no figure.
Differences = dict[str, tuple[object, object]]
NAMES = ("version", "scenario", "scheduler", "seed", "days", "path", "notes")


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


def check_run(folder: Path, scenario: sc.Scenario) -> RunAudit:
    """Check one recorded run."""
    run = read_recorded(folder, scenario)
    stored = {
        key: value for key, value in flatten(run.summary).items() if key.split(".")[0] not in NAMES
    }
    again = recompute(run)
    different = {
        key: (stored[key], value)
        for key, value in again.items()
        if key in stored and not is_close(stored[key], value)
    }
    agreed = tuple(key for key in again if key in stored and key not in different)
    unknown = tuple(key for key in stored if key not in again)
    return RunAudit(
        folder,
        agreed,
        different | _job_differences(run),
        unknown,
        tuple(find_broken(run)),
        _notes(run),
    )


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
