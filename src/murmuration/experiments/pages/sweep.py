"""The page of a sweep: a grid of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from murmuration.experiments.pages.parts import FOOTER, Summary, facts_of, overview
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
        for name, key, y_log in (
            ("Mean job wait time", "wait_s_mean", True),
            ("Busyness", "busy_fraction", False),
            ("Conflict fraction", "conflict_fraction", False),
        ):
            unit, curves = "seconds" if y_log else "share", _curves(axis, axes, summaries, key)
            figures.append(Chart(name, axis, unit, curves, x_log=log, y_log=y_log))
    table = ReportTable("Every run", columns, rows)
    return Page(
        title=title,
        subtitle="A grid of runs",
        facts=tuple(facts_of(summaries[0])),
        footer=FOOTER,
        sections=(
            Section("At a glance", tables=(table,)),
            Section("Figures", figures=tuple(figures)),
        ),
    )


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
                    hollow=[bool(f["saturated"]) for f in figures],
                    dotted=style > 0,
                    colour=colour,
                    markers=True,
                )
            )
    return tuple(curves)
