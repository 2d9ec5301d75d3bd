"""Runs that are in folders already, read back to be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from murmuration.base import files
from murmuration.base.errors import InputError
from murmuration.experiments.runs import Summary, read_stored_tables
from murmuration.experiments.specs import Spec, make_spec
from murmuration.simulation.results import snapshots


@dataclass(frozen=True)
class RunInFolder:
    """A run in a folder."""

    spec: Spec
    summary: Summary


@dataclass(frozen=True)
class RunsInFolders:
    """Runs to be shown side by side. `same_jobs`: every scheduler had the same jobs, seed by seed,
    so that their differences mean something."""

    name: str
    runs: tuple[RunInFolder, ...]
    same_jobs: bool
    notes: tuple[str, ...] = ()


def read_runs(folders: Sequence[Path]) -> RunsInFolders:
    """The runs in these folders, and in the folders below those that hold several."""
    places = [place for folder in folders for place in _run_folders(folder)]
    runs = _distinguish([_read(place) for place in dict.fromkeys(places)])
    names = dict.fromkeys(str(run.summary["scenario"]) for run in runs)
    same_jobs = _have_same_jobs(runs)
    notes = () if same_jobs else ("the runs are not of the same jobs, so there is no verdict",)
    return RunsInFolders(", ".join(names), tuple(runs), same_jobs, notes)


def _run_folders(folder: Path) -> list[Path]:
    if (folder / snapshots.SCENARIO).exists():
        return [folder]
    below = sorted(path.parent for path in folder.glob(f"*/{snapshots.SCENARIO}"))
    if not below:
        raise InputError(f"{folder}: expected the folder of a run or of several, found none")
    order = _order(folder)
    return sorted(below, key=lambda place: order.get(read_stored_tables(place)["label"], 0))


def _order(folder: Path) -> dict[str, int]:
    """The place of each scheduler in the study that made a folder."""
    summary = folder / snapshots.SUMMARY
    runs = files.read_json(summary).get("runs", []) if summary.exists() else []
    return {run["scheduler"]: place for place, run in enumerate(runs)}


def _read(folder: Path) -> RunInFolder:
    if not (folder / snapshots.SUMMARY).exists():
        raise InputError(f"{folder}: the run was not finished; --resume of its command goes on")
    stored, summary = read_stored_tables(folder), files.read_json(folder / snapshots.SUMMARY)
    if summary.get("version") != snapshots.SUMMARY_VERSION:
        raise InputError(f"{folder}: expected results of this version; make the run again")
    spec = make_spec(stored["label"], stored["tables"], str(folder), str(folder))
    timing = folder / snapshots.TIMING
    times = {"timing": files.read_json(timing)} if timing.exists() else {}
    return RunInFolder(spec, {**summary, **times})


def _distinguish(runs: Sequence[RunInFolder]) -> list[RunInFolder]:
    """Runs of one label and seed are different runs: they are called by their folders."""
    counts = Counter((run.spec.label, run.spec.scenario.seed) for run in runs)
    double = {label for (label, _), count in counts.items() if count > 1}
    return [_rename_run(run) if run.spec.label in double else run for run in runs]


def _rename_run(run: RunInFolder) -> RunInFolder:
    assert run.spec.folder is not None, "it was read from there"
    label = Path(run.spec.folder).name
    return RunInFolder(replace(run.spec, label=label), {**run.summary, "scheduler": label})


def _have_same_jobs(runs: Sequence[RunInFolder]) -> bool:
    """Whether every scheduler has the same seeds in the same order, with as many jobs."""
    by_label: dict[str, list[object]] = {}
    for run in runs:
        workloads = run.summary["workloads"]
        counts = {name: figures["jobs_submitted"] for name, figures in workloads.items()}
        jobs = (run.spec.scenario.seed, run.summary["days"], tuple(counts.items()))
        by_label.setdefault(run.spec.label, []).append(jobs)
    seen = list(by_label.values())
    return all(jobs == seen[0] for jobs in seen)
