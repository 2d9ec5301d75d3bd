"""Replicated runs: the same experiment with different seeds, and the 95 % confidence interval of a mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple, TypeVar

from murmuration.cluster.random import seed_sequence
from murmuration.experiments.result import Settings

T = TypeVar("T")

#: Student's t for 97.5 % with one to four degrees of freedom, where the series below is too coarse.
_T_FEW = (12.706, 4.303, 3.182, 2.776)
_Z = 1.959964


class Interval(NamedTuple):
    mean: float
    low: float
    high: float


def student_t(freedom: int) -> float:
    """The 97.5 % quantile of Student's t, within 0.2 % (Cornish and Fisher's series)."""
    if freedom <= len(_T_FEW):
        return _T_FEW[freedom - 1]
    z, n = _Z, freedom
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / n + second / n**2 + third / n**3


def interval(values: Sequence[float]) -> Interval:
    """The mean and its 95 % confidence interval; a single value has an interval of no width."""
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return Interval(mean, mean, mean)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    half = student_t(len(values) - 1) * math.sqrt(variance / len(values))
    return Interval(mean, mean - half, mean + half)


def replicate(settings: Settings, text: str, one: Callable[[int], T], count: int) -> list[T]:
    """`one(seed)` for `count` seeds drawn from the settings' own, in order, on as many workers as they say."""
    seeds = [int(seed_sequence(settings.seed, text, str(i)).generate_state(1)[0]) for i in range(count)]
    results: list[T] = []
    if settings.workers > 1:
        with ProcessPoolExecutor(settings.workers) as pool:
            for result in pool.map(one, seeds):
                results.append(result)
                settings.progress(text, len(results) / count)
        return results
    for seed in seeds:
        results.append(one(seed))
        settings.progress(text, len(results) / count)
    return results
