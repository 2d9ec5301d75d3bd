"""Figures drawn with matplotlib in the manner of papers: the width of a column or of a page, small
type, no title and no frame beyond the axes. Curves differ by colour, dash and marker, so that they
can be told apart in print and by people who see few colours. The same runs give the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from murmuration.base.errors import InputError
from murmuration.experiments.figures.data import PaperCurve, PaperFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Inches: a column and the whole width of a two-column page.
WIDTHS = {"column": 3.33, "page": 7.0}
HEIGHT = 2.1
SUFFIXES = (".pdf", ".png", ".svg")
#: Okabe and Ito's colours without yellow, which is lost on white paper.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
STYLE = {
    "font.size": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.1,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    # Text stays text, in fonts that publishers take.
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    # Names of parts are drawn by chance otherwise.
    "svg.hashsalt": "murmuration",
}
#: Without these a file would hold when it was made.
TIMELESS = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}, ".png": {"Software": None}}


def check_output(path: Path) -> None:
    """Say before anything is read that a file of this name cannot be made."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"-o {path}: expected a name that ends in {', '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise InputError(f"-o {path}: there is no folder {path.parent}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError(
            "murmur plot: matplotlib is not installed; in the project: pip install '.[plot]' "
            "(with ./murmur: .venv/bin/pip install '.[plot]')"
        ) from error


def write_figure(figure: PaperFigure, path: Path, width: str) -> None:
    """Draw a figure into a file whose name says the format."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # The settings hold for this figure alone, and no window system is asked for.
    with matplotlib.rc_context(dict(STYLE)):  # type: ignore[arg-type]
        drawn = Figure(figsize=(WIDTHS[width], HEIGHT), dpi=300, layout="constrained")
        FigureCanvasAgg(drawn)
        axes = drawn.subplots()
        if figure.categories:
            _draw_points(axes, figure)
        else:
            _draw_lines(axes, figure)
        _label(axes, figure, WIDTHS[width])
        drawn.savefig(path, metadata=TIMELESS[path.suffix.lower()])


def _draw_lines(axes: Axes, figure: PaperFigure) -> None:
    few = all(len(curve.x) <= 20 for curve in figure.curves)
    for place, curve in enumerate(figure.curves):
        k = place % len(COLOURS)
        grey = curve.name in figure.dotted
        colour = "0.45" if grey else COLOURS[k]
        axes.plot(
            curve.x,
            curve.y,
            color=colour,
            linestyle=":" if grey else DASHES[k],
            marker=MARKERS[k] if few else None,
            markersize=3,
            label=curve.name or None,
        )
        if curve.low is not None and curve.high is not None:
            fill = axes.fill_betweenx if figure.sideways else axes.fill_between
            along = curve.y if figure.sideways else curve.x
            fill(along, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)


def _draw_points(axes: Axes, figure: PaperFigure) -> None:
    """Points with whiskers: where an interval matters, a bar hides half of it."""
    count = len(figure.curves)
    for place, curve in enumerate(figure.curves):
        k = place % len(COLOURS)
        x = curve.x + (place - (count - 1) / 2) * min(0.18, 0.6 / count)
        axes.errorbar(
            x,
            curve.y,
            yerr=_whiskers(curve),
            fmt=MARKERS[k],
            color=COLOURS[k],
            markersize=3.5,
            capsize=2,
            elinewidth=0.8,
            label=curve.name,
        )
    labels = [name.replace("-", "-\n", 1) if len(name) > 10 else name for name in figure.categories]
    axes.set_xticks(range(len(labels)), labels)
    axes.set_xlim(-0.6, len(labels) - 0.4)
    if not figure.log_y:
        axes.set_ylim(bottom=0)


def _whiskers(curve: PaperCurve) -> np.ndarray[tuple[int, int], np.dtype[np.float64]] | None:
    if curve.low is None or curve.high is None:
        return None
    return np.array([curve.y - curve.low, curve.high - curve.y])


def _label(axes: Axes, figure: PaperFigure, inches: float) -> None:
    from matplotlib.ticker import PercentFormatter

    axes.set_xlabel(figure.x_label)
    axes.set_ylabel(figure.y_label)
    if figure.log_x and any((curve.x > 0).any() for curve in figure.curves):
        axes.set_xscale("log")
    if figure.log_y:
        axes.set_yscale("log")
    if figure.percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    names = [curve.name for curve in figure.curves if curve.name]
    if len(names) > 1:
        # Above the axes, where it hides nothing.
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=_legend_columns(names, inches),
            borderpad=0.2,
            columnspacing=1.2,
            handletextpad=0.5,
        )


def _legend_columns(names: list[str], inches: float) -> int:
    """As many columns as fit beside each other: a letter is 0.055 inches wide, and the line before
    a name as wide as eight."""
    for columns in range(len(names), 1, -1):
        widest = [max(map(len, names[k::columns])) + 8 for k in range(columns)]
        if sum(widest) * 0.055 <= 0.85 * inches:
            return columns
    return 1
