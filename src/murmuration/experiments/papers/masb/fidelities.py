"""Two fidelities of negotiation side by side: agents that exchange messages, and the bulk engine,
on one small cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from murmuration.cluster.allocation_types import NAMES
from murmuration.experiments.papers.masb.tables import PRESET, scale_cell
from murmuration.experiments.result import Reproduction, ReproductionSettings, Row
from murmuration.reports.charts import Chart, Series
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
    """Both fidelities on the same cells; they agree where their ranges over seeds meet."""
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
        "A quantity holds where the ranges of both over the seeds meet; `paper` is the agents' "
        "mean and range.",
    )
    title = "Negotiation in bulk and message by message"
    return Reproduction("masb-fidelities", title, tuple(compare(figures)), (chart,), notes)


def compare(figures: Mapping[str, Sequence[Sequence[float]]]) -> list[Row]:
    """One row per quantity: the agents' figure, the bulk engine's, and whether they meet."""
    bulk, agents = np.array(figures["bulk"]), np.array(figures["messages"])
    rows = []
    for k, quantity in enumerate(QUANTITIES):
        low, high = float(bulk[:, k].min()), float(bulk[:, k].max())
        lowest, highest = float(agents[:, k].min()), float(agents[:, k].max())
        text = f"{agents[:, k].mean():.4g} ({lowest:.4g} to {highest:.4g})"
        rows.append(
            Row(
                quantity,
                text,
                float(bulk[:, k].mean()),
                low,
                high,
                low <= highest and lowest <= high,
            )
        )
    return rows
