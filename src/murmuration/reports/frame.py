"""Everything around the data of a plot: heading, legend, axes, reference lines, note, and the SVG
itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from murmuration.reports.formats import finite, human, percent, tick_label
from murmuration.reports.scales import (
    Scale,
    linear_domain,
    linear_ticks,
    log_domain,
    log_ticks,
    minor_ticks,
)
from murmuration.reports.svg import (
    NAMESPACE,
    draw_words,
    px,
    segment,
    shorten,
    tag,
    text_width,
    tooltip,
    wrap,
)

COLOURS = 8
TEXT = 12
TITLE = 15


@dataclass(frozen=True)
class Look:
    """How wide to draw, and whether a page around the plot already shows its title and note."""

    width: float


@dataclass(frozen=True)
class MarkupBlock:
    """Some markup and the height it takes."""

    markup: str
    height: float


@dataclass(frozen=True)
class Key:
    """One entry of a legend: a sample (`line`, `dotted`, `point`, `bar`, `hollow` or `sunk`) and
    its name."""

    name: str
    sample: str
    colour: int | None = None
    marker: bool = False


@dataclass(frozen=True)
class Box:
    """The rectangle that data may use."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class Upright:
    """A vertical axis before it has pixels: its interval, ticks and labels."""

    low: float
    high: float
    log: bool
    ticks: list[float]
    labels: list[str]

    @property
    def margin(self) -> float:
        return max((text_width(label, TEXT) for label in self.labels), default=0.0) + 10

    def scale(self, box: Box) -> Scale:
        return Scale(self.low, self.high, self.log, box.bottom, box.top)


def colour_class(index: int | None) -> str:
    return "plain" if index is None else f"c{index % COLOURS}"


def plot_height(look: Look) -> float:
    return min(max(look.width * 0.5, 190.0), 280.0)


def value_text(value: float | None, as_percent: bool) -> str:
    return percent(value) if as_percent else human(value)


def upright(values: list[float], log: bool, from_zero: bool, as_percent: bool) -> Upright:
    """The vertical axis that shows all the values."""
    low, high = log_domain(values) if log else linear_domain(values, from_zero)
    ticks = log_ticks(low, high, 9) if log else linear_ticks(low, high, 5)
    return Upright(low, high, log, ticks, [tick_label(tick, as_percent) for tick in ticks])


def header(title: str, y_label: str, keys: Sequence[Key], look: Look) -> MarkupBlock:
    """Title, legend and the name of the vertical axis, stacked above the data so that they never
    cover it."""
    parts: list[str] = []
    height = 0.0
    for line in wrap(title, look.width, TITLE * 1.05):
        height += TITLE + 5
        parts.append(draw_words(line, 0, height - 4, "title"))
    legend = _legend(keys, look.width, height + 4)
    parts.append(legend.markup)
    height = legend.height
    if y_label:
        height += TEXT + 6
        parts.append(draw_words(shorten(y_label, look.width, TEXT), 0, height - 4, "label"))
    return MarkupBlock("".join(parts), height + 10)


def _legend(keys: Sequence[Key], width: float, top: float) -> MarkupBlock:
    if not keys:
        return MarkupBlock("", top)
    parts: list[str] = []
    x, y = 0.0, top + 9
    for key in keys:
        name = shorten(key.name, width - 30, TEXT)
        room = 26 + text_width(name, TEXT)
        if x > 0 and x + room > width:
            x, y = 0.0, y + 19
        parts.append(_sample(key, x, y) + draw_words(name, x + 26, y + 4, "key"))
        x += room + 14
    return MarkupBlock(tag("g", *parts, class_="legend"), y + 14)


def _sample(key: Key, x: float, y: float) -> str:
    if key.sample == "bar":
        shape = tag("rect", x=x + 4, y=y - 6, width=12.0, height=12.0, rx=3.0, class_="bar")
    elif key.sample == "sunk":
        shape = draw_sunk(x + 10, y + 3)
    elif key.sample in ("point", "hollow"):
        shape = dot(x + 10, y, key.sample == "hollow")
    else:
        shape = segment(x, y, x + 20, y, "line dotted" if key.sample == "dotted" else "line")
        shape += dot(x + 10, y, False) if key.marker else ""
    return tag("g", shape, class_=colour_class(key.colour))


def dot(x: float, y: float, hollow: bool, tip: str = "") -> str:
    kind = "dot hollow" if hollow else "dot"
    return tag(
        "circle", *([tooltip(tip)] if tip else []), cx=float(x), cy=float(y), r=3.6, class_=kind
    )


def draw_sunk(x: float, y: float, tip: str = "") -> str:
    """A small triangle on the floor of a log axis: the value is zero or less, so it has no place on
    it."""
    shape = f"M{px(x - 4)} {px(y - 6)}h8l-4 6z"
    return tag("path", *([tooltip(tip)] if tip else []), d=shape, class_="sunk")


def y_axis(axis: Upright, scale: Scale, box: Box) -> str:
    parts = []
    for tick, label in zip(axis.ticks, axis.labels, strict=True):
        y = scale.at(tick)
        parts.append(segment(box.left, y, box.right, y, "grid"))
        parts.append(draw_words(label, box.left - 8, y + 4, "tick", "end"))
    for tick in minor_ticks(axis.low, axis.high) if axis.log else []:
        y = scale.at(tick)
        parts.append(segment(box.left - 3, y, box.left, y, "mark"))
    return "".join(parts)


def x_axis(scale: Scale, box: Box) -> str:
    """Vertical grid lines, minor marks on a log axis, and as many labels as fit side by side."""
    target = max(2, int((box.right - box.left) / 62))
    ticks = (
        log_ticks(scale.low, scale.high, 10)
        if scale.log
        else linear_ticks(scale.low, scale.high, min(target, 10))
    )
    parts = [segment(scale.at(tick), box.top, scale.at(tick), box.bottom, "grid") for tick in ticks]
    for tick in minor_ticks(scale.low, scale.high) if scale.log else []:
        parts.append(segment(scale.at(tick), box.bottom, scale.at(tick), box.bottom + 3, "mark"))
    for tick in _space_ticks(ticks, scale):
        parts.append(segment(scale.at(tick), box.bottom, scale.at(tick), box.bottom + 5, "mark"))
        parts.append(
            draw_words(tick_label(tick), scale.at(tick), box.bottom + 18, "tick", "middle")
        )
    return "".join(parts)


def _space_ticks(ticks: list[float], scale: Scale) -> list[float]:
    """Every tick, or every second, third ... until neighbouring labels stand apart."""
    for stride in range(1, len(ticks)):
        shown = ticks[::stride]
        widths = [text_width(tick_label(tick), TEXT) for tick in shown]
        gaps = [abs(scale.at(b) - scale.at(a)) for a, b in pairwise(shown)]
        if all(gap > (a + b) / 2 + 6 for gap, a, b in zip(gaps, widths, widths[1:], strict=False)):
            return shown
    return ticks[:1]


def floor_line(box: Box) -> str:
    return segment(box.left, box.bottom, box.right, box.bottom, "axis")


def no_data(box: Box) -> str:
    middle = (box.left + box.right) / 2, (box.top + box.bottom) / 2
    frame = tag(
        "rect",
        x=box.left,
        y=box.top,
        width=box.right - box.left,
        height=box.bottom - box.top,
        rx=6.0,
        class_="void",
    )
    return frame + draw_words("no data", *middle, "label", "middle")


def reference_lines(
    lines: Sequence[tuple[str, float]], scale: Scale, box: Box, taken: Sequence[tuple[float, float]]
) -> str:
    """Dashed lines, each label at the end and on the side where the fewest of the `taken` places
    are covered."""
    parts: list[str] = []
    busy = list(taken)
    for name, value in lines:
        if finite(value) is None or not scale.holds(value):
            continue
        y = scale.at(value)
        left, base, right = _label_place(text_width(name, TEXT), y, box, busy)
        # The label itself becomes a crowded place, so that the next one goes elsewhere.
        busy += [(left + step * (right - left) / 6, base - 4) for step in range(7)] * 50
        parts.append(segment(box.left, y, box.right, y, "reference"))
        parts.append(draw_words(name, left, base, "reference-label"))
    return "".join(parts)


def _label_place(
    width: float, y: float, box: Box, busy: Sequence[tuple[float, float]]
) -> tuple[float, float, float]:
    places: list[tuple[int, int, float, float]] = []
    for base in (y - 6, y + 15):
        if not box.top + 8 <= base <= box.bottom - 2:
            continue
        for left in (box.left + 6, box.right - width - 2):
            covered = sum(
                left - 6 <= x <= left + width + 6 and base - 14 <= at <= base + 5 for x, at in busy
            )
            places.append((covered, len(places), left, base))
    _, _, left, base = min(places, default=(0, 0, box.left + 6, y - 6))
    return left, base, left + width


def footer(x_label: str, note: str, look: Look, box: Box, depth: float) -> MarkupBlock:
    """The name of the horizontal axis and, outside a page, the note."""
    height = box.bottom + depth
    parts = []
    if x_label:
        height += TEXT + 5
        parts.append(
            draw_words(shorten(x_label, look.width, TEXT), box.right, height - 1, "label", "end")
        )
    for line in wrap(note, look.width, TEXT):
        height += TEXT + 5
        parts.append(draw_words(line, 0, height + 3, "note"))
    return MarkupBlock("".join(parts), height + 6)


def document(
    kind: str, label: str, look: Look, box: Box, height: float, parts: Iterable[str]
) -> str:
    """The whole plot: its parts, one above the other, in one element."""
    return tag(
        "svg",
        *parts,
        xmlns=NAMESPACE,
        class_=f"chart {kind}",
        viewBox=f"0 0 {px(look.width)} {px(height)}",
        role="img",
        aria_label=label,
    )
