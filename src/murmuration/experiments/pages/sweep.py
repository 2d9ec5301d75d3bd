"""The page of a sweep: a grid of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from murmuration.reports.formats import human
from murmuration.reports.page import Page, ReportTable, Section

#: The values of each key that is varied.
Axes = Mapping[str, Sequence[Any]]
#: Figures of a workload that are drawn over an axis, and those that stand beside all of them.
CURVES = (
    ("Mean wait until a job starts", "wait_s_mean", "seconds", True),
    ("Scheduler busyness", "busy_fraction", "share of time", False),
    ("Conflicts", "conflict_fraction", "failed ÷ successful", False),
)
#: Means that differ by less are the same to a reader.
EQUAL = 0.005
COORDINATES = {
    "wait_s_mean": "wait s",
    "wait_s_p95": "p95 wait s",
    "slowdown_mean": "slowdown",
    "busy_fraction": "busy %",
    "conflict_fraction": "conflicts",
}


def sweep(title: str, axes: Axes, summaries: Sequence[Summary]) -> Page:
    """The report of a grid of runs: what was best, every run as a line, each figure over the first
    axis that is a number, and the table."""
    (_, *columns), rows = overview(summaries)
    figures: list[Chart | Parallel] = [*_coordinates(axes, summaries)]
    axis = next(
        (key for key, values in axes.items() if all(type(v) in (int, float) for v in values)), None
    )
    if axis is not None and len(axes[axis]) > 1:
        log = min(axes[axis]) > 0 and max(axes[axis]) / min(axes[axis]) >= 20
        for name, key, unit, y_log in CURVES:
            curves = _curves(axis, axes, summaries, key)
            apart = len({curve.panel for curve in curves}) > 1
            share = key == "busy_fraction"
            x_label = _short_names(axes)[axis]
            chart = Chart(name, x_label, unit, curves, x_log=log, apart=apart, y_percent=share)
            if tells_something(chart):
                figures.append(replace(chart, y_log=y_log))
    bars = " ±: 95 % interval over the seeds; bars show the same." if _replicated(summaries) else ""
    table = ReportTable("Every run", ("run", *columns), rows, MEANINGS + bars)
    return Page(
        title=title,
        subtitle="A grid of runs",
        facts=facts_in_common(summaries),
        footer=FOOTER,
        sections=(
            Section("In short", text="\n\n".join(_sentences(summaries))),
            Section("Figures", figures=tuple(figures)),
            Section("At a glance", tables=(table,)),
        ),
    )


def _replicated(summaries: Sequence[Summary]) -> bool:
    return isinstance(summaries[0]["seed"], list)


def _sentences(summaries: Sequence[Summary]) -> Iterator[str]:
    """Of each workload the run with the shortest wait and that with the longest."""
    for workload in summaries[0]["workloads"]:
        waits = {s["scheduler"]: middle(s["workloads"][workload]["wait_s_mean"]) for s in summaries}
        known = {run: wait for run, wait in waits.items() if wait is not None}
        if not known:
            continue
        low, high = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
        least, most = human(known[low]), human(known[high])
        if known[high] - known[low] <= EQUAL * known[high]:
            yield f"In every run {workload} jobs wait {least} s on average."
        else:
            yield f"Mean wait of {workload} jobs: from {least} s ({low}) to {most} s ({high})."


def _short_names(axes: Axes) -> dict[str, str]:
    """Keys without their tables, unless two would then be one."""
    short = {key: key.rsplit(".", 1)[-1] for key in axes}
    return short if len(set(short.values())) == len(short) else {key: key for key in axes}


def _coordinates(axes: Axes, summaries: Sequence[Summary]) -> list[Parallel]:
    """Every run and workload as one line over what was varied and what came of it."""
    workloads = list(summaries[0]["workloads"])
    names = list(_short_names(axes).values())
    labels = [_labels(values) for values in axes.values()]
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
        rows.append([*before, *settings, *(_coordinate(figures, key) for key in telling)])
    if not telling or len(rows) < 2:
        return []
    axis_names = (*names, *(COORDINATES[key] for key in telling))
    note = "Each line is a run" + (" and a workload." if len(workloads) > 1 else ".")
    title = "What was varied, and what came of it"
    return [Parallel(title, axis_names, rows, (), note, "", (*labels, *((),) * len(telling)))]


def _coordinate(figures: Summary, key: str) -> Any:
    value = middle(figures.get(key))
    return 100 * value if key == "busy_fraction" and value is not None else value


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
