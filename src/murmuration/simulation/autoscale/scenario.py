"""Scenarios of `murmur autoscale`: who scales, what arrives, what fails. Checked on load like every
other scenario."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from murmuration.autoscaling.depas import FORMULAS
from murmuration.autoscaling.types import RULES, NodeType, Rule, offers
from murmuration.autoscaling.views import DEGREE_MAX
from murmuration.base.errors import InputError, did_you_mean, unknown
from murmuration.base.loading import is_module_path, load_object
from murmuration.base.settings import check_number as number
from murmuration.simulation.autoscale.world import ESTIMATES, KINDS
from murmuration.simulation.scenarios.scenario import ScenarioTable, convert
from murmuration.workload import rates

NODES_MAX = 200_000
SECONDS_MAX = 366 * 86_400.0
CHOICES = {
    "autoscaler.kind": KINDS,
    "autoscaler.formula": FORMULAS,
    "autoscaler.estimate": ESTIMATES,
    "requests.execution": ("exponential", "constant"),
    "requests.gaps": ("refuse", "hold"),
}


class Overlay(ScenarioTable, frozen=True):
    """The gossip: links per node, seconds per round, links swapped and neighbours probed in one,
    averaging's epochs."""

    degree: int = 50
    cycle_s: float = 0.5
    exchange: int = 5
    probes: int = 10
    epoch_s: float = 5.0


class Type(ScenarioTable, frozen=True):
    """A kind of node: requests in parallel, price per hour, how many there are at the start, when
    it can be added."""

    name: str
    capacity: int
    price: float = 1.0
    initial: int = 0
    from_s: float = 0.0
    until_s: float | None = None


class Autoscaler(ScenarioTable, frozen=True):
    """Who decides how many nodes there are."""

    kind: str = "depas"
    target_load: float = 0.7
    band: float = 0.1
    cycle_s: float = 60.0
    window_s: int = 60
    start_s: float = 0.0
    formula: str = "heterogeneous"
    estimate: str = "neighbourhood"
    choose: str = "cheapest"
    nodes_min: int = 1
    nodes_max: int = 20_000
    stabilise_s: float = 300.0
    overlay: Overlay = Overlay()
    type: list[Type] = msgspec.field(default_factory=list)


class Requests(ScenarioTable, frozen=True):
    """What arrives and how it is balanced. `rate` is one number, or a list of [second, rate]."""

    trace: str | None = None
    rate: float | list[tuple[float, float]] | None = None
    multiply: float = 1.0
    peak: float | None = None
    gaps: str = "refuse"
    count_s: float | None = None
    execution: str = "exponential"
    execution_s: float = 1.0
    queue_max: float = 2.0
    hops_max: int = 8
    entry_min: int = 50
    entry_share: float = 0.2
    entry_s: float = 120.0


class Faults(ScenarioTable, frozen=True):
    """What goes wrong: the share of messages lost, and the share of nodes that crash at one
    moment."""

    loss: float = 0.0
    crash_s: float | None = None
    crash_share: float = 0.0


class AutoscaleScenario(ScenarioTable, frozen=True):
    """A whole run; `seconds` None is to the end of the workload."""

    name: str = "scenario"
    description: str = ""
    seed: int = 1
    seconds: float | None = None
    sample_s: int | None = None
    autoscaler: Autoscaler = Autoscaler()
    requests: Requests = Requests()
    faults: Faults = Faults()


def check(tables: Mapping[str, Any], source: str = "scenario") -> AutoscaleScenario:
    """The scenario these tables describe, or one sentence about the first thing wrong with them."""
    if "autoscaler" not in tables:
        raise InputError(
            f"{source}: expected a table [autoscaler]; without it this is a scenario for murmur "
            "simulate"
        )
    scenario = convert(tables, AutoscaleScenario, source)
    for problem in _problems(scenario):
        raise InputError(f"{source}: {problem}")
    return scenario


def _problems(scenario: AutoscaleScenario) -> Iterator[str]:
    yield from number("seed", scenario.seed, low=0.0, high=2.0**63)
    if scenario.seconds is not None:
        yield from number("seconds", scenario.seconds, above=0.0, high=SECONDS_MAX)
    if scenario.sample_s is not None:
        yield from number("sample_s", scenario.sample_s, low=1, high=86_400)
    for key, known in CHOICES.items():
        table, field = key.split(".")
        value = getattr(getattr(scenario, table), field)
        if value not in known:
            yield f"{key}: unknown value {value!r}; {did_you_mean(value, known)}"
    yield from _autoscaler(scenario.autoscaler)
    yield from _overlay(scenario.autoscaler.overlay)
    yield from _types(scenario.autoscaler)
    yield from _requests(scenario.requests)
    yield from _faults(scenario.faults)


def _autoscaler(scaler: Autoscaler) -> Iterator[str]:
    yield from number("autoscaler.target_load", scaler.target_load, above=0.0, high=1.0)
    yield from number("autoscaler.band", scaler.band, above=0.0, high=1.0)
    low, high = scaler.target_load - scaler.band, scaler.target_load + scaler.band
    if low <= 0.0 or high > 1.0:
        yield (
            f"autoscaler.band: expected target_load ± band between 0 and 1, got {low:g} to "
            f"{high:g} "
            f"(target_load {scaler.target_load:g}, band {scaler.band:g})"
        )
    yield from number("autoscaler.cycle_s", scaler.cycle_s, low=0.1, high=86_400)
    yield from number("autoscaler.window_s", scaler.window_s, low=1, high=3600)
    yield from number("autoscaler.start_s", scaler.start_s, low=0.0, high=86_400)
    yield from number("autoscaler.stabilise_s", scaler.stabilise_s, low=0.0, high=86_400)
    yield from number("autoscaler.nodes_max", scaler.nodes_max, low=1, high=NODES_MAX)
    yield from number("autoscaler.nodes_min", scaler.nodes_min, low=1, high=NODES_MAX)
    if scaler.nodes_min > scaler.nodes_max:
        yield (
            f"autoscaler.nodes_min: expected at most nodes_max ({scaler.nodes_max}), got "
            f"{scaler.nodes_min}"
        )


def _overlay(overlay: Overlay) -> Iterator[str]:
    yield from number("autoscaler.overlay.degree", overlay.degree, low=1, high=DEGREE_MAX)
    yield from number("autoscaler.overlay.cycle_s", overlay.cycle_s, low=0.01, high=3600)
    yield from number(
        "autoscaler.overlay.exchange", overlay.exchange, low=1, high=min(overlay.degree, 63)
    )
    yield from number("autoscaler.overlay.probes", overlay.probes, low=0, high=overlay.degree)
    yield from number("autoscaler.overlay.epoch_s", overlay.epoch_s, low=overlay.cycle_s, high=3600)


def _types(scaler: Autoscaler) -> Iterator[str]:
    if not scaler.type:
        yield (
            "autoscaler.type: expected at least one [[autoscaler.type]] with a name and a capacity"
        )
    names = [kind.name for kind in scaler.type]
    for index, kind in enumerate(scaler.type):
        key = f"autoscaler.type[{index}]"
        if kind.name in names[:index]:
            yield f"{key}.name: {kind.name!r} is there twice"
        yield from number(f"{key}.capacity", kind.capacity, low=1, high=10_000)
        yield from number(f"{key}.price", kind.price, low=0.0)
        yield from number(f"{key}.initial", kind.initial, low=0, high=scaler.nodes_max)
        yield from number(f"{key}.from_s", kind.from_s, low=0.0)
        if kind.until_s is not None:
            yield from number(f"{key}.until_s", kind.until_s, above=kind.from_s)
    if sum(kind.initial for kind in scaler.type) > scaler.nodes_max:
        yield f"autoscaler.type: expected at most nodes_max ({scaler.nodes_max}) initial nodes"


def _requests(requests: Requests) -> Iterator[str]:
    if (requests.trace is None) == (requests.rate is None):
        yield "requests: expected one of rate and trace"
    if isinstance(requests.rate, list):
        yield from _steps(requests.rate)
    elif requests.rate is not None:
        yield from number("requests.rate", requests.rate, above=0.0, high=1e6)
    yield from number("requests.multiply", requests.multiply, above=0.0)
    if requests.peak is not None:
        yield from number("requests.peak", requests.peak, above=0.0, high=1e6)
    if requests.count_s is not None:
        yield from number("requests.count_s", requests.count_s, above=0.0)
    yield from number("requests.execution_s", requests.execution_s, above=0.0, high=86_400)
    yield from number("requests.queue_max", requests.queue_max, low=0.0)
    yield from number("requests.hops_max", requests.hops_max, low=0, high=10_000)
    yield from number("requests.entry_min", requests.entry_min, low=1)
    yield from number("requests.entry_share", requests.entry_share, low=0.0, high=1.0)
    yield from number("requests.entry_s", requests.entry_s, above=0.0)


def _steps(steps: list[tuple[float, float]]) -> Iterator[str]:
    if not steps or steps[0][0] != 0.0:
        yield "requests.rate: expected a first step at second 0, such as [[0, 70], [200, 300]]"
    for index, (time_s, rate) in enumerate(steps):
        yield from number(f"requests.rate[{index}][1]", rate, low=0.0, high=1e6)
        if index and not time_s > steps[index - 1][0]:
            yield (
                f"requests.rate[{index}][0]: expected times that rise, got {time_s:g} after "
                f"{steps[index - 1][0]:g}"
            )


def _faults(faults: Faults) -> Iterator[str]:
    yield from number("faults.loss", faults.loss, low=0.0, high=0.99)
    yield from number("faults.crash_share", faults.crash_share, low=0.0, high=0.99)
    if faults.crash_s is not None:
        yield from number("faults.crash_s", faults.crash_s, low=0.0)
    if faults.crash_share > 0.0 and faults.crash_s is None:
        yield "faults.crash_s: expected the second of the crash beside faults.crash_share"


def node_types(scaler: Autoscaler) -> list[NodeType]:
    return [
        NodeType(
            kind.name,
            kind.capacity,
            kind.price,
            kind.from_s,
            math.inf if kind.until_s is None else kind.until_s,
        )
        for kind in scaler.type
    ]


def type_schedule(scaler: Autoscaler, source: str = "scenario") -> list[tuple[float, int]]:
    """From when on which type is added, by the scenario's rule."""
    try:
        return offers(node_types(scaler), _rule(scaler.choose))
    except LookupError as error:
        raise InputError(f"{source}: autoscaler.type: {error.args[0]}") from error


def _rule(name: str) -> Rule:
    """A rule by name, or the user's own as module:function."""
    if name in RULES:
        return RULES[name]
    if not is_module_path(name):
        raise unknown("autoscaler.choose", name, [*RULES, "module:function"])
    rule: Rule = load_object(name, f"autoscaler.choose: {name!r}")
    return rule


def workload(scenario: AutoscaleScenario, source: str = "scenario") -> rates.Rates:
    """The rate of requests over time, to the end of the run."""
    requests = scenario.requests
    if requests.trace is not None:
        curve = rates.read(requests.trace, requests.gaps == "hold", requests.count_s)
    elif isinstance(requests.rate, list):
        curve = rates.steps(requests.rate, scenario.seconds or requests.rate[-1][0] + 60.0)
    else:
        curve = rates.constant(float(requests.rate or 0.0), scenario.seconds or 3600.0)
    highest = float(curve.rate.max())
    if highest <= 0.0:
        raise InputError(f"{requests.trace or source}: expected a rate above 0 at some time")
    factor = requests.multiply if requests.peak is None else requests.peak / highest
    if highest * factor > 1e6:
        raise InputError(
            f"{requests.trace or source}: expected at most 1e6 requests/s, got {highest * factor:g}"
        )
    return curve.scaled(factor)
