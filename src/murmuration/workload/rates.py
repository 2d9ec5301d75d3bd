"""Rates of requests over time, as steps: from a CSV of time and rate, or of single requests that
are counted.

The first column is the time, in seconds or as a date and time; the second the rate. A header is
skipped, and so is a first line of one number (some published series put their step there). Times
must rise. A file in which nine of ten steps are equally long is sampled regularly: there a longer
step means missing samples, which are refused unless gaps are held.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np

from murmuration.base.arrays import Floats
from murmuration.base.errors import InputError
from murmuration.workload.formats import source as files

REGULAR_SHARE = 0.9

Sample = tuple[int, float, float]


@dataclass(frozen=True)
class Rates:
    """A rate that holds from each time on; the last until `end_s`."""

    time_s: Floats
    rate: Floats
    end_s: float

    def scaled(self, factor: float) -> Rates:
        return Rates(self.time_s, self.rate * factor, self.end_s)


def constant(rate: float, end_s: float) -> Rates:
    return Rates(np.zeros(1), np.array([rate]), end_s)


def steps(pairs: Sequence[tuple[float, float]], end_s: float) -> Rates:
    """Rates written down as [second, rate]."""
    return Rates(
        np.array([time for time, _ in pairs]), np.array([rate for _, rate in pairs]), end_s
    )


def read(path: str | Path, hold_gaps: bool = False, count_s: float | None = None) -> Rates:
    """The rates of a file; with `count_s` each line is one request, and they are counted over that
    many seconds."""
    source = files.load(path)
    try:
        text = source.data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(
            f"{source.path}: expected a CSV of time and rate, this is no text"
        ) from None
    samples = list(_samples(source.path, text, count_s is not None))
    if not samples:
        raise InputError(f"{source.path}: expected lines of time and rate, found none")
    _check_times(source.path, samples, strictly=count_s is None)
    start = samples[0][1]
    times = np.array([time - start for _, time, _ in samples])
    if count_s is not None:
        counts = np.bincount((times // count_s).astype(np.int64))
        starts = np.arange(len(counts), dtype=np.float64) * count_s
        return Rates(
            starts.astype(np.float64), (counts / count_s).astype(np.float64), len(counts) * count_s
        )
    usual = _usual_step(times)
    if not hold_gaps:
        _check_gaps(source.path, samples, times, usual)
    return Rates(times, np.array([rate for _, _, rate in samples]), float(times[-1]) + usual)


def _samples(path: Path, text: str, single: bool) -> Iterator[Sample]:
    """Line, time and rate of every line that has any; the first may be a header or a step."""
    first = True
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        fields = [field.strip() for field in line.split(",")]
        heading = first and (_time(fields[0]) is None or (len(fields) == 1 and not single))
        first = False
        if heading:
            continue
        time = _time(fields[0])
        if time is None:
            raise InputError(
                f"{path} line {number}: expected a time in seconds or a date and time, got "
                f"{fields[0]!r}"
            )
        yield number, time, 0.0 if single else _rate(path, number, fields)


def _time(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return None
        # Without a zone a date is taken as it stands, so that no summer time opens a gap.
        return (moment.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds()
    return number if math.isfinite(number) else None


def _rate(path: Path, number: int, fields: list[str]) -> float:
    where = f"{path} line {number}"
    if len(fields) < 2 or not fields[1]:
        raise InputError(f"{where}: expected a rate after the time, got nothing (a gap)")
    try:
        rate = float(fields[1])
    except ValueError:
        raise InputError(f"{where}: expected a rate, got {fields[1]!r}") from None
    if not math.isfinite(rate) or rate < 0.0:
        raise InputError(f"{where}: expected a rate from 0, got {fields[1]!r}")
    return rate


def _check_times(path: Path, samples: list[Sample], strictly: bool) -> None:
    for (_, before, _), (number, time, _) in pairwise(samples):
        if time < before or (strictly and time == before):
            raise InputError(
                f"{path} line {number}: expected times that rise, got one {before - time:g} s "
                "before the last"
            )


def _usual_step(times: Floats) -> float:
    """The most common step, and the shortest of those."""
    if len(times) < 2:
        return 1.0
    steps = Counter(np.round(np.diff(times), 6).tolist())
    frequency = max(steps.values())
    return float(min(step for step, count in steps.items() if count == frequency))


def _check_gaps(path: Path, samples: list[Sample], times: Floats, usual: float) -> None:
    steps = np.diff(times)
    if len(steps) == 0 or np.mean(np.abs(steps - usual) < 1e-6) < REGULAR_SHARE:
        return
    longer = np.flatnonzero(steps > usual * 1.5)
    if len(longer):
        at = int(longer[0])
        raise InputError(
            f"{path} line {samples[at + 1][0]}: a gap of {steps[at]:g} s where samples are "
            f"{usual:g} s apart "
            '(requests.gaps = "hold" keeps the last rate)'
        )
