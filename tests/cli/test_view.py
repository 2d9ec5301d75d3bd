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
from murmuration.experiments.pages.view import view_text


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
    assert view_text([tmp_path]) == view_text([tmp_path / "report.html"]) == "a plan"


@pytest.mark.parametrize("name", ["none", "empty"])
def test_what_is_no_run_is_a_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=name):
        view_text([tmp_path / name])


def figures_of(text: str) -> Any:
    block = re.search(r'id="data">(.*?)</script>', text, re.S)
    assert block is not None
    page = json.loads(block[1])
    return [figure for section in page["sections"] for figure in section["figures"]]


def test_one_run_and_two_side_by_side(murmur: Any, tmp_path: Path) -> None:
    schedulers = ("monolithic", "shared-state")
    for name in schedulers:
        murmur("simulate", "small.toml", "-s", name, "--out", str(tmp_path / name))
    one = figures_of(view_text([tmp_path / "monolithic"]))
    assert any(figure["kind"] == "chart" for figure in one)
    both = figures_of(view_text([tmp_path / name for name in schedulers]))
    charts = [figure for figure in both if figure["kind"] == "chart"]
    assert {line["name"] for line in charts[0]["series"]} == set(schedulers)
