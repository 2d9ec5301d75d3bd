"""Grouped bar charts, with optional error bars, values on top when they fit, and labels that never
collide."""

from __future__ import annotations

from dataclasses import dataclass

from murmuration.reports.figures import Bars
from murmuration.reports.formats import finite
from murmuration.reports.frame import (
    TEXT,
    Box,
    Key,
    Look,
    MarkupBlock,
    colour_class,
    document,
    floor_line,
    footer,
    header,
    no_data,
    plot_height,
    reference_lines,
    upright,
    value_text,
    y_axis,
)
from murmuration.reports.scales import Scale
from murmuration.reports.svg import draw_words, px, segment, shorten, tag, text_width, tooltip, wrap

_SMALL = 11
_WIDEST_BAR = 44.0
_SLANTED = 150.0  # The longest a slanted label may be.


@dataclass(frozen=True)
class Slots:
    """Where the groups stand, and how wide a bar is."""

    box: Box
    groups: int
    series: int

    @property
    def pitch(self) -> float:
        return (self.box.right - self.box.left) / max(self.groups, 1)

    @property
    def bar(self) -> float:
        return min(self.pitch * 0.76 / max(self.series, 1), _WIDEST_BAR)

    def centre(self, group: int) -> float:
        return self.box.left + (group + 0.5) * self.pitch

    def left(self, group: int, series: int) -> float:
        return self.centre(group) + (series - self.series / 2) * self.bar


def draw_bars(bars: Bars, look: Look) -> str:
    keys = [Key(name, "bar", index) for index, (name, _) in enumerate(bars.series) if name]
    above = header(bars.title, bars.y_label, keys if len(bars.series) > 1 else [], look)
    label = f"{bars.title}: {bars.y_label} for {len(bars.groups)} groups, {len(bars.series)} series"
    values = [
        number for _, column in bars.series for number in map(finite, column) if number is not None
    ]
    bottom = above.height + plot_height(look)
    if not values:
        box = Box(1, above.height, look.width - 1, bottom)
        below = footer("", bars.note, look, box, 6)
        return document(
            "bars", label, look, box, below.height, [above.markup, no_data(box), below.markup]
        )
    axis = upright(_all_heights(bars), bars.y_log, True, bars.y_percent)
    box = Box(_left_margin(bars, axis.margin, look), above.height, look.width - 6, bottom)
    scale, slots = axis.scale(box), Slots(box, len(bars.groups), len(bars.series))
    drawn = [_column(bars, index, scale, slots, look) for index in range(len(bars.series))]
    names = _group_names(bars.groups, slots)
    marks = reference_lines(bars.lines, scale, box, _spots(bars, scale, slots))
    below = footer("", bars.note, look, box, names.height)
    base = (
        segment(box.left, scale.at(0), box.right, scale.at(0), "axis")
        if not bars.y_log
        else floor_line(box)
    )
    parts = (
        above.markup,
        y_axis(axis, scale, box),
        *drawn,
        base,
        names.markup,
        marks,
        below.markup,
    )
    return document("bars", label, look, box, below.height, parts)


def _all_heights(bars: Bars) -> list[float]:
    columns = [column for _, column in bars.series] + list(bars.low or ()) + list(bars.high or ())
    columns.append(tuple(value for _, value in bars.lines))
    heights = [number for column in columns for number in map(finite, column) if number is not None]
    positive = [height for height in heights if height > 0]
    # A bar on a log axis needs a floor below the smallest value, or it would have no height.
    return [*heights, min(positive) / 2] if bars.y_log and positive else heights


def _edge(
    edges: tuple[tuple[float | None, ...], ...] | None, series: int, group: int
) -> float | None:
    return None if edges is None else finite(edges[series][group])


def _column(bars: Bars, series: int, scale: Scale, slots: Slots, look: Look) -> str:
    """All the bars of one series."""
    name, values = bars.series[series]
    known = [
        (group, number)
        for group, value in enumerate(values)
        if (number := finite(value)) is not None
    ]
    parts = []
    for group, value in known:
        low, high = _edge(bars.low, series, group), _edge(bars.high, series, group)
        tip = f"{name}\n{bars.groups[group]}: {value_text(value, bars.y_percent)}"
        parts.append(_bar(slots.left(group, series), slots.bar, value, scale, tip))
        if low is not None and high is not None:
            parts.append(
                _error_bar(slots.left(group, series) + slots.bar / 2, scale.at(low), scale.at(high))
            )
        elif _values_fit(bars, slots) and scale.holds(value):
            parts.append(_value(bars, slots.left(group, series) + slots.bar / 2, value, scale))
    return tag("g", *parts, class_=f"series {colour_class(series)}")


def _bar(left: float, width: float, value: float, scale: Scale, tip: str) -> str:
    base, top = scale.at(scale.low if scale.log else 0.0), scale.at(value)
    height = abs(base - top)
    inner = max(width - 1.5, 0.8)
    bend = min(2.5, inner / 2, height)
    across, down = px(bend), px(bend if top <= base else -bend)
    up = px(-bend if top <= base else bend)
    sides = (
        f"V{px(top + float(down))}q0 {up} {across} {up}",
        f"q{across} 0 {across} {down}V{px(base)}",
    )
    shape = f"M{px(left + 0.75)} {px(base)}{sides[0]}h{px(inner - 2 * bend)}{sides[1]}z"
    return tag("path", tooltip(tip), d=shape, class_="bar")


def _error_bar(x: float, low: float, high: float) -> str:
    return tag("path", d=f"M{px(x - 3)} {px(low)}h6m-3 0V{px(high)}m-3 0h6", class_="whisker")


def _values_fit(bars: Bars, slots: Slots) -> bool:
    """Whether every bar is wide enough to carry its number; some with and some without would look
    like an error."""
    texts = (
        value_text(finite(value), bars.y_percent) for _, column in bars.series for value in column
    )
    return bars.low is None and all(text_width(text, _SMALL) <= slots.bar + 2 for text in texts)


def _value(bars: Bars, x: float, value: float, scale: Scale) -> str:
    y = scale.at(value) + (-5 if value >= 0 else 13)
    return draw_words(value_text(value, bars.y_percent), x, y, "value", "middle")


def _spots(bars: Bars, scale: Scale, slots: Slots) -> list[tuple[float, float]]:
    spots = []
    for series, (_, values) in enumerate(bars.series):
        for group, value in enumerate(values):
            top = scale.at(number) if (number := finite(value)) is not None else slots.box.bottom
            x = slots.left(group, series) + slots.bar / 2
            spots += [(x, float(y)) for y in range(int(top) - 14, int(slots.box.bottom), 6)]
    return spots


def _level(groups: tuple[str, ...], room: float) -> list[list[str]] | None:
    """The labels on one to three level lines each, or None when some would not fit."""
    lines = [wrap(group, room, TEXT) or [""] for group in groups]
    fits = all(
        len(group) <= 3 and max(text_width(line, TEXT) for line in group) <= room for group in lines
    )
    return lines if fits else None


def _left_margin(bars: Bars, margin: float, look: Look) -> float:
    """Room for the axis and, when labels slant, for the start of the first."""
    pitch = (look.width - 6 - margin) / max(len(bars.groups), 1)
    if _level(bars.groups, pitch - 6) is not None:
        return margin
    return max(margin, 0.77 * text_width(shorten(bars.groups[0], _SLANTED, TEXT), TEXT) - pitch / 2)


def _group_names(groups: tuple[str, ...], slots: Slots) -> MarkupBlock:
    """Labels on level lines if they fit, otherwise slanted."""
    y = slots.box.bottom + 17
    lines = _level(groups, slots.pitch - 6)
    if lines is not None:
        parts = [
            draw_words(line, slots.centre(index), y + row * 14, "tick", "middle")
            for index, group in enumerate(lines)
            for row, line in enumerate(group)
        ]
        return MarkupBlock("".join(parts), 24 + 14 * (max(map(len, lines), default=1) - 1))
    short = [shorten(group, _SLANTED, TEXT) for group in groups]
    depth = 0.64 * max(text_width(group, TEXT) for group in short)
    parts = [
        _draw_slanted(group, slots.centre(index) + 4, y - 3) for index, group in enumerate(short)
    ]
    return MarkupBlock("".join(parts), depth + 20)


def _draw_slanted(text: str, x: float, y: float) -> str:
    return draw_words(text, x, y, "tick", "end", transform=f"rotate(-40 {px(x)} {px(y)})")
