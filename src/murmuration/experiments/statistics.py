"""Replicated runs: each figure as a mean with a 95 % confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

#: The figures of a run, in tables.
FigureTable = dict[str, Any]
# Student's t, two-sided 95 %, for 1 to 30 degrees of freedom; beyond, the normal value with two
# corrections.
T95 = (
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
    2.120,
    2.110,
    2.101,
    2.093,
    2.086,
    2.080,
    2.074,
    2.069,
    2.064,
    2.060,
    2.056,
    2.052,
    2.048,
    2.045,
    2.042,
)


def t95(freedom: int) -> float:
    """The quantile of Student's t for a two-sided 95 % interval."""
    if freedom <= len(T95):
        return T95[freedom - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def interval(values: Sequence[float]) -> dict[str, float | int | None]:
    """Mean and 95 % confidence interval of independent values."""
    n = len(values)
    if n == 0:
        return {"mean": None, "low": None, "high": None, "n": 0}
    mean = math.fsum(values) / n
    if n == 1:
        return {"mean": mean, "low": None, "high": None, "n": 1}
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1))
    half = t95(n - 1) * deviation / math.sqrt(n)
    return {"mean": mean, "low": mean - half, "high": mean + half, "n": n}


SAME = (
    "version",
    "scenario",
    "scheduler",
    "autoscaler",
    "days",
    "seconds",
    "path",
    "vary",
    "notes",
)


def combine(summaries: Sequence[FigureTable]) -> FigureTable:
    """One summary of replicated runs: every figure an interval, the seeds listed; any saturated run
    makes it so."""
    combined: FigureTable = {}
    for key, value in summaries[0].items():
        column = [summary.get(key) for summary in summaries]
        if key in SAME:
            combined[key] = value
        elif key == "seed":
            combined[key] = column
        else:
            combined[key] = _figure(column)
    return combined


def _figure(column: list[Any]) -> Any:
    present = [value for value in column if value is not None]
    if not present:
        return None
    if isinstance(present[0], dict):
        keys = present[0].keys()
        return {key: _figure([value.get(key) for value in present]) for key in keys}
    if isinstance(present[0], bool):
        return any(present)
    return interval([float(value) for value in present])


def combine_by_label(
    summaries: Sequence[FigureTable], label: str = "scheduler"
) -> list[FigureTable]:
    """Replicas of one label combined, in order of first appearance; a single run stays as it is."""
    groups: dict[str, list[FigureTable]] = {}
    for summary in summaries:
        groups.setdefault(summary[label], []).append(summary)
    return [group[0] if len(group) == 1 else combine(group) for group in groups.values()]


def middle(value: Any) -> Any:
    """The figure itself, or the mean of an interval."""
    return value["mean"] if isinstance(value, dict) and "mean" in value else value
