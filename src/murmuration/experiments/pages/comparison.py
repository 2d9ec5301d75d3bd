"""The page of a comparison: several schedulers on one workload."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from murmuration.cluster import allocation_types
from murmuration.experiments.pages.columns import MEANINGS, cell
from murmuration.experiments.pages.parts import (
    FOOTER,
    Columns,
    Curves,
    Summary,
    facts_in_common,
    keep_telling,
    kind_label,
    lines,
    notes_section,
    overview,
    rate,
)
from murmuration.experiments.pages.verdict import differences_table, headlines
from murmuration.experiments.runs import Summary as RunSummary
from murmuration.experiments.statistics import middle
from murmuration.experiments.unplaced import warnings
from murmuration.reports.figures import Bars, Chart
from murmuration.reports.page import Page, ReportTable, Section


def comparison(
    title: str,
    summaries: Sequence[Summary],
    series: Mapping[str, Columns],
    runs: Sequence[RunSummary] = (),
) -> Page:
    """The report of several schedulers on one workload; `runs` are the same before replicas were
    combined."""
    columns, rows = overview(summaries)
    remarks = [f"{warning}." for warning in warnings(summaries)]
    note = " ".join([MEANINGS, *remarks])
    table = ReportTable("Each scheduler on the same jobs", columns, rows, note)
    return Page(
        title=title,
        subtitle=_subtitle(summaries),
        facts=facts_in_common(summaries),
        footer=FOOTER,
        sections=(
            *_verdict(runs),
            Section("Waiting and busyness", figures=tuple(_headlines(summaries))),
            Section("At a glance", tables=(table, placement_table(summaries))),
            *_moving(summaries, series),
            Section("Over time", figures=keep_telling(_over_time(series))),
            *notes_section(summaries[0]),
        ),
    )


def _verdict(runs: Sequence[RunSummary]) -> list[Section]:
    sentences, table = headlines(runs), differences_table(runs)
    if not sentences:
        return []
    text = "\n\n".join(f"{line[0].upper()}{line[1:]}" for line in sentences)
    return [Section("Verdict", text=text, tables=() if table is None else (table,))]


def _subtitle(summaries: Sequence[Summary]) -> str:
    if len(summaries) == 1:
        return f"{summaries[0]['scheduler']}, several seeds"
    return "Schedulers side by side on the same jobs"


@dataclass(frozen=True)
class Headline:
    """A figure of each workload that is shown as bars."""

    title: str
    unit: str
    key: str
    y_log: bool = False
    y_percent: bool = False


#: From this ratio on, bars are drawn by their logarithm.
DECADES = 100.0
WHISKERS = "Whiskers: 95 % confidence intervals over the seeds."
HEADLINES = (
    Headline("Mean wait until a job starts", "seconds", "wait_s_mean", y_log=True),
    Headline("Mean wait until all its tasks run", "seconds", "wait_full_s_mean", y_log=True),
    Headline("Mean slowdown", "turnaround ÷ work", "slowdown_mean"),
    Headline("Scheduler busyness", "share of time", "busy_fraction", y_percent=True),
    Headline("Conflict fraction", "failed ÷ successful", "conflict_fraction"),
)


def _headlines(summaries: Sequence[Summary]) -> Iterator[Bars]:
    """The bars that have something to show."""
    for headline in HEADLINES:
        bars = _bars(headline, summaries)
        if any(value for _, values in bars.series for value in values):
            yield bars


def _spans_decades(values: Iterable[Sequence[Any]]) -> bool:
    """Whether bars differ so much that only a logarithm shows them all; the length of a bar means
    more without."""
    known = [float(middle(value)) for row in values for value in row if middle(value)]
    return bool(known) and max(known) > DECADES * min(known)


def _bars(headline: Headline, summaries: Sequence[Summary]) -> Bars:
    """One bar per scheduler and workload, with its interval if runs were replicated."""
    names = list(summaries[0]["workloads"])
    values = {name: [s["workloads"][name][headline.key] for s in summaries] for name in names}
    low = tuple(_bounds(values[name], "low") for name in names)
    high = tuple(_bounds(values[name], "high") for name in names)
    bounded = any(value is not None for row in low for value in row)
    return Bars(
        headline.title,
        headline.unit,
        tuple(str(summary["scheduler"]) for summary in summaries),
        tuple((name, tuple(middle(value) for value in values[name])) for name in names),
        y_log=headline.y_log and _spans_decades(values.values()),
        y_percent=headline.y_percent,
        note=WHISKERS if bounded else "",
        low=low if bounded else None,
        high=high if bounded else None,
    )


#: Figures of the cluster that only some scenarios have.
EXTRA_COLUMNS = {
    "tasks_lost": "tasks lost",
    "cpu_h_lost": "CPU h lost",
    "jobs_preempted": "jobs preempted",
    "energy_kwh": "kWh",
    "cost": "cost",
}


def placement_table(summaries: Sequence[Summary]) -> ReportTable:
    """What each scheduler's placement made of the cluster."""
    columns = ["scheduler", "nodes in use", "fragmentation", "imbalance", "migrations per minute"]
    extra = [name for name in EXTRA_COLUMNS if any(name in s["cluster"] for s in summaries)]
    rows = []
    for summary in summaries:
        figures = summary["cluster"]
        rows.append(
            [
                summary["scheduler"],
                cell(figures["nodes_in_use_mean"]),
                cell(figures["fragmentation_mean"], share=True),
                cell(figures["imbalance_mean"], share=True),
                cell(figures["migrations_per_min"]),
                *(cell(figures.get(name)) for name in extra),
            ]
        )
    columns += [EXTRA_COLUMNS[name] for name in extra]
    note = (
        "Fragmentation: of the average tasks that would fit if all free room were one node, the "
        "share that does not fit as it lies. Imbalance: standard deviation of the nodes' loads."
    )
    return ReportTable("The cluster under each scheduler", tuple(columns), rows, note)


def _bounds(values: Sequence[Any], side: str) -> tuple[float | None, ...]:
    """One end of each interval; None where there was a single run."""
    return tuple(value.get(side) if isinstance(value, dict) else None for value in values)


def _moving(summaries: Sequence[Summary], series: Mapping[str, Columns]) -> list[Section]:
    """How well nodes are filled and what that costs, where some scheduler moves running tasks."""
    clusters = [summary["cluster"] for summary in summaries]
    if not any(middle(cluster["migrations_per_min"]) for cluster in clusters):
        return []
    groups = tuple(str(summary["scheduler"]) for summary in summaries)
    kinds = tuple(
        (
            kind_label(name),
            tuple(float(middle(cluster["allocation_types"][name])) for cluster in clusters),
        )
        for name in allocation_types.NAMES
    )
    moves = (
        ("migrations", tuple(float(middle(cluster["migrations_per_min"])) for cluster in clusters)),
    )
    idle = {k: (v["time_s"], v["nodes.idle"]) for k, v in series.items()}
    figures = (
        Bars("Nodes by allocation type", "nodes", groups, kinds),
        Bars("Migrations", "per minute", groups, moves),
        lines("Idle nodes", "nodes", idle, False),
    )
    return [Section("Packing and migrations", figures=figures)]


def _over_time(series: Mapping[str, Columns]) -> Iterator[Chart]:
    """Utilisation, busyness, conflicts and queues over time, a line per scheduler."""
    first = next(iter(series.values()))
    workloads = [name.removesuffix(".busy_s") for name in first if name.endswith(".busy_s")]
    yield from _utilisation(series, "required")
    if "used.cpu" in first:
        yield from _utilisation(series, "used")
        over = {k: (v["time_s"][1:], v["nodes.overloaded"][1:]) for k, v in series.items()}
        yield lines("Overloaded nodes", "nodes", over, False)
    for name in workloads:
        busy = {k: (v["time_s"], rate(v["time_s"], v[f"{name}.busy_s"])) for k, v in series.items()}
        yield lines(f"Busyness, {name}", "share of time", busy, True)
    commits = {f"{name}.commits_failed" for name in workloads}
    failed = _totals(series, lambda column: column in commits)
    yield lines("Conflicts so far", "failed job transactions", failed, False)
    queues = _totals(series, lambda column: column.startswith("queue."))
    yield lines("Jobs queued", "jobs", queues, False)


def _utilisation(series: Mapping[str, Columns], kind: str) -> Iterator[Chart]:
    for resource, title in (("cpu", "CPU"), ("memory", "Memory")):
        share = {k: (v["time_s"], v[f"{kind}.{resource}"]) for k, v in series.items()}
        yield lines(f"{title} {kind}", "share of the cluster", share, True)


def _totals(series: Mapping[str, Columns], wanted: Callable[[str], bool]) -> Curves:
    """The sum of the columns that are wanted, over time."""
    curves = {}
    for label, table in series.items():
        columns = [values for name, values in table.items() if wanted(name)]
        times = table["time_s"]
        curves[label] = (times, [sum(column[i] for column in columns) for i in range(len(times))])
    return curves
