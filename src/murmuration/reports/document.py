"""A page as plain values for the web page that draws it: every figure with its kind, numbers in six
digits, long series thinned to what a screen can show."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from murmuration.reports.figures import Chart, Figure, Series
from murmuration.reports.formats import clean

#: Points of one line that a figure keeps. Of each stretch the lowest and the highest stay.
POINTS_MAX = 2000
DIGITS = 6


def figure_document(figure: Figure, points_max: int = POINTS_MAX) -> dict[str, object]:
    """A figure with its kind, as its fields are called in `figures`."""
    values = {field.name: getattr(figure, field.name) for field in fields(figure)}
    if isinstance(figure, Chart):
        values["series"] = [_series(series, points_max) for series in figure.series]
        values["thinned"] = any(len(series.x) > points_max for series in figure.series)
    return {"kind": type(figure).__name__.lower(), **{k: plain(v) for k, v in values.items()}}


def series_between(
    chart: Chart, low: float, high: float, points_max: int = POINTS_MAX
) -> list[object]:
    """The lines of a chart from one x to another, and one point beyond each: every point, or
    thinned where there are too many."""
    return [plain(_series(_cut(series, low, high), points_max)) for series in chart.series]


def _cut(series: Series, low: float, high: float) -> Series:
    x = np.asarray(series.x, float)
    begin = max(0, int(np.searchsorted(x, low, "left")) - 1)
    end = int(np.searchsorted(x, high, "right")) + 1
    part = slice(begin, end)
    return replace(
        series,
        x=series.x[part],
        y=series.y[part],
        low=None if series.low is None else series.low[part],
        high=None if series.high is None else series.high[part],
        hollow=None if series.hollow is None else series.hollow[part],
    )


def _series(series: Series, points_max: int) -> dict[str, object]:
    kept = thin(series.y, points_max)
    columns = {}
    for field in fields(series):
        value = getattr(series, field.name)
        is_column = field.name in ("x", "y", "low", "high", "hollow") and value is not None
        columns[field.name] = [value[k] for k in kept] if is_column else value
    return columns


def thin(values: Sequence[float | None], count: int) -> Sequence[int]:
    """The places of the values to keep: all, or of each stretch the lowest, the highest and a gap,
    and both ends."""
    if len(values) <= count:
        return range(len(values))
    numbers_ = np.array([math.nan if value is None else value for value in values], float)
    kept = {0, len(values) - 1}
    for part in np.array_split(np.arange(len(values)), max(1, count // 2)):
        chunk = numbers_[part]
        known = np.isfinite(chunk)
        if known.any():
            kept.add(int(part[np.argmin(np.where(known, chunk, np.inf))]))
            kept.add(int(part[np.argmax(np.where(known, chunk, -np.inf))]))
        else:
            kept.add(int(part[0]))
    return sorted(kept)


def plain(value: object) -> object:
    """Lists, texts, numbers, truth values and None; what is no finite number is None."""
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        return float(f"{number:.{DIGITS}g}") if math.isfinite(number) else None
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence | np.ndarray):
        return [plain(item) for item in value]
    return clean(value)
