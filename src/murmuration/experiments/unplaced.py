"""Runs that did not run their workload: whoever reads their figures is told so, and nothing is
judged on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from murmuration.experiments.pages.parts import Summary
from murmuration.experiments.result import Row
from murmuration.experiments.statistics import middle
from murmuration.reports.formats import percent

#: More than this share of a workload's jobs or tasks, and more than a handful of jobs: those that
#: came just before the end are waiting in every run.
LEFT_SHARE, LEFT_JOBS = 0.01, 5
COUNTS = ("jobs_submitted", "jobs_queued", "jobs_abandoned", "tasks_submitted", "tasks_left")


def describe_unplaced(summary: Summary) -> str:
    """Which workloads of a run are saturated or left jobs unplaced, in words; empty if none."""
    parts = [_describe(name, workload) for name, workload in summary["workloads"].items()]
    return "; ".join(part for part in parts if part)


def _describe(name: str, workload: Summary) -> str:
    submitted, queued, refused, tasks, tasks_left = (middle(workload[key]) for key in COUNTS)
    left = queued + refused
    # A few jobs may be most of the work: a partition refuses the large ones.
    few_jobs = left <= max(LEFT_JOBS, LEFT_SHARE * submitted)
    few_tasks = tasks_left <= LEFT_SHARE * tasks or left <= LEFT_JOBS
    if not workload["saturated"] and few_jobs and few_tasks:
        return ""
    share = f" ({percent(tasks_left / tasks, 0)} of its tasks)" if tasks else ""
    words = f"{left:,.0f} of {submitted:,.0f} jobs of {name} not placed{share}"
    return words + (f", {refused:,.0f} of them refused" if refused else "")


def warnings(summaries: Sequence[Summary]) -> list[str]:
    """One sentence for each run whose figures are not those of its whole workload."""
    return [
        f"{summary['scheduler']}: {words}; its figures are those of the rest"
        for summary in summaries
        if (words := describe_unplaced(summary))
    ]


def refuse(row: Row, runs: Mapping[str, str]) -> Row:
    """The row as it is if every run it rests on placed its jobs; otherwise it says which did not
    (by label, in words) and is not judged."""
    short = "; ".join(f"{label}: {words}" for label, words in runs.items() if words)
    if not short:
        return row
    return replace(row, measured=f"{row.measured} (not judged: {short})", holds=None)
