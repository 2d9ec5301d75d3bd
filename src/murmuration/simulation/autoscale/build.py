"""From a scenario to its world, and the world run to its end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from murmuration.autoscaling import depas, views
from murmuration.base import random
from murmuration.base.errors import InputError
from murmuration.simulation.autoscale import world as w
from murmuration.simulation.autoscale.detail import AutoscaleLog, make_logs
from murmuration.simulation.autoscale.loop import FINISHED, GROW, LOG_FULL, PAUSED, advance
from murmuration.simulation.autoscale.nodes import first_nodes
from murmuration.simulation.autoscale.scenario import (
    AutoscaleScenario,
    node_types,
    type_schedule,
    workload,
)
from murmuration.simulation.engine.world import EVENT
from murmuration.simulation.results.parts import Write
from murmuration.workload.rates import Rates

#: Requests there is room for at first; more is made when it is needed.
REQUESTS_FIRST = 1 << 14
REQUESTS_MAX = 1 << 27
#: A run has at most about this many samples unless the scenario says how many.
SAMPLES = 4000


@dataclass
class AutoscaleRun:
    """A scenario, what arrives in it, and its world."""

    scenario: AutoscaleScenario
    rates: Rates
    world: w.AutoscaleWorld
    #: Takes every request and node, if the run is recorded.
    log: AutoscaleLog | None = None

    @property
    def type_names(self) -> list[str]:
        return [kind.name for kind in self.scenario.autoscaler.type]

    @property
    def now_s(self) -> float:
        return float(self.world.state["now"][0])


def prepare(scenario: AutoscaleScenario, source: str = "scenario") -> AutoscaleRun:
    """The world at time 0: the first nodes are up and know each other."""
    rates = workload(scenario, source)
    horizon = scenario.seconds or rates.end_s
    schedule = type_schedule(scenario.autoscaler, source)
    initial = _initial(scenario, rates, schedule[0][1], source)
    world = _make_world(scenario, rates, schedule, horizon)
    _start(world, scenario, initial)
    return AutoscaleRun(scenario, rates, world)


def record(run: AutoscaleRun, write: Write) -> None:
    """Let every request and node of a run that has not begun be written."""
    requests, nodes = make_logs(len(run.world.requests), len(run.world.nodes))
    run.world = run.world._replace(request_log=requests, node_log=nodes)
    run.log = AutoscaleLog(run.type_names, write)


def finish(
    run: AutoscaleRun, progress: Callable[[float], None] = lambda share: None, pieces: int = 50
) -> AutoscaleRun:
    """Run to the horizon, telling how far it is."""
    horizon = float(run.world.state["horizon"][0])
    piece = 1
    while True:
        why = advance(run.world, horizon * piece / pieces)
        if run.log is not None and why in (GROW, LOG_FULL):
            run.log.drain(run.world)
        if why == FINISHED:
            progress(1.0)
            if run.log is not None:
                run.log.close(run.world)
            return run
        if why == GROW:
            run.world = _with_room(run.world)
        elif why == PAUSED:
            progress(piece / pieces)
            piece += 1


def _initial(scenario: AutoscaleScenario, rates: Rates, offered: int, source: str) -> list[int]:
    """Nodes of each type at the start; where none is named, enough of the type on offer for the
    first rate."""
    scaler = scenario.autoscaler
    counts = [kind.initial for kind in scaler.type]
    if not any(counts):
        optimum = float(rates.rate[0]) * scenario.requests.execution_s / scaler.target_load
        counts[offered] = max(scaler.nodes_min, math.ceil(optimum / scaler.type[offered].capacity))
    if sum(counts) > scaler.nodes_max:
        raise InputError(
            f"{source}: autoscaler.nodes_max: the first rate needs {sum(counts)} nodes, got "
            f"{scaler.nodes_max}"
        )
    return counts


def _make_world(
    scenario: AutoscaleScenario, rates: Rates, schedule: list[tuple[float, int]], horizon: float
) -> w.AutoscaleWorld:
    scaler = scenario.autoscaler
    # Twice the most nodes, because a slot rests after its node has gone.
    slots = 2 * scaler.nodes_max
    every = scenario.sample_s or max(1, math.ceil(horizon / SAMPLES))
    recent = max(1, math.ceil(scaler.stabilise_s / scaler.cycle_s))
    late = 3 + math.ceil(scaler.cycle_s / w.REUSE_S)
    return w.AutoscaleWorld(
        state=_state(scenario, horizon, every),
        rules=_rules(scenario),
        rng=np.array([random.state(scenario.seed, name) for name in w.STREAMS]),
        rate_time=rates.time_s,
        rate=rates.rate,
        offer_time=np.array([time for time, _ in schedule]),
        offer_type=np.array([kind for _, kind in schedule]),
        types=_types(scenario),
        nodes=np.zeros(slots, w.NODE),
        up=np.zeros(slots, np.bool_),
        capacity=np.zeros(slots, np.int32),
        work=np.zeros(slots, np.float32),
        counts=np.zeros((scaler.window_s, slots), np.int32),
        views=views.empty_views(slots, scaler.overlay.degree),
        averages=views.empty_averages(slots),
        live=np.zeros(slots, np.int32),
        known=np.zeros(slots, np.int32),
        gone=np.zeros(slots, np.int32),
        requests=_free_requests(0, REQUESTS_FIRST),
        ends=np.zeros(REQUESTS_FIRST, w.END),
        event_queue=np.zeros(slots * late, EVENT),
        recommendations=np.zeros(recent),
        samples=np.zeros((int(horizon // every) + 1, len(w.COLUMNS) + len(scaler.type))),
        responses=np.zeros(w.BINS, np.int64),
        request_log=np.zeros(0, w.REQUEST_ROW),
        node_log=np.zeros(0, w.NODE_ROW),
    )


def _state(scenario: AutoscaleScenario, horizon: float, every: int) -> w.Array:
    state = np.zeros(1, w.STATE)
    scaler, crash_s = scenario.autoscaler, scenario.faults.crash_s
    state["horizon"], state["sample_every"] = horizon, every
    state["central_at"] = {"depas": w.NEVER, "threshold": scaler.cycle_s, "oracle": 0.0}[
        scaler.kind
    ]
    state["crash_at"] = w.NEVER if crash_s is None else crash_s
    return state


def _rules(scenario: AutoscaleScenario) -> w.Array:
    """The settings of a run, as the kernel reads them."""
    scaler, requests, faults = scenario.autoscaler, scenario.requests, scenario.faults
    rules = np.zeros(1, w.RULES)
    values: dict[str, Any] = {
        "kind": w.KINDS.index(scaler.kind),
        "estimate": w.ESTIMATES.index(scaler.estimate),
        "formula": depas.FORMULAS.index(scaler.formula),
        "target": scaler.target_load,
        "band": scaler.band,
        # The oracle sees every change as it comes.
        "cycle_s": 1.0 if scaler.kind == "oracle" else scaler.cycle_s,
        "start_s": scaler.start_s,
        "nodes_min": scaler.nodes_min,
        "nodes_max": scaler.nodes_max,
        "capacity_max": max(kind.capacity for kind in scaler.type),
        "overlay_s": scaler.overlay.cycle_s,
        "exchange": scaler.overlay.exchange,
        "probes": scaler.overlay.probes,
        "epoch_rounds": max(1, round(scaler.overlay.epoch_s / scaler.overlay.cycle_s)),
        "execution_s": requests.execution_s,
        "constant": requests.execution == "constant",
        "queue_max": requests.queue_max,
        "hops_max": requests.hops_max,
        "entry_min": requests.entry_min,
        "entry_share": requests.entry_share,
        "entry_s": requests.entry_s,
        "loss": faults.loss,
        "crash_share": faults.crash_share,
    }
    for name, value in values.items():
        rules[name] = value
    return rules


def _types(scenario: AutoscaleScenario) -> w.Array:
    types = np.zeros(len(scenario.autoscaler.type), w.TYPE)
    for row, kind in zip(types, node_types(scenario.autoscaler), strict=True):
        row["price"], row["capacity"] = kind.price, kind.capacity
    return types


def _free_requests(first: int, count: int) -> w.Array:
    """Rows for requests, each free and followed by the next; −1 ends the list."""
    requests = np.zeros(count, w.REQUEST)
    requests["next"] = np.arange(first + 1, first + count + 1)
    requests["next"][-1] = -1
    return requests


def _with_room(world: w.AutoscaleWorld) -> w.AutoscaleWorld:
    """The same world with room for twice as many requests, and a log that has been drained."""
    size = len(world.requests)
    if 2 * size > REQUESTS_MAX:
        raise InputError(
            f"requests.queue_max: more than {size:,} requests wait; expected a limit, or a "
            "larger nodes_max"
        )
    world.state["free"] = size
    if len(world.request_log):
        world = world._replace(request_log=make_logs(2 * size, 0)[0])
    return world._replace(
        requests=np.concatenate((world.requests, _free_requests(size, size))),
        ends=np.concatenate((world.ends, np.zeros(size, w.END))),
    )


def _start(world: w.AutoscaleWorld, scenario: AutoscaleScenario, initial: list[int]) -> None:
    """The first nodes are up; each decides for the first time after a cycle, and no two at the same
    moment."""
    nodes, cycle_s = sum(initial), scenario.autoscaler.cycle_s
    kinds = np.repeat(np.arange(len(initial)), initial)
    phases = random.generator(scenario.seed, "phases").random(nodes)
    first_nodes(world, kinds, cycle_s * (1.0 + phases))
    views.connect(world.views, nodes, world.work, random.generator(scenario.seed, "links"))
