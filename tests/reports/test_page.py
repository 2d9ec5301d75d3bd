"""A page is one file that needs nothing else, says only what it was told, and keeps its tables
short."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from murmuration.reports.charts import Bars, Chart, Series
from murmuration.reports.page import ROWS_MAX, Page, ReportTable, Section, render, verdict_table

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


def test_page_is_well_formed() -> None:
    reader = read(render(sample()))
    assert reader.seen.count("h1") == 1
    assert reader.seen.count("figure") == reader.seen.count("details") == 3
    assert "12,345" in reader.text


def test_an_empty_page_is_well_formed() -> None:
    read(render(Page("nothing")))
    read(
        render(
            Page("nothing", sections=(Section("empty", tables=(ReportTable("t", ("a",), ()),)),))
        )
    )


def test_page_needs_no_network() -> None:
    text = render(sample()).replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert "http" not in text and "//" not in re.sub(r"// .*", "", text)
    assert "@import" not in text and "src=" not in text


def test_everything_from_outside_is_escaped() -> None:
    nasty = "</script><script>alert('x\" & y')</script>\x01"
    text = render(sample(nasty))
    assert "<script>alert" not in text and "\x01" not in text
    assert read(text).seen.count("script") == 1


def test_a_long_table_is_thinned_and_says_so() -> None:
    text = render(
        Page(
            "long", sections=(Section("s", figures=(sample(points=5000).sections[1].figures[0],)),)
        )
    )
    assert text.count("<tr>") == ROWS_MAX + 1
    assert "200 of 5,000 rows" in text
    assert ">4,999</td>" in text


def test_verdicts_are_marked() -> None:
    text = render(sample())
    assert text.count('class="pill good">✓') == text.count('class="pill bad">✗') == 1


def test_numbers_stand_on_the_right() -> None:
    text = render(sample())
    assert (
        '<td class="n">12,345</td>' in text
        and '<td class="n">—</td>' in text
        and "<td>plain</td>" in text
    )
