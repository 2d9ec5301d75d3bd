"""The report of auto-scaling runs: capacity against the band, nodes, requests and cost of each
scaler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from murmuration.base.version import __version__
from murmuration.experiments.autoscale import Columns
from murmuration.experiments.pages.columns import cell
from murmuration.experiments.pages.verdict import certainty, difference_of, in_words
from murmuration.experiments.runs import Summary
from murmuration.experiments.statistics import middle
from murmuration.reports.figures import Chart, Series
from murmuration.reports.formats import human, percent, time_unit
from murmuration.reports.page import Page, ReportTable, Section

FOOTER = (
    f"Murmuration {__version__}. Optimum: rate × execution time ÷ target load; band: the same at "
    "target ± δ. Oscillations: turns of the capacity by more than the band's half-width, beyond "
    "those of the optimum."
)
Values = Callable[[Columns], NDArray[np.float64]]
#: Points of a plotted line.
POINTS = 700


def tabulate(summaries: Sequence[Summary]) -> tuple[list[str], list[list[object]]]:
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


def _row(summary: Summary) -> list[object]:
    capacity, nodes, requests, response = (
        summary[key] for key in ("capacity", "nodes", "requests", "response_s")
    )
    return [
        summary["autoscaler"],
        *(cell(capacity[f"{side}_fraction"], share=True) for side in ("inside", "below", "above")),
        cell(capacity["oscillations"]),
        *(cell(nodes[key]) for key in ("mean", "added", "removed")),
        cell(requests["rejected_fraction"], share=True),
        *(cell(response[key]) for key in ("mean", "p95")),
        cell(summary["cost"]["total"]),
    ]


#: What scalers are compared by: the keys of a figure, and what it is called in a sentence.
FIGURES = {
    ("capacity", "inside_fraction"): "time inside the band",
    ("requests", "rejected_fraction"): "rejected requests",
    ("response_s", "mean"): "response time",
    ("nodes", "mean"): "nodes",
    ("cost", "total"): "cost",
}


def judge(runs: Sequence[Summary]) -> list[str]:
    """How sure the comparison is, and each scaler against the first, seed by seed."""
    groups: dict[str, list[Summary]] = {}
    for run in runs:
        groups.setdefault(run["autoscaler"], []).append(run)
    (first, reference), *others = groups.items()
    if not others:
        return []
    sentences = [f"{name}: {_against(group, reference, first)}" for name, group in others]
    return [certainty(first, len(reference)), *sentences]


def _against(runs: Sequence[Summary], reference: Sequence[Summary], first: str) -> str:
    parts = []
    for (table, key), name in FIGURES.items():
        pairs = [(a[table][key], b[table][key]) for a, b in zip(runs, reference, strict=True)]
        parts += [in_words(d) for d in difference_of(name, pairs) if not d.is_equal]
    return "; ".join(parts) or f"no difference from {first}"


def draw_page(
    summaries: Sequence[Summary], series: Mapping[str, Columns], runs: Sequence[Summary]
) -> Page:
    """The report: capacity against the band, nodes, rejections, response times, cost. `summaries`
    has one for each scaler, replicas combined; `series` are those of its first run."""
    first = summaries[0]
    columns, rows = tabulate(summaries)
    caption = "Each scaler on the same requests" if len(summaries) > 1 else "The run"
    replicated = isinstance(first["seed"], list)
    note = "±: 95 % interval over the seeds; the curves are of the first seed." * replicated
    wide = [_capacity_chart(name, columns) for name, columns in series.items()]
    return Page(
        title=str(first["scenario"]),
        subtitle="Capacity against demand",
        footer=FOOTER,
        facts=_facts(first),
        sections=(
            Section(
                "At a glance",
                text="\n\n".join(judge(runs)),
                tables=(
                    ReportTable(f"{caption}: capacity", *_part(columns, rows, OF_CAPACITY), note),
                    ReportTable(f"{caption}: requests and cost", *_part(columns, rows, OF_COST)),
                ),
            ),
            Section("Capacity against the band", figures=tuple(wide)),
            Section("Over time", figures=tuple(_figures(series))),
            Section("One cycle, by the binomial formula", tables=(_analysis(first["one_cycle"]),)),
        ),
    )


#: The columns of two tables that fit a page with their intervals; each says whose row it is.
OF_CAPACITY = (0, 1, 2, 3, 4, 5, 6, 7)
OF_COST = (0, 8, 9, 10, 11)


def _part(
    columns: Sequence[str], rows: Sequence[Sequence[object]], places: Sequence[int]
) -> tuple[list[str], list[list[object]]]:
    """Some columns of a table."""
    return [columns[k] for k in places], [[row[k] for k in places] for row in rows]


def _facts(first: Summary) -> tuple[tuple[str, str], ...]:
    seed = first["seed"]
    unit_s, name = time_unit(first["seconds"])
    return (
        (name, human(first["seconds"] / unit_s)),
        ("requests", f"{round(middle(first['requests']['arrived'])):,}"),
        ("nodes at most", human(middle(first["nodes"]["max"]))),
        ("seeds" if isinstance(seed, list) else "seed", seed_range(seed)),
    )


def seed_range(seed: int | list[int]) -> str:
    """`3`, or `3–7` of several."""
    return f"{seed[0]}–{seed[-1]}" if isinstance(seed, list) else str(seed)


def _thin(count: int) -> NDArray[np.int64]:
    """Which samples to plot."""
    return np.unique(np.linspace(0, count - 1, min(count, POINTS)).round().astype(np.int64))


def _axis(columns: Columns) -> tuple[str, list[float], NDArray[np.int64]]:
    """What stands below a plot: its name, its values, and which samples they belong to."""
    at = _thin(len(columns["time_s"]))
    unit_s, name = time_unit(float(columns["time_s"][-1]))
    return name, (columns["time_s"][at] / unit_s).tolist(), at


def _capacity_chart(name: str, columns: Columns) -> Chart:
    """The capacity on the optimum and its band."""
    label, x, at = _axis(columns)
    optimum, low, high = (columns[key][at].tolist() for key in ("optimum", "band_low", "band_high"))
    lines = (
        Series("optimum and band", x, optimum, low, high, dotted=True, colour=1),
        Series("capacity", x, columns["capacity"][at].tolist(), colour=0),
    )
    return Chart(f"Capacity of {name}", label, "requests in parallel", lines)


def _figures(series: Mapping[str, Columns]) -> list[Chart]:
    def chart(
        title: str, unit: str, values: Values, as_percent: bool = False, note: str = ""
    ) -> Chart:
        label, lines = "", []
        for name, columns in series.items():
            label, x, at = _axis(columns)
            lines.append(Series(name, x, values(columns)[at].tolist()))
        return Chart(title, label, unit, tuple(lines), y_percent=as_percent, note=note)

    return [
        *(_types_chart(name, columns) for name, columns in series.items()),
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
            "Changes so far",
            "nodes added or removed",
            lambda columns: columns["added"] + columns["removed"],
        ),
    ]


def _types_chart(scaler: str, columns: Columns) -> Chart:
    label, x, at = _axis(columns)
    kinds = [name for name in columns if name.startswith("nodes.") and columns[name].any()]
    lines = [Series(name.removeprefix("nodes."), x, columns[name][at].tolist()) for name in kinds]
    if len(kinds) > 1:
        lines.append(Series("all", x, columns["nodes"][at].tolist(), dotted=True))
    return Chart(f"Nodes by type: {scaler}", label, "nodes up", tuple(lines))


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


def _analysis(one_cycle: Summary) -> ReportTable:
    rows = [
        [
            f"workload {word} by half",
            percent(middle(one_cycle[f"inside_{side}"]), 2),
            middle(one_cycle[f"smallest_band_{side}"]),
        ]
        for side, word in (("up", "up"), ("down", "down"))
    ]
    caption = f"{round(middle(one_cycle['nodes'])):,} equal nodes that all know the load"
    return ReportTable(
        caption,
        (
            "change",
            "ends inside the band",
            f"smallest δ for {percent(middle(one_cycle['probability']), 0)}",
        ),
        rows,
    )
