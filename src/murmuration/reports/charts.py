"""Plots from plain values: `draw` gives inline SVG, `standalone` an SVG file, `table_of` the
numbers behind either."""

from __future__ import annotations

from murmuration.reports.bars import draw_bars
from murmuration.reports.figures import Bars, Chart, Figure, Fills, Parallel, Scatter, Series
from murmuration.reports.fills import draw_fills
from murmuration.reports.formats import finite
from murmuration.reports.frame import Look
from murmuration.reports.fronts import draw_parallel, draw_scatter
from murmuration.reports.lines import draw_lines
from murmuration.reports.style import plot_style

__all__ = [
    "Bars",
    "Chart",
    "Figure",
    "Fills",
    "Parallel",
    "Scatter",
    "Series",
    "draw",
    "standalone",
    "table_of",
]

_MARGIN = 12


def draw(figure: Figure, width: float = 480) -> str:
    """An inline SVG that scales with its container; colours come from the classes of the page
    around it.

    `width` sets the proportion of text to plot: 400 suits a phone or a paper column, 880 a full
    row.
    """
    look = Look(width)
    match figure:
        case Bars():
            return draw_bars(figure, look)
        case Chart():
            return draw_lines(figure, look)
        case Scatter():
            return draw_scatter(figure, look)
        case Parallel():
            return draw_parallel(figure, look)
        case Fills():
            return draw_fills(figure, look)


def standalone(figure: Figure, width: float = 480) -> str:
    """The text of an `.svg` file that brings its own style, light or dark as the reader's system
    is."""
    drawing = draw(figure, width)
    opening, _, rest = drawing.partition(">")
    _, _, across, down = opening.partition('viewBox="')[2].partition('"')[0].split()
    wide, tall = float(across) + 2 * _MARGIN, float(down) + 2 * _MARGIN
    size = f'viewBox="{-_MARGIN} {-_MARGIN} {wide:g} {tall:g}" width="{wide:g}" height="{tall:g}"'
    opening = opening.replace(f'viewBox="0 0 {across} {down}"', size, 1)
    paper = (
        f'<rect x="{-_MARGIN}" y="{-_MARGIN}" width="{wide:g}" height="{tall:g}" class="paper"/>'
    )
    declaration = '<?xml version="1.0" encoding="UTF-8"?>'
    return f"{declaration}\n{opening}><style>{plot_style()}</style>{paper}{rest}\n"


def table_of(figure: Figure) -> tuple[list[str], list[list[object]]]:
    """Column names and rows of the numbers that a plot shows."""
    match figure:
        case Bars():
            return _bars_table(figure)
        case Chart():
            return _chart_table(figure)
        case Scatter():
            rows = [["", x, y] for x, y in figure.points] + [list(mark) for mark in figure.marked]
            return ["point", figure.x_label, figure.y_label], rows
        case Parallel():
            lines = [["", *row] for row in figure.rows] + [
                [name, *row] for name, row in figure.marked
            ]
            return ["line", *figure.axes], lines
        case Fills():
            columns = [f"{part} {when}" for when in ("before", "after") for part in figure.parts]
            return ["name", *columns], [
                [name, *before, *after] for name, before, after in figure.rows
            ]


def _bars_table(bars: Bars) -> tuple[list[str], list[list[object]]]:
    columns = ["group"]
    rows: list[list[object]] = [[group] for group in bars.groups]
    for index, (name, values) in enumerate(bars.series):
        for suffix, edges in (("", None), (" low", bars.low), (" high", bars.high)):
            if suffix and edges is None:
                continue
            columns.append(name + suffix)
            for row, value in zip(rows, values if edges is None else edges[index], strict=True):
                row.append(finite(value))
    return columns, rows


def _chart_table(chart: Chart) -> tuple[list[str], list[list[object]]]:
    columns = [chart.x_label or "x"]
    cells: dict[tuple[float, int], dict[int, object]] = {}
    for series in chart.series:
        start = len(columns)
        parts = _columns(series)
        columns += [f"{series.name or chart.y_label}{suffix}" for suffix, _ in parts]
        for index, place in enumerate(_places(series)):
            row = cells.setdefault(place, {}) if place is not None else {}
            row.update({start + offset: values[index] for offset, (_, values) in enumerate(parts)})
    rows = [
        [x, *(cells[x, turn].get(column) for column in range(1, len(columns)))]
        for x, turn in sorted(cells)
    ]
    return columns, rows


def _columns(series: Series) -> list[tuple[str, list[object]]]:
    parts: list[tuple[str, list[object]]] = [("", [finite(value) for value in series.y])]
    for suffix, edge in ((" low", series.low), (" high", series.high)):
        if edge is not None:
            parts.append((suffix, [finite(value) for value in edge]))
    if series.hollow is not None and any(series.hollow):
        parts.append((" saturated", ["yes" if hollow else "no" for hollow in series.hollow]))
    return parts


def _places(series: Series) -> list[tuple[float, int] | None]:
    """A row for every x; an x that comes twice in one series gets a second row."""
    seen: dict[float, int] = {}
    places: list[tuple[float, int] | None] = []
    for raw in series.x:
        x = finite(raw)
        if x is None:
            places.append(None)
            continue
        seen[x] = seen.get(x, -1) + 1
        places.append((x, seen[x]))
    return places
