"""A report in a real browser, opened from disk."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from tests.cli.test_view import long_page
from tests.dashboard.browsers import FAINT, NAMELESS, TOO_WIDE, open_browser, open_page

from murmuration.cli.results.serve import PageServer
from murmuration.reports.cell import render_cell
from murmuration.reports.figures import (
    Bars,
    Chart,
    Fills,
    Parallel,
    Playback,
    PlayedMove,
    Scatter,
    Series,
)
from murmuration.reports.page import Page as Report
from murmuration.reports.page import ReportTable, Section, render

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

NASTY = "</script><img src=x onerror=alert(1)>"


def played() -> Playback:
    """Two moves of a quarter of a node each, and one task that gets a node."""
    moves = [
        PlayedMove(NASTY, "move", 0, 1, [1.0], 0.0, 2.0, 1),
        PlayedMove("db.0", "move", 0, 2, [1.0], 2.0, 4.0, 2),
        PlayedMove("new.0", "place", -1, 0, [3.0], 4.0, 4.0, 2),
    ]
    nodes = [("n0", [4.0], [2.0]), ("n1", [4.0], [2.0]), (NASTY, [4.0], [0.0])]
    return Playback("Steps", ("cpu",), nodes, moves)


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
                    Scatter(
                        "Front", "p", "r", [(1.0, 3.0), (3.0, 1.0)], (("it", 1, 2),), group="one"
                    ),
                    Parallel(
                        "Goals",
                        ("p", "policy", "r"),
                        [[1, 0, 3], [3, 1, 1]],
                        (("best", [2, 0, 2]),),
                        group="one",
                        labels=((), (NASTY, "fair"), ()),
                    ),
                    Fills("Nodes", ("cpu",), [("n1", [0.5], [1.2])]),
                    played(),
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


def figure_of(page: Page, title: str) -> Locator:
    return page.locator("figure", has=page.get_by_role("heading", name=title, exact=True))


def test_everything_is_drawn_and_nothing_runs(page: Page) -> None:
    assert page.locator("h1").inner_text() == f"omega {NASTY}"
    assert page.locator("img").count() == 0
    assert page.locator("figure").count() == 6
    assert page.locator("figure canvas").count() == 1
    assert page.locator("figure svg").count() == 5


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
@pytest.mark.parametrize("title", ["Load", "Waits", "Front", "Goals", "Nodes", "Steps"])
def test_a_plot_is_saved(page: Page, title: str, kind: str, start: bytes) -> None:
    figure = figure_of(page, title)
    with page.expect_download() as download:
        figure.get_by_role("button", name=kind).click()
    body = Path(download.value.path()).read_bytes()
    assert body.startswith(start) and len(body) > 500


def test_small_multiples_are_saved_as_one(page: Page) -> None:
    page.get_by_label("How to draw Load").select_option("apart")
    with page.expect_download() as download:
        figure_of(page, "Load").get_by_role("button", name="SVG").click()
    root = ElementTree.fromstring(Path(download.value.path()).read_text())
    assert [child.tag.rpartition("}")[2] for child in root] == ["svg", "svg"]


def test_a_table_sorts(page: Page) -> None:
    card = page.locator(".card.table")
    assert card.locator("tbody td").first.inner_text() == "b"
    card.get_by_role("button", name="name").click()
    assert card.locator("tbody td").first.inner_text() == "a"


def chosen(page: Page, title: str) -> str:
    return figure_of(page, title).get_by_role("status").inner_text()


def test_what_is_chosen_in_one_figure_is_chosen_in_all_of_its_group(page: Page) -> None:
    axis = figure_of(page, "Goals").get_by_role("slider", name="Keep p", exact=True)
    axis.focus()
    page.keyboard.press("ArrowDown")
    assert axis.get_attribute("aria-valuetext") == "1 to 2.9"
    assert chosen(page, "Front").startswith("1 of 2 chosen")
    figure_of(page, "Goals").get_by_role("button", name="Table").click()
    rows = figure_of(page, "Goals").locator("tbody tr")
    assert rows.first.inner_text().split("\t")[1:] == ["1", NASTY, "3"]
    assert rows.count() == 2  # the one that is kept, and the one that has a name
    page.keyboard.press("Escape")
    axis.press("Escape")
    assert chosen(page, "Front") == ""


def test_points_are_brushed(page: Page) -> None:
    plot = figure_of(page, "Front").locator("svg")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 60, box["y"] + 14)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 100, steps=4)
    page.mouse.up()
    assert chosen(page, "Goals").startswith("1 of 2 chosen")
    figure_of(page, "Goals").get_by_role("button", name="all").click()
    assert chosen(page, "Front") == ""


def loads(page: Page) -> list[str]:
    """What each node holds, as a reader hears it."""
    titles = figure_of(page, "Steps").locator("svg g > title").all_text_contents()
    return [title.rpartition("cpu ")[2] for title in titles]


def test_moves_are_played_step_by_step(page: Page) -> None:
    figure = figure_of(page, "Steps")
    assert loads(page) == ["50 %", "50 %", "0 %"]
    figure.get_by_role("button", name="One step on").click()
    assert loads(page) == ["25 %", "75 %", "0 %"]
    assert f"{NASTY} goes to n1 from n0" in figure.get_by_role("status").inner_text()
    assert figure.locator("path.arrow").count() == 1
    figure.get_by_role("slider", name="Step").focus()
    page.keyboard.press("ArrowRight")
    assert loads(page) == ["0 %", "75 %", "25 %"]
    figure.get_by_role("button", name="To the end").click()
    assert loads(page) == ["75 %", "75 %", "25 %"]
    assert figure.locator("path.arrow").count() == 0  # it came from no node
    assert "3 nodes in use, the fullest at 75 %" in figure.get_by_role("status").inner_text()
    figure.get_by_label("Speed").select_option("fast")
    figure.get_by_role("button", name="Play").click()
    figure.get_by_text("Step 3 of 3").wait_for()
    figure.get_by_role("button", name="Play").wait_for()  # it stops at the end
    figure.get_by_role("button", name="To the beginning").click()
    assert loads(page) == ["50 %", "50 %", "0 %"]


def test_a_notebook_shows_figures_that_can_be_touched(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    figures = sample().sections[0].figures
    path.write_text(f"<script>secret = 1</script>{render_cell(NASTY, figures)}")
    page, wrong = open_page(browser, path.as_uri())
    frame = page.frame_locator("iframe")
    frame.get_by_role("button", name="first").click()
    assert frame.get_by_role("button", name="first").get_attribute("aria-pressed") == "false"
    within = page.frames[1]
    assert within.evaluate("origin") == "null"
    assert within.evaluate(
        "(() => { try { return parent.secret } catch { return 'none' } })()"
    ) == ("none")
    page.context.close()
    assert not wrong


def test_an_axis_is_brushed(page: Page) -> None:
    page.locator("figure .handle").first.scroll_into_view_if_needed()
    handle = page.locator("figure .handle").first.bounding_box()
    assert handle is not None
    page.mouse.move(handle["x"] + 12, handle["y"] + 2)
    page.mouse.down()
    page.mouse.move(handle["x"] + 12, handle["y"] + 0.3 * handle["height"], steps=4)
    page.mouse.up()
    assert chosen(page, "Goals").startswith("1 of 2 chosen")


def test_paper_is_light_and_has_vectors(page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    page.locator("html[data-theme=dark]").wait_for()
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


#: Names below bars, and how far any of them reaches out of its picture.
BELOW = """() => [...document.querySelectorAll('figure svg text[transform]')].map((name) => {
  const [a, b] = [name, name.closest('svg')].map((e) => e.getBoundingClientRect());
  return [name.textContent, Math.max(b.left - a.left, a.bottom - b.bottom, a.right - b.right)];
})"""


@pytest.mark.parametrize("width", [1280, 390])
def test_names_of_bars_are_whole_and_lines_without_one_have_no_legend(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    names = ("monolithic-single", *(f"shared-state-machine-atom-{k}" for k in range(7)))
    bars = Bars("Waits", "s", names, (("batch", tuple(map(float, range(8)))),))
    lines = (Series("model", [0.0, 1.0], [0.0, 1.0]), Series("", [0.0, 1.0], [1.0, 0.0]))
    figures = (bars, Chart("Load", "hours", "jobs", lines))
    report = Report("long", "", (), (Section("One", figures=figures),), "")
    (tmp_path / "report.html").write_text(render(report))
    address = (tmp_path / "report.html").as_uri()
    page, wrong = open_page(browser, address, viewport={"width": width, "height": 900})
    page.locator("figure svg text[transform]").nth(7).wait_for()
    found = page.evaluate(BELOW)
    assert max(out for _, out in found) <= 1, found
    if width == 1280:
        assert [name for name, _ in found] == list(names)
    assert figure_of(page, "Load").locator("ul.legend li").all_inner_texts() == ["model"]
    page.context.close()
    assert not wrong


def test_a_zoom_into_a_page_that_is_served_shows_every_point(browser: Browser) -> None:
    with PageServer(long_page(), 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page, wrong = open_page(browser, server.url)
        plot = page.locator(".u-over")
        plot.wait_for()
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        assert box is not None
        with page.expect_response(lambda answer: "zoom?" in answer.url) as asked:
            page.mouse.move(box["x"] + 0.500 * box["width"], box["y"] + 40)
            page.mouse.down()
            page.mouse.move(box["x"] + 0.510 * box["width"], box["y"] + 60, steps=5)
            page.mouse.up()
        (part,) = asked.value.json()
        assert part["x"] == [float(k) for k in range(int(part["x"][0]), int(part["x"][-1]) + 1)]
        figure_of(page, "Long").get_by_role("button", name="Table").click()
        middle = part["x"][len(part["x"]) // 2]
        page.get_by_role("button", name="all", exact=True).click()
        page.get_by_role("cell", name=f"{int(middle):,}", exact=True).first.wait_for()
        server.shutdown()
        page.context.close()
        assert not wrong
