"""What the pages of runs share: how a series is read, the table of schedulers, charts over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from murmuration.base.version import __version__
from murmuration.experiments.pages.columns import (
    SPARE,
    SPARE_WITH_INTERVALS,
    telling_columns,
    workload_rows,
)
from murmuration.experiments.record import read_record
from murmuration.experiments.statistics import middle
from murmuration.reports.figures import Chart, Series
from murmuration.reports.formats import human, time_unit
from murmuration.reports.page import Page, Section
from murmuration.simulation.results import snapshots

if TYPE_CHECKING:
    from murmuration.experiments.runs import RunOutcome

#: The page that a study leaves in its folder.
REPORT = "report.html"
Summary = Mapping[str, Any]
#: A time series by column.
Columns = dict[str, list[float]]
#: Lines of a chart by name: their x and their y.
Curves = Mapping[str, tuple[list[float], list[float]]]
FOOTER = f"Murmuration {__version__}."
#: Lines closer to each other than this share of the highest are one to a reader.
COINCIDE = 0.01
#: Allocation types in words (Sliwko and Getov, section 5).
KINDS = {"sta": "super-tight", "ta": "tight", "pa": "proportional", "da": "disproportional"}


def read_series(folder: str | Path) -> Columns:
    """The time series of a run from its folder: of one that was made by another process or an
    earlier command."""
    import polars as pl

    return pl.read_parquet(Path(folder) / snapshots.SERIES).to_dict(as_series=False)


def series_of(outcome: RunOutcome, folder: Path) -> Columns:
    """The time series of a run, from memory if it was made just now."""
    table = outcome.tables.get(snapshots.SERIES)
    if not isinstance(table, dict):
        return read_series(folder)
    return {name: column.tolist() for name, column in table.items()}


def overview(summaries: Sequence[Summary]) -> tuple[list[str], list[list[object]]]:
    """The table of a comparison: one row per scheduler and workload, with intervals."""
    plain = [dict(summary) for summary in summaries]
    spare = SPARE_WITH_INTERVALS if isinstance(plain[0]["seed"], list) else SPARE
    columns = [column for column in telling_columns(plain) if column.key not in spare]
    titles = ["scheduler", "workload", *(column.title for column in columns)]
    return titles, workload_rows(plain, columns)


def name_command(page: Page, folder: str | Path) -> Page:
    """The page with the command in its last line that made what is in the folder."""
    made = read_record(Path(folder))
    return page if made is None else replace(page, footer=f"{page.footer} Made by: {made.command}")


def notes_section(summary: Summary) -> list[Section]:
    """What was assumed and left out when the jobs were read from a trace."""
    notes = summary.get("notes", [])
    return [Section("About the trace", text="\n\n".join(notes))] if notes else []


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


def facts_in_common(summaries: Sequence[Summary]) -> tuple[tuple[str, str], ...]:
    """What a reader should see first, of what all runs share."""
    first, *others = (facts_of(summary) for summary in summaries)
    return tuple(fact for fact in first if all(fact in each for each in others))


def kind_label(kind: str) -> str:
    """An allocation type as it is written in text."""
    return KINDS.get(kind, kind)


def resource_name(name: str) -> str:
    """A resource as it is written in text: `CPU`, `memory`."""
    return name.upper() if len(name) <= 3 else name


def tells_something(chart: Chart) -> bool:
    """Whether a chart has a line that is not zero all along."""
    return any(any(line.y) for line in chart.series)


def keep_telling(charts: Iterable[Chart]) -> tuple[Chart, ...]:
    return tuple(chart for chart in charts if tells_something(chart))


def lines(title: str, unit: str, curves: Curves, as_percent: bool) -> Chart:
    """A chart over the time of a run."""
    unit_s, x_label = time_unit(max(x[-1] for x, _ in curves.values()))
    series = tuple(Series(name, [t / unit_s for t in x], y) for name, (x, y) in curves.items())
    note = "All lines lie on one another." if _coincide(curves) else ""
    return Chart(title, x_label, unit, series, y_percent=as_percent, note=note)


def _coincide(curves: Curves) -> bool:
    """Whether a reader would see one line only."""
    (x, first), *others = curves.values()
    near = COINCIDE * max(map(abs, first), default=0.0)
    return bool(others) and all(
        x == times and all(abs(a - b) <= near for a, b in zip(first, values, strict=True))
        for times, values in others
    )


def rate(times: list[float], total: list[float], steps: int = 8) -> list[float]:
    """How fast a running total grows, over a few samples at a time so that single attempts do not
    show as spikes."""
    rates = []
    for i in range(len(times)):
        j = max(i - steps, 0)
        rates.append((total[i] - total[j]) / (times[i] - times[j]) if i > j else 0.0)
    return rates
