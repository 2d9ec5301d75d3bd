"""A report in a real browser, opened from disk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.dashboard.browsers import FAINT, NAMELESS, TOO_WIDE, open_browser, open_page

from murmuration.reports.figures import Bars, Chart, Fills, Parallel, Scatter, Series
from murmuration.reports.page import Page as Report
from murmuration.reports.page import ReportTable, Section, render

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NASTY = "</script><img src=x onerror=alert(1)>"


def sample() -> Report:
    x = [float(k) for k in range(100)]
    lines = (Series("first", x, x), Series("second", x, [2 * v for v in x]))
    return Report(
        f"omega {NASTY}",
        "one sentence",
        (("nodes", "10"),),
        (
            Section("Lines", figures=(Chart("Load", "hours", "jobs", lines),)),
            Section(
                "Others",
                figures=(
                    Bars("Waits", "s", ("a", "b"), ((NASTY, (1.0, 2.0)), ("x", (2.0, None)))),
                    Scatter("Front", "moves", "spread", [(1.0, 2.0), (2.0, 1.0)], (("it", 1, 2),)),
                    Parallel(
                        "Goals", ("p", "q", "r"), [[1, 2, 3], [3, 2, 1]], (("best", [2, 2, 2]),)
                    ),
                    Fills("Nodes", ("cpu",), [("n1", [0.5], [1.2])]),
                ),
            ),
            Section(
                "Rows", tables=(ReportTable("Table", ("name", "value"), [["b", 2], ["a", 10]]),)
            ),
        ),
        "the end",
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as started:
        yield started


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    path = tmp_path / "report.html"
    path.write_text(render(sample()))
    opened, wrong = open_page(browser, path.as_uri(), accept_downloads=True)
    opened.get_by_role("heading", name="omega").wait_for()
    yield opened
    opened.context.close()
    assert not wrong


def test_everything_is_drawn_and_nothing_runs(page: Page) -> None:
    assert page.locator("h1").inner_text() == f"omega {NASTY}"
    assert page.locator("img").count() == 0
    assert page.locator("figure").count() == 5
    assert page.locator("figure canvas").count() == 1
    assert page.locator("figure svg").count() == 3


def test_a_drag_zooms_and_a_click_hides(page: Page) -> None:
    plot = page.locator(".u-over")
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 40)
    page.get_by_text(re.compile(r"hours (49|50)")).wait_for()  # what is under the pointer
    page.mouse.down()
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 60, steps=5)
    page.mouse.up()
    page.get_by_role("button", name="whole range").click()
    page.get_by_role("button", name="whole range").wait_for(state="detached")
    first = page.get_by_role("button", name="first")
    first.click()
    assert first.get_attribute("aria-pressed") == "false"


def test_lines_apart_and_as_differences(page: Page) -> None:
    choice = page.get_by_label("How to draw Load")
    choice.select_option("apart")
    page.get_by_role("heading", name="second").wait_for()
    assert page.locator("figure canvas").count() == 2
    choice.select_option("difference")
    page.get_by_role("button", name="Table").first.click()
    page.get_by_label("Difference to").select_option("1")
    page.locator("canvas").first.wait_for()


@pytest.mark.parametrize(("kind", "start"), [("SVG", b"<svg"), ("PNG", b"\x89PNG")])
@pytest.mark.parametrize("title", ["Load", "Waits"])
def test_a_plot_is_saved(page: Page, title: str, kind: str, start: bytes) -> None:
    figure = page.locator("figure").filter(has_text=title)
    with page.expect_download() as download:
        figure.get_by_role("button", name=kind).click()
    body = Path(download.value.path()).read_bytes()
    assert body.startswith(start) and len(body) > 500


def test_a_table_sorts(page: Page) -> None:
    card = page.locator(".card.table")
    assert card.locator("tbody td").first.inner_text() == "b"
    card.get_by_role("button", name="name").click()
    assert card.locator("tbody td").first.inner_text() == "a"


def test_an_axis_is_brushed(page: Page) -> None:
    page.locator("figure .handle").first.scroll_into_view_if_needed()
    handle = page.locator("figure .handle").first.bounding_box()
    assert handle is not None
    page.mouse.move(handle["x"] + 12, handle["y"] + 2)
    page.mouse.down()
    page.mouse.move(handle["x"] + 12, handle["y"] + 0.3 * handle["height"], steps=4)
    page.mouse.up()
    page.get_by_text("1 of 3 pass").wait_for()


def test_paper_is_light_and_has_vectors(page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.locator("figure img[alt=Load]").wait_for()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_it_can_be_read(page: Page, scheme: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    assert page.evaluate(FAINT) == []
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(TOO_WIDE) <= 0
