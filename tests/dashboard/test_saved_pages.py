"""The pages of every kind of study, made by the commands themselves, in a real browser: on screens,
on phones and on paper."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

import pytest
from click.testing import CliRunner
from tests.dashboard.browsers import FAINT, NAMELESS, TOO_WIDE, open_browser, open_page
from tests.dashboard.test_report_page import figure_of

from murmuration.cli import murmur

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SMALL = (str(EXAMPLES / "small.toml"), "--days", "0.05")
RATES = "workload.batch.arrivals_per_s=0.02,0.04"
TIMES = "scheduler.decision.service.job_time_s=1,10"
STUDIES = {
    "simulate": ("simulate", *SMALL),
    "compare": ("compare", *SMALL, "-s", "offers,shared-state"),
    "replicas": ("compare", *SMALL, "-s", "offers,shared-state", "--replicas", "2"),
    "sweep": ("sweep", *SMALL, "--vary", RATES, "--vary", TIMES),
    "compact": ("compact", *SMALL, "--step", "0.4"),
    "grow": ("grow", *SMALL, "--step", "4"),
    "autoscale": ("autoscale", "depas", "--days", "0.004", "-s", "depas,threshold"),
    "reproduce": ("reproduce", "swarm-model", "--quick"),
    "plan": ("plan", str(EXAMPLES / "cluster.toml"), "--evaluations", "400"),
}
#: Sections that a reader of each looks for.
SECTIONS = {
    "simulate": ["In short", "Over time", "Every figure"],
    "compare": ["Verdict", "Waiting and busyness", "At a glance", "Over time"],
    "replicas": ["Verdict", "Waiting and busyness", "At a glance", "Over time"],
    "sweep": ["In short", "Figures", "At a glance"],
    "compact": ["Answer", "Every step"],
    "grow": ["Answer", "Every step"],
    "autoscale": ["At a glance", "Capacity against the band", "Over time"],
    "reproduce": ["Verdict", "Figures"],
    "plan": ["Objectives", "Every node", "Moves", "Rehearsal", "The front"],
}
#: Tables that are wider than their card, and drawings that are wider than theirs.
CUT = """() => [...document.querySelectorAll('.scroll, figure svg, figure img')].filter((e) =>
  e.matches('.scroll') ? e.scrollWidth > e.clientWidth + 1
    : e.getBoundingClientRect().right > e.closest('figure').getBoundingClientRect().right + 1)
  .map((e) => e.outerHTML.slice(0, 200))"""
#: Headings that are followed by one more than a level down.
SKIPPED = """() => { let last = 0;
  return [...document.querySelectorAll('h1, h2, h3')].filter((h) => {
    const level = +h.tagName[1], skips = level > last + 1; last = level; return skips;
  }).map((h) => h.textContent) }"""
A4_WIDTH = 703


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as started:
        yield started


@pytest.fixture(scope="module")
def reports(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("studies")
    for name, command in STUDIES.items():
        outcome = CliRunner().invoke(murmur, [*command, "--out", str(folder / name)])
        assert outcome.exit_code == 0, (name, outcome.output)
    return {name: folder / name / "report.html" for name in STUDIES}


def open_report(
    browser: Browser, reports: dict[str, Path], name: str, width: int = 1280
) -> tuple[Page, list[str]]:
    page, wrong = open_page(
        browser, reports[name].as_uri(), viewport={"width": width, "height": 900}
    )
    page.locator("main section").first.wait_for()
    return page, wrong


@pytest.mark.parametrize("name", STUDIES)
def test_a_page_is_whole(browser: Browser, reports: dict[str, Path], name: str) -> None:
    page, wrong = open_report(browser, reports, name)
    titles = page.locator("h2").all_inner_texts()
    assert [title for title in titles if title in SECTIONS[name]] == SECTIONS[name]
    assert page.evaluate(SKIPPED) == [] == page.evaluate(NAMELESS)
    assert name == "plan" or "Made by: murmur" in page.locator("footer").inner_text()
    for figure in page.locator("figure").all():
        for button in ("Table", "SVG", "PNG"):
            assert figure.get_by_role("button", name=button, exact=True).count() == 1
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        page.locator(f"html[data-theme={scheme}]").wait_for()
        assert page.evaluate(FAINT) == [], scheme
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate(TOO_WIDE) <= 0
    page.context.close()
    assert not wrong


@pytest.mark.parametrize("name", STUDIES)
def test_paper_has_everything_once(browser: Browser, reports: dict[str, Path], name: str) -> None:
    page, wrong = open_report(browser, reports, name, A4_WIDTH)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    lines = page.locator("figure .host[role=img]").count()
    page.wait_for_function("n => document.querySelectorAll('figure img').length >= n", arg=lines)
    assert page.evaluate(CUT) == []
    for figure in page.locator("figure:has(img)").all():
        title = figure.locator("h3").first.inner_text()
        for drawing in figure.locator("img").all():
            assert title not in unquote(drawing.get_attribute("src") or "")
    page.context.close()
    assert not wrong


def test_a_sweep_is_narrowed_down_on_an_axis(browser: Browser, reports: dict[str, Path]) -> None:
    """Two rates, two times and two workloads are eight lines; the lower half of an axis with two
    values has four of them, and so has the table."""
    page, wrong = open_report(browser, reports, "sweep")
    figure = figure_of(page, "What was varied, and what came of it")
    assert figure.locator("path.line").count() == 8
    figure.get_by_role("button", name="Table").click()
    axis = figure.get_by_role("slider", name="Keep job_time_s")
    axis.focus()
    for _ in range(10):
        page.keyboard.press("ArrowDown")
    figure.get_by_text("4 of 8 chosen").wait_for()
    assert figure.locator("tbody tr").count() == 4
    page.keyboard.press("Escape")
    figure.get_by_text("8 lines").wait_for()
    multiples = figure_of(page, "Mean wait until a job starts")
    assert multiples.locator("canvas").count() == 2
    page.context.close()
    assert not wrong


def test_a_series_of_a_comparison_is_hidden(browser: Browser, reports: dict[str, Path]) -> None:
    page, wrong = open_report(browser, reports, "compare")
    bars = figure_of(page, "Mean wait until a job starts")
    shown = bars.locator("svg rect").count()
    bars.get_by_role("button", name="batch").click()
    assert bars.locator("svg rect").count() == shown // 2
    with page.expect_download() as saved:
        bars.get_by_role("button", name="SVG").click()
    text = Path(saved.value.path()).read_text()
    # A picture says what its colours and its axis are, wherever it is shown.
    assert "service" in text and "seconds" in text
    page.context.close()
    assert not wrong


def test_moves_of_a_plan_are_played_and_drawn_as_steps(
    browser: Browser, reports: dict[str, Path]
) -> None:
    page, wrong = open_report(browser, reports, "plan")
    player = figure_of(page, "The moves, step by step")
    player.get_by_role("button", name="To the end").click()
    status = player.get_by_role("status").inner_text()
    steps = re.search(r"Step (\d+) of (\d+)", status)
    assert steps is not None and steps[1] == steps[2] != "0"
    with page.expect_download() as saved:
        figure_of(page, "Moves under way").get_by_role("button", name="SVG").click()
    drawing = Path(saved.value.path()).read_text()
    (line,) = re.findall(r'<path d="([^"]+)"[^>]*stroke-width="1.8"', drawing)
    assert "H" in line and "V" in line and "L" not in line
    page.context.close()
    assert not wrong
