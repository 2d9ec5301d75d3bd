"""The figures of a run as people read them: what each is called, which are shares, and how one is
written with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from murmuration.base.documents import Document, Json
from murmuration.experiments.statistics import middle
from murmuration.reports.formats import percent, with_half

#: An interval this narrow is the rounding of equal figures.
ROUNDING = 1e-9


class Column(NamedTuple):
    """A figure of a workload: its heading, its key in the summary, and whether it is a share."""

    title: str
    key: str
    share: bool = False


WORKLOAD_COLUMNS = (
    Column("jobs", "jobs_submitted"),
    Column("not started", "jobs_not_started"),
    Column("wait s", "wait_s_mean"),
    Column("p50", "wait_s_p50"),
    Column("p95", "wait_s_p95"),
    Column("p99", "wait_s_p99"),
    Column("placed s", "wait_full_s_mean"),
    Column("slowdown", "slowdown_mean"),
    Column("busy", "busy_fraction", True),
    Column("conflicts", "conflict_fraction"),
    Column("turnaround s", "turnaround_s_mean"),
    Column("attempts", "attempts_mean"),
    Column("wasted", "busy_wasted_fraction", True),
    Column("first try s", "wait_first_attempt_s_mean"),
)
MEANINGS = (
    "Wait: submission to the start of a job's first task, with its percentiles; a job that has not "
    "started counts with what it has waited so far. Placed: to the "
    "placement of its last task. Slowdown: turnaround over work. Busy: share of time spent on "
    "attempts that placed something. Conflicts: failed over "
    "successful transactions."
)
#: What a page has no room for beside the others.
SPARE = ("turnaround_s_mean", "attempts_mean", "busy_wasted_fraction", "wait_first_attempt_s_mean")
#: What else it has no room for where every figure has its interval beside it.
SPARE_WITH_INTERVALS = (*SPARE, "wait_s_p50", "wait_s_p99", "wait_full_s_mean")
#: Every figure of a workload in words, for the page of one run.
LABELS = {
    "jobs_submitted": "jobs submitted",
    "jobs_scheduled": "jobs with all tasks placed",
    "jobs_abandoned": "jobs given up",
    "jobs_queued": "jobs still waiting at the end",
    "jobs_finished": "jobs finished",
    "jobs_not_started": "jobs that never started",
    "tasks_submitted": "tasks submitted",
    "tasks_placed": "tasks placed",
    "tasks_left": "tasks without a node at the end",
    "attempts_mean": "attempts per job",
    "wait_full_jobs": "jobs whose last task was placed",
    "busy_fraction": "scheduler busy",
    "busy_wasted_fraction": "scheduler busy in vain",
    "conflict_fraction": "failed ÷ successful transactions",
    "saturated": "queue only grows (saturated)",
}
STEMS = {
    "wait_s": "wait until the first task starts",
    "wait_first_attempt_s": "wait until the first attempt",
    "wait_full_s": "wait until the last task is placed",
    "turnaround_s": "submission to end",
    "slowdown": "slowdown (turnaround ÷ work)",
}
CLUSTER_LABELS = {
    "migrations_per_min": "migrations per minute",
    "migrations_forced_per_min": "of them forced",
    "migrated_mb_per_min": "megabytes moved per minute",
    "collision_fraction": "requests that found the room gone",
}


def label(key: str) -> str:
    """A figure's name in words: `wait_s_p95` is `wait until the first task starts, p95 (s)`."""
    if key in LABELS:
        return LABELS[key]
    stem, _, what = key.rpartition("_")
    if stem not in STEMS:
        return CLUSTER_LABELS.get(key, key.replace("_", " "))
    unit = " (s)" if stem.endswith("_s") else ""
    return f"{STEMS[stem]}, {what}{unit}"


def cell(figure: Json, share: bool = False) -> object:
    """A figure; the mean of replicas with half the width of its 95 % interval."""
    mean = middle(figure)
    if not isinstance(figure, dict) or figure.get("low") is None or figure["high"] == figure["low"]:
        return percent(mean) if share else _whole(mean)
    half = (figure["high"] - figure["low"]) / 2
    if half <= ROUNDING * abs(mean):
        return percent(mean) if share else _whole(mean)
    if share:
        return f"{100 * mean:.1f}\u00a0±\u00a0{100 * half:.1f}\u00a0%"
    return with_half(mean, half)


def _whole(value: object) -> object:
    """A count that is a mean of equal counts is shown as a count."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def are_equal(summaries: Sequence[Document], *path: str) -> bool:
    """Whether a figure is the same in all runs, and with all their seeds."""
    figures = []
    for figure in summaries:
        for key in path:
            figure = figure[key]
        figures.append(figure)
    first = figures[0]
    varies = isinstance(first, dict) and first.get("low") != first.get("high")
    return all(figure == first for figure in figures) and not varies


def telling_columns(summaries: Sequence[Document]) -> list[Column]:
    """The columns that tell schedulers apart: equal numbers of jobs are said once, and a column of
    zeros is left out."""
    return [column for column in WORKLOAD_COLUMNS if _says_something(summaries, column.key)]


def _says_something(summaries: Sequence[Document], key: str) -> bool:
    names = list(summaries[0]["workloads"])
    if key == "jobs_submitted":
        return not all(are_equal(summaries, "workloads", name, key) for name in names)
    return any(middle(s["workloads"][name].get(key)) for s in summaries for name in names)


def workload_rows(summaries: Sequence[Document], columns: Sequence[Column]) -> list[list[object]]:
    """One row per scheduler and workload; the scheduler is named in its first."""
    return [
        [
            summary["scheduler"] if index == 0 else "",
            f"{name} (saturated)" if workload["saturated"] else name,
            *(cell(workload[column.key], column.share) for column in columns),
        ]
        for summary in summaries
        for index, (name, workload) in enumerate(summary["workloads"].items())
    ]
