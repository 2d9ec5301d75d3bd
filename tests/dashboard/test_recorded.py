"""A dump of a cluster that is down opens on the pages of a live one."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from tests.dashboard.browsers import FAINT, NAMELESS, TOO_WIDE, open_browser, open_page
from tests.dashboard.test_browser import go
from tests.runtime.clusters import live_cluster

from murmuration.base.errors import InputError
from murmuration.cli import murmur
from murmuration.experiments.recordings.cluster_page import RecordedCluster, serve_cluster
from murmuration.schedulers.central.explain import job_state

NASTY = "<img src=x onerror=alert(1)>"


class Dumped(NamedTuple):
    """A file, the folder of the cluster that was brought down afterwards, and what its master said
    of jobs and tasks before."""

    file: Path
    folder: Path
    jobs: dict[str, str]
    nodes: dict[str, str]


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Dumped:
    folder = tmp_path_factory.mktemp("recorded")
    file = folder / "dump.tar.gz"
    with live_cluster(folder / "cluster", agents=2) as cluster:
        options = {"kind": "service", "count": 2, "user": NASTY, "spread": "node"}
        cluster.submit("web", "sleep", "1000", **options)
        cluster.running("web", 2)
        cluster.submit("wide", "true", count=2, resources={"cpu": 1.95, "memory": "16Mi"})
        cluster.reborn("master", cluster.kill("master"))
        cluster.submit("short", "true")
        cluster.wait("short")
        jobs = {row["job"]: row["state"] for row in cluster.client.get("jobs")["jobs"]}
        nodes = {row["task"]: row["node"] for row in cluster.client.get("tasks")["tasks"]}
        command = ["dump", "-o", str(file), "--dir", str(cluster.folder)]
        assert CliRunner().invoke(murmur, command).exit_code == 0
    return Dumped(file, folder / "cluster", jobs, nodes)


@contextlib.contextmanager
def served(place: Path) -> Iterator[str]:
    """The link of a page that is served meanwhile."""
    links: Queue[str] = Queue()
    loop = asyncio.new_event_loop()

    def run() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(task)

    task = loop.create_task(serve_cluster(RecordedCluster(place), 0, links.put))
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield links.get(timeout=120)
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()


def test_every_page_opens_and_nothing_can_be_changed(dump: Dumped) -> None:
    with open_browser() as browser, served(dump.file) as link:
        page, wrong = open_page(browser, link)
        page.get_by_text("A recording: the cluster as it stood at").wait_for()
        page.get_by_text("recorded", exact=True).wait_for()
        page.locator("canvas").first.wait_for()
        names = ("cluster", "queue", "jobs", "job/web", "node/n1", "why/wide", "why/web")
        for name in (*names, "fairness", "migrations", "events"):
            go(page, name)
            assert page.evaluate(FAINT) == [] == page.evaluate(NAMELESS), name
            assert page.evaluate(TOO_WIDE) <= 0, name
            for action in ("Kill…", "Drain…", "Run a job", "Move…"):
                assert page.get_by_text(action).count() == 0
        go(page, "jobs")
        page.get_by_text(NASTY).wait_for()
        go(page, "job/short")
        page.locator(".pill", has_text="finished").first.wait_for()
        page.get_by_role("button", name="Show the decision").click()
        page.get_by_role("listitem").filter(has_text="considered").wait_for()
        status = page.evaluate(
            "fetch('v1/jobs/web', {method: 'DELETE', headers: {'x-murmur': '1'}})"
            ".then((answer) => answer.status)"
        )
        assert status == 403
        page.context.close()
        assert not wrong


def test_what_a_recording_knows_is_what_the_master_said(dump: Dumped) -> None:
    """Before the dump was made and from the log alone, of the dump and of the folder."""
    for place in (dump.file, dump.folder):
        cluster = RecordedCluster(place)
        jobs = cluster.master.jobs.jobs
        assert {name: job_state(job) for name, job in jobs.items()} == dump.jobs
        assert {f"{job.name}.{t.index}": t.node for job in jobs.values() for t in job.tasks} == (
            dump.nodes
        )
        assert len(cluster.master.nodes) == 2 and not cluster.facts.trouble
        history = cluster.overview.history()
        assert history.at_s == sorted(history.at_s) and history.at_s[-1] == cluster.now()
        assert history.active[0] == 0 and history.active[-1] == 2 and history.waiting[-1] == 2
    # Only the dump says what was measured.
    assert set(RecordedCluster(dump.file).meter.nodes.names) == {"n1", "n2"}


def test_pages_of_a_cluster_are_not_written(dump: Dumped, tmp_path: Path) -> None:
    answer = CliRunner().invoke(murmur, ["view", str(dump.file), "--out", str(tmp_path / "x.html")])
    assert answer.exit_code == 1 and isinstance(answer.exception, InputError)
