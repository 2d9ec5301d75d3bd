"""The report of auto-scaling runs: capacity against the band, nodes, requests and cost of each
scaler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.base.version import __version__
from murmuration.experiments.autoscale import AutoscaleOutcome, Columns
from murmuration.reports.charts import Chart, Series
from murmuration.reports.formats import human, percent
from murmuration.reports.page import Page, ReportTable, Section

FOOTER = (
    f"Murmuration {__version__}. Optimum: rate × execution time ÷ target load; band: the same at "
    "target ± δ. Oscillations: turns of the capacity by more than the band's half-width, beyond "
    "those of the optimum."
)
Values = Callable[[Columns], NDArray[np.float64]]
HOURS_FROM_S = 10_800.0
#: Points of a plotted line.
POINTS = 700


def tabulate(summaries: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[object]]]:
    """One row per scaler: is the capacity right, what did it do to requests, what did it cost."""
    columns = [
        "autoscaler",
        "inside band",
        "below",
        "above",
        "oscillations",
        "nodes mean",
        "added",
        "removed",
        "rejected",
        "response s",
        "p95 s",
        "cost",
    ]
    return columns, [_row(summary) for summary in summaries]


def _row(summary: Mapping[str, Any]) -> list[object]:
    capacity, nodes, requests, response = (
        summary[key] for key in ("capacity", "nodes", "requests", "response_s")
    )
    return [
        summary["autoscaler"],
        *(percent(capacity[f"{side}_fraction"]) for side in ("inside", "below", "above")),
        capacity["oscillations"],
        nodes["mean"],
        nodes["added"],
        nodes["removed"],
        percent(requests["rejected_fraction"], 2),
        response["mean"],
        response["p95"],
        summary["cost"]["total"],
    ]


def draw_page(outcomes: Sequence[AutoscaleOutcome]) -> Page:
    """The report: capacity against the band, nodes, rejections, response times, cost."""
    first = outcomes[0].summary
    columns, rows = tabulate([outcome.summary for outcome in outcomes])
    table = ReportTable(
        "Each scaler on the same requests" if len(outcomes) > 1 else "The run", columns, rows
    )
    wide = [_capacity_chart(outcome.summary["autoscaler"], outcome.series) for outcome in outcomes]
    return Page(
        title=str(first["scenario"]),
        subtitle="Capacity against demand",
        footer=FOOTER,
        facts=(
            ("seconds", human(first["seconds"])),
            ("requests", f"{first['requests']['arrived']:,}"),
            ("nodes, most", human(first["nodes"]["max"])),
            ("seed", str(first["seed"])),
        ),
        sections=(
            Section("At a glance", tables=(table,)),
            Section("Capacity against the band", figures=tuple(wide)),
            Section("Over time", figures=tuple(_figures(outcomes))),
            Section("One cycle, by the binomial formula", tables=(_analysis(first["one_cycle"]),)),
        ),
    )


def _thin(count: int) -> NDArray[np.int64]:
    """Which samples to plot."""
    return np.unique(np.linspace(0, count - 1, min(count, POINTS)).round().astype(np.int64))


def _axis(columns: Columns) -> tuple[str, list[float], NDArray[np.int64]]:
    """What stands below a plot: its name, its values, and which samples they belong to. Long runs
    show hours."""
    at = _thin(len(columns["time_s"]))
    if columns["time_s"][-1] > HOURS_FROM_S:
        return "hour", (columns["time_s"][at] / 3600.0).tolist(), at
    return "second", columns["time_s"][at].tolist(), at


def _capacity_chart(name: str, columns: Columns) -> Chart:
    """The capacity on the optimum and its band."""
    label, x, at = _axis(columns)
    optimum, low, high = (columns[key][at].tolist() for key in ("optimum", "band_low", "band_high"))
    lines = (
        Series("optimum and band", x, optimum, low, high, dotted=True, colour=1),
        Series(f"capacity, {name}", x, columns["capacity"][at].tolist(), colour=0),
    )
    return Chart(f"Capacity against the optimum: {name}", label, "requests in parallel", lines)


def _figures(outcomes: Sequence[AutoscaleOutcome]) -> list[Chart]:
    def chart(
        title: str, unit: str, values: Values, as_percent: bool = False, note: str = ""
    ) -> Chart:
        label, lines = "", []
        for outcome in outcomes:
            label, x, at = _axis(outcome.series)
            lines.append(
                Series(outcome.summary["autoscaler"], x, values(outcome.series)[at].tolist())
            )
        return Chart(title, label, unit, tuple(lines), y_percent=as_percent, note=note)

    return [
        *(_types_chart(outcome) for outcome in outcomes),
        chart(
            "Rejected requests",
            "share of those that arrived",
            _rejected_share,
            True,
            "Over the last minute.",
        ),
        chart(
            "Response time",
            "seconds, mean",
            _response,
            note="Of the requests that ended in the last minute.",
        ),
        chart("Cost so far", "price units", lambda columns: columns["cost"]),
        chart(
            "Oscillation",
            "capacity ÷ optimum",
            _ratio,
            note="A curve that swings round 1 adds and removes in turn.",
        ),
        chart(
            "Nodes added and removed so far",
            "nodes",
            lambda columns: columns["added"] + columns["removed"],
        ),
    ]


def _types_chart(outcome: AutoscaleOutcome) -> Chart:
    columns = outcome.series
    label, x, at = _axis(columns)
    kinds = [name for name in columns if name.startswith("nodes.") and columns[name].any()]
    lines = [Series(name.removeprefix("nodes."), x, columns[name][at].tolist()) for name in kinds]
    if len(kinds) > 1:
        lines.append(Series("all", x, columns["nodes"][at].tolist(), dotted=True))
    return Chart(f"Nodes by type: {outcome.summary['autoscaler']}", label, "nodes up", tuple(lines))


def _ratio(columns: Columns) -> NDArray[np.float64]:
    """The capacity by the optimum; nothing where nothing arrives."""
    return _quotient(columns["capacity"], columns["optimum"])


def _quotient(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    quotient = np.full(len(above), np.nan)
    np.divide(above, below, out=quotient, where=below > 0)
    return quotient


def _per(columns: Columns, above: str, below: str) -> NDArray[np.float64]:
    """How one running total grows by another's, over the last minute (at least two samples)."""
    times = columns["time_s"]
    step = float(times[1] - times[0]) if len(times) > 1 else 1.0
    back = np.maximum(np.arange(len(times)) - max(1, round(60.0 / step)), 0)
    return _quotient(columns[above] - columns[above][back], columns[below] - columns[below][back])


def _rejected_share(columns: Columns) -> NDArray[np.float64]:
    return _per(columns, "rejected", "arrived")


def _response(columns: Columns) -> NDArray[np.float64]:
    return _per(columns, "response_s", "done")


def _analysis(one_cycle: Mapping[str, Any]) -> ReportTable:
    rows = [
        [
            f"workload {word} by half",
            percent(one_cycle[f"inside_{side}"], 2),
            one_cycle[f"smallest_band_{side}"],
        ]
        for side, word in (("up", "up"), ("down", "down"))
    ]
    caption = f"{one_cycle['nodes']:,} equal nodes that all know the load"
    return ReportTable(
        caption,
        (
            "change",
            "ends inside the band",
            f"smallest δ for {percent(one_cycle['probability'], 0)}",
        ),
        rows,
    )
