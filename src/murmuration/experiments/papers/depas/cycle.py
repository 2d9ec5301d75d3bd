"""One DEPAS cycle of equal nodes: the binomial formula against the decisions of single nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from murmuration.autoscaling import analysis, depas
from murmuration.base.random import generator
from murmuration.experiments.result import ReproductionSettings, Row
from murmuration.reports.figures import Chart, Series

TARGET, BAND = 0.7, 0.1
#: Loads a cycle starts from, by what became of a workload that was right.
LOADS = {"up by half": 1.05, "2.5 times": 1.75, "halved": 0.35}
SIZES = (5, 10, 20, 50, 100, 200, 500)
SIZES_SIMULATED = (5, 10, 20, 50, 100, 200)
CYCLES, CYCLES_QUICK = 4000, 400
SURE = 0.99
ERRORS = 3.3


def simulate_loads(nodes: int, load: float, cycles: int, seed: int) -> list[float]:
    """The load after one cycle, many times over: every node decides for itself."""
    rng = generator(seed, "cycle", str(nodes), f"{load:g}")
    loads = []
    for _ in range(cycles):
        acts = [
            depas.decide(load, TARGET, BAND, 1.0, 1.0, draw) for draw in rng.random(nodes).tolist()
        ]
        count = nodes + sum(acts)
        loads.append(nodes * load / count if count else math.inf)
    return loads


def share_inside(loads: Sequence[float], band: float) -> float:
    return sum(abs(load - TARGET) <= band + analysis.EPSILON for load in loads) / len(loads)


def close(share: float, expected: float, cycles: int) -> bool:
    """Whether a simulated share agrees with a probability."""
    return abs(share - expected) <= ERRORS * math.sqrt(
        max(expected * (1 - expected), 1 / cycles) / cycles
    )


def cycle_rows(settings: ReproductionSettings, nodes: int = 100) -> list[Row]:
    """The probability to end inside the band, and the smallest band for 99 %, each with what the
    simulation says."""
    cycles = CYCLES_QUICK if settings.quick else CYCLES
    rows = []
    for name, load in LOADS.items():
        loads = simulate_loads(nodes, load, cycles, settings.seed)
        expected, share = (
            analysis.probability_inside(nodes, load, TARGET, BAND),
            share_inside(loads, BAND),
        )
        rows.append(
            Row(
                f"P(inside) after one cycle, {nodes} nodes, workload {name}",
                f"{expected:.4f} (formula)",
                share,
                holds=close(share, expected, cycles),
            )
        )
        band = analysis.smallest_band(nodes, load, TARGET, SURE)
        reached = share_inside(loads, band)
        rows.append(
            Row(
                f"P(inside) with the smallest δ for 0.99 ({band:.4f}), workload {name}",
                "0.99 or more",
                reached,
                holds=reached >= SURE - ERRORS * math.sqrt(SURE * (1 - SURE) / cycles),
            )
        )
    return rows


def cycle_chart(settings: ReproductionSettings) -> Chart:
    """The probability by number of nodes: the formula as lines, simulated cycles as points."""
    cycles = 400
    series = []
    for colour, (name, load) in enumerate(LOADS.items()):
        exact = [analysis.probability_inside(n, load, TARGET, BAND) for n in SIZES]
        simulated = [
            share_inside(simulate_loads(n, load, cycles, settings.seed), BAND)
            for n in SIZES_SIMULATED
        ]
        series.append(Series(f"workload {name}", SIZES, exact, colour=colour))
        series.append(
            Series(
                f"{name}, simulated",
                SIZES_SIMULATED,
                simulated,
                colour=colour,
                markers=True,
                dotted=True,
            )
        )
    note = f"Target 0.7, δ 0.1. Lines: binomial formula; points: {cycles} simulated cycles each."
    return Chart(
        "One cycle ends inside the band",
        "nodes",
        "probability",
        tuple(series),
        x_log=True,
        note=note,
    )
