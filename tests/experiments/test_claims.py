"""Every row of a reproduction says what it stands for; a page shows all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from murmuration.base import files
from murmuration.experiments.catalogue import EXPERIMENTS, PART, SIXTH
from murmuration.experiments.pages.reproductions import (
    annotate,
    count_causes,
    count_verdicts,
    describe_length,
    reproductions_page,
    to_markdown,
)
from murmuration.experiments.papers.claims import BASES, CLAIMS, UNKNOWN, classify, find_paper
from murmuration.experiments.papers.masb import google, optimum, tables
from murmuration.reports.page import render

SAVED = Path(__file__).parents[2] / "docs" / "reproductions"


def row(quantity: str, holds: bool | None) -> dict[str, object]:
    shown = {"quantity": quantity, "paper": 1.0, "measured": 1.1, "low": None, "high": None}
    return {**shown, "holds": holds}


ROWS = [
    row("load 104%: overloaded nodes", False),
    row("overloaded share at 106% above that at 100%", True),
    row("used cpu", True),
]
DOCUMENTS = [
    {
        "experiment": "masb-performance",
        "title": "Table 4",
        "quick": True,
        "days": None,
        "rows": ROWS,
        "notes": ["A note."],
    }
]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_names_its_paper_and_its_claims(name: str) -> None:
    assert find_paper(name)
    assert CLAIMS[name]
    for kind in CLAIMS[name]:
        assert kind.basis in BASES and kind.where and kind.tolerance
        re.compile(kind.pattern)


def test_a_number_a_sign_and_what_is_set_are_told_apart() -> None:
    names = [str(each["quantity"]) for each in ROWS]
    assert [classify("masb-performance", name).basis for name in names] == [
        "number",
        "number",
        "own",
    ]
    left_out = "containers left out"
    ours, theirs = f"M4, here: {left_out}", f"A1, figure 13, paper's search, trade-off: {left_out}"
    assert classify("kapellmeister-schedule", ours).basis == "own"
    assert classify("kapellmeister-schedule", theirs).basis == "number"
    assert classify("rss", "batch wait (s) no longer than multi-path's").basis == "sign"
    assert classify("masb-performance", "something else").basis == UNKNOWN


def test_they_are_counted_apart() -> None:
    counts = count_verdicts(DOCUMENTS)
    assert counts["number"]["fails"] == 1
    assert counts["number"]["holds"] == counts["own"]["holds"] == 1


def test_causes_of_failures_are_counted_over_all_experiments() -> None:
    """Numbers of the papers only, the most frequent cause first."""
    set_by_us = {"rows": [row("used cpu", False), row("load 100%: overloaded nodes", True)]}
    other = {"experiment": "masb-compaction", "rows": [row("97% of the nodes: overloaded", False)]}
    odd = {"experiment": "sharing", "rows": [row("speed-up of Spark", False)]}
    causes = count_causes([odd, *DOCUMENTS, {"experiment": "masb-performance", **set_by_us}, other])
    assert [dict(count) for count in causes.values()] == [
        {"masb-performance": 1, "masb-compaction": 1},
        {"sharing": 1},
    ]
    assert list(causes)[1] == "Not known."
    assert f"| {next(iter(causes))} | 1 | masb-performance (1) |" in to_markdown(DOCUMENTS)


def test_a_quick_form_says_how_much_of_the_whole_it_is() -> None:
    length = {"experiment": "masb-google", "quick": True, "days": None}
    assert describe_length(length) == "quick form, a sixth of the cell, 2.4 hours of each day"
    assert describe_length({**length, "quick": False, "days": 0.1}) == "0.1 days"
    assert describe_length({**length, "quick": False}) == "full length"


def test_how_much_a_quick_form_is_is_said_as_it_is_run() -> None:
    hours = f"{24 * tables.QUICK_DAYS:g} hours"
    assert f"{tables.QUICK_SHARE:.0%}".replace("%", " %") + f" of the cell, {hours}" == PART
    assert f"{24 * google.QUICK_LENGTH:g} hours of each day" in SIXTH
    assert round(1 / google.QUICK_SHARE) == 6
    assert EXPERIMENTS["masb-scalability"].quick == PART.replace("cell", "two smaller cells")
    assert EXPERIMENTS["masb-optimum"].quick.startswith(SIXTH.split(",")[0])
    assert optimum.QUICK_MINUTES == 4


def test_every_quick_form_in_the_docs_says_how_much_it_is() -> None:
    lengths = [describe_length(files.read_json(path)) for path in sorted(SAVED.glob("*.json"))]
    assert len(lengths) > 20 and "quick form" not in lengths


def test_the_page_shows_failures_and_what_was_not_run() -> None:
    page = render(reproductions_page(DOCUMENTS))
    for text in ("load 104%: overloaded nodes", "table 4", "quick form", "Not run:", "1 of 2"):
        assert text in page
    text = to_markdown(DOCUMENTS)
    assert "| load 104%: overloaded nodes | table 4 | number |" in text and "**no**" in text


def test_the_page_says_why_something_was_not_run() -> None:
    text = to_markdown(DOCUMENTS, {"masb-google": "google2011/x: no such file."})
    assert "Not run: masb-google. google2011/x: no such file." in text
    assert "masb-google, " not in text


@pytest.mark.parametrize("path", sorted(SAVED.glob("*.json")), ids=lambda path: path.stem)
def test_every_saved_row_is_classified_and_the_page_is_of_today(path: Path) -> None:
    document = files.read_json(path)
    strange = [
        each["quantity"]
        for each in document["rows"]
        if annotate(document["experiment"], each)["basis"] == UNKNOWN
    ]
    assert strange == []


@pytest.mark.parametrize("path", sorted(SAVED.glob("*.json")), ids=lambda path: path.stem)
def test_what_counts_as_a_number_of_the_paper_has_one(path: Path) -> None:
    """A row judged as the paper's number shows a number of the paper, or the name it gives."""
    document = files.read_json(path)
    rows = [annotate(document["experiment"], each) for each in document["rows"]]
    judged = [each for each in rows if each["basis"] == "number" and each["holds"] is not None]
    for each in judged:
        named = each["quantity"] == "the cheapest pair"
        assert named or re.search(r"\d|almost|about", str(each["paper"])), each["quantity"]


def test_the_page_of_the_docs_is_made_of_the_saved_rows() -> None:
    documents = [files.read_json(path) for path in sorted(SAVED.glob("*.json"))]
    assert (SAVED.parent / "reproductions.md").read_text() == to_markdown(documents)


def test_the_page_says_why_rows_fail() -> None:
    text = to_markdown(DOCUMENTS)
    assert "Why rows fail, and how many: Use varies too little" in text and "(1)" in text
