"""Metrics: the text against a plain reader, and a real Prometheus that scrapes a real cluster."""

from __future__ import annotations

import json
import logging
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kubernetes.control_plane import free_ports
from tests.runtime.clusters import LiveCluster, live_cluster, until

from murmuration.runtime.client.requests import AnswerError, ApiClient, Reach
from murmuration.runtime.folder import NODES
from murmuration.runtime.logs import JsonLines
from murmuration.runtime.metrics import MetricFamily, render
from murmuration.runtime.node.metrics import METRICS_FILE

LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def read_samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """A plain reader of the format: one sample a line, escapes as the format has them."""
    samples = {}
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("#"):
            continue
        head, _, value = line.rpartition(" ")
        name, _, inner = head.partition("{")
        labels = tuple(
            (key, re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], quoted))
            for key, quoted in LABEL.findall(inner)
        )
        samples[name, labels] = float(value)
    return samples


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.dictionaries(
        st.tuples(st.text(max_size=12), st.text(max_size=12)),
        st.floats(allow_nan=False),
        max_size=5,
    )
)
def test_what_is_written_reads_back_the_same(samples: dict[tuple[str, ...], float]) -> None:
    family = MetricFamily("a_b", "gauge", "what it is", ("x", "y"), samples)
    text = render([family])
    assert text.startswith("# HELP a_b what it is\n# TYPE a_b gauge\n")
    assert read_samples(text) == {
        ("a_b", (("x", x), ("y", y))): value for (x, y), value in samples.items()
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    folder = tmp_path_factory.mktemp("observed") / "cluster"
    options: dict[str, Any] = {"agent": {"metrics_port": 0, "log_format": "json"}}
    with live_cluster(folder, agents=2, log_format="json", **options) as made:
        made.submit("busy", "sleep", "600", count=3, kind="service")
        made.running("busy", 3)
        made.submit("fails", "false", user="anna")
        made.wait("fails")
        yield made


def scrape(cluster: LiveCluster) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    headers = {"Authorization": f"Bearer {cluster.token}"}
    request = urllib.request.Request(f"{cluster.url}/metrics", headers=headers)
    with urllib.request.urlopen(request) as answer:
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        return read_samples(answer.read().decode())


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_the_master_tells_what_there_is(cluster: LiveCluster) -> None:
    samples = scrape(cluster)
    assert samples["murmur_tasks", (("state", "running"),)] == 3
    assert samples["murmur_jobs", (("state", "failed"),)] == 1
    assert samples["murmur_nodes", (("state", "up"),)] == 2
    assert samples["murmur_resource", (("resource", "cpu"), ("kind", "total"))] == 4
    assert samples["murmur_resource", (("resource", "cpu"), ("kind", "required"))] == (
        pytest.approx(0.6)
    )
    assert samples["murmur_facts_total", (("kind", "TaskPlaced"),)] == 4
    assert samples["murmur_facts_total", (("kind", "JobSubmitted"),)] == 2
    assert samples["murmur_store_failing", ()] == 0 and samples["murmur_store_writes_total", ()] > 0
    assert samples["process_resident_memory_bytes", ()] > 10**7
    before = samples["murmur_http_requests_total", (("method", "GET"), ("status", "200"))]
    cluster.client.get("status")
    after = scrape(cluster)["murmur_http_requests_total", (("method", "GET"), ("status", "200"))]
    assert after >= before + 2


def test_metrics_need_a_role(cluster: LiveCluster, tmp_path: Path) -> None:
    assert status_of(f"{cluster.url}/metrics") == 401
    token = cluster.client.post("tokens", body={"name": "prom", "role": "viewer"})["token"]
    headers = {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{cluster.url}/metrics", headers=headers)
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(token)
    address = cluster.url.removeprefix("http://")
    with pytest.raises(AnswerError, match="operator"):
        ApiClient(tmp_path, Reach((address,), file)).get("log")


def test_a_node_agent_tells_of_itself_on_loopback(cluster: LiveCluster) -> None:
    runs = 0.0
    for node in ("n1", "n2"):
        url = (cluster.folder / NODES / node / METRICS_FILE).read_text().strip()
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url) as answer:
            samples = read_samples(answer.read().decode())
        assert samples["murmur_agent_connected", ()] == 1
        assert 0 < samples["murmur_agent_lease_seconds", ()] <= 60
        runs += samples.get(("murmur_agent_runs", (("phase", "running"),)), 0)
        assert status_of(url.removesuffix("metrics") + "else") == 404
    assert runs == 3


def test_a_real_prometheus_scrapes_every_part(cluster: LiveCluster, tmp_path: Path) -> None:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no Prometheus: it is in Debian's prometheus")
    agents = [
        (cluster.folder / NODES / node / METRICS_FILE).read_text().strip().split("/")[2]
        for node in ("n1", "n2")
    ]
    (tmp_path / "token").write_text(cluster.token)
    jobs = [
        {
            "job_name": "master",
            "authorization": {"credentials_file": str(tmp_path / "token")},
            "static_configs": [{"targets": [cluster.url.removeprefix("http://")]}],
        },
        {"job_name": "agents", "static_configs": [{"targets": agents}]},
    ]
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    (port,) = free_ports(1)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={tmp_path / 'prometheus.yml'}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:

        def ask(query: str) -> list[Any]:
            assert process.poll() is None, (tmp_path / "log").read_text()
            url = f"http://127.0.0.1:{port}/api/v1/query?query={query}"
            with urllib.request.urlopen(url) as answer:
                return list(json.load(answer)["data"]["result"])

        until(lambda: len(ask("up==1")) == 3)
        (tasks,) = until(lambda: ask('murmur_tasks{state="running"}'))
        assert tasks["value"][1] == "3"
        assert until(lambda: ask('sum(murmur_agent_runs{phase="running"})'))[0]["value"][1] == "3"
    finally:
        process.kill()
        process.wait()


def test_logs_are_one_object_a_line(cluster: LiveCluster) -> None:
    lines = [
        json.loads(line)
        for line in (cluster.folder / "master.log").read_text().splitlines()
        if line
    ]
    assert {line["part"] for line in lines} == {"master"}
    failed = next(line for line in lines if line.get("task") == "fails.0")
    assert (failed["job"], failed["level"], failed["term"]) == ("fails", "warning", 0)
    assert failed["node"] in ("n1", "n2")
    submitted = next(line for line in lines if line.get("user") == "anna")
    assert submitted["job"] == "fails" and re.fullmatch(r"[\d-]+T[\d:.]+Z", submitted["at"])


def test_an_error_is_in_its_line() -> None:
    formatter = JsonLines("master", "m1")
    formatter.term = 7
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        record = logging.LogRecord(
            "x", logging.ERROR, "", 1, "it %s", ("broke",), (ValueError, error, error.__traceback__)
        )
    text = formatter.format(record)
    line = json.loads(text)
    assert "\n" not in text and line["message"] == "it broke" and line["term"] == 7
    assert "two\nlines" in line["error"]
