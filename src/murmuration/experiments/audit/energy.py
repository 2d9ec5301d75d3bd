"""The energy of a run, from single stays: each node's time is cut wherever a task comes or goes,
is measured, or the node changes, and each piece is what it draws times how long it lasts."""

from __future__ import annotations

import itertools

import numpy as np

from murmuration.assignment.objectives import power_of
from murmuration.base.resources import MICRO
from murmuration.experiments.audit.folder import Floats, Integers, RecordedRun
from murmuration.experiments.audit.over_time import RecordedUse

JOULES_PER_KWH = 3.6e6


def energy_kwh(run: RecordedRun) -> float | None:
    """What all nodes used; None where nodes have watts of their own, which are not recorded."""
    costs = run.scenario.cluster.costs
    if costs is None or _have_attributes(run):
        return None
    usage = RecordedUse(run) if run.has_usage else None
    joules = sum(_joules(run, usage, node) for node in range(len(run.nodes.names)))
    return joules / JOULES_PER_KWH


def _have_attributes(run: RecordedRun) -> bool:
    cluster = run.scenario.cluster
    groups = [cluster, *(cluster.group or ())]
    return cluster.trace is not None or any(group.attributes for group in groups)


def _joules(run: RecordedRun, usage: RecordedUse | None, node: int) -> float:
    """What one node used. Its watts are those of the size it has when it is there."""
    nodes, horizon = run.nodes, run.horizon
    mine = np.flatnonzero(run.stays.node == node)
    changes = np.flatnonzero(nodes.change_node == node)
    start, end = run.stays.start[mine], run.stays.end[mine]
    edges = [0.0, horizon, *start, *end, *nodes.change_time[changes]]
    if usage is not None:
        edges += [measured for measured, _ in usage.intervals()]
    cuts: Floats = np.unique(np.clip(edges, 0.0, horizon))
    joules = 0.0
    for since, until in itertools.pairwise(cuts):
        middle = (since + until) / 2
        size = _size_at(run, node, changes, float(middle))
        there = mine[(start <= middle) & (middle < end)]
        joules += _watts(run, usage, node, size, there, float(middle)) * (until - since)
    return float(joules)


def _size_at(run: RecordedRun, node: int, changes: Integers, time: float) -> Integers:
    before = changes[run.nodes.change_time[changes] <= time]
    size: Integers = run.nodes.change_total[before[-1]] if len(before) else run.nodes.start[node]
    return size


def _watts(
    run: RecordedRun,
    usage: RecordedUse | None,
    node: int,
    size: Integers,
    there: Integers,
    time: float,
) -> float:
    """What a node of this size draws with these stays on it."""
    costs, cpu = run.scenario.cluster.costs, run.resources.index("cpu")
    prefilled = run.nodes.prefilled[node]
    assert costs is not None, "there is nothing to add up without"
    if size[cpu] <= 0 or (costs.power_off and not len(there) and not prefilled.any()):
        return 0.0
    if usage is None:
        amounts = run.jobs.request[run.stays.job[there]]
    else:
        amounts = usage.at(float(np.floor(time / usage.period) * usage.period), there)
    idle, peak = _idle_and_peak(run, node)
    load = (prefilled[cpu] + amounts[:, cpu].sum()) / size[cpu]
    return float(idle + (peak - idle) * load)


def _idle_and_peak(run: RecordedRun, node: int) -> tuple[float, float]:
    """The scenario's watts, or those of plans for a node of the size it has at most."""
    costs, nodes = run.scenario.cluster.costs, run.nodes
    assert costs is not None, "there is nothing to add up without"
    later = nodes.change_total[nodes.change_node == node]
    largest: Floats = np.vstack([nodes.start[node], later]).max(axis=0).astype(np.float64)
    cpu, memory = (largest[run.resources.index(name)] for name in ("cpu", "memory"))
    idle, peak = power_of(np.array([cpu / MICRO]), np.array([memory / 1e6]))
    return (
        float(idle[0]) if costs.idle_watts is None else costs.idle_watts,
        float(peak[0]) if costs.peak_watts is None else costs.peak_watts,
    )
