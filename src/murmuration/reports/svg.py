"""The smallest useful SVG writer: escaped elements, short coordinates, and a guess at how wide text
is."""

from __future__ import annotations

import html

from murmuration.reports.formats import clean

NAMESPACE = "http://www.w3.org/2000/svg"
_NARROW = frozenset("iljtfrI.,:;'|!()[] \u00a0")
_WIDE = frozenset("mwMW%@—…")


def px(value: float) -> str:
    """A coordinate to a tenth of a unit, without idle zeros."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def tag(name: str, *children: str, **attributes: object) -> str:
    """One element. Attributes are escaped, children are markup already; `_` in a name stands for
    `-`."""
    pairs = "".join(
        f' {_attribute(key)}="{_escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{pairs}>{''.join(children)}</{name}>" if children else f"<{name}{pairs}/>"


def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _escape(value: object) -> str:
    if isinstance(value, float):
        return px(value)
    return html.escape(clean(value), quote=True)


def draw_words(
    text: object, x: float, y: float, kind: str, anchor: str = "start", **more: object
) -> str:
    """A line of text; `kind` is its class."""
    return tag(
        "text",
        html.escape(clean(text)),
        x=float(x),
        y=float(y),
        class_=kind,
        text_anchor=anchor,
        **more,
    )


def tooltip(text: str) -> str:
    return f"<title>{html.escape(clean(text))}</title>"


def segment(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return tag("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=kind)


def text_width(text: str, size: float) -> float:
    """A slightly generous estimate: better a little air than two words on top of each other."""
    return size * sum(0.36 if c in _NARROW else 0.92 if c in _WIDE else 0.61 for c in text)


def shorten(text: str, room: float, size: float) -> str:
    """The text, cut with an ellipsis if it would not fit."""
    if text_width(text, size) <= room:
        return text
    while text and text_width(text + "…", size) > room:
        text = text[:-1]
    return text.rstrip() + "…"


def wrap(text: str, room: float, size: float) -> list[str]:
    """The text broken between words into lines that fit, as far as single words allow."""
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
