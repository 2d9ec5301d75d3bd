"""Replicated runs of an experiment with different seeds, and the row that sums them up."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from murmuration.base.random import seed_sequence
from murmuration.experiments.execution.workers import Workers
from murmuration.experiments.result import ReproductionSettings, Row
from murmuration.experiments.statistics import t95
from murmuration.reports.figures import Bars

T = TypeVar("T")


class Interval(NamedTuple):
    mean: float
    low: float
    high: float


def interval(values: Sequence[float]) -> Interval:
    """The mean and its 95 % confidence interval; a single value has an interval of no width."""
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return Interval(mean, mean, mean)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    half = t95(len(values) - 1) * math.sqrt(variance / len(values))
    return Interval(mean, mean - half, mean + half)


def measure_row(
    quantity: str, paper: str | float | None, values: Sequence[float], holds: bool | None = None
) -> Row:
    """A row with the mean over the runs; a single run has no interval."""
    mean, low, high = interval(values)
    return (
        Row(quantity, paper, mean, holds=holds)
        if len(values) == 1
        else Row(quantity, paper, mean, low, high, holds)
    )


def is_above(bound: float, values: Sequence[float]) -> bool | None:
    """Whether a mean lies above a bound with its whole interval; None if only the mean does."""
    mean, low, _ = interval(values)
    return True if low > bound else None if mean > bound else False


def is_below(bound: float, values: Sequence[float]) -> bool | None:
    return is_above(-bound, [-value for value in values])


def draw_against_paper(
    title: str,
    y_label: str,
    paper: Mapping[str, float | None],
    runs: Sequence[Sequence[float]],
    note: str = "",
    y_percent: bool = False,
) -> Bars:
    """Bars of what the paper says beside what was measured, with its interval if there was more
    than one run."""
    intervals = [interval(values) for values in runs]
    nothing = (None,) * len(paper)
    several = min(len(values) for values in runs) > 1
    return Bars(
        title,
        y_label,
        tuple(paper),
        (("paper", tuple(paper.values())), ("here", tuple(x.mean for x in intervals))),
        note,
        low=(nothing, tuple(x.low for x in intervals)) if several else None,
        high=(nothing, tuple(x.high for x in intervals)) if several else None,
        y_percent=y_percent,
    )


def replicate(
    settings: ReproductionSettings, text: str, one: Callable[[int], T], count: int
) -> list[T]:
    """`one(seed)` for `count` seeds drawn from the settings' own, in order, on as many workers as
    they say."""
    seeds = [
        int(seed_sequence(settings.seed, text, str(i)).generate_state(1)[0]) for i in range(count)
    ]
    results: list[T] = []
    if settings.workers > 1:
        with Workers(min(settings.workers, count)) as workers:
            for result in workers.map(one, seeds):
                results.append(result)
                settings.progress(text, len(results) / count)
        return results
    for seed in seeds:
        results.append(one(seed))
        settings.progress(text, len(results) / count)
    return results
