"""Plots of a front: points of two objectives, and parallel coordinates over all of them."""

from __future__ import annotations

from collections.abc import Sequence

from murmuration.reports.figures import Parallel, Scatter
from murmuration.reports.formats import human
from murmuration.reports.frame import (
    TEXT,
    Box,
    Key,
    Look,
    colour_class,
    document,
    dot,
    floor_line,
    footer,
    header,
    no_data,
    plot_height,
    upright,
    x_axis,
    y_axis,
)
from murmuration.reports.scales import Scale, linear_domain
from murmuration.reports.svg import draw_words, px, segment, shorten, tag, tooltip

#: More points or lines than this only make the file heavy.
_SHOWN = 400


def _thin_rows(rows: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    last = len(rows) - 1
    return (
        [rows[round(k * last / (_SHOWN - 1))] for k in range(_SHOWN)]
        if len(rows) > _SHOWN
        else list(rows)
    )


def draw_scatter(plot: Scatter, look: Look) -> str:
    keys = [Key(name, "point", index) for index, (name, _, _) in enumerate(plot.marked)]
    above = header(plot.title, plot.y_label, keys, look)
    label = f"{plot.title}: {plot.y_label} against {plot.x_label}, {len(plot.points)} points"
    bottom = above.height + plot_height(look)
    xs = [point[0] for point in plot.points] + [mark[1] for mark in plot.marked]
    ys = [point[1] for point in plot.points] + [mark[2] for mark in plot.marked]
    if not xs:
        box = Box(1, above.height, look.width - 1, bottom)
        below = footer(plot.x_label, plot.note, look, box, 6)
        parts = [above.markup, no_data(box), below.markup]
        return document("scatter", label, look, box, below.height, parts)
    axis = upright(ys, False, False, False)
    box = Box(axis.margin, above.height, look.width - 14, bottom)
    low, high = linear_domain(xs, False, rounded=False)
    across, up = Scale(low, high, False, box.left + 8, box.right - 8), axis.scale(box)
    below = footer(plot.x_label, plot.note, look, box, 22)
    axes = y_axis(axis, up, box) + x_axis(across, box) + floor_line(box)
    parts = [above.markup, axes, *_points(plot, across, up), below.markup]
    return document("scatter", label, look, box, below.height, parts)


def _points(plot: Scatter, across: Scale, up: Scale) -> list[str]:
    """The cloud of plain points, and the named ones on top of it."""
    specks = [
        tag("circle", cx=across.at(x), cy=up.at(y), r=2.4, class_="speck")
        for x, y in map(tuple, _thin_rows(plot.points))
    ]
    marks = [
        tag(
            "g",
            dot(across.at(x), up.at(y), False, f"{name}\n{human(x)}, {human(y)}"),
            class_=colour_class(index),
        )
        for index, (name, x, y) in enumerate(plot.marked)
    ]
    return [tag("g", *specks, class_="plain") if specks else "", *marks]


def draw_parallel(plot: Parallel, look: Look) -> str:
    keys = [Key(name, "line", index) for index, (name, _) in enumerate(plot.marked)]
    above = header(plot.title, "", keys, look)
    top = above.height + 2 * TEXT
    box = Box(34, top, look.width - 34, top + plot_height(look))
    label = f"{plot.title}: {len(plot.rows)} lines over {', '.join(plot.axes)}"
    below = footer("", plot.note, look, box, 24)
    if len(plot.axes) < 2 or len(plot.rows) + len(plot.marked) == 0:
        parts = [above.markup, no_data(box), below.markup]
    else:
        parts = [above.markup, *_threads(plot, box), below.markup]
    return document("parallel", label, look, box, below.height, parts)


def _threads(plot: Parallel, box: Box) -> list[str]:
    """The plain lines, the axes, and the named lines on top of both."""
    count = len(plot.axes)
    rows = [*plot.rows, *(row for _, row in plot.marked)]
    columns = [[row[k] for row in rows] for k in range(count)]
    places = [box.left + k * (box.right - box.left) / (count - 1) for k in range(count)]
    scales = [
        Scale(min(c), max(c) if max(c) > min(c) else min(c) + 1, False, box.bottom, box.top)
        for c in columns
    ]
    threads = [
        tag("path", d=_path(row, scales, places), class_="thread") for row in _thin_rows(plot.rows)
    ]
    axes = "".join(_axis(plot, k, places, columns[k], box) for k in range(count))
    named = [
        _named_line(name, index, row, scales, places)
        for index, (name, row) in enumerate(plot.marked)
    ]
    return [tag("g", *threads, class_="plain") if threads else "", axes, *named]


def _named_line(
    name: str, index: int, row: Sequence[float], scales: Sequence[Scale], places: Sequence[float]
) -> str:
    """A coloured line with a dot, and its value, on each axis."""
    dots = [
        dot(x, scale.at(value), False, f"{name}: {human(value)}")
        for x, scale, value in zip(places, scales, row, strict=True)
    ]
    line = tag("path", tooltip(name), d=_path(row, scales, places), class_="line")
    return tag("g", line, *dots, class_=colour_class(index))


def _path(row: Sequence[float], scales: Sequence[Scale], places: Sequence[float]) -> str:
    points = (
        f"{px(x)} {px(scale.at(value))}"
        for x, scale, value in zip(places, scales, row, strict=True)
    )
    return "M" + "L".join(points)


def _axis(
    plot: Parallel, k: int, places: Sequence[float], values: Sequence[float], box: Box
) -> str:
    """The line, with its name and largest value above and its smallest below."""
    x = places[k]
    anchor = "middle" if 0 < k < len(places) - 1 else "start" if k == 0 else "end"
    at = x if anchor == "middle" else box.left - 30 if anchor == "start" else box.right + 30
    room = (places[1] - places[0]) * 0.95
    return (
        segment(x, box.top, x, box.bottom, "axis")
        + draw_words(shorten(plot.axes[k], room, TEXT), at, box.top - TEXT - 8, "key", anchor)
        + draw_words(human(max(values)), at, box.top - 6, "tick", anchor)
        + draw_words(human(min(values)), at, box.bottom + 15, "tick", anchor)
    )
