"""Line and point charts: series with gaps, bands, error bars and reference lines, on linear or log
axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from murmuration.reports.figures import Chart, Series
from murmuration.reports.formats import finite, human
from murmuration.reports.frame import (
    Box,
    Key,
    Look,
    colour_class,
    document,
    dot,
    draw_sunk,
    floor_line,
    footer,
    header,
    no_data,
    plot_height,
    reference_lines,
    upright,
    value_text,
    x_axis,
    y_axis,
)
from murmuration.reports.scales import Scale, linear_domain, log_domain
from murmuration.reports.svg import px, tag, tooltip

_TIPS_UP_TO = 150  # Beyond this many points a tooltip on each would only make the file heavy.


@dataclass(frozen=True)
class Point:
    """A value and where it lands; `sunk` when a log axis has no place for it."""

    x: float
    y: float
    left: float
    top: float
    low: float | None
    high: float | None
    hollow: bool
    sunk: bool


Path = list[Point | None]


def draw_lines(chart: Chart, look: Look) -> str:
    xs = [x for series in chart.series for x in _known(series.x) if x > 0 or not chart.x_log]
    ys = [y for series in chart.series for y in _known(series.y)]
    label = f"{chart.title}: {chart.y_label} by {chart.x_label}, {len(chart.series)} series"
    above = header(chart.title, chart.y_label, _keys(chart), look)
    if not xs or not ys:
        box = Box(1, above.height, look.width - 1, above.height + plot_height(look))
        below = footer(chart.x_label, chart.note, look, box, 6)
        return document(
            "lines", label, look, box, below.height, [above.markup, no_data(box), below.markup]
        )
    axis = upright(_all_heights(chart), chart.y_log, chart.y_from_zero, chart.y_percent)
    box = Box(axis.margin, above.height, look.width - 14, above.height + plot_height(look))
    across, up = _across(chart, xs, box), axis.scale(box)
    paths = [_thin(_place(series, across, up), look.width) for series in chart.series]
    drawn = [_drawn(chart, index, path, look) for index, path in enumerate(paths)]
    marks = reference_lines(chart.lines, up, box, [spot for path in paths for spot in _spots(path)])
    below = footer(chart.x_label, chart.note, look, box, 22)
    axes = y_axis(axis, up, box) + x_axis(across, box) + floor_line(box)
    parts = [above.markup, axes, *drawn, marks, below.markup]
    return document("lines", label, look, box, below.height, parts)


def _known(values: Sequence[object] | None) -> list[float]:
    return [
        number for number in map(finite, values if values is not None else ()) if number is not None
    ]


def _all_heights(chart: Chart) -> list[float]:
    columns = [column for series in chart.series for column in (series.y, series.low, series.high)]
    heights = [y for column in columns for y in _known(column)] + _known(
        [value for _, value in chart.lines]
    )
    # Zeros lie on the floor of a log axis, which must then be lower than any value that has a place
    # of its own.
    return [*heights, _floor(heights)] if chart.y_log and min(heights) <= 0 else heights


def _floor(heights: list[float]) -> float:
    return min((y for y in heights if y > 0), default=1.0) / 3


def _across(chart: Chart, xs: list[float], box: Box) -> Scale:
    low, high = (
        log_domain(xs, rounded=False) if chart.x_log else linear_domain(xs, False, rounded=False)
    )
    inset = 8 if any(series.markers for series in chart.series) else 0
    return Scale(low, high, chart.x_log, box.left + inset, box.right - inset)


def _keys(chart: Chart) -> list[Key]:
    named = [series for series in chart.series if series.name]
    keys = [
        Key(
            series.name,
            "dotted" if series.dotted else "line",
            _colour(series, index),
            series.markers,
        )
        for index, series in enumerate(chart.series)
        if series.name
    ]
    alone = len(named) == 1 and named[0].name in (chart.title, chart.y_label)
    extra = [Key("saturated", "hollow")] if any(map(_saturates, chart.series)) else []
    if chart.y_log and any(y <= 0 for series in chart.series for y in _known(series.y)):
        extra.append(Key("zero, off the log axis", "sunk"))
    return ([] if alone else keys) + extra


def _saturates(series: Series) -> bool:
    return series.hollow is not None and any(series.hollow)


def _colour(series: Series, index: int) -> int:
    return index if series.colour is None else series.colour


def _place(series: Series, across: Scale, up: Scale) -> Path:
    path: Path = []
    for index, (raw_x, raw_y) in enumerate(zip(series.x, series.y, strict=True)):
        x, y = finite(raw_x), finite(raw_y)
        if x is None or y is None or not across.holds(x):
            path.append(None)
            continue
        low, high = (
            finite(edge[index]) if edge is not None else None for edge in (series.low, series.high)
        )
        hollow = bool(series.hollow is not None and series.hollow[index])
        path.append(
            Point(
                x, y, across.at(x), up.at(y), _at(up, low), _at(up, high), hollow, not up.holds(y)
            )
        )
    return path


def _at(scale: Scale, value: float | None) -> float | None:
    return None if value is None else scale.at(value)


def _thin(path: Path, width: float) -> Path:
    """Keep what the eye can see of a long series: the extremes and one gap of every pixel
    column."""
    columns = int(width / 1.5)
    if len(path) <= 2 * columns:
        return path
    size = math.ceil(len(path) / columns)
    keep: set[int] = set()
    for start in range(0, len(path), size):
        keep.update(_landmarks(path, range(start, min(start + size, len(path)))))
    return [path[index] for index in sorted(keep)]


def _landmarks(path: Path, span: range) -> Iterator[int]:
    yield from [index for index in span if path[index] is None][:1]
    present = [(index, point) for index in span if (point := path[index]) is not None]
    if present:
        yield min(present, key=lambda item: item[1].top)[0]
        yield max(present, key=lambda item: item[1].top)[0]


def _spots(path: Path) -> Iterator[tuple[float, float]]:
    """Places that the series covers, also between its points, for labels to keep clear of."""
    for run in _runs(path):
        yield from ((point.left, point.top) for point in run)
        for a, b in pairwise(run):
            pieces = min(24, int(abs(b.left - a.left) / 6))
            for k in range(1, pieces):
                yield a.left + (b.left - a.left) * k / pieces, a.top + (b.top - a.top) * k / pieces


def _runs(path: Path) -> list[list[Point]]:
    """The stretches of a series between its gaps."""
    runs: list[list[Point]] = [[]]
    for point in path:
        if point is None or point.sunk:
            runs.append([])
        else:
            runs[-1].append(point)
    return [run for run in runs if run]


def _drawn(chart: Chart, index: int, path: Path, look: Look) -> str:
    series = chart.series[index]
    runs = _runs(path)
    parts = (
        [_error_bar(point) for run in runs for point in run]
        if series.markers
        else [_band(run) for run in runs]
    )
    kind = "line" + " dotted" * series.dotted + " fine" * (len(path) > look.width / 2)
    parts += [_stroke(run, kind) for run in runs if len(run) > 1]
    tips = len(path) <= _TIPS_UP_TO
    for run in runs:
        parts += [_draw_mark(chart, series, point, len(run) == 1, tips) for point in run]
    parts += [
        draw_sunk(p.left, p.top, _tip(chart, series, p) if tips else "")
        for p in path
        if p is not None and p.sunk
    ]
    colour = colour_class(_colour(series, index))
    return tag(
        "g",
        *parts,
        class_=f"series {colour}",
    )


def _stroke(run: list[Point], kind: str) -> str:
    steps = "L".join(f"{px(point.left)} {px(point.top)}" for point in run)
    return tag("path", d=f"M{steps}", class_=kind)


def _band(run: list[Point]) -> str:
    upper = [
        (point.left, point.high)
        for point in run
        if point.low is not None and point.high is not None
    ]
    lower = [
        (point.left, point.low) for point in run if point.low is not None and point.high is not None
    ]
    if len(upper) < 2:
        return ""
    edge = "L".join(f"{px(x)} {px(y)}" for x, y in [*upper, *reversed(lower)] if y is not None)
    return tag("path", d=f"M{edge}z", class_="band")


def _error_bar(point: Point) -> str:
    if point.low is None or point.high is None:
        return ""
    x, low, high = px(point.left - 3), px(point.low), px(point.high)
    return tag("path", d=f"M{x} {low}h6m-3 0V{high}m-3 0h6", class_="error")


def _draw_mark(chart: Chart, series: Series, point: Point, lonely: bool, tips: bool) -> str:
    """A visible dot where one is due; otherwise an unseen spot that carries the tooltip."""
    tip = _tip(chart, series, point) if tips else ""
    if series.markers or point.hollow or lonely:
        return dot(point.left, point.top, point.hollow, tip)
    return (
        tag("circle", tooltip(tip), cx=point.left, cy=point.top, r=6.0, class_="spot")
        if tip
        else ""
    )


def _tip(chart: Chart, series: Series, point: Point) -> str:
    state = " (saturated)" if point.hollow else ""
    value = value_text(point.y, chart.y_percent)
    return f"{series.name}{state}\n{chart.x_label}: {human(point.x)}\n{chart.y_label}: {value}"
