"""The page of a live cluster in a real browser: everything an operator would do with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.dashboard.browsers import FAINT, NAMELESS, TOO_WIDE, open_browser, open_page
from tests.runtime.clusters import LiveCluster, live_cluster, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

USER = "<script>alert(1)</script>"
SECRET = "a-secret-of-the-job"
PAGES = ("cluster", "queue", "jobs", "job/web", "node/n1", "why/wide", "fairness", "migrations")
ALL_PAGES = (*PAGES, "events", "run")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as started:
        yield started


@pytest.fixture(scope="module")
def cluster(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with live_cluster(tmp_path_factory.mktemp("page"), agents=3) as started:
        loop = "i=0; while true; do echo served $i; i=$((i+1)); sleep 1; done"
        started.submit(
            "web",
            "sh",
            "-c",
            loop,
            kind="service",
            count=3,
            user=USER,
            spread="node",
            environment={"KEY": SECRET},
        )
        started.submit("wide", "true", count=2, resources={"cpu": 1.95, "memory": "16Mi"})
        started.running("web", 3)
        yield started


def sign_in(browser: Browser, cluster: LiveCluster, **options: Any) -> tuple[Page, list[str]]:
    page, wrong = open_page(browser, str(cluster.client.post("links")["link"]), **options)
    page.get_by_role("heading", name="Cluster", exact=True).wait_for()
    return page, wrong


def go(page: Page, name: str) -> None:
    page.evaluate("name => { location.hash = `#/${name}`; }", name)
    page.locator("h1").wait_for()
    page.get_by_text("Loading…").wait_for(state="detached")


@pytest.fixture
def page(browser: Browser, cluster: LiveCluster) -> Iterator[Page]:
    signed, wrong = sign_in(browser, cluster)
    yield signed
    signed.context.close()
    assert not wrong


def test_the_code_leaves_the_address_at_once(page: Page) -> None:
    assert "enter" not in page.url
    assert page.evaluate("document.cookie") == ""


def test_a_page_without_a_link_says_how_to_get_one(browser: Browser, cluster: LiveCluster) -> None:
    page, _ = open_page(browser, cluster.client.url)
    page.get_by_text("murmur view", exact=True).wait_for()
    page.context.close()


def test_a_job_is_tried_run_watched_and_killed(page: Page, cluster: LiveCluster) -> None:
    page.get_by_role("link", name="Run a job").first.click()
    page.get_by_label("Name").fill("from-the-page")
    page.get_by_label("Command").fill("sh -c 'echo written by the task; sleep 1000'")
    run = page.get_by_role("button", name="Run", exact=True)
    assert run.is_disabled()  # not before a dry run
    page.get_by_role("button", name="Try").click()
    page.get_by_text("feasible now, not reserved").wait_for()
    assert "from-the-page" not in cluster.master_jobs()
    run.click()
    page.get_by_role("heading", name="from-the-page", exact=True).wait_for()
    page.get_by_label("Output of from-the-page.0").get_by_text("written by the task").wait_for()
    page.get_by_role("button", name="Kill…").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("from-the-page.0 on").wait_for()
    dialog.get_by_role("button", name="Kill").click()
    page.locator(".pill", has_text="killed").first.wait_for()
    assert cluster.wait("from-the-page")["state"] == "killed"


def test_names_are_text_wherever_they_stand(page: Page) -> None:
    for name in ("jobs", "job/web", "fairness"):
        go(page, name)
        page.get_by_text(USER).first.wait_for()
    assert page.locator("main script").count() == 0


def test_the_queue_says_why(page: Page) -> None:
    go(page, "queue")
    row = page.get_by_role("row").filter(has_text="wide")
    row.get_by_text("resources", exact=True).wait_for()
    row.get_by_text("Would help").wait_for()
    row.get_by_role("link", name="The decision").click()
    page.get_by_text("considered").wait_for()


def test_a_placed_job_says_how_it_was_decided(page: Page, cluster: LiveCluster) -> None:
    cluster.submit("decided", "sleep", "1000")
    (row,) = cluster.running("decided", 1)
    go(page, "why/decided")
    page.get_by_role("button", name="Show the decision").click()
    page.get_by_role("listitem").filter(has_text="considered").get_by_text("3").wait_for()
    chosen = page.get_by_role("row").filter(has_text=row["node"])
    chosen.get_by_role("cell", name="1", exact=True).first.wait_for()  # one task, the best node
    cluster.client.delete("jobs", "decided")


def test_a_node_is_found_and_drained_by_keyboard(page: Page, cluster: LiveCluster) -> None:
    stage = page.get_by_role("application")
    stage.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.get_by_text("required").first.wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="n2", exact=True).wait_for()
    page.get_by_role("button", name="Drain…").focus()
    page.keyboard.press("Enter")
    # What would become of its tasks is asked before anything is done.
    row = page.get_by_role("dialog").get_by_role("row").filter(has_text="web.")
    row.get_by_text("goes to").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    assert {row["state"] for row in cluster.client.get("nodes")["nodes"]} == {"up"}


def test_a_task_is_moved_after_a_dry_run(page: Page, cluster: LiveCluster) -> None:
    cluster.submit("wanderer", "sleep", "1000", kind="service")
    cluster.running("wanderer", 1)
    (before,) = cluster.client.get("tasks", job="wanderer")["tasks"]
    go(page, "job/wanderer")
    page.get_by_role("button", name="Move…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text(f"From {before['node']} it would go to").wait_for()
    dialog.get_by_text("considered").wait_for()
    assert cluster.client.get("tasks", job="wanderer")["tasks"][0]["run"] == before["run"]
    dialog.get_by_role("button", name="Move", exact=True).click()
    dialog.wait_for(state="detached")
    page.get_by_text("Moves1").wait_for()  # the fact above the timeline
    cluster.running("wanderer", 1)
    (after,) = cluster.client.get("tasks", job="wanderer")["tasks"]
    assert after["run"] == before["run"] + 1 and after["node"] != before["node"]
    go(page, "migrations")
    row = page.get_by_role("row").filter(has_text="wanderer.0")
    row.get_by_role("link", name=before["node"], exact=True).wait_for()
    cluster.client.delete("jobs", "wanderer")


def test_events_pause_and_filter(page: Page, cluster: LiveCluster) -> None:
    go(page, "events")
    page.get_by_role("button", name="Pause").click()
    cluster.submit("later", "true")
    cluster.wait("later")
    page.get_by_role("button", name="Resume (").wait_for()
    assert page.get_by_role("link", name="later").count() == 0
    page.get_by_role("button", name="Resume (").click()
    page.get_by_role("link", name="later", exact=True).first.wait_for()
    page.get_by_label("Filter events").fill("no such thing")
    page.get_by_text("No event matches").wait_for()


def test_nodes_are_searched_filtered_and_zoomed(page: Page) -> None:
    found = page.get_by_label("Nodes", exact=True).get_by_role("status")
    page.get_by_label("Find a node").fill("N2")
    found.get_by_text("1 of 3").wait_for()
    page.get_by_label("Find a node").fill("")
    found.get_by_text("1 of 3").wait_for(state="detached")
    for name in ("Guaranteed", "Used", "Type", "State"):
        page.get_by_role("group", name="Colour by").get_by_role("button", name=name).click()
    page.get_by_label("Filter", exact=True).select_option("draining")
    found.get_by_text("0 of 3").wait_for()
    page.get_by_label("Filter", exact=True).select_option("up")
    found.get_by_text("0 of 3").wait_for(state="detached")
    out = page.get_by_role("button", name="Zoom out")
    assert out.is_disabled()
    page.get_by_role("button", name="Zoom in").click()
    assert out.is_enabled()
    page.get_by_role("application").focus()
    page.keyboard.press("+")
    page.keyboard.press("Escape")  # the whole cluster again
    assert out.is_disabled()


def test_a_live_plot_gives_its_table_and_its_picture(page: Page) -> None:
    card = page.locator("section.card", has=page.get_by_role("heading", name="Tasks", exact=True))
    card.get_by_role("button", name="Table").click()
    card.get_by_role("columnheader", name="on nodes").wait_for()
    assert card.locator("tbody tr").count() >= 2
    with page.expect_download() as saved:
        card.get_by_role("button", name="PNG").click()
    assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")
    waiting = card.get_by_role("list", name="Series").get_by_role("button", name="waiting")
    waiting.click()
    assert waiting.get_attribute("aria-pressed") == "false"


def test_the_queue_says_what_a_start_is_known_from(page: Page) -> None:
    """Services hold the room, and nobody knows for how long."""
    go(page, "queue")
    row = page.get_by_role("row").filter(has_text="wide")
    row.get_by_text("unknown").wait_for()
    row.get_by_text("too few runs like it have ended").wait_for()


def test_one_task_of_a_service_is_killed_and_runs_again(page: Page, cluster: LiveCluster) -> None:
    before = cluster.tasks("web")[0]["run"]
    go(page, "job/web")
    page.get_by_role("row").filter(has_text="web.0").get_by_role("button", name="Kill…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("another run follows").wait_for()
    assert cluster.tasks("web")[0]["run"] == before
    dialog.get_by_role("button", name="Kill").click()
    dialog.wait_for(state="detached")
    until(lambda: cluster.tasks("web")[0]["run"] > before)
    cluster.running("web", 3)


def test_a_node_is_drained_and_opened_again(page: Page) -> None:
    go(page, "node/n3")
    page.get_by_role("button", name="Drain…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("As the master would decide now; nothing is reserved.").wait_for()
    dialog.get_by_role("button", name="Drain", exact=True).click()
    page.locator(".pill", has_text="draining").first.wait_for()
    page.get_by_role("button", name="Open again…").click()
    page.get_by_role("dialog").get_by_role("button", name="Open again").click()
    page.locator("h1 + .pill", has_text="up").wait_for()


def test_the_page_outlives_its_master(browser: Browser, cluster: LiveCluster) -> None:
    page, wrong = sign_in(browser, cluster)
    before = cluster.kill("master")
    page.get_by_text("The master does not answer").wait_for()
    cluster.reborn("master", before)
    page.get_by_text("A master answers again").wait_for()
    page.get_by_text("live", exact=True).wait_for()
    assert not wrong
    page.context.close()


def test_a_viewer_sees_no_actions_and_no_environment(
    browser: Browser, cluster: LiveCluster
) -> None:
    issued = cluster.client.post("tokens", body={"name": "guest", "role": "viewer"})
    page, wrong = open_page(browser, cluster.client.url)
    code = page.evaluate(
        """token => fetch('v1/links', {method: 'POST', headers: {authorization: `Bearer ${token}`}})
        .then((answer) => answer.json())""",
        issued["token"],
    )["link"]
    page.goto("about:blank")
    page.goto(code)
    page.get_by_role("heading", name="Cluster", exact=True).wait_for()
    for name in ALL_PAGES[:-1]:
        go(page, name)
        for action in ("Kill…", "Move…", "Drain…", "Run a job"):
            assert page.get_by_text(action).count() == 0
    facts = page.evaluate("fetch('v1/events?last=1000').then((answer) => answer.text())")
    assert "web" in facts and SECRET not in facts
    status = page.evaluate(
        """fetch('v1/jobs/web', {method: 'DELETE', headers: {'x-murmur': '1'}})
        .then((answer) => answer.status)"""
    )
    assert status == 403
    cluster.client.delete("tokens", "guest")
    page.reload()
    page.get_by_text("This page needs a link").wait_for()
    assert not wrong
    page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_can_be_read_and_used(
    browser: Browser, cluster: LiveCluster, scheme: str
) -> None:
    """Contrast of all text, a name for everything that can be used, nothing wider than a phone."""
    size = {"width": 390, "height": 800} if scheme == "dark" else {"width": 1280, "height": 900}
    page, wrong = sign_in(browser, cluster, color_scheme=scheme, viewport=size)
    for name in ALL_PAGES:
        go(page, name)
        assert page.locator("h1").count() == page.locator("main").count() == 1
        assert page.evaluate(FAINT) == [], name
        assert page.evaluate(NAMELESS) == [], name
        assert page.evaluate(TOO_WIDE) <= 0, name
    assert not wrong
    page.context.close()
