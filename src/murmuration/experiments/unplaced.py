"""Runs that did not run their workload: whoever reads their figures is told so, and nothing is
judged on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from murmuration.experiments.pages.parts import Summary
from murmuration.experiments.result import Row
from murmuration.experiments.statistics import middle

#: More than this share of a workload's jobs, and more than a handful: jobs that came just before
#: the end are waiting in every run.
LEFT_SHARE, LEFT_JOBS = 0.01, 5


def describe_unplaced(summary: Summary) -> str:
    """Which workloads of a run are saturated or left jobs unplaced, in words; empty if none."""
    parts = []
    for name, workload in summary["workloads"].items():
        figures = {key: middle(workload[key]) for key in ("jobs_submitted", "jobs_queued")}
        refused = middle(workload["jobs_abandoned"])
        submitted, left = figures["jobs_submitted"], figures["jobs_queued"] + refused
        if workload["saturated"] or left > max(LEFT_JOBS, LEFT_SHARE * submitted):
            words = f"{left:,.0f} of {submitted:,.0f} jobs of {name} not placed"
            parts.append(words + (f", {refused:,.0f} of them refused" if refused else ""))
    return "; ".join(parts)


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
