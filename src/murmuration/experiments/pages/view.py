"""Pages of what was made before: a run, several on one time axis, or any folder with a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from murmuration.base.errors import InputError
from murmuration.experiments.pages.comparison import comparison
from murmuration.experiments.pages.parts import REPORT, name_command, read_series
from murmuration.experiments.pages.single import single
from murmuration.experiments.python.stored import RunsInFolders, read_runs
from murmuration.experiments.statistics import combine_by_label
from murmuration.reports.page import Page
from murmuration.simulation.results import snapshots


def read_page(places: Sequence[Path]) -> Page | str:
    """The page of these places. The folder of a study has a page of its own, whose text is given as
    it is; runs are drawn again."""
    if len(places) == 1 and not _is_run(places[0]):
        report = _report_of(places[0])
        if report.is_file():
            return report.read_text()
        if not places[0].exists():
            raise InputError(f"{places[0]}: no such file or folder")
    return page_of(read_runs(places))


def _report_of(place: Path) -> Path:
    """The page of a folder, or of the folder that a file of a study (`plan.json`) lies in."""
    if place.suffix == ".html":
        return place
    return (place.parent if place.suffix == ".json" else place) / REPORT


def _is_run(place: Path) -> bool:
    return (place / snapshots.SCENARIO).exists()


def page_of(stored: RunsInFolders) -> Page:
    """One run, or several side by side."""
    if len(stored.runs) == 1:
        run = stored.runs[0]
        assert run.spec.folder is not None
        return name_command(single(run.summary, read_series(run.spec.folder)), run.spec.folder)
    first = {run.spec.label: run.spec.folder for run in reversed(stored.runs)}
    series = {label: read_series(folder) for label, folder in first.items() if folder}
    summaries = [run.summary for run in stored.runs]
    comparable = summaries if stored.same_jobs else []
    ordered = {run.spec.label: series[run.spec.label] for run in stored.runs}
    return comparison(
        f"{stored.name}: side by side", combine_by_label(summaries), ordered, comparable
    )
