"""Health checks of services that really run: a command in the task's isolation, a port and a page
in its network."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from tests.runtime.clusters import LiveCluster, live_cluster, until
from tests.runtime.networks import private_network

from murmuration.runtime.node.isolation import container

#: Answers for `/ready` with what stands in the file `status`, after a while.
SERVER = """
import os, socket
listener = socket.create_server(("127.0.0.1", int(os.environ["MURMUR_PORT"])))
while True:
    connection, _ = listener.accept()
    head = connection.recv(4096)
    status = open("status").read() if os.path.exists("status") else "200 OK"
    if head.startswith(b"GET /ready "):
        connection.sendall(f"HTTP/1.1 {status}\\r\\ncontent-length: 0\\r\\n\\r\\n".encode())
    connection.close()
"""
QUICK = {"interval_s": 0.2, "failures": 2, "start_period_s": 150.0}
RESTART = {"backoff_s": 0.1}


@pytest.fixture(scope="module", params=["process", "runc"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveCluster]:
    if request.param == "runc" and (reason := container.missing()):
        pytest.skip(reason)
    network = private_network() if request.param == "runc" else contextlib.nullcontext()
    with network, live_cluster(tmp_path_factory.mktemp("health"), isolation=request.param) as made:
        yield made


def healthy(cluster: LiveCluster, job: str) -> Any:
    def look() -> Any:
        (row,) = cluster.tasks(job)
        return row if row["health"] == "healthy" else None

    return until(look)


def enter(cluster: LiveCluster, task: str, *command: str) -> None:
    order = {"command": list(command)}
    session = cluster.client.post("tasks", task, "exec", body=order)["session"]
    until(
        lambda: (
            cluster.client.post("tasks", task, "exec", session, body={"wait_s": 1})["code"]
            is not None
        )
    )


def unhealthy(cluster: LiveCluster, job: str) -> str:
    """The reason for which the first run of a job was ended."""
    ends = until(lambda: [fact for fact in cluster.facts("TaskEnded") if fact["job"] == job])
    return str(ends[0]["reason"])


def test_a_command_in_the_isolation_of_the_task(cluster: LiveCluster) -> None:
    check = {"command": ["sh", "-c", "cat ok || { echo not there; exit 3; }"], **QUICK}
    script = "touch ok; while :; do sleep 0.1; done"
    cluster.submit("one", "sh", "-c", script, kind="service", health=check, restart=RESTART)
    healthy(cluster, "one")
    enter(cluster, "one.0", "rm", "ok")
    assert unhealthy(cluster, "one") == "unhealthy: the check ended with code 3"
    assert healthy(cluster, "one")["run"] == 2
    # What it wrote is for those who may read the task's output, and nowhere else.
    asked = {"stream": "health", "number": 1}
    assert "No such file" in cluster.client.get("tasks", "one.0", "output", **asked)["text"]
    assert "No such file" not in str(cluster.client.get("events"))
    assert "No such file" not in str(cluster.client.get("tasks", job="one"))
    cluster.client.delete("jobs", "one")


def test_a_page_and_a_port_of_the_task_s_own(cluster: LiveCluster) -> None:
    """The port is the one that the task was given; in a container nobody else can reach this
    listener, because it is bound to the container's own loopback."""
    command = ("python3", "-c", SERVER)
    fields: dict[str, Any] = {"kind": "service", "ports": [0], "restart": RESTART}
    cluster.submit("page", *command, health={"http": "/ready", **QUICK}, **fields)
    cluster.submit("port", *command, health={"tcp": True, **QUICK}, **fields)
    healthy(cluster, "page")
    healthy(cluster, "port")
    enter(cluster, "page.0", "sh", "-c", "echo 503 busy > status")
    assert unhealthy(cluster, "page") == "unhealthy: /ready: status 503"
    assert healthy(cluster, "page")["run"] == 2
    assert [fact["healthy"] for fact in cluster.facts("TaskHealth") if fact["job"] == "port"] == [
        True
    ]
    cluster.client.delete("jobs", "page")
    cluster.client.delete("jobs", "port")


def test_what_never_becomes_well_fails_with_its_reason(cluster: LiveCluster) -> None:
    check = {**QUICK, "command": ["sleep", "100"], "timeout_s": 0.2, "start_period_s": 0.0}
    never = {"retries": 0}
    cluster.submit("hung", "sleep", "1000", kind="service", health=check, restart=never)
    ended = cluster.wait("hung")
    assert ended["state"] == "failed"
    assert "unhealthy: no answer within 0.2 s" in ended["reason"]


def test_nobody_listens(cluster: LiveCluster) -> None:
    check = {**QUICK, "tcp": True, "port": 9, "start_period_s": 0.0}
    cluster.submit("deaf", "sleep", "1000", kind="service", health=check, restart={"retries": 0})
    assert "unhealthy: port 9: connection refused" in cluster.wait("deaf")["reason"]


def test_a_node_agent_that_starts_again_goes_on_looking(cluster: LiveCluster) -> None:
    check = {"http": "/ready", **QUICK}
    fields: dict[str, Any] = {"kind": "service", "ports": [0], "restart": RESTART}
    cluster.submit("kept", "python3", "-c", SERVER, health=check, **fields)
    row = healthy(cluster, "kept")
    cluster.reborn(row["node"], cluster.kill(row["node"]))
    assert healthy(cluster, "kept")["run"] == 1
    enter(cluster, "kept.0", "sh", "-c", "echo 500 no > status")
    assert unhealthy(cluster, "kept") == "unhealthy: /ready: status 500"
    cluster.client.delete("jobs", "kept")
