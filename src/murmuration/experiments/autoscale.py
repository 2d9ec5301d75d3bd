"""Auto-scaling runs: one scaler or several on the same requests.

What is drawn of them is in `experiments/pages/autoscale.py`, so that a worker that only runs loads
no charts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.base.errors import unknown
from murmuration.base.files import ready_folder
from murmuration.simulation.autoscale import build, results
from murmuration.simulation.autoscale.scenario import (
    AutoscaleScenario,
    check,
    type_schedule,
    workload,
)
from murmuration.simulation.autoscale.world import KINDS
from murmuration.simulation.scenarios import scenario as sc

Columns = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class AutoscaleOutcome:
    """One run: its summary (times under `timing`) and its time series."""

    summary: dict[str, Any]
    series: Columns


@dataclass(frozen=True)
class AutoscaleSpec:
    """One run to be made: its scenario, and the same as it was written, for the record."""

    scenario: AutoscaleScenario
    tables: Mapping[str, Any]
    #: The file or preset, to be named when something is wrong.
    source: str


def read_specs(
    name: str, changes: Mapping[str, Any], kinds: Sequence[str] | None
) -> list[AutoscaleSpec]:
    """Read a preset or a TOML file, with keys overridden: one run for each kind of scaler, or one
    of the scenario's own. The files it names are read too, before anything is written."""
    tables = sc.override(sc.load(name), changes)
    base = check(tables, name)
    workload(base, name)
    type_schedule(base.autoscaler, name)
    chosen = [base.autoscaler.kind] if kinds is None else list(dict.fromkeys(kinds))
    for kind in chosen:
        if kind not in KINDS:
            raise unknown("autoscaler", kind, KINDS)
    each = [sc.override(tables, {"autoscaler.kind": kind}) for kind in chosen]
    return [AutoscaleSpec(check(own, name), own, name) for own in each]


def execute(
    spec: AutoscaleSpec,
    folder: Path | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> AutoscaleOutcome:
    """Run one scenario; write its results if it has a folder."""
    wall, cpu = time.perf_counter(), time.process_time()
    run = build.finish(build.prepare(spec.scenario, spec.source), progress)
    summary = results.summary(run)
    timing = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    if folder is not None:
        results.write(folder, run, spec.tables, summary, timing)
    return AutoscaleOutcome({**summary, "timing": timing}, results.series(run))


def execute_all(
    specs: Sequence[AutoscaleSpec],
    folder: Path | None,
    watch: Callable[[str], AbstractContextManager[Callable[[float], None]]],
) -> list[AutoscaleOutcome]:
    """Run them one after the other, each in a folder of its own if there are several. `watch`
    shows the progress of the one that is named."""
    outcomes = []
    for spec in specs:
        kind = spec.scenario.autoscaler.kind
        place = ready_folder(folder / kind) if folder is not None and len(specs) > 1 else folder
        with watch(kind) as update:
            outcomes.append(execute(spec, place, update))
    return outcomes
