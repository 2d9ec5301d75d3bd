"""A figure of a report as one for paper: lines and bars become curves and points with whiskers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from murmuration.base.errors import InputError
from murmuration.experiments.figures.data import PaperCurve, PaperFigure
from murmuration.experiments.figures.draw import check_output, write_figure
from murmuration.reports.figures import Bars, Chart, Figure, Values


def save_figure(figure: Figure, path: Path, width: str = "page") -> None:
    """Draw a figure of a report into a file whose name says the format."""
    check_output(path)
    write_figure(paper_figure(figure), path, width)


def paper_figure(figure: Figure) -> PaperFigure:
    match figure:
        case Chart():
            return _of_chart(figure)
        case Bars():
            return _of_bars(figure)
        case _:
            raise InputError(
                f"{figure.title}: only lines and bars are drawn for paper; the page has all"
            )


def _of_chart(chart: Chart) -> PaperFigure:
    curves = [
        PaperCurve(s.name, np.array(s.x, float), _array(s.y), _array_or(s.low), _array_or(s.high))
        for s in chart.series
    ]
    ends = [value for series in chart.series for value in series.x]
    across = np.array([min(ends, default=0.0), max(ends, default=1.0)], float)
    marks = [PaperCurve(name, across, np.full(2, value)) for name, value in chart.lines]
    return PaperFigure(
        chart.x_label,
        chart.y_label,
        (*curves, *marks),
        log_x=chart.x_log,
        log_y=chart.y_log,
        percent=chart.y_percent,
        dotted=tuple(name for name, _ in chart.lines),
    )


def _of_bars(bars: Bars) -> PaperFigure:
    places = np.arange(len(bars.groups), dtype=float)
    low, high = bars.low or [None] * len(bars.series), bars.high or [None] * len(bars.series)
    curves = [
        PaperCurve(name, places, _array(values), _array_or(low[k]), _array_or(high[k]))
        for k, (name, values) in enumerate(bars.series)
    ]
    return PaperFigure(
        "", bars.y_label, tuple(curves), bars.groups, log_y=bars.y_log, percent=bars.y_percent
    )


def _array(values: Values) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], float)


def _array_or(values: Sequence[float | None] | None) -> NDArray[np.float64] | None:
    return None if values is None else _array(values)
