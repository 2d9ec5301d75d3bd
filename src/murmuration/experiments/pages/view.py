"""Pages of what was made before: a run, several on one time axis, or any folder with a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from murmuration.base.errors import InputError
from murmuration.experiments.pages.comparison import comparison
from murmuration.experiments.pages.parts import read_series
from murmuration.experiments.pages.single import single
from murmuration.experiments.pages.write import REPORT
from murmuration.experiments.python.stored import RunsInFolders, read_runs
from murmuration.experiments.statistics import combine_by_label
from murmuration.reports.page import Page, render
from murmuration.simulation.results import snapshots

#: Points of a line on a page that does not leave this host: a zoom shows every one of them.
POINTS_VIEWED = 100_000


def view_text(places: Sequence[Path]) -> str:
    """The HTML of these places. The folder of a study has a page of its own, which is shown as it
    is; runs are drawn again, in full."""
    if len(places) == 1 and not _is_run(places[0]):
        report = places[0] if places[0].suffix == ".html" else places[0] / REPORT
        if report.is_file():
            return report.read_text()
        if not places[0].exists():
            raise InputError(f"{places[0]}: no such file or folder")
    return render(page_of(read_runs(places)), POINTS_VIEWED)


def _is_run(place: Path) -> bool:
    return (place / snapshots.SCENARIO).exists()


def page_of(stored: RunsInFolders) -> Page:
    """One run, or several side by side."""
    if len(stored.runs) == 1:
        run = stored.runs[0]
        assert run.spec.folder is not None
        return single(run.summary, read_series(run.spec.folder))
    first = {run.spec.label: run.spec.folder for run in reversed(stored.runs)}
    series = {label: read_series(folder) for label, folder in first.items() if folder}
    summaries = [run.summary for run in stored.runs]
    comparable = summaries if stored.same_jobs else []
    ordered = {run.spec.label: series[run.spec.label] for run in stored.runs}
    return comparison(
        f"{stored.name}: side by side", combine_by_label(summaries), ordered, comparable
    )
