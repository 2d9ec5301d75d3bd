"""What is recorded during a run whose usage is measured: the migrations so far at each sample of
the time series, and what each node's tasks use every 100 minutes. Arrays alone, so that a snapshot
keeps them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmuration.simulation.engine import world as wd

Array = NDArray[Any]
USAGE_EVERY_S = 6000.0
MOVED = ("migrations", "forced", "migrated_mb")


class UsageSamples(NamedTuple):
    """`noted` counts the rows filled of the other two: migrations, forced ones and megabytes so
    far; and by node the share of each resource that is used, the share that is guaranteed, and the
    tasks (NaN: a node that is not there)."""

    noted: Array
    ticks: Array
    usage: Array


def make_samples(world: wd.World) -> UsageSamples:
    """Nothing recorded yet."""
    nodes, resources = world.total.shape
    times = int(np.ceil(world.state["horizon"][0] / USAGE_EVERY_S)) - 1
    usage = np.zeros((max(times, 0), nodes, 2 * resources + 1), np.float32)
    return UsageSamples(np.zeros(2, np.int64), np.zeros((len(world.samples), len(MOVED))), usage)


def due(m: UsageSamples, world: wd.World) -> float:
    """When something is to be recorded next."""
    tick = m.noted[0] * world.state["sample_step"][0] if m.noted[0] < len(m.ticks) else np.inf
    usage = (m.noted[1] + 1) * USAGE_EVERY_S if m.noted[1] < len(m.usage) else np.inf
    return float(min(tick, usage, world.state["horizon"][0] if np.isfinite(tick) else np.inf))


def take(m: UsageSamples, world: wd.World, at: float) -> None:
    """Record what is due at this time: the world as it stands before the events of that time, as
    samples have it."""
    if m.noted[0] < len(m.ticks) and m.noted[0] * world.state["sample_step"][0] <= at * (1 + 1e-12):
        m.ticks[m.noted[0]] = [world.state[name][0] for name in MOVED]
        m.noted[0] += 1
    if m.noted[1] < len(m.usage) and (m.noted[1] + 1) * USAGE_EVERY_S <= at:
        m.usage[m.noted[1]] = usage_now(world)
        m.noted[1] += 1


def usage_now(world: wd.World) -> Array:
    """By node: shares used, shares guaranteed, tasks."""
    there: Array = np.any(world.total > 0, axis=1)
    size = np.where(world.total > 0, world.total, 1)
    slots = np.flatnonzero(world.tasks["job"][: world.state["slots_high"][0]] >= 0)
    tasks = np.bincount(world.slots["node"][slots], minlength=len(world.total))
    columns = [(world.total - world.free) / size, world.guaranteed / size, tasks[:, None]]
    return np.where(there[:, None], np.concatenate(columns, axis=1), np.nan)
