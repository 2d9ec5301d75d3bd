"""Replicated runs of an experiment with different seeds, and the row that sums them up."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from murmuration.base.random import seed_sequence
from murmuration.experiments.execution.mapping import map_items
from murmuration.experiments.parallel import run_all
from murmuration.experiments.result import ReproductionSettings, Row
from murmuration.experiments.runs import Summary
from murmuration.experiments.specs import Spec
from murmuration.experiments.statistics import t95
from murmuration.reports.figures import Bars

T = TypeVar("T")
Item = TypeVar("Item")


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
    """`one(seed)` for `count` seeds drawn from the settings' own, in order."""
    seeds = [
        int(seed_sequence(settings.seed, text, str(i)).generate_state(1)[0]) for i in range(count)
    ]
    return measure_each(settings, text, one, seeds)


def each_seed(settings: ReproductionSettings, count: int) -> range:
    """Seeds one after the other, as the replicas of a study have."""
    return range(settings.seed, settings.seed + count)


def measure_each(
    settings: ReproductionSettings, text: str, one: Callable[[Item], T], items: Sequence[Item]
) -> list[T]:
    """`one(item)` for all items, in their order, made where the settings say."""
    answers: dict[int, T] = {}
    for place, answer in map_items(one, items, settings.workers, settings.on):
        answers[place] = answer
        settings.progress(text, len(answers) / len(items))
    return [answers[place] for place in range(len(items))]


def run_specs(settings: ReproductionSettings, specs: Sequence[Spec]) -> list[Summary]:
    """Simulations of schedulers, made where the settings say; their summaries in order."""
    done: list[int] = []

    def tell(index: int, summary: Summary) -> None:
        done.append(index)
        settings.progress("runs", len(done) / len(specs))

    return run_all(specs, settings.workers, settings.on, done=tell)
