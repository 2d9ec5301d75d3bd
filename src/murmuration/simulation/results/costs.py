"""What a run costs: the price of its nodes while they are there, and the energy they use.

Prices and power are those the scenario gives, those of a node's attributes, or the models of plans
(`assignment/objectives.power_of`, `assignment/snapshots/catalogue.price_of`).
"""

from __future__ import annotations

import numpy as np

from murmuration.assignment.objectives import power_of
from murmuration.assignment.snapshots.catalogue import GIB, price_of
from murmuration.base.arrays import Flags, Floats
from murmuration.base.errors import InputError
from murmuration.base.resources import MICRO
from murmuration.simulation.engine.setup import NodeChanges
from murmuration.simulation.engine.world import World
from murmuration.simulation.scenarios.scenario import CostSettings
from murmuration.workload.nodes import NodeTable

HOUR_S = 3600.0
JOULES_PER_KWH = 3.6e6
PRICE, IDLE, PEAK = "price_per_h", "idle_watts", "peak_watts"


def list_watts(costs: CostSettings, nodes: NodeTable) -> Floats:
    """Idle and peak watts of each node."""
    cpu, memory = nodes.total[:, 0] / MICRO, nodes.total[:, 1] / 1e6
    idle, peak = power_of(cpu, memory)
    watts = np.stack(
        [_given(nodes, IDLE, costs.idle_watts, idle), _given(nodes, PEAK, costs.peak_watts, peak)],
        axis=1,
    )
    for name, (low, high) in zip(nodes.names, watts, strict=True):
        if high < low:
            raise InputError(
                f"cluster.costs: node {name}: expected peak_watts of at least its idle_watts, got "
                f"{high:g} and {low:g}"
            )
    return np.ascontiguousarray(watts)


def list_prices(costs: CostSettings, nodes: NodeTable) -> Floats:
    """What each node costs an hour."""
    sizes = zip(nodes.total[:, 0] / MICRO, nodes.total[:, 1] / GIB, strict=True)
    model = np.array([price_of(float(cpu), float(memory)) for cpu, memory in sizes])
    return _given(nodes, PRICE, costs.price_per_h, model)


def _given(nodes: NodeTable, name: str, setting: float | None, model: Floats) -> Floats:
    """The attribute of each node, else what the scenario says, else the model's figure."""
    values = []
    for row, attributes in enumerate(nodes.attributes):
        value = attributes.get(name, model[row] if setting is None else setting)
        if isinstance(value, str) or not value >= 0.0:
            raise InputError(
                f"cluster.costs: node {nodes.names[row]}: {name}: expected a number from 0, got "
                f"{value!r}"
            )
        values.append(float(value))
    return np.array(values, dtype=np.float64)


def read_meters(world: World, until_s: float) -> float:
    """The joules of all nodes until then: what their meters show, and what they have drawn since
    the last change on each."""
    meters, power_off = world.meters, bool(world.state["power_off"][0])
    on = (meters["total"] > 0) & ~(power_off & (meters["tasks"] == 0))
    load = meters["cpu"] / np.maximum(meters["total"], 1)
    watts = np.where(on, meters["idle"] + (meters["peak"] - meters["idle"]) * load, 0.0)
    return float(np.sum(meters["joules"] + watts * (until_s - meters["since"])))


def hours_there(changes: NodeChanges, seconds: float) -> Floats:
    """How long each node is there."""
    there: Flags = np.asarray((changes.start > 0).any(axis=1))
    since = np.zeros(len(there))
    hours = np.zeros(len(there))
    for time, node, total in zip(changes.time_s, changes.node, changes.total, strict=True):
        if time >= seconds:
            break
        if there[node]:
            hours[node] += time - since[node]
        there[node], since[node] = bool((total > 0).any()), time
    return np.asarray((hours + there * (seconds - since)) / HOUR_S, dtype=np.float64)
