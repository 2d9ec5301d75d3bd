"""Which runs to make of a scenario: as it is, its variants, a grid of values, several seeds.

A scenario is overridden as tables, because that is what dotted keys such as `scheduler.conflict`
name; the result is checked once, here, and travels from here on as a `Scenario`. The tables stay
beside it as the record of what was asked for: they are written to `scenario.json` as they are, and
`--resume` compares them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from murmuration.base.errors import InputError, did_you_mean
from murmuration.placement.registry import NAMES, is_user_defined
from murmuration.simulation.architectures.table import kinds
from murmuration.simulation.scenarios import scenario as sc

#: The tables of a scenario, or overrides by dotted key.
Tables = Mapping[str, Any]
REPLICAS_MAX = 1000
#: Architectures that are asked for by name, because they search: on 10,000 nodes minutes a day.
SLOW = ("swarm", "genetic")


@dataclass(frozen=True)
class Spec:
    """One run to be made. Without a folder only its summary is wanted."""

    label: str
    scenario: sc.Scenario
    #: The same scenario as it was written, for the record.
    tables: Tables
    folder: str | None = None
    #: What a sweep varied, by key.
    vary: Tables | None = None
    #: Whether every task and every attempt is written to the folder.
    detail: bool = False


@dataclass(frozen=True)
class Study:
    """A scenario as it was read: the run it describes, and its named variants."""

    #: The file or preset, to be named when something is wrong with a variant of it.
    source: str
    base: Spec
    variants: Mapping[str, Tables]

    @property
    def name(self) -> str:
        return self.base.scenario.name


def read_study(name: str, changes: Tables) -> Study:
    """Read a preset, a TOML file, a trace, an export or the log of a live cluster, with keys
    overridden."""
    from murmuration.experiments.execution.live_import import import_log, is_live_log

    path = Path(name)
    tables = import_log(path) if is_live_log(path) else sc.load(name)
    if "workload.arrivals" in changes and not _has_trace(tables, changes):
        raise InputError(
            f"{name}: workload.arrivals: expected a scenario with a trace; this one draws its jobs "
            "from the seed already"
        )
    return make_study(sc.override(tables, changes), name)


def _has_trace(tables: Tables, changes: Tables) -> bool:
    return "workload.trace" in changes or "trace" in tables.get("workload", {})


def make_study(tables: Tables, source: str = "scenario") -> Study:
    """A study of a scenario given as tables."""
    checked = sc.check(tables, source)
    if "days" not in tables and sc.is_replay(checked.workload):
        from murmuration.simulation.scenarios.inputs import trace_days

        # A trace runs to its end. The number is part of the record, as if it had been written.
        tables = {**tables, "days": trace_days(checked)}
        checked = sc.check(tables, source)
    scenario = msgspec.structs.replace(checked, variant={})
    plain = {key: value for key, value in tables.items() if key != "variant"}
    return Study(source, Spec(scenario.scheduler.kind, scenario, plain), sc.variants(tables))


def make_spec(
    label: str, tables: Tables, folder: str | None = None, source: str = "scenario"
) -> Spec:
    """One run of a scenario given as tables."""
    return Spec(label, sc.check(tables, source), tables, folder)


def change_spec(spec: Spec, changes: Tables, label: str, source: str = "scenario") -> Spec:
    """The same run with keys overridden, under another label."""
    if not changes:
        return replace(spec, label=label)
    return make_spec(label, sc.override(spec.tables, changes), source=source)


def variant_specs(study: Study, names: Sequence[str]) -> list[Spec]:
    """One run for each named scheduler: a variant of the scenario, an architecture, or the user's
    own by module path.

    Without names: the scenario as it is and all its variants, or every architecture that takes
    seconds (`quick_kinds`) if it has none.
    """
    base, variants = study.base, study.variants
    chosen = list(dict.fromkeys(names)) or list(variants) or quick_kinds()
    changes = {name: _changes(name, variants) for name in chosen}
    specs = [change_spec(base, changes[name], name, study.source) for name in chosen]
    if not names and variants and all(spec.tables != base.tables for spec in specs):
        specs.insert(0, base)
    return specs


def quick_kinds() -> list[str]:
    """The architectures that simulate a large cluster in seconds."""
    return [kind for kind in kinds() if kind not in SLOW]


def _changes(name: str, variants: Mapping[str, Tables]) -> Tables:
    if name in variants:
        return variants[name]
    if name in kinds() or is_user_defined(name):
        return {"scheduler.kind": name}
    if name in NAMES:
        raise InputError(
            f"{name} is a placement, not a scheduler; say --set scheduler.placement={name}"
        )
    known = list(dict.fromkeys([*variants, *kinds()]))
    raise InputError(f"unknown scheduler {name!r}; {did_you_mean(name, known)} (or module:Class)")


def grid_specs(study: Study, axes: Mapping[str, Sequence[Any]]) -> list[Spec]:
    """One run for each combination of values, labelled by the last part of each key unless two are
    the same."""
    last = [key.rsplit(".", 1)[-1] for key in axes]
    names = last if len(set(last)) == len(last) else list(axes)
    specs = []
    for values in itertools.product(*axes.values()):
        changes = dict(zip(axes, values, strict=True))
        label = ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))
        spec = change_spec(study.base, changes, label or study.name, study.source)
        specs.append(replace(spec, vary=changes))
    return specs


def replicate_seeds(specs: Sequence[Spec], replicas: int) -> list[Spec]:
    """Each run with as many seeds, counted upwards from its own."""
    if not 1 <= replicas <= REPLICAS_MAX:
        raise InputError(f"--replicas: expected a number from 1 to {REPLICAS_MAX}, got {replicas}")
    return [_with_seed(spec, spec.scenario.seed + k) for spec in specs for k in range(replicas)]


def _with_seed(spec: Spec, seed: int) -> Spec:
    changed = change_spec(spec, {"seed": seed}, spec.label, spec.scenario.name)
    return replace(changed, folder=spec.folder, vary=spec.vary)


def assign_folders(specs: Sequence[Spec], root: Path, detail: bool = False) -> list[Spec]:
    """Give each run a folder of its own below `root`, named by its label and seed; with `detail`
    every task and attempt is written to it."""
    placed: list[Spec] = []
    used: set[str] = set()
    for spec in specs:
        safe = "".join(c if c.isalnum() or c in "-_.=" else "_" for c in spec.label).strip(".")
        name = f"{safe or 'run'}-seed{spec.scenario.seed}"
        if name in used:
            name = f"{name}-{len(used)}"
        used.add(name)
        placed.append(replace(spec, folder=str(root / name), detail=detail))
    return placed
