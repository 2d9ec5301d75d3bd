"""A page is one file that needs nothing else, says only what it was told, and keeps its tables
short."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from murmuration.reports.document import POINTS_MAX, plain, thin
from murmuration.reports.figures import Bars, Chart, Series
from murmuration.reports.page import Page, ReportTable, Section, render, verdict_table

VOID = {"meta", "link", "br", "img"}
VERDICTS = [
    {"quantity": "wait (s)", "paper": 10, "measured": 11.2, "low": 8, "high": 12, "holds": True},
    {
        "quantity": "conflicts",
        "paper": 0.1,
        "measured": 0.4,
        "low": 0.05,
        "high": 0.2,
        "holds": False,
    },
    {
        "quantity": "untested",
        "paper": 3,
        "measured": None,
        "low": None,
        "high": None,
        "holds": None,
    },
]


class Reader(HTMLParser):
    """Checks that elements close in order, and keeps the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and self.open.pop() != tag:
            raise AssertionError(f"</{tag}> closes nothing")

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def sample(word: str = "plain", points: int = 3) -> Page:
    chart = Chart(
        word,
        word,
        word,
        (Series(word, list(range(points)), [1.5] * points, markers=True),),
        note=word,
    )
    bars = Bars(word, word, (word, "b"), ((word, (1.0, None)),), note=word)
    table = ReportTable(word, (word, "count"), ((word, 12345), ("b", None)), word)
    sections = (
        Section(word, f"{word}\n\n{word}", (chart, bars), (table,)),
        Section("one figure", figures=(chart,)),
        Section("claims", tables=(verdict_table(VERDICTS, word),)),
    )
    return Page(word, word, ((word, word),), sections, word)


def data_of(text: str) -> Any:
    """What a report has embedded, as a browser would read it."""
    blocks = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert len(blocks) == 1
    return json.loads(blocks[0])


def test_page_is_well_formed() -> None:
    reader = read(render(sample()))
    assert reader.seen.count("script") == 2
    assert reader.seen.count("style") == reader.seen.count("title") == 1


def test_the_data_is_what_the_page_was_told() -> None:
    data = data_of(render(sample("word")))
    assert (data["title"], data["subtitle"], data["facts"]) == ("word", "word", [["word", "word"]])
    chart, bars = data["sections"][0]["figures"]
    assert (chart["kind"], bars["kind"]) == ("chart", "bars")
    assert chart["series"][0]["y"] == [1.5, 1.5, 1.5]
    assert bars["series"] == [["word", [1.0, None]]]
    assert data["sections"][0]["tables"][0]["rows"] == [["word", 12345], ["b", None]]


def test_an_empty_page_is_well_formed() -> None:
    read(render(Page("nothing")))
    read(
        render(
            Page("nothing", sections=(Section("empty", tables=(ReportTable("t", ("a",), ()),)),))
        )
    )


def test_page_needs_no_network() -> None:
    """Nothing is loaded, and the policy would not let it be."""
    text = render(sample())
    shell = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", text, flags=re.S)
    assert "http" not in shell.replace("http-equiv", "") and "src=" not in shell
    assert "default-src 'none'" in shell and "connect-src" not in shell
    assert "'unsafe" not in shell


def test_the_policy_names_the_script_and_the_style() -> None:
    text = render(sample())
    script = re.findall(r"<script>(.*?)</script>", text, re.S)
    style = re.findall(r"<style>(.*?)</style>", text, re.S)
    assert len(script) == len(style) == 1
    for name, body in (("script", script[0]), ("style", style[0])):
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in text


def test_everything_from_outside_is_escaped() -> None:
    nasty = "</script><script>alert('x\" & y')</script>\x01<!--"
    text = render(sample(nasty))
    assert "<script>alert" not in text and "\x01" not in text
    assert "<!--" not in text.partition("<script>")[0]
    assert read(text).seen.count("script") == 2
    assert data_of(text)["title"] == nasty.replace("\x01", "")


@given(st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=1, max_size=300), st.data())
def test_a_thinned_line_keeps_its_ends_and_extremes(
    values: list[float | None], data: st.DataObject
) -> None:
    count = data.draw(st.integers(4, 50))
    kept = list(thin(values, count))
    assert kept == sorted(set(kept)) and {0, len(values) - 1} <= set(kept)
    assert len(kept) <= max(len(values) if len(values) <= count else 0, count + 2)
    known = [value for value in values if value is not None]
    if known:
        shown = [value for k in kept if (value := values[k]) is not None]
        assert (min(shown), max(shown)) == (min(known), max(known))


def test_a_long_line_is_thinned() -> None:
    series = data_of(render(sample(points=50_000)))["sections"][1]["figures"][0]["series"][0]
    assert len(series["x"]) == len(series["y"]) <= POINTS_MAX + 2
    assert series["x"][-1] == 49_999


def test_what_is_no_number_is_a_gap() -> None:
    cells = [math.nan, math.inf, np.float64(1.23456789), np.int64(7), True, np.array([1, 2])]
    assert plain(cells) == [None, None, 1.23457, 7, True, [1, 2]]


def test_verdicts_are_marked() -> None:
    rows = data_of(render(sample()))["sections"][2]["tables"][0]["rows"]
    assert [row[-1] for row in rows] == [{"holds": True}, {"holds": False}, {"holds": None}]
