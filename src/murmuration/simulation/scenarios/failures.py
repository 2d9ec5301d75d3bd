"""Nodes that fail and are repaired: drawn from distributions, as events of nodes."""

from __future__ import annotations

import math

import numpy as np

from murmuration.base.arrays import Floats
from murmuration.simulation.scenarios.scenario import FailureSettings
from murmuration.workload.node_events import join_events
from murmuration.workload.nodes import ADD, REMOVE, NodeEvents, NodeTable

HOUR_S = 3600.0


def draw_failures(
    settings: FailureSettings,
    nodes: NodeTable,
    events: NodeEvents | None,
    seconds: float,
    rng: np.random.Generator,
) -> NodeEvents | None:
    """The events, with failures and repairs of every node that has no other event.

    A node of which it is known when it comes and goes does not fail besides: its failure could
    fall into a time in which it is not there.
    """
    known = set() if events is None else set(events.node_id.tolist())
    rows: list[int] = []
    times: list[float] = []
    kinds: list[int] = []
    for row, name in enumerate(nodes.names):
        if name not in known:
            drawn = draw_times(settings, seconds, rng)
            rows += [row] * len(drawn)
            times += drawn.tolist()
            kinds += [REMOVE if k % 2 == 0 else ADD for k in range(len(drawn))]
    if not rows:
        return events
    failures = NodeEvents(
        nodes.resources,
        np.array(times, dtype=np.float64),
        np.array([nodes.names[row] for row in rows], dtype=np.str_),
        np.array(kinds, dtype=np.int64),
        nodes.total[np.array(rows, dtype=np.int64)],
        tuple(nodes.attributes[row] for row in rows),
    )
    return join_events([failures] if events is None else [events, failures])


def draw_times(settings: FailureSettings, seconds: float, rng: np.random.Generator) -> Floats:
    """When one node fails, is repaired, fails again, and so on, until so many seconds. It is there
    at the start."""
    up_s, down_s = settings.mtbf_h * HOUR_S, settings.repair_h * HOUR_S
    times: list[float] = []
    now = 0.0
    while True:
        shape, mean = (
            (settings.shape, up_s) if len(times) % 2 == 0 else (settings.repair_shape, down_s)
        )
        now += draw_span(shape, mean, rng)
        if now >= seconds:
            return np.array(times, dtype=np.float64)
        times.append(now)


def draw_span(shape: float, mean: float, rng: np.random.Generator) -> float:
    """A time of this mean with Weibull's distribution; a shape of 1 is the exponential one."""
    return float(rng.weibull(shape) * mean / math.gamma(1.0 + 1.0 / shape))
