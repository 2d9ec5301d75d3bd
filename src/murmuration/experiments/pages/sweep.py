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
from murmuration.reports.charts import Chart, Series
from murmuration.reports.page import Page, ReportTable, Section

#: The values of each key that is varied.
Axes = Mapping[str, Sequence[Any]]


def sweep(title: str, axes: Axes, summaries: Sequence[Summary]) -> Page:
    """The report of a grid of runs: the table, and each figure over the first axis that is a
    number."""
    columns, rows = overview(summaries)
    figures: list[Chart] = []
    axis = next(
        (key for key, values in axes.items() if all(type(v) in (int, float) for v in values)), None
    )
    if axis is not None and len(axes[axis]) > 1:
        log = min(axes[axis]) > 0 and max(axes[axis]) / min(axes[axis]) >= 20
        for name, key, unit, y_log in (
            ("Mean wait until a job starts", "wait_s_mean", "seconds", True),
            ("Scheduler busyness", "busy_fraction", "share of time", False),
            ("Conflicts", "conflict_fraction", "failed ÷ successful", False),
        ):
            chart = Chart(name, axis, unit, _curves(axis, axes, summaries, key), x_log=log)
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
                )
            )
    return tuple(curves)
