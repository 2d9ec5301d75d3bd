"""A service that really runs is updated: task by task, through a master that is killed in the
middle, and back by itself when the new version is no good."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.runtime.clusters import LiveCluster, live_cluster, until

from murmuration.runtime.client.requests import AnswerError

COUNT = 3
GOOD = "echo {}; touch ok; while :; do sleep 0.1; done"
BAD = "echo {}; while :; do sleep 0.1; done"
#: Patient enough for a busy host; only what is never well takes as long.
HEALTH = {"command": ["test", "-e", "ok"], "interval_s": 0.3, "failures": 3}
UPDATE = {"min_healthy_s": 0.3, "deadline_s": 150}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with live_cluster(tmp_path_factory.mktemp("updates")) as made:
        yield made


def submit(cluster: LiveCluster, script: str, version: str) -> Any:
    fields = {"kind": "service", "count": COUNT, "health": HEALTH, "update": UPDATE}
    return cluster.submit("web", "sh", "-c", script.format(version), **fields)


def job(cluster: LiveCluster) -> Any:
    (row,) = [row for row in cluster.client.get("jobs")["jobs"] if row["job"] == "web"]
    return row


def settled(cluster: LiveCluster, version: int) -> list[Any]:
    """All tasks run this version and are healthy, and nothing is under way."""

    def look() -> Any:
        rows = cluster.tasks("web")
        good = [r for r in rows if r["version"] == version and r["health"] == "healthy"]
        is_over = "to version" not in job(cluster)["reason"]
        return rows if len(good) == COUNT and is_over else None

    return list(until(look))


def test_a_service_is_updated_undone_and_updated_again(cluster: LiveCluster) -> None:
    assert submit(cluster, GOOD, "one")["version"] == 0
    settled(cluster, 0)
    assert submit(cluster, GOOD, "two")["version"] == 1
    # Killed while the first of three is being replaced.
    cluster.reborn("master", cluster.kill("master"))
    settled(cluster, 1)
    assert {cluster.output(f"web.{k}") for k in range(COUNT)} == {"two\n"}
    submit(cluster, BAD, "three")
    until(lambda: job(cluster)["reason"].startswith("rolled back: web."))
    rows = settled(cluster, 1)
    assert {cluster.output(f"web.{k}") for k in range(COUNT)} == {"two\n"}
    # Only one task was ever given to the bad version.
    assert sum(row["run"] == 2 for row in rows) == COUNT - 1
    cluster.client.post("jobs", "web", "rollback")
    until(lambda: job(cluster)["version"] == 2)
    assert submit(cluster, GOOD, "four")["version"] == 3
    settled(cluster, 3)


def test_what_cannot_be_undone(cluster: LiveCluster) -> None:
    cluster.submit("still", "sleep", "1000", kind="service")
    with pytest.raises(AnswerError, match="was never changed, so there is nothing to go back to"):
        cluster.client.post("jobs", "still", "rollback")
    cluster.submit("batch", "sleep", "1000")
    with pytest.raises(AnswerError, match="kill it first or choose another name"):
        cluster.submit("batch", "sleep", "1001")
