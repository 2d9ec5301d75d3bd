"""Colours and style sheets: one palette for light, one for dark, both safe for colour-blind
readers."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

# The order of Okabe and Ito, tuned so that every colour reaches 3:1 against its card and any two
# stay apart for readers with the common kinds of colour blindness.
LIGHT = {
    "bg": "#f5f6f8",
    "card": "#ffffff",
    "ink": "#18202c",
    "muted": "#5a6472",
    "rule": "#e1e5ea",
    "grid": "#e8ebef",
    "axis": "#98a2af",
    "accent": "#0067a5",
    "good": "#14784a",
    "bad": "#bf3428",
    "reference": "#3d4654",
    "shade": "rgba(24, 32, 44, 0.06)",
    "stripe": "#f8f9fb",
    "c0": "#0060ac",
    "c1": "#c24400",
    "c2": "#17a368",
    "c3": "#b04e86",
    "c4": "#be8d00",
    "c5": "#6f97cb",
    "c6": "#444b55",
    "c7": "#7c593b",
}
DARK = {
    "bg": "#0d1117",
    "card": "#151b23",
    "ink": "#e6ebf2",
    "muted": "#9ba6b5",
    "rule": "#27303c",
    "grid": "#232b36",
    "axis": "#556070",
    "accent": "#6cb6ff",
    "good": "#4cc38a",
    "bad": "#ff7b72",
    "reference": "#c3ccd8",
    "shade": "rgba(0, 0, 0, 0.35)",
    "stripe": "#19202a",
    "c0": "#3b98ea",
    "c1": "#f07a42",
    "c2": "#5fe0a8",
    "c3": "#c873a3",
    "c4": "#ffc545",
    "c5": "#c2e8ff",
    "c6": "#97a4cc",
    "c7": "#ae916b",
}


@cache
def asset(name: str) -> str:
    """A file that lies beside this module."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def plot_style() -> str:
    """The style inside a lone SVG file, with colours written out: many SVG readers know no
    variables."""
    dark = "\n".join(line for line in _resolve_colours(DARK).splitlines() if "#" in line)
    return f"{_resolve_colours(LIGHT)}@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


def _resolve_colours(palette: dict[str, str]) -> str:
    return re.sub(r"var\(--([\w-]+)\)", lambda match: palette[match[1]], asset("chart.css"))
