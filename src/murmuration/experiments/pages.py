"""The pages of runs: which tables and figures a run, a comparison and a sweep are shown with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from murmuration.base.version import __version__
from murmuration.cluster import allocation_types
from murmuration.experiments.statistics import middle
from murmuration.reports.charts import Bars, Chart, Series
from murmuration.reports.formats import human, percent
from murmuration.reports.page import Page, Section, Table
from murmuration.simulation.results import snapshots

Summary = Mapping[str, Any]
Columns = dict[str, list[float]]
SLO_S = 30.0
DAY_S = 86_400.0
FOOTER = (
    f"Murmuration {__version__}. Wait: submission to the start of the first attempt. Busyness: "
    "time spent on attempts. "
    "Conflict fraction: failed ÷ successful job transactions."
)


def read_series(folder: str | Path) -> Columns:
    """The time series of a run, by column."""
    import polars as pl

    return pl.read_parquet(Path(folder) / snapshots.SERIES).to_dict(as_series=False)


def overview(summaries: Sequence[Summary]) -> tuple[list[str], list[list[object]]]:
    """The table of a comparison: one row per scheduler, the figures of each workload side by
    side."""
    names = list(summaries[0]["workloads"])
    columns = ["scheduler"]
    for title in ("wait s", "wait p90 s", "full s", "busy", "conflicts", "left"):
        columns += [f"{title} {name}" for name in names]
    columns += ["cpu", "memory"]
    return columns, [_overview_row(summary, names) for summary in summaries]


def _overview_row(summary: Summary, names: Sequence[str]) -> list[object]:
    def figures(key: str) -> list[object]:
        return [middle(summary["workloads"][name][key]) for name in names]

    left = [
        middle(summary["workloads"][name]["jobs_queued"])
        + middle(summary["workloads"][name]["jobs_abandoned"])
        for name in names
    ]
    required = [percent(middle(summary["cluster"]["required"][name])) for name in ("cpu", "memory")]
    saturated = any(summary["workloads"][name]["saturated"] for name in names)
    label = f"{summary['scheduler']} (saturated)" if saturated else summary["scheduler"]
    return [
        label,
        *figures("wait_s_mean"),
        *figures("wait_s_p90"),
        *figures("wait_full_s_mean"),
        *[percent(value, 2) for value in figures("busy_fraction")],
        *figures("conflict_fraction"),
        *left,
        *required,
    ]


def comparison(
    title: str,
    summaries: Sequence[Summary],
    series: Mapping[str, Columns],
    facts: Sequence[tuple[str, str]],
) -> Page:
    """The report of several schedulers on one workload."""
    columns, rows = overview(summaries)
    note = "A mean wait over a saturated queue only grows with the run."
    table = Table("Each scheduler on the same jobs", columns, rows, note)
    return Page(
        title=title,
        subtitle="Schedulers side by side on one workload",
        facts=tuple(facts),
        footer=FOOTER,
        sections=(
            Section("At a glance", tables=(table,)),
            Section("Waiting and busyness", figures=tuple(_bars(summaries))),
            *_moving(summaries, series),
            Section("Over time", figures=tuple(_over_time(series))),
            *_notes(summaries[0]),
        ),
    )


def _notes(summary: Summary) -> list[Section]:
    """What was assumed and left out when the jobs were read from a trace."""
    notes = summary.get("notes", [])
    return [Section("About the trace", text="\n\n".join(notes))] if notes else []


def _bars(summaries: Sequence[Summary]) -> list[Bars]:
    """One bar per scheduler and workload for each headline figure."""
    wanted = (
        (
            "Mean job wait time",
            "seconds",
            "wait_s_mean",
            True,
            False,
            ((f"SLO {SLO_S:g} s", SLO_S),),
        ),
        ("Mean time until fully scheduled", "seconds", "wait_full_s_mean", True, False, ()),
        ("Scheduler busyness", "share of time", "busy_fraction", False, True, ()),
        ("Conflict fraction", "failed ÷ successful", "conflict_fraction", False, False, ()),
    )
    groups = tuple(str(summary["scheduler"]) for summary in summaries)
    charts = []
    for title, unit, key, log, as_percent, lines in wanted:
        series, low, high = [], [], []
        for name in summaries[0]["workloads"]:
            values = [summary["workloads"][name][key] for summary in summaries]
            series.append((name, tuple(middle(value) for value in values)))
            low.append(
                tuple(value.get("low") if isinstance(value, dict) else None for value in values)
            )
            high.append(
                tuple(value.get("high") if isinstance(value, dict) else None for value in values)
            )
        bounded = any(value is not None for row in low for value in row)
        charts.append(
            Bars(
                title,
                unit,
                groups,
                tuple(series),
                y_log=log,
                y_percent=as_percent,
                lines=lines,
                low=tuple(low) if bounded else None,
                high=tuple(high) if bounded else None,
            )
        )
    return charts


def _kind_label(kind: str) -> str:
    return kind.upper() if kind in ("sta", "ta", "pa", "da") else kind


def _moving(summaries: Sequence[Summary], series: Mapping[str, Columns]) -> list[Section]:
    """How well nodes are filled and what that costs, where some scheduler moves running tasks."""
    clusters = [summary["cluster"] for summary in summaries]
    if not any(middle(cluster["migrations_per_min"]) for cluster in clusters):
        return []
    groups = tuple(str(summary["scheduler"]) for summary in summaries)
    kinds = tuple(
        (
            _kind_label(name),
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
        _lines("Idle nodes", "nodes", idle, False),
    )
    return [Section("Packing and migrations", figures=figures)]


def _over_time(series: Mapping[str, Columns]) -> list[Chart]:
    """Utilisation, busyness, conflicts and queues over time, a line per scheduler."""
    first = next(iter(series.values()))
    workloads = [name.removesuffix(".busy_s") for name in first if name.endswith(".busy_s")]
    charts = []
    for title, column in (("CPU required", "required.cpu"), ("Memory required", "required.memory")):
        required = {k: (v["time_s"], v[column]) for k, v in series.items()}
        charts.append(_lines(title, "share of the cluster", required, True))
    if "used.cpu" in first:
        for title, column in (("CPU used", "used.cpu"), ("Memory used", "used.memory")):
            used = {k: (v["time_s"], v[column]) for k, v in series.items()}
            charts.append(_lines(title, "share of the cluster", used, True))
        over = {k: (v["time_s"][1:], v["nodes.overloaded"][1:]) for k, v in series.items()}
        charts.append(_lines("Overloaded nodes", "nodes", over, False))
    for name in workloads:
        busy = {
            k: (v["time_s"], _rate(v["time_s"], v[f"{name}.busy_s"])) for k, v in series.items()
        }
        charts.append(_lines(f"Busyness, {name}", "share of time", busy, True))
    failed = {
        k: (
            v["time_s"],
            [
                sum(v[f"{name}.commits_failed"][i] for name in workloads)
                for i in range(len(v["time_s"]))
            ],
        )
        for k, v in series.items()
    }
    charts.append(_lines("Conflicts so far", "failed job transactions", failed, False))
    queues = {
        k: (
            v["time_s"],
            [sum(v[q][i] for q in v if q.startswith("queue.")) for i in range(len(v["time_s"]))],
        )
        for k, v in series.items()
    }
    charts.append(_lines("Jobs queued", "jobs", queues, False))
    return charts


def _lines(
    title: str, unit: str, curves: Mapping[str, tuple[list[float], list[float]]], as_percent: bool
) -> Chart:
    series = tuple(Series(name, [t / DAY_S for t in x], y) for name, (x, y) in curves.items())
    return Chart(title, "day", unit, series, y_percent=as_percent)


def _rate(times: list[float], total: list[float], steps: int = 8) -> list[float]:
    """How fast a running total grows, over a few samples at a time so that single attempts do not
    show as spikes."""
    rates = []
    for i in range(len(times)):
        j = max(i - steps, 0)
        rates.append((total[i] - total[j]) / (times[i] - times[j]) if i > j else 0.0)
    return rates


def single(title: str, summary: Summary, series: Columns, facts: Sequence[tuple[str, str]]) -> Page:
    """The report of one run."""
    names = list(summary["workloads"])
    rows = [
        [key.replace("_", " "), *[middle(summary["workloads"][n][key]) for n in names]]
        for key in summary["workloads"][names[0]]
    ]
    measured = any(name.startswith("used.") for name in series)
    if measured:
        # The first sample is of the cell before anything was found on it.
        series = {name: values[1:] for name, values in series.items()}
    days = [t / DAY_S for t in series["time_s"]]
    types = tuple(
        Series(_kind_label(kind), days, series[f"nodes.{kind}"]) for kind in allocation_types.NAMES
    )
    resources = [name.removeprefix("required.") for name in series if name.startswith("required.")]
    kinds = ("used", "guaranteed", "required") if measured else ("required",)
    amounts = {
        f"{name} {kind}" if measured else name: (series["time_s"], series[f"{kind}.{name}"])
        for name in resources
        for kind in kinds
    }
    busy = {
        name: (series["time_s"], _rate(series["time_s"], series[f"{name}.busy_s"]))
        for name in names
    }
    queues = {
        q.removeprefix("queue."): (series["time_s"], series[q])
        for q in series
        if q.startswith("queue.")
    }
    failed = {name: (series["time_s"], series[f"{name}.commits_failed"]) for name in names}
    over = {"overloaded": (series["time_s"], series["nodes.overloaded"])}
    figures = (
        _lines(
            "Resources" if measured else "Resources required", "share of the cluster", amounts, True
        ),
        *((_lines("Overloaded nodes", "nodes", over, False),) if measured else ()),
        Chart("Nodes by allocation type", "day", "nodes", types),
        _lines("Jobs queued", "jobs", queues, False),
        *(
            chart
            for chart in (
                _lines("Busyness", "share of time", busy, True),
                _lines("Conflicts so far", "failed job transactions", failed, False),
            )
            if not measured or any(any(line.y) for line in chart.series)
        ),
    )
    tables = (Table("Each workload", ("figure", *names), rows), *_moved(summary["cluster"]))
    return Page(
        title=title,
        subtitle=f"{summary['scheduler']}, seed {summary['seed']}",
        facts=tuple(facts),
        footer=FOOTER,
        sections=(
            Section("At a glance", tables=tables),
            Section("Over time", figures=figures),
            *_notes(summary),
        ),
    )


def _moved(cluster: Summary) -> list[Table]:
    """What moving running tasks came to, where a scheduler does so."""
    if not middle(cluster["migrations_per_min"]):
        return []
    keys = [
        key
        for key in cluster
        if key.startswith(("migrat", "messages", "searches", "groups", "collision"))
    ]
    rows = [[key.replace("_", " "), middle(cluster[key])] for key in keys]
    return [Table("Tasks that moved", ("figure", "cluster"), rows)]


def facts_of(summary: Summary) -> list[tuple[str, str]]:
    """What a reader should see first."""
    jobs = sum(middle(w["jobs_submitted"]) for w in summary["workloads"].values())
    tasks = sum(middle(w["tasks_placed"]) for w in summary["workloads"].values())
    seed = (
        summary["seed"]
        if not isinstance(summary["seed"], list)
        else f"{summary['seed'][0]}–{summary['seed'][-1]}"
    )
    return [
        ("nodes", human(middle(summary["cluster"]["nodes_mean"]))),
        ("days", human(summary["days"])),
        ("jobs", f"{jobs:,.0f}"),
        ("tasks placed", f"{tasks:,.0f}"),
        ("seed", str(seed)),
    ]


def sweep(
    title: str,
    axes: Mapping[str, Sequence[Any]],
    summaries: Sequence[Summary],
    facts: Sequence[tuple[str, str]],
) -> Page:
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
    table = Table("Every run", columns, rows)
    return Page(
        title=title,
        subtitle="A grid of runs",
        facts=tuple(facts),
        footer=FOOTER,
        sections=(
            Section("At a glance", tables=(table,)),
            Section("Figures", figures=tuple(figures)),
        ),
    )


def _curves(
    axis: str, axes: Mapping[str, Sequence[Any]], summaries: Sequence[Summary], key: str
) -> tuple[Series, ...]:
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
