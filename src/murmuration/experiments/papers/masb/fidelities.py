"""Two fidelities of negotiation side by side: agents that exchange messages, and the bulk engine,
on one small cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from murmuration.base.arrays import Floats
from murmuration.cluster.allocation_types import NAMES
from murmuration.experiments.papers.masb.tables import PRESET, scale_cell
from murmuration.experiments.result import Reproduction, ReproductionSettings, Row
from murmuration.experiments.statistics import t95
from murmuration.reports.figures import Chart, Series
from murmuration.simulation.engine import run as engine
from murmuration.simulation.messages.negotiation.from_scenario import small_cluster
from murmuration.simulation.results import summary as results
from murmuration.simulation.scenarios import scenario as sc

NODES, HOURS, SEEDS = 200, 6.0, 5
#: The cell settles from the placement both start with; what is compared comes after.
SETTLED_MIN = 30
COUNTERS = ("migrations", "migrated_mb")
QUANTITIES = (*(f"nodes, {name}" for name in NAMES), "migrations per minute", "MB moved per minute")


def small_scenario(seed: int, hours: float) -> sc.Scenario:
    """The preset with fewer nodes and as much less to do."""
    tables = sc.override(sc.load(PRESET), {"seed": seed, "days": hours / 24.0})
    share = NODES / sum(group["count"] for group in tables["cluster"]["group"])
    return sc.check(scale_cell(tables, share, share, smallest=0), f"{PRESET} on {NODES} nodes")


def bulk_figures(scenario: sc.Scenario) -> tuple[list[float], Any]:
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


def message_figures(scenario: sc.Scenario, seed: int, hours: float) -> tuple[list[float], Any]:
    """The same of the agents, message by message."""
    rows = small_cluster(engine.prepare(scenario), seed).run(hours * 3600.0)
    names = (*NAMES, "migrations", "megabytes")
    return [float(rows[name][SETTLED_MIN:].mean()) for name in names], (
        np.arange(1, len(rows["idle"]) + 1),
        rows["overloaded"],
    )


def run(settings: ReproductionSettings) -> Reproduction:
    """Both fidelities on the same cells, judged by their differences on each of them."""
    hours, seeds = (2.0, 4) if settings.quick else (HOURS, SEEDS)
    figures: dict[str, list[list[float]]] = {"bulk": [], "messages": []}
    lines: list[Series] = []
    for k in range(seeds):
        scenario = small_scenario(settings.seed + k, hours)
        both = {
            "bulk": bulk_figures(scenario),
            "messages": message_figures(scenario, settings.seed + k, hours),
        }
        for name, (means, over) in both.items():
            figures[name].append(means)
            if k == 0:
                lines.append(Series(name, over[0].tolist(), over[1].tolist()))
        settings.progress("seeds", (k + 1) / seeds)
    chart = Chart("Overloaded nodes, one seed", "minutes", "nodes", tuple(lines))
    notes = (
        f"{NODES} nodes, {hours:g} simulated hours, {seeds} seeds; the first {SETTLED_MIN} "
        "minutes are left out.",
        "`paper` is the agents' mean and how far from it the bulk engine may be. A quantity holds "
        "where the whole 95 % interval of the paired differences, shown around the bulk engine's "
        "mean, lies within that; it fails where the mean difference does not.",
    )
    title = "Negotiation in bulk and message by message"
    return Reproduction("masb-fidelities", title, tuple(compare(figures)), (chart,), notes)


def compare(figures: Mapping[str, Sequence[Sequence[float]]]) -> list[Row]:
    """One row per quantity: the agents' mean, the bulk engine's, and whether the two are equivalent
    on the same cells."""
    bulk, agents = np.array(figures["bulk"]), np.array(figures["messages"])
    rows = []
    for k, quantity in enumerate(QUANTITIES):
        mean, half = paired_difference(bulk[:, k], agents[:, k])
        usual, here = float(agents[:, k].mean()), float(bulk[:, k].mean())
        margin = margin_of(quantity, usual)
        text = f"{usual:.4g}, within {margin:.3g}"
        verdict = is_equivalent(mean, half, margin)
        rows.append(Row(quantity, text, here, here - half, here + half, verdict))
    return rows


def paired_difference(bulk: Floats, agents: Floats) -> tuple[float, float]:
    """The mean difference of both on the same cell, and half of its 95 % interval."""
    difference = bulk - agents
    spread = float(difference.std(ddof=1)) / math.sqrt(len(difference))
    return float(difference.mean()), t95(len(difference) - 1) * spread


def margin_of(quantity: str, usual: float) -> float:
    """How far apart both may be: of nodes one in a hundred or a tenth of the figure, of what is
    moved a fifth, which changes no statement that is made with it."""
    nodes = quantity.startswith("nodes")
    return max(0.01 * NODES, 0.1 * usual) if nodes else 0.2 * usual


def is_equivalent(mean: float, half: float, margin: float) -> bool | None:
    """Whether the whole interval of a difference lies within the margin; None if its middle does
    and the interval is too wide to tell."""
    if abs(mean) > margin:
        return False
    return True if abs(mean) + half <= margin else None
