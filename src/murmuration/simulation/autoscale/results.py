"""What is measured: the summary of a run under stable names, and its time series.

Optimum: rate × execution time ÷ target load. Band: the same at target ± δ. Oscillations: how often
the capacity turns round by more than the band's half-width, beyond the turns of the optimum itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.autoscaling import analysis
from murmuration.simulation.autoscale import world as w
from murmuration.simulation.autoscale.build import AutoscaleRun

Floats = NDArray[np.float64]
Summary = dict[str, Any]


def series(run: AutoscaleRun) -> dict[str, Floats]:
    """The samples by column, with the optimum and the edges of the band."""
    samples = run.world.samples[: int(run.world.state["sampled"][0])]
    names = [*w.COLUMNS, *(f"nodes.{name}" for name in run.type_names)]
    columns = {name: np.ascontiguousarray(samples[:, k]) for k, name in enumerate(names)}
    scaler = run.scenario.autoscaler
    work = columns["rate"] * run.scenario.requests.execution_s
    columns["optimum"] = work / scaler.target_load
    columns["band_low"] = work / (scaler.target_load + scaler.band)
    columns["band_high"] = work / (scaler.target_load - scaler.band)
    return columns


def turns(values: Sequence[float] | Floats, threshold: float) -> int:
    """How often a curve turns round by more than a share of its last extreme."""
    count, direction, extreme = 0, 0, float(values[0])
    for value in values:
        if direction * (value - extreme) > 0:
            extreme = float(value)
        elif abs(value - extreme) > threshold * max(extreme, 1e-9):
            count += direction != 0
            direction, extreme = (1 if value > extreme else -1), float(value)
    return count


def oscillations(columns: Mapping[str, Floats], target: float, band: float) -> int:
    """Turns of the capacity that the workload does not ask for."""
    threshold = band / (target + band)
    return max(0, turns(columns["capacity"], threshold) - turns(columns["optimum"], threshold))


def quantile(responses: w.Array, share: float) -> float | None:
    """A quantile of the response times, to the width of a bin (7 %)."""
    total = int(responses.sum())
    if total == 0:
        return None
    place = int(np.searchsorted(np.cumsum(responses), share * total))
    return float(w.BIN_MIN_S * w.BIN_RATIO ** (place - 0.5)) if place else w.BIN_MIN_S


def summary(run: AutoscaleRun) -> Summary:
    """The figures of a run; names are stable."""
    state, columns, scaler = run.world.state[0], series(run), run.scenario.autoscaler
    arrived, done = int(state["arrived"]), int(state["done"])
    capacity, low, high = columns["capacity"], columns["band_low"], columns["band_high"]
    return {
        "scenario": run.scenario.name,
        "autoscaler": scaler.kind,
        "seed": run.scenario.seed,
        "seconds": float(state["horizon"]),
        "requests": {
            "arrived": arrived,
            "done": done,
            "rejected": int(state["rejected"]),
            "lost": int(state["lost"]),
            "in_flight": arrived - done - int(state["rejected"]) - int(state["lost"]),
            "rejected_fraction": int(state["rejected"]) / arrived if arrived else None,
            "hops_mean": int(state["hops"]) / arrived if arrived else None,
        },
        "response_s": {
            "mean": float(state["response_s"]) / done if done else None,
            **{
                f"p{round(100 * share)}": quantile(run.world.responses, share)
                for share in (0.5, 0.95, 0.99)
            },
        },
        "capacity": {
            "mean": float(capacity.mean()),
            "max": float(capacity.max()),
            "optimum_mean": float(columns["optimum"].mean()),
            "inside_fraction": float(np.mean((capacity >= low) & (capacity <= high))),
            "below_fraction": float(np.mean(capacity < low)),
            "above_fraction": float(np.mean(capacity > high)),
            "oscillations": oscillations(columns, scaler.target_load, scaler.band),
        },
        "nodes": {
            "mean": float(columns["nodes"].mean()),
            "max": int(columns["nodes"].max()),
            **{name: int(state[name]) for name in ("added", "removed", "crashed", "refused")},
        },
        "types": {
            name: {
                "mean": float(columns[f"nodes.{name}"].mean()),
                "last": int(columns[f"nodes.{name}"][-1]),
            }
            for name in run.type_names
        },
        "cost": {
            "total": float(columns["cost"][-1]),
            "per_million": float(columns["cost"][-1]) / done * 1e6 if done else None,
        },
        "one_cycle": one_cycle(run, columns),
    }


#: The change of workload that the analysis of one cycle is reported for.
CHANGE = 1.5
PROBABILITY = 0.99


def one_cycle(run: AutoscaleRun, columns: Mapping[str, Floats]) -> Summary:
    """For as many equal nodes as the run had on average: how sure one DEPAS cycle is after a change
    of workload."""
    scaler, nodes = run.scenario.autoscaler, max(1, round(float(columns["nodes"].mean())))
    target, band = scaler.target_load, scaler.band
    summary: Summary = {"nodes": nodes, "probability": PROBABILITY}
    for name, load in (("up", target * CHANGE), ("down", target / CHANGE)):
        summary[f"inside_{name}"] = analysis.probability_inside(nodes, load, target, band)
        summary[f"smallest_band_{name}"] = analysis.smallest_band(nodes, load, target, PROBABILITY)
    return summary
