"""What the web page asks of a master, over HTTP, and what it is refused."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from tests.runtime.clusters import LiveCluster, live_cluster, until

from murmuration.cluster.allocation_types import allocation_type
from murmuration.dashboard import files
from murmuration.runtime.master.front import nodes as columns

MARK = {"X-Murmur": "1"}


class Browser:
    """One that keeps cookies, as far as these tests need one."""

    def __init__(self, url: str) -> None:
        self.host = urlsplit(url).netloc
        self.cookie = ""

    def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, bytes, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection(self.host, timeout=60)
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie:
            fields["Cookie"] = self.cookie
        connection.request(method, path, None if body is None else json.dumps(body), fields)
        answer = connection.getresponse()
        text = answer.read()
        if answer.headers["set-cookie"]:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        connection.close()
        return answer.status, text, answer.headers

    def get(self, path: str) -> Any:
        status, text, _ = self.ask("GET", path)
        assert status == 200, text
        return json.loads(text)

    def enter(self, link: str) -> int:
        code = link.rpartition("/")[2]
        return self.ask("POST", "/v1/enter", {"code": code}, **MARK)[0]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with live_cluster(tmp_path_factory.mktemp("front"), agents=3) as started:
        yield started


def link_of(cluster: LiveCluster) -> str:
    return str(cluster.client.post("links")["link"])


@pytest.fixture
def browser(cluster: LiveCluster) -> Browser:
    made = Browser(cluster.client.url)
    assert made.enter(link_of(cluster)) == 200
    return made


def test_a_link_opens_the_page_once(cluster: LiveCluster) -> None:
    link = link_of(cluster)
    # What a browser sends, and so what could be logged, ends before the code.
    assert urlsplit(link).fragment.startswith("/enter/")
    assert not urlsplit(link).query
    first, second = Browser(cluster.client.url), Browser(cluster.client.url)
    assert first.ask("GET", "/v1/status")[0] == 401
    assert first.enter(link) == 200
    assert first.get("/v1/session")["role"] == "operator"
    assert second.enter(link) == 401
    assert second.ask("GET", "/v1/session")[0] == 401


def test_who_has_no_token_gets_no_link(cluster: LiveCluster) -> None:
    assert Browser(cluster.client.url).ask("POST", "/v1/links", {}, **MARK)[0] == 401


def test_strangers_send_no_more_than_a_code(cluster: LiveCluster) -> None:
    stranger = Browser(cluster.client.url)
    assert stranger.ask("POST", "/v1/enter", {"code": "x" * 500})[0] == 401
    assert stranger.ask("POST", "/v1/enter", {"code": "x" * 1024})[0] == 413


def test_a_session_changes_nothing_without_the_header(browser: Browser) -> None:
    job = {"name": "sneaked", "command": ["true"]}
    assert browser.ask("POST", "/v1/jobs", job)[0] == 403
    assert browser.ask("DELETE", "/v1/jobs/none")[0] == 403
    assert browser.ask("DELETE", "/v1/jobs/none", **MARK)[0] == 404


@pytest.mark.parametrize("field", [{"Origin": "http://evil"}, {"Sec_Fetch_Site": "cross-site"}])
def test_another_site_changes_nothing_even_with_the_token(
    cluster: LiveCluster, field: dict[str, str]
) -> None:
    browser = Browser(cluster.client.url)
    token = {"Authorization": f"Bearer {cluster.token}"}
    status, text, _ = browser.ask("DELETE", "/v1/jobs/none", **MARK, **token, **field)
    assert status == 403 and b"another site" in text


def test_a_session_ends(browser: Browser) -> None:
    assert browser.ask("DELETE", "/v1/session", **MARK)[0] == 200
    assert browser.ask("GET", "/v1/session")[0] == 401


def test_a_session_outlives_its_master(cluster: LiveCluster, browser: Browser) -> None:
    cluster.reborn("master", cluster.kill("master"))
    assert until(lambda: browser.get("/v1/session"))["role"] == "operator"


def test_the_page_is_served_with_a_strict_policy(cluster: LiveCluster) -> None:
    browser = Browser(cluster.client.url)
    for path in files.paths():
        status, body, headers = browser.ask("GET", path)
        assert status == 200 and body == files.load(path).body
        assert headers["content-security-policy"] == files.POLICY
        again, nothing, _ = browser.ask("GET", path, If_None_Match=headers["etag"])
        assert (again, nothing) == (304, b"")


def test_the_grid_says_of_each_node_what_the_listing_says(
    cluster: LiveCluster, browser: Browser
) -> None:
    cluster.submit("held", "sleep", "1000", kind="service", count=3, spread="node")
    cluster.running("held", 3)

    def agree() -> bool:
        names = browser.ask("GET", "/v1/grid/names")[1].decode().split("\n")
        rows = {row["node"]: row for row in browser.get("/v1/nodes")["nodes"]}
        picture = browser.ask("GET", "/v1/grid?show=required&resource=cpu")[1]
        assert names == sorted(rows) and len(picture) == len(names)
        shares = [rows[name]["required"]["cpu"] / rows[name]["total"]["cpu"] for name in names]
        return list(picture) == [round(200 * share) for share in shares] and max(shares) > 0

    until(agree)
    guaranteed = browser.ask("GET", "/v1/grid?show=guaranteed&resource=cpu")[1]
    assert guaranteed == browser.ask("GET", "/v1/grid?show=required&resource=cpu")[1]
    assert browser.ask("GET", "/v1/grid?show=colour")[0] == 400


def test_the_queue_has_positions_and_reasons(cluster: LiveCluster, browser: Browser) -> None:
    cluster.submit("wide", "sleep", "9", count=2, resources={"cpu": 1.9, "memory": "16Mi"})
    row = until(lambda: browser.get("/v1/queue")["rows"])[0]
    assert (row["position"], row["job"], row["tier"]) == (1, "wide", "resources")
    assert row["unblock"] and row["request"]["cpu"] == pytest.approx(1.9)
    cluster.client.delete("jobs", "wide")


def test_recent_facts_of_a_job_and_of_a_node(cluster: LiveCluster, browser: Browser) -> None:
    cluster.submit("brief", "true")
    cluster.wait("brief")
    facts = until(lambda: _ended(browser.get("/v1/events?last=50&job=brief")))
    kinds = [row["kind"] for row in facts]
    assert kinds == ["JobSubmitted", "TaskPlaced", "TaskStarted", "TaskEnded", "JobEnded"]
    node = next(row["fact"]["node"] for row in facts if row["kind"] == "TaskPlaced")
    of_node = browser.get(f"/v1/events?last=500&node={node}&kind=Task")
    assert {row["fact"]["node"] for row in of_node} == {node}
    assert all(row["kind"].startswith("Task") for row in of_node)


def _ended(rows: list[Any]) -> list[Any] | None:
    return rows if rows and rows[-1]["kind"] == "JobEnded" else None


def test_types_of_all_nodes_at_once_are_those_of_each() -> None:
    rng = np.random.default_rng(5)
    total = rng.choice([0.0, 10.0, 100.0], (4000, 3))
    used = np.round(total * rng.choice([0, 0.2, 0.69, 0.7, 0.8, 0.9, 0.91, 1.0, 1.1], (4000, 3)))
    guaranteed = used * rng.choice([0.0, 0.5, 1.2], (4000, 1))
    idle = rng.random(4000) < 0.1
    expected = [
        allocation_type(total[k], total[k] - used[k], guaranteed[k], bool(idle[k]))
        for k in range(4000)
    ]
    assert columns.allocation_types(total, used, guaranteed, idle).tolist() == expected
    assert len(set(expected)) == 6


def test_names_are_in_the_order_people_count() -> None:
    names = ["n10", "n2", "n1", "a3b20", "a3b3", "", "n"]
    assert sorted(names, key=columns.natural_key) == ["", "a3b3", "a3b20", "n", "n1", "n2", "n10"]


def test_what_a_job_is_called_is_shown_to_nobody_as_html(
    cluster: LiveCluster, browser: Browser, tmp_path: Path
) -> None:
    """Answers are JSON and say so; no answer to a request is a page but the page itself."""
    cluster.submit("odd", "true", user="<script>alert(1)</script>")
    for path in ("/v1/jobs", "/v1/queue", "/v1/events?last=5", "/v1/history"):
        _, _, headers = browser.ask("GET", path)
        assert headers["content-type"] == "application/json"
