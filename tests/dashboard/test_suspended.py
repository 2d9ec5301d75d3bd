"""Tasks that are suspended, as the page shows them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.dashboard.browsers import FAINT, TOO_WIDE, open_browser
from tests.dashboard.test_browser import go, sign_in
from tests.runtime.clusters import live_cluster
from tests.schedulers.central.test_suspension import TWO, SuspendingCluster

from murmuration.runtime.master.front.overview import ClusterSnapshot, Overview
from murmuration.runtime.master.front.queue import QueueModel, QueueRow
from murmuration.runtime.master.usage import UsageMeter
from murmuration.runtime.store.log import FactLog
from murmuration.schedulers.central.messages import KillJob

BOTH = {"cpu": 2, "memory": "16Mi"}


def queue_at(cluster: SuspendingCluster, now: float) -> dict[str, QueueRow]:
    snapshot = ClusterSnapshot(1, now, 1, 1, "", {}, {}, {}, {})
    answer = asyncio.run(QueueModel(cluster.master).answer(snapshot))
    return {row.job: row for row in answer.rows}


def test_the_queue_knows_who_is_suspended_and_until_when() -> None:
    """High may run from 40 to 240, and low, which has run for 30 of its 100 seconds, only after it;
    when high ends early, at 100, low has 70 seconds more."""
    cluster = SuspendingCluster(nodes=2)
    cluster.begin("aside", 5.0, resources=TWO, time_limit_s=95.0, priority=9)
    cluster.begin("low", 10.0, resources=TWO, time_limit_s=100.0)
    cluster.begin("high", 40.0, resources=TWO, time_limit_s=200.0, priority=5)
    row = queue_at(cluster, 50.0)["low"]
    assert (row.waiting, row.suspended, row.tier) == (1, 1, "preemption")
    assert row.unblock == [], "asking for less would not bring its memory elsewhere"
    # Aside, on the other node, ends at 100: that is no help to what has its memory here.
    assert row.start_in_s == pytest.approx(190.0)
    cluster.end("high.0.1", now=100.0)
    cluster.begin("next", 110.0, resources={"cpu": 2, "memory": "1G"})
    cluster.end("aside.0.1", now=110.0)
    cluster.begin("last", 110.0, resources={"cpu": 2, "memory": "1G"})
    row = queue_at(cluster, 120.0)["last"]
    assert (row.waiting, row.suspended) == (1, 0)
    assert row.start_in_s == pytest.approx(50.0)


def count_tasks(cluster: SuspendingCluster) -> dict[str, int]:
    overview = Overview(cluster.master, FactLog(), UsageMeter(), lambda: cluster.now)
    assert overview.sample().suspended == overview.tick().tasks["suspended"]
    return overview.tick().tasks


def test_each_task_is_counted_once() -> None:
    """Low is suspended for high, and another waits for a node; all three are counted, also by a
    master that takes over, and what has gone on or was killed is suspended no more."""
    cluster = SuspendingCluster()
    cluster.begin("low", 10.0, resources=TWO)
    cluster.begin("high", 40.0, resources=TWO, priority=5)
    cluster.begin("third", 50.0, resources=TWO)
    everything = {"active": 1, "waiting": 1, "suspended": 1}
    assert count_tasks(cluster) == everything
    cluster.take_over(60.0)
    assert count_tasks(cluster) == everything
    cluster.tell(KillJob("low"), 70.0)
    assert count_tasks(cluster) == {"active": 2, "waiting": 1, "suspended": 0}, "low is stopping"
    cluster = SuspendingCluster()
    cluster.begin("low", 10.0, resources=TWO)
    cluster.begin("high", 40.0, resources=TWO, priority=5)
    cluster.end("high.0.1", now=100.0)
    assert count_tasks(cluster) == {"active": 1, "waiting": 0, "suspended": 0}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_says_suspended(tmp_path: Path, scheme: Any) -> None:
    setting = "scheduler.queue_settings.preempt=suspend"
    with (
        open_browser() as browser,
        live_cluster(tmp_path / "c", settings=[setting], agents=1) as cluster,
    ):
        cluster.submit("low", "sleep", "1000", resources=BOTH)
        cluster.running("low", 1)
        cluster.submit("high", "sleep", "1000", resources=BOTH, priority=1)
        cluster.running("high", 1)
        page, wrong = sign_in(browser, cluster, color_scheme=scheme)
        for name in ("jobs", "job/low", "why/low", "queue", "node/n1", "events"):
            go(page, name)
            page.locator(".pill.held").first.wait_for()
            assert page.evaluate(FAINT) == [], name
            assert page.evaluate(TOO_WIDE) <= 0, name
        go(page, "cluster")
        page.get_by_text("1 suspended").wait_for()
        go(page, "queue")
        row = page.get_by_role("row").filter(has_text="low")
        row.locator(".pill.held", has_text="suspended").wait_for()
        go(page, "job/low")
        page.locator(".track .pause").wait_for()
        page.get_by_text("suspended on n1, with its memory; it made way for high").first.wait_for()
        page.get_by_role("button", name="Move…").wait_for()
        cluster.client.delete("jobs", "high")
        page.locator(".pill.info", has_text="running").first.wait_for()
        page.get_by_title("low.0 run 1 on n1: on its node").wait_for()
        assert page.locator(".track .pause").count() == 1
        go(page, "events")
        page.locator(".pill", has_text="goes on").wait_for()
        page.context.close()
        assert not wrong
