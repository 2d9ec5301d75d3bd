"""What the commands that run scenarios share: many runs behind one progress bar, and the table
that is printed of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from murmuration.cli import common

if TYPE_CHECKING:
    from rich.table import Table

    from murmuration.experiments.runs import Summary
    from murmuration.experiments.specs import Spec


def run_with_progress(
    title: str, specs: list[Spec], workers: int | None, on: str | None, resume: bool
) -> list[Summary]:
    """Run the specs behind a progress bar that counts runs; replicas of a run become one summary
    with intervals."""
    from murmuration.experiments import parallel, statistics

    with common.progress(title, len(specs)) as update:
        finished: list[int] = []

        def done(index: int, summary: Summary) -> None:
            finished.append(index)
            update(len(finished))

        try:
            summaries = parallel.run_all(specs, workers or common.cores(), on, resume, done)
        except KeyboardInterrupt:
            common.say(
                "stopping: runs under way are finished first, and --resume goes on from there"
            )
            raise
    return statistics.combine_by_label(summaries)


def print_summaries(summaries: list[Summary], folder: Path | None, as_json: bool) -> None:
    """Several summaries as one table, or as one document."""
    if as_json:
        common.print_json({"runs": summaries})
        return
    common.print_table(terminal_table(summaries))
    common.say_report(folder)


def terminal_table(summaries: list[Summary]) -> Table:
    """One row per scheduler and workload: narrow enough for a terminal."""
    from murmuration.reports.terminal import comparison_table

    columns = ["scheduler", "workload", "jobs", "wait s", "p90 s", "full s"]
    columns += ["attempts", "busy", "wasted", "conflicts", "left"]
    rows = [
        [summary["scheduler"] if index == 0 else "", name, *_cells(workload)]
        for summary in summaries
        for index, (name, workload) in enumerate(summary["workloads"].items())
    ]
    return comparison_table(columns, rows)


def _cells(workload: dict[str, Any]) -> list[object]:
    """The figures of one workload; of replicas the means."""
    from murmuration.experiments.statistics import middle
    from murmuration.reports.terminal import percent

    figures = {key: middle(value) for key, value in workload.items()}
    left = figures["jobs_queued"] + figures["jobs_abandoned"]
    return [
        figures["jobs_submitted"],
        figures["wait_s_mean"],
        figures["wait_s_p90"],
        figures["wait_full_s_mean"],
        figures["attempts_mean"],
        percent(figures["busy_fraction"], 2),
        percent(figures["busy_wasted_fraction"], 2),
        figures["conflict_fraction"],
        f"{left:g} saturated" if workload["saturated"] else left,
    ]
