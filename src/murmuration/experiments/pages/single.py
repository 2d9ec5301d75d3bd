"""The page of one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from murmuration.cluster import allocation_types
from murmuration.experiments.pages.columns import cell, label
from murmuration.experiments.pages.parts import (
    FOOTER,
    Columns,
    Curves,
    Summary,
    facts_of,
    keep_telling,
    kind_label,
    lines,
    notes_section,
    rate,
    resource_name,
)
from murmuration.experiments.statistics import middle
from murmuration.reports.figures import Chart
from murmuration.reports.formats import human, percent
from murmuration.reports.page import Page, ReportTable, Section


def single(summary: Summary, series: Columns) -> Page:
    """The report of one run."""
    names = list(summary["workloads"])
    tables = (_tabulate_workloads(summary), *_tabulate_migrations(summary["cluster"]))
    return Page(
        title=str(summary["scenario"]),
        subtitle=f"{summary['scheduler']}, seed {summary['seed']}",
        facts=tuple(facts_of(summary)),
        footer=FOOTER,
        sections=(
            Section("In short", text="\n\n".join(_sentences(summary))),
            Section("Over time", figures=keep_telling(_figures(names, series))),
            Section("Every figure", tables=tables),
            *notes_section(summary),
        ),
    )


def _tabulate_workloads(summary: Summary) -> ReportTable:
    """Every figure of each workload; what is nought for all of them is named below."""
    workloads = summary["workloads"]
    keys = [key for key in next(iter(workloads.values())) if key != "saturated"]
    telling = [key for key in keys if any(workload[key] != 0 for workload in workloads.values())]
    rows = [
        [label(key), *[_format_figure(key, workload[key]) for workload in workloads.values()]]
        for key in telling
    ]
    zero = "; ".join(label(key) for key in keys if key not in telling)
    return ReportTable("Each workload", ("figure", *workloads), rows, f"0: {zero}." if zero else "")


def _format_figure(key: str, figure: object) -> object:
    return cell(figure, share=key.startswith("busy")) if figure is not None else None


def _sentences(summary: Summary) -> Iterator[str]:
    """What a reader takes away."""
    for name, workload in summary["workloads"].items():
        waiting = workload["jobs_not_started"]
        left = f"{human(waiting)} never started" if waiting else "all of them started"
        yield (
            f"{human(workload['jobs_submitted'])} {name} jobs waited "
            f"{human(workload['wait_s_mean'])} s on average, one in twenty more than "
            f"{human(workload['wait_s_p95'])} s; {left}."
            + (" Its queue only grows: the mean says little." if workload["saturated"] else "")
        )
    required = summary["cluster"]["required"].items()
    shares = " and ".join(
        f"{percent(middle(share))} of the {resource_name(name)}" for name, share in required
    )
    nodes = summary["cluster"]["nodes_in_use_mean"]
    yield f"On average {human(nodes)} nodes were in use, and tasks asked for {shares}."


def _figures(workloads: Sequence[str], series: Columns) -> Iterator[Chart]:
    measured = any(name.startswith("used.") for name in series)
    if measured:
        # The first sample was taken before the tasks of time 0 were placed.
        series = {name: values[1:] for name, values in series.items()}
    yield _resources(series, measured)
    if measured:
        overloaded = _over_time(series, {"overloaded": "nodes.overloaded"})
        yield lines("Overloaded nodes", "nodes", overloaded, False)
    yield _allocation_types(series)
    queues = {name.removeprefix("queue."): name for name in series if name.startswith("queue.")}
    yield lines("Jobs queued", "jobs", _over_time(series, queues), False)
    yield from _scheduling(workloads, series)


def _over_time(series: Columns, columns: Mapping[str, str]) -> Curves:
    """Some columns as lines, by the label of each."""
    return {label: (series["time_s"], series[column]) for label, column in columns.items()}


def _resources(series: Columns, measured: bool) -> Chart:
    names = [name.removeprefix("required.") for name in series if name.startswith("required.")]
    columns = {resource_name(name): f"required.{name}" for name in names}
    if measured:
        kinds = ("used", "guaranteed", "required")
        columns = {
            f"{resource_name(name)} {kind}": f"{kind}.{name}" for name in names for kind in kinds
        }
    title = "Resources" if measured else "Resources required"
    return lines(title, "share of the cluster", _over_time(series, columns), True)


def _allocation_types(series: Columns) -> Chart:
    kinds = {kind_label(kind): f"nodes.{kind}" for kind in allocation_types.NAMES}
    there = {label: column for label, column in kinds.items() if any(series[column])}
    return lines("Nodes by allocation type", "nodes", _over_time(series, there), False)


def _scheduling(workloads: Sequence[str], series: Columns) -> tuple[Chart, Chart]:
    times = series["time_s"]
    busy = {name: (times, rate(times, series[f"{name}.busy_s"])) for name in workloads}
    failed = _over_time(series, {name: f"{name}.commits_failed" for name in workloads})
    return (
        lines("Busyness", "share of time", busy, True),
        lines("Conflicts so far", "failed job transactions", failed, False),
    )


def _tabulate_migrations(cluster: Summary) -> list[ReportTable]:
    """The figures of migrations, where a scheduler moves running tasks."""
    if not middle(cluster["migrations_per_min"]):
        return []
    keys = [
        key
        for key in cluster
        if key.startswith(("migrat", "messages", "searches", "groups", "collision"))
    ]
    rows = [[label(key), middle(cluster[key])] for key in keys]
    return [ReportTable("Tasks that moved", ("figure", "cluster"), rows)]
