"""Whatever the numbers, a plot is well-formed, self-contained, and shows what it was given."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from murmuration.reports.charts import Bars, Chart, Figure, Series, draw, standalone, table_of
from murmuration.reports.style import DARK, LIGHT

NAMESPACE = "http://www.w3.org/2000/svg"
NUMBERS = st.one_of(st.none(), st.floats(), st.sampled_from([0.0, -1.0, 1.0, 30.0]))


def parse(figure: Figure, width: float = 480) -> ElementTree.Element:
    return ElementTree.fromstring(draw(figure, width))


def shapes(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [element for element in root.iter() if kind in element.get("class", "").split()]


def line_chart(*series: Series, **more: object) -> Chart:
    return Chart("Title", "time (s)", "wait (s)", series, **more)  # type: ignore[arg-type]


def check_coordinates(root: ElementTree.Element) -> None:
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for element in root.iter():
        for name, limit in (
            ("cx", width),
            ("cy", height),
            ("x1", width),
            ("y1", height),
            ("y2", height),
        ):
            assert -1 <= float(element.get(name, 0)) <= limit + 1
        assert not re.search("nan|inf", element.get("d", ""))


@st.composite
def any_series(draw_value: st.DrawFn) -> Series:
    size = draw_value(st.integers(0, 6))
    column = st.lists(NUMBERS, min_size=size, max_size=size)
    x = draw_value(st.lists(st.floats(), min_size=size, max_size=size))
    edges = draw_value(st.one_of(st.none(), column)), draw_value(st.one_of(st.none(), column))
    hollow = draw_value(st.one_of(st.none(), st.lists(st.booleans(), min_size=size, max_size=size)))
    flags = draw_value(st.tuples(st.booleans(), st.booleans()))
    return Series(
        draw_value(st.text(max_size=9)),
        x,
        draw_value(column),
        *edges,
        flags[0],
        hollow,
        None,
        flags[1],
    )


@settings(max_examples=200, deadline=None)
@given(
    st.lists(any_series(), max_size=3),
    st.booleans(),
    st.booleans(),
    st.text(max_size=30),
)
def test_any_chart_is_well_formed(
    series: list[Series], x_log: bool, y_log: bool, title: str
) -> None:
    chart = Chart(
        title, "x", title, tuple(series), x_log, y_log, (("limit", 3.0), ("none", math.nan)), title
    )
    check_coordinates(parse(chart))
    columns, rows = table_of(chart)
    assert all(len(row) == len(columns) for row in rows)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.text(max_size=30), NUMBERS, NUMBERS), max_size=6),
    st.booleans(),
    st.booleans(),
)
def test_any_bars_are_well_formed(
    rows: list[tuple[str, float, float]], log: bool, edges: bool
) -> None:
    names, first, second = (
        (tuple(column) for column in zip(*rows, strict=True)) if rows else ((), (), ())
    )
    spread = (first, second) if edges else None
    bars = Bars(
        "Title",
        "y",
        names,
        (("a", first), ("b", second)),
        "note",
        log,
        spread,
        spread,
        (("limit", 2.0),),
    )
    check_coordinates(parse(bars, width=380))
    columns, body = table_of(bars)
    assert all(len(row) == len(columns) for row in body)


@pytest.mark.parametrize("y_log", [False, True])
@pytest.mark.parametrize("y", [[], [None, None], [math.nan, math.inf]])
def test_empty_data_says_so(y: list[float | None], y_log: bool) -> None:
    chart = line_chart(Series("a", list(range(len(y))), y), y_log=y_log)
    assert "no data" in draw(chart)
    assert "no data" in draw(Bars("Title", "y", ("g",) * len(y), (("a", tuple(y)),), y_log=y_log))


def test_gaps_break_the_line() -> None:
    root = parse(line_chart(Series("a", [0, 1, 2, 3, 4, 5], [1, 2, None, 4, 5, math.nan])))
    assert len([path for path in shapes(root, "line") if path.tag.endswith("path")]) == 2


def test_a_lone_point_is_visible() -> None:
    assert len(shapes(parse(line_chart(Series("a", [0, 1, 2], [1, None, 3]))), "dot")) == 2


def test_zeros_on_a_log_axis_stay_visible() -> None:
    text = draw(line_chart(Series("a", [0, 1, 2, 3], [0.0, 1.0, 10.0, 0.0]), y_log=True))
    root = ElementTree.fromstring(text)
    assert (
        len(
            [
                mark
                for mark in shapes(root, "sunk")
                if mark.find(f"{{{NAMESPACE}}}title") is not None
            ]
        )
        == 2
    )
    assert "off the log axis" in text


def test_saturated_points_are_hollow_and_named() -> None:
    chart = line_chart(Series("a", [1, 2], [1, 2], hollow=[False, True], markers=True))
    assert "(saturated)" in draw(chart)
    assert len(shapes(parse(chart), "hollow")) == 2  # One point, and its entry in the legend.
    assert "hollow" not in draw(line_chart(Series("a", [1, 2], [1, 2], hollow=[False, False])))


def test_series_can_share_a_colour() -> None:
    series = (
        Series("batch", [1, 2], [1, 2], colour=3),
        Series("service", [1, 2], [2, 3], colour=3, dotted=True),
    )
    assert [group.get("class") for group in shapes(parse(line_chart(*series)), "series")] == [
        "series c3"
    ] * 2


def test_a_long_series_keeps_its_spike() -> None:
    y = [1.0] * 20_000
    y[12_345] = 9.0
    chart = line_chart(Series("a", list(range(20_000)), y))
    (path,) = (path for path in shapes(parse(chart), "line") if path.tag.endswith("path"))
    heights = [float(step.split()[1]) for step in path.attrib["d"][1:].split("L")]
    assert len(heights) < 1500
    assert min(heights) < min(heights[0], heights[-1])
    assert len(table_of(chart)[1]) == 20_000


def test_legend_stays_above_the_data() -> None:
    root = parse(line_chart(*(Series(f"a rather long name {i}", [0, 1], [5, 9]) for i in range(9))))
    lowest = max(float(key.attrib["y"]) for key in shapes(root, "key"))
    assert lowest < min(float(line.attrib["y1"]) for line in shapes(root, "grid"))


def test_titles_are_escaped() -> None:
    nasty = '<script>alert("&")</script>\x00'
    chart = Chart(
        nasty, nasty, nasty, (Series(nasty, [1], [1]),), lines=((nasty, 1.0),), note=nasty
    )
    for text in (draw(chart), standalone(chart)):
        assert "<script" not in text
        ElementTree.fromstring(text.encode())


@pytest.mark.parametrize(
    "figure", [line_chart(Series("a", [1, 2], [1, 2])), Bars("t", "y", ("g",), (("a", (1.0,)),))]
)
def test_a_file_stands_alone(figure: Figure) -> None:
    text = standalone(figure)
    root = ElementTree.fromstring(text.encode())
    assert root.get("role") == "img" and root.get("aria-label") and root.get("width")
    assert "var(" not in text and "prefers-color-scheme: dark" in text
    assert "http" not in text.replace(NAMESPACE, "")


def test_table_joins_series_by_x() -> None:
    chart = line_chart(
        Series("a", [1, 2], [10, None], low=[9, None], high=[11, None]),
        Series("b", [2, 3, 3], [5, 6, 7], hollow=[False, True, True]),
    )
    columns, rows = table_of(chart)
    assert columns == ["time (s)", "a", "a low", "a high", "b", "b saturated"]
    assert rows == [
        [1.0, 10.0, 9.0, 11.0, None, None],
        [2.0, None, None, None, 5.0, "no"],
        [3.0, None, None, None, 6.0, "yes"],
        [3.0, None, None, None, 7.0, "yes"],
    ]


def test_lists_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="every list must have 2 values"):
        Series("a", [1, 2], [1])
    with pytest.raises(ValueError, match="every list must have 1 values"):
        Bars("t", "y", ("g",), (("a", (1.0, 2.0)),))


def luminance(colour: str) -> float:
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_colours_stand_out_from_the_card(palette: dict[str, str]) -> None:
    for index in range(8):
        dark, bright = sorted(luminance(palette[name]) for name in (f"c{index}", "card"))
        assert (bright + 0.05) / (dark + 0.05) >= 3
