"""Scenarios: what to run, as TOML that is checked on load. Presets are scenarios that come with the
package."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_type_hints

import msgspec

from murmuration.base.errors import InputError, did_you_mean, unknown
from murmuration.base.loading import look_beside
from murmuration.base.words import plain_types
from murmuration.schedulers.queues.discipline import AdvanceReservation, QueueSettings
from murmuration.simulation.architectures.table import DEFAULT_KIND, settings_tables

Quantity = str | int | float
#: Tables of a scenario as they were read, and as they are given to be looked at.
Tables = dict[str, Any]
GivenTables = Mapping[str, Any]
T = TypeVar("T")
PRESETS = Path(__file__).parent / "presets"
#: Files that a preset names lie in the folder this variable names, or in the current one.
DATA_FOLDER = "MURMUR_DATA"
#: Keys that name a file of jobs or nodes, and what else of their table goes with one.
TRACES = {
    "workload.trace": (
        "arrivals",
        "arrivals_from_s",
        "by_class",
        "copies",
        "full_cpu",
        "full_memory",
        "initial",
        "multiply",
        "runs",
        "strict",
        "used",
    ),
    "cluster.trace": ("prefill", "keep"),
}

#: The one key of `[workload]` that goes with a trace as well as with generators.
MULTIPLY = "multiply"


class ScenarioTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a scenario."""


Root = TypeVar("Root", bound=ScenarioTable)


class Group(ScenarioTable, frozen=True):
    """Nodes that are alike; all of them join at `join_s` and leave at `leave_s`, if they do."""

    count: int
    cpu: Quantity
    memory: Quantity
    resources: dict[str, Quantity] = {}
    attributes: dict[str, str | float] = {}
    join_s: float = 0.0
    leave_s: float | None = None


class FailureSettings(ScenarioTable, frozen=True):
    """Nodes fail after `mtbf_h` hours on average and are repaired after `repair_h`, each with
    Weibull's distribution of this shape; 1 is the exponential one."""

    mtbf_h: float
    repair_h: float
    shape: float = 1.0
    repair_shape: float = 1.0


class CostSettings(ScenarioTable, frozen=True):
    """What nodes cost and draw, where their attributes of these names do not say: an hour of a
    node, its watts idle and at full load (by its size if not given), and a kWh. With `power_off` a
    node without tasks draws nothing."""

    price_per_h: float | None = None
    idle_watts: float | None = None
    peak_watts: float | None = None
    price_per_kwh: float = 0.0
    power_off: bool = False


class ClusterSettings(ScenarioTable, frozen=True):
    """The nodes: alike, in groups (one after the other, or `mixed` evenly), or from a file; what
    happens to them is in the file `events`. Of all of them this share is kept, drawn so that fewer
    nodes are always some of the more."""

    nodes: int | None = None
    cpu: Quantity = 4.0
    memory: Quantity = "16G"
    resources: dict[str, Quantity] = {}
    attributes: dict[str, str | float] = {}
    group: list[Group] = []
    trace: str | None = None
    events: str | None = None
    prefill: float = 0.0
    mixed: bool = False
    keep: float = 1.0
    failures: FailureSettings | None = None
    costs: CostSettings | None = None


class UsageSettings(ScenarioTable, frozen=True):
    """What tasks use of their requests: mean shares, how much tasks differ (`spread`), how much
    each wanders (`noise`, every `step_s`), and how often it `spikes` per hour to `spike` times its
    usual share."""

    cpu: float = 1.0
    memory: float = 1.0
    spread: float = 0.0
    noise: float = 0.0
    spikes_per_hour: float = 0.0
    spike: float = 2.0
    daily: float = 0.0
    step_s: float = 300.0


class Generator(ScenarioTable, frozen=True):
    """One workload drawn from distributions; `empirical` names a trace to draw gaps, tasks,
    durations, sizes from. `initial` tasks are there at time 0; `spread` is how much the sizes of
    jobs differ (0: not at all)."""

    arrivals_per_s: float = 0.0
    tasks_per_job: float = 1.0
    task_duration_s: float = 1.0
    task_cpu: Quantity = 1.0
    task_memory: Quantity = 0
    resources: dict[str, Quantity] = {}
    picky: float = 0.0
    priority: int = 0
    gang: bool = False
    production: bool = False
    constraints: list[str] = []
    empirical: str | None = None
    initial: int = 0
    spread: float = 0.0
    usage: UsageSettings | None = None


class DecisionTime(ScenarioTable, frozen=True):
    """Time of one attempt = job_time_s + task_time_s × tasks left."""

    job_time_s: float = 0.1
    task_time_s: float = 0.005


class PolicySettings(ScenarioTable, frozen=True):
    """Checked when a workload's transaction commits: its quota, and the share of the cluster it
    must leave free. What is not set is not checked."""

    quota: float | None = None
    headroom: float | None = None


class SchedulerSettings(ScenarioTable, frozen=True):
    """Who decides, how, and how long it takes."""

    kind: str = DEFAULT_KIND
    placement: str = "first-fit"
    #: A queue discipline: jobs start whole, in its order; empty: each is tried as it comes.
    queue: str = ""
    queue_settings: QueueSettings = QueueSettings()
    #: Room that is kept for some users, or nobody, for a while.
    reservation: list[AdvanceReservation] = []
    conflict: Literal["resource", "machine"] = "resource"
    transaction: Literal["incremental", "all-or-nothing"] = "incremental"
    paths: Literal["single", "multi"] = "multi"
    agents: dict[str, int] = {}
    retry_s: float = 0.0
    unplaced: Literal["next", "back-off"] = "next"
    retry_max_s: float = 60.0
    usage_s: float = 60.0
    reclaim: bool = False
    attempts_max: int = 0
    empty_attempts_max: int = 0
    decision: dict[str, DecisionTime] = {}
    partition: dict[str, float] = {}
    policy: dict[str, PolicySettings] = {}
    #: The tables of architectures that the scenario gives, by their key below `scheduler`.
    settings: Tables = {}

    def settings_of(self, struct: type[T]) -> T:
        """The settings of an architecture: as the scenario gives them, or the defaults."""
        given = [each for each in self.settings.values() if isinstance(each, struct)]
        return given[0] if given else struct()


class Scenario(ScenarioTable, frozen=True):
    """A whole run. `workload` maps names to generators (and `multiply` beside them), or holds the
    reserved keys of `ReplaySettings`."""

    name: str = "scenario"
    description: str = ""
    #: Files that a preset reads and the package does not have, and where to put them.
    needs: str = ""
    seed: int = 1
    days: float = 1.0
    cluster: ClusterSettings = ClusterSettings()
    workload: Tables = {}
    scheduler: SchedulerSettings = SchedulerSettings()
    variant: dict[str, Tables] = {}


class ReplaySettings(ScenarioTable, frozen=True):
    """The `[workload]` table when it names a job list instead of generators. `usage` is a file of
    what the jobs use, `initial` keeps the jobs that were there before a trace began, `strict` stops
    at the first row that makes no sense. The run begins `start_s` into the trace."""

    trace: str
    start_s: float = 0.0
    #: Jobs as they were recorded, or drawn from them: other jobs with every seed.
    arrivals: Literal["recorded", "bootstrap"] = "recorded"
    #: The jobs of time 0, and then those submitted from here on.
    arrivals_from_s: float = 0.0
    #: Google's jobs by scheduling class, and what its largest node has.
    by_class: bool = False
    full_cpu: float = 32.0
    full_memory: Quantity = "128Gi"
    #: How often a job that arrives runs, one run after the other.
    runs: float = 1.0
    #: The shares of the cluster that the jobs use on average.
    used: dict[str, float] = {}
    #: Whether `multiply` copies jobs, or gives each job more tasks.
    copies: Literal["jobs", "tasks"] = "jobs"
    usage: str | None = None
    multiply: float = 1.0
    initial: bool = False
    strict: bool = False


def preset_names() -> list[str]:
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def load(name: str) -> Tables:
    """The raw tables of a preset or a TOML file; paths in it are relative to the file."""
    path = Path(name)
    if path.suffix == ".toml" or (path.is_file() and not path.suffix):
        look_beside(path)
        return _read(path)
    if path.exists() and name not in preset_names():
        return _describe_export(path)
    if name in preset_names():
        return _read(PRESETS / f"{name}.toml", Path(os.environ.get(DATA_FOLDER, "")))
    if path.suffix or len(path.parts) > 1:
        raise InputError(f"{name}: no such file; presets are {', '.join(preset_names())}")
    raise InputError(f"{unknown('preset', name, preset_names())} (a scenario file ends in .toml)")


def _describe_export(path: Path) -> dict[str, object]:
    """A trace or an export of a cluster as a scenario of its own: its jobs on its nodes, if it has
    nodes."""
    from murmuration.workload.detect import open_trace

    trace = open_trace(path)
    if trace.jobs is None:
        raise InputError(
            f"{path}: {trace.kind}: expected jobs to simulate, found none; a scenario file ends in "
            ".toml"
        )
    tables: dict[str, object] = {"name": path.name.partition(".")[0] or "cluster"}
    if trace.nodes is not None:
        tables["cluster"] = {"trace": str(path)}
    return {**tables, "workload": {"trace": str(path)}}


def _read(path: Path, folder: Path | None = None) -> Tables:
    """The tables of a file; what it names is relative to a folder, by default its own."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected a TOML file, got something that is not text") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: expected TOML: {error}") from error
    tables.setdefault("name", path.stem)
    _anchor(tables, path.parent if folder is None else folder)
    return tables


def _anchor(tables: Tables, folder: Path) -> None:
    """Make the paths of files named in a scenario independent of the current folder."""
    for key in ("cluster", "workload", "requests"):
        table = tables.get(key)
        for file in ("trace", "events", "usage"):
            if isinstance(table, dict) and isinstance(table.get(file), str):
                table[file] = str(folder / table[file])
    for table in (
        tables.get("workload", {}).values() if isinstance(tables.get("workload"), dict) else ()
    ):
        if isinstance(table, dict) and isinstance(table.get("empirical"), str):
            table["empirical"] = str(folder / table["empirical"])


def override(tables: GivenTables, changes: GivenTables) -> Tables:
    """A copy with dotted keys set, such as `scheduler.conflict`. A trace takes the place of what it
    stands for."""
    copy: Tables = deepcopy(dict(tables))
    for dotted, value in changes.items():
        _make_way(copy, dotted)
        *path, last = dotted.split(".")
        table = copy
        for step in path:
            table = table.setdefault(step, {})
            if not isinstance(table, dict):
                raise InputError(f"{dotted}: {step!r} is a value, not a table")
        table[last] = value
    return copy


def _make_way(tables: Tables, dotted: str) -> None:
    """Drop what a trace that is about to be named stands for."""
    name = dotted.split(".")[0]
    if dotted in TRACES and isinstance(tables.get(name), dict):
        tables[name] = {key: tables[name][key] for key in TRACES[dotted] if key in tables[name]}


def check(tables: GivenTables, source: str = "scenario") -> Scenario:
    """The scenario these tables describe, or one sentence about the first thing wrong with them."""
    if "autoscaler" in tables:
        raise InputError(f"{source}: a scenario with [autoscaler] is run by murmur autoscale")
    common, given = _split_settings(tables)
    scenario = convert(common, Scenario, source)
    settings = {name: _settings(name, table, source) for name, table in given.items()}
    scheduler = msgspec.structs.replace(scenario.scheduler, settings=settings)
    scenario = msgspec.structs.replace(scenario, scheduler=scheduler)
    from murmuration.simulation.scenarios.checks import check_values

    check_values(scenario, source)
    return scenario


def _split_settings(tables: GivenTables) -> tuple[Tables, Tables]:
    """The tables without those of architectures below `scheduler`, and those."""
    scheduler = tables.get("scheduler")
    if not isinstance(scheduler, Mapping):
        return dict(tables), {}
    own = {name: table for name, table in scheduler.items() if name in settings_tables()}
    common = {name: table for name, table in scheduler.items() if name not in own}
    return {**tables, "scheduler": common}, own


def _settings(name: str, table: Any, source: str) -> Any:
    """The settings of an architecture from their table."""
    struct, key = settings_tables()[name].struct, f"scheduler.{name}"
    _check_keys(table, struct, source, f"{key}.")
    try:
        return _convert(table, struct, key)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error
    except OverflowError as error:
        raise InputError(f"{source}: expected numbers of at most 64 bits") from error


def convert(tables: GivenTables, kind: type[Root], source: str) -> Root:
    """Tables as one kind of scenario: keys known, values of the right type."""
    _check_keys(tables, kind, source, "")
    try:
        return msgspec.convert(tables, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{source}: {_readable(str(error))}") from error
    except OverflowError as error:
        raise InputError(f"{source}: expected numbers of at most 64 bits") from error


def _check_keys(table: Any, kind: type[msgspec.Struct], source: str, path: str) -> None:
    """Refuse unknown keys at any depth, with the nearest known one."""
    if not isinstance(table, Mapping):
        return
    hints = get_type_hints(kind)
    if kind is SchedulerSettings:
        del hints["settings"]
    for key, value in table.items():
        dotted = f"{path}{key}"
        if key not in hints:
            raise InputError(
                f"{source}: unknown key {dotted!r}; {did_you_mean(key, _list_keys(kind, hints))}"
            )
        _check_inner(value, hints[key], source, dotted)
    if kind is Scenario and isinstance(table.get("workload"), Mapping):
        _check_workload(table["workload"], source)


def _list_keys(kind: type[msgspec.Struct], hints: GivenTables) -> list[str]:
    """The keys a table may have; in `[scheduler]` also those of architectures."""
    return [*hints, *settings_tables()] if kind is SchedulerSettings else [*hints]


def _check_inner(value: Any, hint: Any, source: str, dotted: str) -> None:
    inner = [
        t for t in (hint, *get_args(hint)) if isinstance(t, type) and issubclass(t, msgspec.Struct)
    ]
    if not inner:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            _check_keys(item, inner[0], source, f"{dotted}[{index}].")
    elif isinstance(value, Mapping) and getattr(hint, "__origin__", None) is dict:
        for name, item in value.items():
            _check_keys(item, inner[0], source, f"{dotted}.{name}.")
    else:
        _check_keys(value, inner[0], source, f"{dotted}.")


def _check_workload(table: GivenTables, source: str) -> None:
    if is_replay(table):
        _check_keys(table, ReplaySettings, source, "workload.")
        return
    for name, item in table.items():
        if name == MULTIPLY and type(item) in (int, float):
            continue
        if name == MULTIPLY and not isinstance(item, Mapping):
            raise InputError(f"{source}: workload.multiply: expected a number, got {item!r}")
        if not isinstance(item, Mapping):
            raise InputError(
                f"{source}: workload.{name}: expected a table such as [workload.{name}], got "
                f"{item!r}"
            )
        _check_keys(item, Generator, source, f"workload.{name}.")


def is_replay(workload: GivenTables) -> bool:
    """Whether the workload is a file: then `trace` and the other reserved keys stand in
    `[workload]` itself."""
    given = {
        key
        for key in ReplaySettings.__struct_fields__
        if key in workload and not isinstance(workload[key], Mapping)
    }
    return bool(given - {MULTIPLY}) or (
        bool(given) and not any(isinstance(v, Mapping) for v in workload.values())
    )


def find_multiple(scenario: Scenario) -> float:
    """How many times over the workload is submitted."""
    factor = scenario.workload.get(MULTIPLY, 1.0)
    return 1.0 if isinstance(factor, Mapping) else float(factor)


def names_files(scenario: Scenario) -> bool:
    """Whether a scenario depends on files, which may change between two runs."""
    tables = [table for table in scenario.workload.values() if isinstance(table, Mapping)]
    cluster = scenario.cluster
    named = cluster.trace or cluster.events or any(t.get("empirical") for t in tables)
    return bool(named or is_replay(scenario.workload))


def generators(scenario: Scenario) -> dict[str, Generator]:
    """The named generators of a scenario."""
    tables = {
        name: table for name, table in scenario.workload.items() if isinstance(table, Mapping)
    }
    return {name: _convert(table, Generator, f"workload.{name}") for name, table in tables.items()}


def is_picky(scenario: Scenario) -> bool:
    """Whether some jobs cannot use a share of the nodes, drawn at random."""
    return not is_replay(scenario.workload) and any(
        g.picky > 0.0 for g in generators(scenario).values()
    )


def trace_start(scenario: Scenario) -> float:
    """How far into its trace a run begins; 0 with generators."""
    return replay(scenario).start_s if is_replay(scenario.workload) else 0.0


def replay(scenario: Scenario) -> ReplaySettings:
    """The job list a scenario names."""
    return _convert(scenario.workload, ReplaySettings, "workload")


def _convert(table: Any, kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise InputError(_readable(str(error), where)) from error


def _readable(message: str, where: str = "") -> str:
    """msgspec's `… - at `$.a.b`` as `a.b: …`, below the table that stands at `where`."""
    text, separator, path = message.rpartition(" - at `$")
    if not separator:
        text, path = message, ""
    text = plain_types(text)
    at = f"{where}{path.rstrip('`')}".lstrip(".")
    return f"{at}: {text[0].lower()}{text[1:]}" if at else text


def variants(tables: GivenTables) -> dict[str, Tables]:
    named = tables.get("variant", {})
    return dict(named) if isinstance(named, Mapping) else {}
