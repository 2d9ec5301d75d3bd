"""Fronts and fills: every value lands where its scale says, names are told, and nothing breaks on
nothing."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from murmuration.reports.charts import Figure, Fills, Parallel, Scatter, draw, standalone, table_of

SVG = "{http://www.w3.org/2000/svg}"
POINTS = [(1.0, 5.0), (2.0, 3.0), (4.0, 1.0)]
SCATTER = Scatter("two", "x", "y", POINTS, (("chosen", 2.0, 3.0),))
PARALLEL = Parallel("all", ("a", "b", "c"), [(1, 2, 3), (3, 2, 1)], (("chosen", (1, 2, 3)),))
FILLS = Fills(
    "nodes", ("cpu", "memory"), [("n1", (0.5, 0.25), (1.0, 0.0)), ("n2", (0.0, 2.0), (0.1, 0.2))]
)


def parse(figure: Figure) -> ElementTree.Element:
    return ElementTree.fromstring(draw(figure, 480))


@pytest.mark.parametrize("figure", [SCATTER, PARALLEL, FILLS])
def test_a_figure_is_drawn_stands_alone_and_has_its_numbers_beside_it(figure: Figure) -> None:
    assert parse(figure).tag == f"{SVG}svg"
    assert standalone(figure).startswith("<?xml")
    columns, rows = table_of(figure)
    assert all(len(row) == len(columns) for row in rows)


@pytest.mark.parametrize(
    "figure",
    [
        Scatter("t", "x", "y", []),
        Parallel("t", ("a", "b"), []),
        Parallel("t", (), []),
        Fills("t", ("cpu",), []),
    ],
)
def test_nothing_to_show_is_said(figure: Figure) -> None:
    assert "no data" in draw(figure)


def test_points_keep_their_order() -> None:
    specks = [c for c in parse(SCATTER).iter(f"{SVG}circle") if c.get("class") == "speck"]
    xs, ys = ([float(str(c.get(key))) for c in specks] for key in ("cx", "cy"))
    assert xs == sorted(xs) and ys == sorted(ys)


def test_parallel_axes_run_from_least_to_largest() -> None:
    paths = [
        str(p.get("d")) for p in parse(PARALLEL).iter(f"{SVG}path") if p.get("class") == "thread"
    ]
    heights = [[float(point.split()[1]) for point in path[1:].split("L")] for path in paths]
    assert heights[0][0] == heights[1][2] == max(map(max, heights))
    assert heights[0][1] == heights[1][1]


def test_a_bar_is_as_long_as_its_share_and_never_longer_than_the_whole() -> None:
    bars = [
        r for r in parse(FILLS).iter(f"{SVG}rect") if r.get("class") in ("trough", "bar", "ghost")
    ][2:]
    # The first two are the legend's.
    whole = float(str(bars[0].get("width")))
    widths = [float(str(r.get("width"))) / whole for r in bars if r.get("class") != "trough"]
    assert widths == pytest.approx([0.5, 1.0, 0.25, 0.0, 0.0, 0.1, 1.0, 0.2], abs=0.01)


def test_rows_must_match_their_axes() -> None:
    with pytest.raises(ValueError, match="must have 2 values"):
        Parallel("t", ("a", "b"), [(1.0,)])
