"""Auto-scaling runs: one scaler or several on the same requests, with one seed or several.

What is drawn of them is in `experiments/pages/autoscale.py`, so that a worker that only runs loads
no charts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from murmuration.base import files
from murmuration.base.errors import InputError, unknown
from murmuration.experiments.parallel import RunKind
from murmuration.experiments.runs import Summary, read_stored_tables
from murmuration.experiments.specs import REPLICAS_MAX, Tables
from murmuration.simulation.autoscale import build, results
from murmuration.simulation.autoscale.detail import FILES
from murmuration.simulation.autoscale.scenario import (
    AutoscaleScenario,
    check,
    type_schedule,
    workload,
)
from murmuration.simulation.autoscale.world import KINDS
from murmuration.simulation.results import snapshots
from murmuration.simulation.results.parts import PartFiles
from murmuration.simulation.scenarios import scenario as sc

Columns = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class AutoscaleOutcome:
    """One run: its summary (times under `timing`) and its time series."""

    summary: Summary
    series: Columns


@dataclass(frozen=True)
class AutoscaleSpec:
    """One run to be made: its scenario, and the same as it was written, for the record."""

    scenario: AutoscaleScenario
    tables: Tables
    #: The file or preset, to be named when something is wrong.
    source: str
    folder: str | None = None
    #: Whether every request and every node is written to the folder.
    detail: bool = False

    @property
    def label(self) -> str:
        return self.scenario.autoscaler.kind


def read_specs(
    name: str, changes: Tables, kinds: Sequence[str] | None, replicas: int = 1
) -> list[AutoscaleSpec]:
    """Read a preset or a TOML file, with keys overridden: a run for each kind of scaler (or one of
    the scenario's own) and seed, counted upwards. The files it names are read too, before anything
    is written."""
    if not 1 <= replicas <= REPLICAS_MAX:
        raise InputError(f"--replicas: expected a number from 1 to {REPLICAS_MAX}, got {replicas}")
    tables = sc.override(sc.load(name), changes)
    base = check(tables, name)
    workload(base, name)
    type_schedule(base.autoscaler, name)
    chosen = [base.autoscaler.kind] if kinds is None else list(dict.fromkeys(kinds))
    for kind in chosen:
        if kind not in KINDS:
            raise unknown("autoscaler", kind, KINDS)
    return [
        _spec(tables, name, {"autoscaler.kind": kind, "seed": base.seed + k})
        for kind in chosen
        for k in range(replicas)
    ]


def _spec(tables: Tables, name: str, changes: Tables) -> AutoscaleSpec:
    own = sc.override(tables, changes)
    return AutoscaleSpec(check(own, name), own, name)


def assign_folders(specs: Sequence[AutoscaleSpec], root: Path) -> list[AutoscaleSpec]:
    """A single run has the folder, several have one each below it."""
    if len(specs) == 1:
        return [replace(specs[0], folder=str(root))]
    names = [f"{spec.label}-seed{spec.scenario.seed}" for spec in specs]
    return [replace(spec, folder=str(root / n)) for spec, n in zip(specs, names, strict=True)]


def execute(spec: AutoscaleSpec, progress: Callable[[float], None] = lambda share: None) -> Summary:
    """Run one scenario; write its results if it has a folder."""
    outcome = compute(spec, progress)
    if spec.folder is not None:
        write(Path(spec.folder), spec, outcome)
    return outcome.summary


def compute(
    spec: AutoscaleSpec, progress: Callable[[float], None] = lambda share: None
) -> AutoscaleOutcome:
    """Run one scenario without writing anything."""
    wall, cpu = time.perf_counter(), time.process_time()
    run = build.prepare(spec.scenario, spec.source)
    parts = _record_detail(spec, run)
    build.finish(run, progress)
    if parts is not None:
        parts.join()
    summary = results.summary(run)
    timing = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    return AutoscaleOutcome({**summary, "timing": timing}, results.series(run))


def _record_detail(spec: AutoscaleSpec, run: build.AutoscaleRun) -> PartFiles | None:
    """Let the requests and nodes of a run be written to its folder, if that is wanted."""
    if not spec.detail:
        return None
    assert spec.folder is not None, "what is recorded has a folder to go to"
    parts = PartFiles(files.ready_folder(Path(spec.folder)), FILES)
    parts.clear()
    build.record(run, parts.write)
    return parts


def write(folder: Path, spec: AutoscaleSpec, outcome: AutoscaleOutcome) -> None:
    """The results in a folder; times apart, so that the other files are the same for the same
    seed, and the summary last: it says that the folder is complete."""
    files.ready_folder(folder)
    (folder / snapshots.SUMMARY).unlink(missing_ok=True)
    files.write_json(folder / snapshots.SCENARIO, {"label": spec.label, "tables": spec.tables})
    files.write_table(folder / snapshots.SERIES, dict(outcome.series))
    files.write_json(folder / snapshots.TIMING, outcome.summary["timing"])
    plain = {key: value for key, value in outcome.summary.items() if key != "timing"}
    files.write_json(folder / snapshots.SUMMARY, plain)


def read_stored(spec: AutoscaleSpec) -> Summary | None:
    """The summary of a run that is in its folder already, if it is of the same scenario."""
    folder = None if spec.folder is None else Path(spec.folder)
    if folder is None or not (folder / snapshots.SUMMARY).exists():
        return None
    if spec.detail and not all((folder / name).exists() for name in FILES):
        return None
    if read_stored_tables(folder) != {"label": spec.label, "tables": dict(spec.tables)}:
        return None
    summary: Summary = files.read_json(folder / snapshots.SUMMARY)
    return {**summary, "timing": files.read_json(folder / snapshots.TIMING)}


def compile_kernels() -> None:
    """Call every kernel of auto-scaling once, on a few nodes for a few seconds."""
    tables = {
        "seconds": 30,
        "autoscaler": {"cycle_s": 5, "window_s": 5, "type": [{"name": "a", "capacity": 1}]},
        "requests": {"rate": [[0, 2], [10, 8]]},
    }
    compute(AutoscaleSpec(check(tables, "compile"), tables, "compile"))


def _summary_of(outcome: AutoscaleOutcome) -> Summary:
    return outcome.summary


def _kernels_of(spec: AutoscaleSpec) -> str:
    return "autoscale"


AUTOSCALING = RunKind(execute, compute, _summary_of, write, read_stored, _kernels_of)
