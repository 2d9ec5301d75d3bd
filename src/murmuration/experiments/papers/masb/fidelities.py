"""Two fidelities of negotiation side by side: agents that exchange messages, and the bulk engine,
on one small cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from murmuration.base.arrays import Floats
from murmuration.cluster.allocation_types import NAMES, OVERLOADED
from murmuration.experiments.papers.masb.tables import PRESET, scale_cell
from murmuration.experiments.replicates import each_seed, measure_each
from murmuration.experiments.result import Reproduction, ReproductionSettings, Row
from murmuration.experiments.statistics import t95
from murmuration.reports.figures import Chart, Series
from murmuration.simulation.engine import run as engine
from murmuration.simulation.messages.negotiation.from_scenario import small_cluster
from murmuration.simulation.results import summary as results
from murmuration.simulation.scenarios import scenario as sc

NODES, HOURS, SEEDS = 200, 6.0, 12
#: The cell settles from the placement both start with; what is compared comes after.
SETTLED_MIN = 30
COUNTERS = ("migrations", "migrated_mb")
MOVED = ("migrations per minute", "MB moved per minute")
QUANTITIES = (*(f"nodes, {name}" for name in NAMES), *MOVED)
#: How many times as much may be moved, either way: a fifth changes no statement made with it.
FACTOR = 1.2
#: Less than this a minute counts as this much, so that a cell that moves nothing has a ratio, too.
LEAST = 0.01
#: A cell in which more than this share of the nodes is overloaded on average is overfull.
OVERFULL = 0.01


#: Means of `QUANTITIES`, and the minutes and overloaded nodes of a series.
RunFigures = tuple[list[float], tuple[Floats, Floats]]


def small_scenario(seed: int, hours: float) -> sc.Scenario:
    """The preset with fewer nodes and as much less to do."""
    tables = sc.override(sc.load(PRESET), {"seed": seed, "days": hours / 24.0})
    share = NODES / sum(group["count"] for group in tables["cluster"]["group"])
    return sc.check(scale_cell(tables, share, share, smallest=0), f"{PRESET} on {NODES} nodes")


def bulk_figures(scenario: sc.Scenario) -> RunFigures:
    """Mean figures of the bulk engine once settled, and nodes overloaded over time."""
    run = engine.prepare(scenario)
    engine.advance(run, SETTLED_MIN * 60.0)
    before = [float(run.world.state[name][0]) for name in COUNTERS]
    engine.advance(run)
    rows, minutes = results.series(run), run.horizon_s / 60.0 - SETTLED_MIN
    late = rows["time_s"] >= SETTLED_MIN * 60.0
    means = [float(rows[f"nodes.{name}"][late].mean()) for name in NAMES]
    after = [float(run.world.state[name][0]) for name in COUNTERS]
    means += [(b - a) / minutes for a, b in zip(before, after, strict=True)]
    return means, (rows["time_s"] / 60.0, rows["nodes.overloaded"])


def message_figures(scenario: sc.Scenario, seed: int, hours: float) -> RunFigures:
    """The same of the agents, message by message."""
    rows = small_cluster(engine.prepare(scenario), seed).run(hours * 3600.0)
    names = (*NAMES, "migrations", "megabytes")
    return [float(rows[name][SETTLED_MIN:].mean()) for name in names], (
        np.arange(1.0, len(rows["idle"]) + 1.0),
        rows["overloaded"],
    )


def _both(hours: float, seed: int) -> tuple[RunFigures, RunFigures]:
    scenario = small_scenario(seed, hours)
    return bulk_figures(scenario), message_figures(scenario, seed, hours)


def run(settings: ReproductionSettings) -> Reproduction:
    """Both fidelities on the same cells, judged by their differences on each of them."""
    hours, seeds = (2.0, 4) if settings.quick else (HOURS, SEEDS)
    pairs = measure_each(settings, "seeds", partial(_both, hours), each_seed(settings, seeds))
    figures, lines = {}, list[Series]()
    for name, column in zip(("bulk", "messages"), zip(*pairs, strict=True), strict=True):
        figures[name] = [means for means, _ in column]
        _, (minutes, overloaded) = column[0]
        lines.append(Series(name, minutes.tolist(), overloaded.tolist()))
    chart = Chart("Overloaded nodes, one seed", "minutes", "nodes", tuple(lines))
    notes = (
        f"{NODES} nodes, {hours:g} simulated hours, {seeds} seeds; the first {SETTLED_MIN} "
        "minutes are left out.",
        "`paper` is the agents' mean and how far from it the bulk engine may be. A quantity holds "
        "where the whole 95 % interval of the paired differences, shown around the bulk engine's "
        "mean, lies within that; it fails where the mean difference does not.",
        "What is moved is compared as a ratio on each cell, or the few overfull ones, which move "
        "ten times as much as the others, would decide alone. They are shown apart, too.",
    )
    title = "Negotiation in bulk and message by message"
    return Reproduction("masb-fidelities", title, tuple(compare(figures)), (chart,), notes)


def compare(figures: Mapping[str, Sequence[Sequence[float]]]) -> list[Row]:
    """One row per quantity: the agents' mean, the bulk engine's, and whether the two are equivalent
    on the same cells."""
    bulk, agents = np.array(figures["bulk"]), np.array(figures["messages"])
    rows = [
        compare_nodes(name, bulk[:, k], agents[:, k])
        for k, name in enumerate(QUANTITIES)
        if name not in MOVED
    ]
    overfull = agents[:, OVERLOADED] > OVERFULL * NODES
    for cells, where in ((overfull | True, ""), (overfull, ", overfull cells")):
        for name in MOVED:
            k = QUANTITIES.index(name)
            rows.append(compare_moved(name + where, bulk[cells, k], agents[cells, k]))
    return rows


def compare_nodes(quantity: str, bulk: Floats, agents: Floats) -> Row:
    """Nodes of a type: by the differences on each cell. They may be one node in 200 apart, or
    a tenth of the figure."""
    mean, half = paired_difference(bulk, agents)
    usual, here = float(agents.mean()), float(bulk.mean())
    margin = max(0.005 * NODES, 0.1 * usual)
    text = f"{usual:.4g}, within {margin:.3g}"
    verdict = is_equivalent(mean, half, margin)
    return Row(quantity, text, here, here - half, here + half, verdict)


def compare_moved(quantity: str, bulk: Floats, agents: Floats) -> Row:
    """What is moved: by how many times as much it is on each cell."""
    quantity = f"{quantity}: times that of the agents, mean of {len(agents)} cells"
    if len(agents) < 2:
        return Row(quantity, None, None)
    text = f"1 (agents {agents.mean():.4g}), within {1 / FACTOR:.2f} to {FACTOR:.2f}"
    logs = (np.log(np.maximum(amounts, LEAST)) for amounts in (bulk, agents))
    mean, half = paired_difference(*logs)
    low, here, high = (math.exp(x) for x in (mean - half, mean, mean + half))
    return Row(quantity, text, here, low, high, is_equivalent(mean, half, math.log(FACTOR)))


def paired_difference(bulk: Floats, agents: Floats) -> tuple[float, float]:
    """The mean difference of both on the same cell, and half of its 95 % interval."""
    difference = bulk - agents
    spread = float(difference.std(ddof=1)) / math.sqrt(len(difference))
    return float(difference.mean()), t95(len(difference) - 1) * spread


def is_equivalent(mean: float, half: float, margin: float) -> bool | None:
    """Whether the whole interval of a difference lies within the margin; None if its middle does
    and the interval is too wide to tell."""
    if abs(mean) > margin:
        return False
    return True if abs(mean) + half <= margin else None
