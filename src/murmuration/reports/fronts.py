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
from murmuration.reports.svg import px, segment, shorten, tag, tooltip, words

#: More points or lines than this only make the file heavy.
_SHOWN = 400


def _some(rows: Sequence[Sequence[float]]) -> list[Sequence[float]]:
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
        return document(
            "scatter", label, look, box, below.height, above.markup, no_data(box), below.markup
        )
    axis = upright(ys, False, False, False)
    box = Box(axis.margin, above.height, look.width - 14, bottom)
    low, high = linear_domain(xs, False, rounded=False)
    across, up = Scale(low, high, False, box.left + 8, box.right - 8), axis.scale(box)
    specks = [
        tag("circle", cx=across.at(x), cy=up.at(y), r=2.4, class_="speck")
        for x, y in map(tuple, _some(plot.points))
    ]
    marks = [
        tag(
            "g",
            dot(across.at(x), up.at(y), False, f"{name}\n{human(x)}, {human(y)}"),
            class_=colour_class(index),
        )
        for index, (name, x, y) in enumerate(plot.marked)
    ]
    below = footer(plot.x_label, plot.note, look, box, 22)
    axes = y_axis(axis, up, box) + x_axis(across, box) + floor_line(box)
    cloud = tag("g", *specks, class_="plain") if specks else ""
    return document(
        "scatter", label, look, box, below.height, above.markup, axes, cloud, *marks, below.markup
    )


def draw_parallel(plot: Parallel, look: Look) -> str:
    keys = [Key(name, "line", index) for index, (name, _) in enumerate(plot.marked)]
    above = header(plot.title, "", keys, look)
    top = above.height + 2 * TEXT
    box = Box(34, top, look.width - 34, top + plot_height(look))
    label = f"{plot.title}: {len(plot.rows)} lines over {', '.join(plot.axes)}"
    columns = [
        [*(row[k] for row in plot.rows), *(row[k] for _, row in plot.marked)]
        for k in range(len(plot.axes))
    ]
    below = footer("", plot.note, look, box, 24)
    if len(plot.axes) < 2 or not columns[0]:
        return document(
            "parallel", label, look, box, below.height, above.markup, no_data(box), below.markup
        )
    scales = [
        Scale(min(c), max(c) if max(c) > min(c) else min(c) + 1, False, box.bottom, box.top)
        for c in columns
    ]
    places = [
        box.left + k * (box.right - box.left) / (len(plot.axes) - 1) for k in range(len(plot.axes))
    ]
    threads = [
        tag("path", d=_path(row, scales, places), class_="thread") for row in _some(plot.rows)
    ]
    marked = [
        tag(
            "g",
            tag("path", tooltip(name), d=_path(row, scales, places), class_="line"),
            *(
                dot(x, scale.at(v), False, f"{name}: {human(v)}")
                for x, scale, v in zip(places, scales, row, strict=True)
            ),
            class_=colour_class(index),
        )
        for index, (name, row) in enumerate(plot.marked)
    ]
    axes = "".join(_axis(plot, k, places, columns[k], box) for k in range(len(plot.axes)))
    cloud = tag("g", *threads, class_="plain") if threads else ""
    return document(
        "parallel", label, look, box, below.height, above.markup, cloud, axes, *marked, below.markup
    )


def _path(row: Sequence[float], scales: Sequence[Scale], places: Sequence[float]) -> str:
    points = (
        f"{px(x)} {px(scale.at(value))}"
        for x, scale, value in zip(places, scales, row, strict=True)
    )
    return "M" + "L".join(points)


def _axis(
    plot: Parallel, k: int, places: Sequence[float], values: Sequence[float], box: Box
) -> str:
    """The line, its name and largest value above, its least below."""
    x = places[k]
    anchor = "middle" if 0 < k < len(places) - 1 else "start" if k == 0 else "end"
    at = x if anchor == "middle" else box.left - 30 if anchor == "start" else box.right + 30
    room = (places[1] - places[0]) * 0.95
    return (
        segment(x, box.top, x, box.bottom, "axis")
        + words(shorten(plot.axes[k], room, TEXT), at, box.top - TEXT - 8, "key", anchor)
        + words(human(max(values)), at, box.top - 6, "tick", anchor)
        + words(human(min(values)), at, box.bottom + 15, "tick", anchor)
    )
