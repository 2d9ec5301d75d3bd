"""Figures as the output of a notebook's cell: the report's own page in a frame that can reach
nothing outside of itself."""

from __future__ import annotations

import html
from collections.abc import Sequence

from murmuration.reports.figures import Figure
from murmuration.reports.page import Page, Section, render

#: Pixels of a figure with its title and legend, and of the page's edges.
FIGURE_HEIGHT, EDGE = 430, 40


def bare_page(title: str, figures: Sequence[Figure]) -> str:
    """A page of nothing but figures."""
    return render(Page(title, sections=(Section("", figures=tuple(figures)),), is_bare=True))


def render_cell(title: str, figures: Sequence[Figure]) -> str:
    """The figures in a frame. Scripts run in it as on a page of another origin: they see neither
    the notebook nor its cookies."""
    if not figures:
        return ""
    height = (len(figures) + 1) // 2 * FIGURE_HEIGHT + EDGE
    text = html.escape(bare_page(title, figures), quote=True)
    return (
        f'<iframe title="{html.escape(title)}" sandbox="allow-scripts allow-downloads" '
        f'width="100%" height="{height}" style="border:0" srcdoc="{text}"></iframe>'
    )
