"""The Monte Carlo figures of chapters 3, 4 and 6: cells A and C, decision times from 10 ms to 100
s."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from murmuration.experiments import statistics, theory
from murmuration.experiments.replicates import run_specs
from murmuration.experiments.result import ReproductionSettings
from murmuration.experiments.specs import make_spec, replicate_seeds
from murmuration.reports.figures import Chart, Series
from murmuration.simulation.scenarios import scenario as sc

CELLS = {"A": "omega-a", "C": "omega-c"}
JOB_TIMES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
QUICK_TIMES = (0.1, 1.0, 10.0, 100.0)
SLO_S = 30.0
ALL, SERVICE = "scheduler.decision.default.job_time_s", "scheduler.decision.service.job_time_s"

Point = dict[str, Any]


@dataclass(frozen=True)
class Curve:
    """One cell under one scheduler: a combined summary for each value on the x-axis."""

    cell: str
    label: str
    x: tuple[float, ...]
    points: tuple[Point, ...]

    def values(self, workload: str, key: str) -> list[Any]:
        return [statistics.middle(point["workloads"][workload][key]) for point in self.points]

    def at(self, x: float, workload: str, key: str) -> Any:
        """The figure at one x, as an interval or a number."""
        return self.points[self.x.index(x)]["workloads"][workload][key]

    def saturated(self, workload: str) -> list[bool]:
        return [bool(point["workloads"][workload]["saturated"]) for point in self.points]


def times(settings: ReproductionSettings) -> tuple[float, ...]:
    return QUICK_TIMES if settings.quick else JOB_TIMES


def curves(
    settings: ReproductionSettings,
    variants: Mapping[str, Mapping[str, Any]],
    at: Callable[[str, float], Mapping[str, Any]],
    x: Sequence[float],
    replicas: int = 3,
) -> list[Curve]:
    """Every cell under every variant, with the keys that `at` gives for the cell and each x; seeds
    replicated."""
    days = settings.days or (0.25 if settings.quick else 7.0)
    replicas = 4 if settings.quick else replicas
    specs, keys = [], []
    for cell, preset in CELLS.items():
        base = {key: value for key, value in sc.load(preset).items() if key != "variant"}
        for label, changes in variants.items():
            for value in x:
                fixed = {**changes, **at(cell, value), "days": days, "seed": settings.seed}
                specs += replicate_seeds([make_spec(label, sc.override(base, fixed))], replicas)
                keys += [(cell, label, value)] * replicas
    return _collect(keys, run_specs(settings, specs), list(variants), tuple(x))


def varying(key: str) -> Callable[[str, float], Mapping[str, Any]]:
    """One key is what varies along x."""
    return lambda cell, x: {key: x}


def faster(cell: str, factor: float) -> Mapping[str, Any]:
    """Every workload of the cell arrives this many times as fast."""
    tables = sc.load(CELLS[cell])["workload"]
    return {
        f"workload.{name}.arrivals_per_s": table["arrivals_per_s"] * factor
        for name, table in tables.items()
    }


def _collect(
    keys: list[tuple[str, str, float]],
    summaries: list[Point],
    labels: list[str],
    x: tuple[float, ...],
) -> list[Curve]:
    replicas: dict[tuple[str, str, float], list[Point]] = {}
    for key, summary in zip(keys, summaries, strict=True):
        replicas.setdefault(key, []).append(summary)
    return [
        Curve(
            cell, label, x, tuple(statistics.combine(replicas[cell, label, value]) for value in x)
        )
        for cell in CELLS
        for label in labels
    ]


def chart(
    title: str,
    unit: str,
    x_label: str,
    shown: Sequence[Curve],
    key: str,
    y_log: bool,
    names: Sequence[str] = ("batch", "service"),
) -> Chart:
    """One figure: cells by colour, batch solid and service dotted, saturated points hollow."""
    series = [
        _line(curve, colour, name, key, names, _many(shown))
        for colour, curve in enumerate(shown)
        for name in names
    ]
    lines = ((f"SLO {SLO_S:g} s", SLO_S),) if key.startswith("wait") else ()
    return Chart(title, x_label, unit, tuple(series), x_log=True, y_log=y_log, lines=lines)


def _line(
    curve: Curve, colour: int, name: str, key: str, names: Sequence[str], labelled: bool
) -> Series:
    bounds = [point["workloads"][name][key] for point in curve.points]
    label = (curve.cell, curve.label if labelled else "", name if len(names) > 1 else "")
    return Series(
        " ".join(part for part in label if part),
        curve.x,
        curve.values(name, key),
        low=[_bound(b, "low") for b in bounds],
        high=[_bound(b, "high") for b in bounds],
        dotted=name == "service" and len(names) > 1,
        hollow=curve.saturated(name),
        colour=colour,
        markers=True,
    )


def _many(shown: Sequence[Curve]) -> bool:
    return len({curve.label for curve in shown}) > 1


def _bound(value: Any, side: str) -> float | None:
    """One end of an interval; what is shown (waits, shares) is never negative."""
    bound = value.get(side) if isinstance(value, dict) else None
    return None if bound is None else max(bound, 0.0)


def streams(
    cell: str, job_time: Mapping[str, float], factor: float = 1.0
) -> list[theory.DecisionStream]:
    """The streams of a cell as the formula sees them."""
    tables = sc.load(CELLS[cell])["workload"]
    return [
        theory.DecisionStream(
            table["arrivals_per_s"] * factor, table["tasks_per_job"], job_time[name], 0.005
        )
        for name, table in tables.items()
    ]
