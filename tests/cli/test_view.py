"""`murmur view` of runs: from a stored run to a page, served to who knows its address."""

from __future__ import annotations

import json
import re
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from murmuration.base.errors import InputError
from murmuration.cli.results.serve import PageServer
from murmuration.experiments.pages.view import read_page
from murmuration.reports.figures import Bars, Chart, Series
from murmuration.reports.page import Page, Section, render


def test_a_page_is_served_under_its_own_path_alone() -> None:
    with PageServer("<p>grüße</p>", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with urllib.request.urlopen(server.url) as answer:
            assert answer.read().decode() == "<p>grüße</p>"
        for path in ("/", "/favicon.ico", server.path + "x"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}{path}")
        server.shutdown()


def test_addresses_cannot_be_guessed() -> None:
    with PageServer("a", 0) as first, PageServer("a", 0) as second:
        assert first.path != second.path and len(first.path) > 15


def test_the_folder_of_a_study_shows_its_report(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("a plan")
    files = (tmp_path, tmp_path / "report.html", tmp_path / "plan.json")
    assert {read_page([file]) for file in files} == {"a plan"}


@pytest.mark.parametrize("name", ["none", "empty"])
def test_what_is_no_run_is_a_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=name):
        read_page([tmp_path / name])


def figures_of(page: Page | str) -> Any:
    text = page if isinstance(page, str) else render(page)
    block = re.search(r'id="data">(.*?)</script>', text, re.S)
    assert block is not None
    read = json.loads(block[1])
    return [figure for section in read["sections"] for figure in section["figures"]]


def test_one_run_and_two_side_by_side(murmur: Any, tmp_path: Path) -> None:
    schedulers = ("monolithic", "shared-state")
    for name in schedulers:
        murmur("simulate", "small.toml", "-s", name, "--out", str(tmp_path / name))
    one = figures_of(read_page([tmp_path / "monolithic"]))
    assert any(figure["kind"] == "chart" for figure in one)
    both = figures_of(read_page([tmp_path / name for name in schedulers]))
    charts = [figure for figure in both if figure["kind"] == "chart"]
    assert {line["name"] for line in charts[0]["series"]} == set(schedulers)


def long_page() -> Page:
    """A line of more points than a page has, all different."""
    x = [float(k) for k in range(50_000)]
    line = Series("line", x, [(7919 * k) % 50_000 / 7.0 for k in range(50_000)])
    figures = (Bars("Bars", "s", ("a",), (("x", (1.0,)),)), Chart("Long", "hour", "y", (line,)))
    return Page("long", sections=(Section("Both", figures=figures),))


def test_what_was_thinned_is_served_in_full_where_somebody_zooms() -> None:
    page = long_page()
    whole = page.sections[0].figures[1]
    assert isinstance(whole, Chart)
    (line,) = whole.series
    chart = figures_of(page)[1]
    assert chart["thinned"] and len(chart["series"][0]["x"]) <= 2002
    with PageServer(page, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def ask(query: str) -> Any:
            with urllib.request.urlopen(f"{server.url}zoom?{query}") as answer:
                return json.load(answer)

        (part,) = ask("section=0&figure=1&from=1000.5&until=1999.5")
        # One point beyond each end, so that the line goes on to the edge.
        assert part["x"] == list(line.x[1000:2001])
        assert part["y"] == [float(f"{y:.6g}") for y in line.y[1000:2001]]
        assert len(ask("section=0&figure=1&from=0&until=1e9")[0]["x"]) <= 2002
        for query in (
            "section=0&figure=0&from=0&until=1",
            "section=-1&figure=1&from=0&until=1",
            "section=9&figure=1&from=0&until=1",
            "section=0&figure=1",
            "x",
        ):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                ask(query)
        server.shutdown()
