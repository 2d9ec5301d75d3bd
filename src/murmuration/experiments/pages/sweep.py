"""The page of a sweep: a grid of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from murmuration.experiments.pages.columns import MEANINGS
from murmuration.experiments.pages.parts import (
    FOOTER,
    Summary,
    facts_in_common,
    overview,
    tells_something,
)
from murmuration.experiments.statistics import middle
from murmuration.reports.figures import Chart, Parallel, Series
from murmuration.reports.page import Page, ReportTable, Section

#: The values of each key that is varied.
Axes = Mapping[str, Sequence[Any]]
#: Figures of a workload that are drawn over an axis, and those that stand beside all of them.
CURVES = (
    ("Mean wait until a job starts", "wait_s_mean", "seconds", True),
    ("Scheduler busyness", "busy_fraction", "share of time", False),
    ("Conflicts", "conflict_fraction", "failed ÷ successful", False),
)
COORDINATES = {
    "wait_s_mean": "wait s",
    "wait_s_p95": "p95 wait s",
    "slowdown_mean": "slowdown",
    "busy_fraction": "busy",
    "conflict_fraction": "conflicts",
}


def sweep(title: str, axes: Axes, summaries: Sequence[Summary]) -> Page:
    """The report of a grid of runs: the table, and each figure over the first axis that is a
    number."""
    columns, rows = overview(summaries)
    figures: list[Chart | Parallel] = [*_coordinates(axes, summaries)]
    axis = next(
        (key for key, values in axes.items() if all(type(v) in (int, float) for v in values)), None
    )
    if axis is not None and len(axes[axis]) > 1:
        log = min(axes[axis]) > 0 and max(axes[axis]) / min(axes[axis]) >= 20
        for name, key, unit, y_log in CURVES:
            curves = _curves(axis, axes, summaries, key)
            apart = len({curve.panel for curve in curves}) > 1
            chart = Chart(name, axis, unit, curves, x_log=log, apart=apart)
            if tells_something(chart):
                figures.append(replace(chart, y_log=y_log))
    table = ReportTable("Every run", columns, rows, f"{MEANINGS} Bars are 95 % intervals.")
    return Page(
        title=title,
        subtitle="A grid of runs",
        facts=facts_in_common(summaries),
        footer=FOOTER,
        sections=(
            Section("At a glance", tables=(table,)),
            Section("Figures", figures=tuple(figures)),
        ),
    )


def _coordinates(axes: Axes, summaries: Sequence[Summary]) -> list[Parallel]:
    """Every run and workload as one line over what was varied and what came of it."""
    workloads = list(summaries[0]["workloads"])
    names = [key.rsplit(".", 1)[-1] for key in axes]
    labels = [_labels(values) for values in axes.values()]
    if len(set(names)) < len(names):
        names = list(axes)
    if len(workloads) > 1:
        names, labels = ["workload", *names], [tuple(workloads), *labels]
    pairs = [(s, name, s["workloads"][name]) for s in summaries for name in workloads]
    telling = [k for k in COORDINATES if any(middle(f.get(k)) for _, _, f in pairs)]
    rows = []
    for summary, workload, figures in pairs:
        settings = [
            float(values.index(summary["vary"][key])) if _labels(values) else summary["vary"][key]
            for key, values in axes.items()
        ]
        before = [float(workloads.index(workload))] if len(workloads) > 1 else []
        rows.append([*before, *settings, *(middle(figures.get(key)) for key in telling)])
    if not telling or len(rows) < 2:
        return []
    axis_names = (*names, *(COORDINATES[key] for key in telling))
    note = "Each line is a run" + (" and a workload." if len(workloads) > 1 else ".")
    title = "What was varied, and what came of it"
    return [Parallel(title, axis_names, rows, (), note, "", (*labels, *((),) * len(telling)))]


def _labels(values: Sequence[Any]) -> tuple[str, ...]:
    """The names of an axis whose values are not all numbers."""
    if all(type(value) in (int, float) for value in values):
        return ()
    return tuple(str(value) for value in values)


def _bound(figures: Sequence[Summary], key: str, side: str) -> list[float | None] | None:
    """One end of each interval, if runs were replicated."""
    if not any(isinstance(figure[key], Mapping) for figure in figures):
        return None
    return [f[key].get(side) if isinstance(f[key], Mapping) else None for f in figures]


def _curves(axis: str, axes: Axes, summaries: Sequence[Summary], key: str) -> tuple[Series, ...]:
    """A curve per combination of the other axes and workload; saturated points are hollow."""
    groups: dict[str, list[Summary]] = {}
    for summary in summaries:
        others = ", ".join(
            f"{k.rsplit('.', 1)[-1]}={v}" for k, v in summary["vary"].items() if k != axis
        )
        groups.setdefault(others, []).append(summary)
    curves = []
    for colour, (label, group) in enumerate(groups.items()):
        for style, name in enumerate(group[0]["workloads"]):
            figures = [s["workloads"][name] for s in group]
            curves.append(
                Series(
                    f"{name} {label}".strip(),
                    [float(s["vary"][axis]) for s in group],
                    [middle(f[key]) for f in figures],
                    low=_bound(figures, key, "low"),
                    high=_bound(figures, key, "high"),
                    hollow=[bool(f["saturated"]) for f in figures],
                    dotted=style > 0,
                    colour=colour * len(group[0]["workloads"]) + style,
                    markers=True,
                    panel=label,
                )
            )
    return tuple(curves)
