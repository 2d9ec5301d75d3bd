"""The report and the summary that a study leaves in its folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from murmuration.base import files
from murmuration.experiments.autoscale import AutoscaleSpec
from murmuration.experiments.capacity import CapacityQuestion, Walk, document
from murmuration.experiments.pages import autoscale, capacity, comparison, single, sweep
from murmuration.experiments.pages.parts import (
    REPORT,
    Summary,
    name_command,
    read_series,
    series_of,
)
from murmuration.experiments.runs import RunOutcome
from murmuration.experiments.runs import Summary as RunSummary
from murmuration.experiments.specs import Spec
from murmuration.reports.page import Page, render
from murmuration.simulation.results import snapshots


def write_report(folder: Path, page: Page) -> None:
    """The page, with the command that made it in its last line."""
    files.write_text(folder / REPORT, render(name_command(page, folder)))


def write_single(folder: Path, outcome: RunOutcome) -> None:
    """The report of one run; its results are in the folder already."""
    write_report(folder, single.single(outcome.summary, series_of(outcome, folder)))


def write_comparison(
    folder: Path,
    name: str,
    specs: Sequence[Spec],
    summaries: Sequence[Summary],
    runs: Sequence[RunSummary],
) -> None:
    """The report and the summary of several schedulers; of replicas the first is drawn over
    time."""
    first = {spec.label: spec.folder for spec in reversed(specs) if spec.folder is not None}
    series = {spec.label: read_series(first[spec.label]) for spec in specs}
    title = f"{name}: comparison"
    write_report(folder, comparison.comparison(title, summaries, series, runs))
    _write_summaries(folder, summaries)


def write_sweep(folder: Path, name: str, axes: sweep.Axes, summaries: Sequence[Summary]) -> None:
    """The report and the summary of a grid of runs."""
    write_report(folder, sweep.sweep(f"{name}: sweep", axes, summaries))
    _write_summaries(folder, summaries)


def _write_summaries(folder: Path, summaries: Sequence[Summary]) -> None:
    plain = [{k: v for k, v in summary.items() if k != "timing"} for summary in summaries]
    files.write_json(folder / snapshots.SUMMARY, {"runs": plain})


def write_scalers(
    folder: Path,
    specs: Sequence[AutoscaleSpec],
    summaries: Sequence[RunSummary],
    runs: Sequence[RunSummary],
) -> None:
    """The report of auto-scaling runs, and their summary where there are several; of replicas the
    first is drawn over time."""
    first = {spec.label: spec.folder for spec in reversed(specs) if spec.folder is not None}
    # The order of the command line, which the dictionary of the first ones has backwards.
    labels = dict.fromkeys(spec.label for spec in specs)
    series = {
        label: {name: np.array(values) for name, values in read_series(first[label]).items()}
        for label in labels
    }
    write_report(folder, autoscale.draw_page(summaries, series, runs))
    if len(specs) > 1:
        _write_summaries(folder, summaries)


def write_walks(folder: Path, name: str, question: CapacityQuestion, walks: Sequence[Walk]) -> None:
    """The report and the summary of the search for the fewest nodes or the largest load."""
    write_report(folder, capacity.page(name, question, walks))
    files.write_json(folder / snapshots.SUMMARY, document(question, walks))
