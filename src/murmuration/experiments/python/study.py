"""`simulate`, `compare` and `sweep` as functions: what the commands of these names do."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from murmuration.base.documents import Json
from murmuration.experiments.execution.warm import compile_all, missing_kernels
from murmuration.experiments.parallel import run_all
from murmuration.experiments.python.results import (
    Comparison,
    RunResult,
    StudyFolder,
    Sweep,
    require_names,
)
from murmuration.experiments.specs import (
    Spec,
    Study,
    Tables,
    assign_folders,
    grid_specs,
    make_study,
    replicate_seeds,
    variant_specs,
)
from murmuration.simulation.scenarios import scenario as sc

#: A variant of the scenario, an architecture, `module:Class`, or a class or score function itself.
Scheduler = str | Callable[..., object]
Scenario = str | Path | Tables


@dataclass(frozen=True)
class StudyOptions:
    """How a study from Python is run."""

    out: Path | str | None = None
    workers: int | None = None
    replicas: int = 1
    detail: bool = False


def simulate(
    scenario: Scenario,
    changes: Tables | None = None,
    scheduler: Scheduler | None = None,
    *,
    days: float | None = None,
    seed: int | None = None,
    out: Path | str | None = None,
    detail: bool = False,
) -> RunResult:
    """Run a preset, a TOML file or a scenario given as tables, with dotted keys changed.

    With `detail` every task is recorded: `run.jobs` has the nodes of each job, `run.tasks` has a
    row for each stay of a task on a node.
    """
    study = _read(scenario, changes, days, seed)
    spec = study.base if scheduler is None else _choose_specs(study, [scheduler])[0]
    folder = StudyFolder(out)
    spec = replace(spec, folder=str(folder.path / "run" if out is None else folder.path))
    return _run([spec], folder, StudyOptions(out, 1, detail=detail))[0]


def compare(
    scenario: Scenario,
    schedulers: Sequence[Scheduler] | Mapping[str, Tables] = (),
    changes: Tables | None = None,
    *,
    days: float | None = None,
    seed: int | None = None,
    replicas: int = 1,
    workers: int | None = None,
    out: Path | str | None = None,
    detail: bool = False,
) -> Comparison:
    """Run several schedulers on the same jobs.

    `schedulers` are variants, architectures, `module:Class`, classes or score functions; or a
    mapping of names to what each changes: `{"best fit": {"scheduler.placement": "best-fit"}}`.
    Without any: the scenario and its variants, or every architecture that takes seconds.
    """
    study, folder = _read(scenario, changes, days, seed), StudyFolder(out)
    specs = _choose_specs(study, schedulers) if schedulers else variant_specs(study, [])
    options = StudyOptions(out, workers, replicas, detail)
    return Comparison(study.name, _run_many(specs, folder, options), folder)


def sweep(
    scenario: Scenario,
    vary: Mapping[str, Sequence[object]],
    changes: Tables | None = None,
    *,
    scheduler: Scheduler | None = None,
    days: float | None = None,
    seed: int | None = None,
    replicas: int = 1,
    workers: int | None = None,
    out: Path | str | None = None,
) -> Sweep:
    """Run a scenario once for each combination of values: `{"cluster.nodes": [500, 1000]}`."""
    require_names(list(vary), "vary")
    study, folder = _read(scenario, changes, days, seed), StudyFolder(out)
    if scheduler is not None:
        study = replace(study, base=_choose_specs(study, [scheduler])[0])
    options = StudyOptions(out, workers, replicas)
    runs = _run_many(grid_specs(study, vary), folder, options)
    return Sweep(study.name, runs, folder, vary)


def _read(
    scenario: Scenario, changes: Tables | None, days: float | None, seed: int | None
) -> Study:
    given = {"days": days, "seed": seed}
    wanted = {**(changes or {}), **{key: v for key, v in given.items() if v is not None}}
    named = {key: _name_of(value) for key, value in wanted.items()}
    tables = scenario if isinstance(scenario, Mapping) else sc.load(str(scenario))
    source = "scenario" if isinstance(scenario, Mapping) else str(scenario)
    return make_study(sc.override(tables, named), source)


def _choose_specs(
    study: Study, schedulers: Sequence[Scheduler] | Mapping[str, Tables]
) -> list[Spec]:
    if isinstance(schedulers, Mapping):
        changes = {
            label: {key: _name_of(value) for key, value in table.items()}
            for label, table in schedulers.items()
        }
        return variant_specs(replace(study, variants=changes), list(changes))
    # An object goes by its own name, a text is looked up as after -s.
    objects = {_label(each): _name_of(each) for each in schedulers if not isinstance(each, str)}
    own = {label: {"scheduler.kind": name} for label, name in objects.items()}
    names = [each if isinstance(each, str) else _label(each) for each in schedulers]
    return variant_specs(replace(study, variants={**study.variants, **own}), names)


def _label(scheduler: Scheduler) -> str:
    return str(_name_of(scheduler)).rpartition(":")[2]


def _name_of(value: Json) -> Json:
    """A class or a function by the name under which it can be loaded again; anything else as it
    is."""
    # A compiled score is an object around the user's function.
    value = getattr(value, "function", value)
    name, module = getattr(value, "__qualname__", None), getattr(value, "__module__", None)
    return f"{module}:{name}" if callable(value) and name and module else value


def _run_many(specs: Sequence[Spec], folder: StudyFolder, options: StudyOptions) -> list[RunResult]:
    return _run(
        assign_folders(replicate_seeds(specs, options.replicas), folder.path), folder, options
    )


def _compile(specs: Sequence[Spec], workers: int) -> None:
    """Compile what the runs call and nobody has compiled before; say so, because it takes a
    while."""
    missing = missing_kernels(specs)
    if missing:
        print("compiling kernels, once after installation …", file=sys.stderr, flush=True)
        compile_all(missing, workers, lambda count: None)


def _run(specs: Sequence[Spec], folder: StudyFolder, options: StudyOptions) -> list[RunResult]:
    specs = [replace(spec, detail=options.detail) for spec in specs]
    workers = options.workers or len(os.sched_getaffinity(0))
    # What is defined in a notebook or a script is in this process alone.
    if any("__main__:" in repr(spec.tables.get("scheduler")) for spec in specs):
        workers = 1
    _compile(specs, workers)
    summaries = run_all(specs, workers)
    return [
        RunResult(spec, summary, folder) for spec, summary in zip(specs, summaries, strict=True)
    ]
