"""How full every node is, before and after: a small pair of bars for each of its resources."""

from __future__ import annotations

from collections.abc import Sequence

from murmuration.reports.figures import Fills
from murmuration.reports.formats import percent
from murmuration.reports.frame import (
    Box,
    Key,
    Look,
    colour_class,
    document,
    footer,
    header,
    no_data,
)
from murmuration.reports.svg import draw_words, shorten, tag, tooltip

_SMALL, _BAR, _GAP = 10, 5.0, 1.5
#: Nodes shown one by one; of more, those that change most.
_SHOWN = 240


def draw_fills(plot: Fills, look: Look) -> str:
    keys = [Key(part, "bar", index) for index, part in enumerate(plot.parts)]
    above = header(plot.title, "", keys, look)
    label = f"{plot.title}: {len(plot.rows)} nodes, {', '.join(plot.parts)} before and after"
    shown = _rank_by_change(plot.rows)
    if not shown:
        box = Box(1, above.height, look.width - 1, above.height + 60)
        below = footer("", plot.note, look, box, 6)
        return document(
            "fills", label, look, box, below.height, [above.markup, no_data(box), below.markup]
        )
    across = max(2, int(look.width // 130))
    width = look.width / across
    height = 14 + len(plot.parts) * (2 * _BAR + _GAP + 3) + 8
    cells = [
        _cell(plot, row, (k % across) * width, above.height + (k // across) * height, width - 12)
        for k, row in enumerate(shown)
    ]
    lines = (len(shown) + across - 1) // across
    box = Box(0, above.height, look.width, above.height + lines * height)
    below = footer("", plot.note, look, box, 4)
    parts = [above.markup, *cells, below.markup]
    return document("fills", label, look, box, below.height, parts)


Row = tuple[str, Sequence[float], Sequence[float]]


def _rank_by_change(rows: Sequence[Row]) -> list[Row]:
    if len(rows) <= _SHOWN:
        return list(rows)
    by_change = sorted(
        range(len(rows)), key=lambda k: -sum(abs(a - b) for a, b in zip(*rows[k][1:], strict=True))
    )
    return [rows[k] for k in sorted(by_change[:_SHOWN])]


def _cell(plot: Fills, row: Row, left: float, top: float, width: float) -> str:
    name, before, after = row
    parts = [draw_words(shorten(name, width, _SMALL), left, top + 10, "key tiny")]
    y = top + 15
    for index, part in enumerate(plot.parts):
        tip = tooltip(
            f"{name}: {part} {percent(before[index])} before, {percent(after[index])} after"
        )
        bars = [
            _bar(left, y + shift, width, share, kind)
            for shift, share, kind in (
                (0.0, before[index], "ghost"),
                (_BAR + _GAP, after[index], "bar"),
            )
        ]
        parts.append(tag("g", tip, *bars, class_=colour_class(index)))
        y += 2 * _BAR + _GAP + 3
    return tag("g", *parts)


def _bar(left: float, top: float, width: float, share: float, kind: str) -> str:
    full = min(max(share, 0.0), 1.0)
    trough = tag("rect", x=left, y=top, width=width, height=_BAR, rx=1.5, class_="trough")
    return trough + tag("rect", x=left, y=top, width=width * full, height=_BAR, rx=1.5, class_=kind)
