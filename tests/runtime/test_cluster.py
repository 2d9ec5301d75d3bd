"""A real cluster: jobs run, are explained, moved and killed, and nothing is left of it."""

from __future__ import annotations

import http.client
import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.runtime.clusters import WAIT_S, LiveCluster, live_cluster, marked, until

from murmuration import OfferScheduler, SharedStateScheduler
from murmuration.base.errors import InputError
from murmuration.cli import murmur
from murmuration.experiments.live import replay_log
from murmuration.runtime import supervisor
from murmuration.runtime.client.requests import AnswerError, ApiClient
from murmuration.runtime.folder import TOKEN
from murmuration.runtime.net.directory import FolderDirectory
from murmuration.runtime.net.sockets import dial
from murmuration.runtime.net.wire import encode
from murmuration.schedulers.central.messages import Heartbeat
from murmuration.schedulers.offers.messages import ResourceOffer, StatusUpdate, Task


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with live_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


def test_a_job_runs_and_its_output_is_kept(cluster: LiveCluster) -> None:
    cluster.submit("hello", "sh", "-c", "echo $MURMUR_TASK of $MURMUR_COUNT; echo oh >&2", count=3)
    assert cluster.wait("hello")["code"] == 0
    assert [cluster.output(f"hello.{k}") for k in range(3)] == [
        f"hello.{k} of 3\n" for k in range(3)
    ]
    assert cluster.client.get("tasks", "hello.0", "output", stream="stderr")["text"] == "oh\n"
    assert {row["state"] for row in cluster.tasks("hello")} == {"finished"}


@pytest.mark.parametrize(
    ("name", "command", "code", "reason"),
    [
        ("fails", ["sh", "-c", "exit 7"], 7, "exit code 7"),
        ("dies", ["sh", "-c", "kill -9 $$"], 137, "signal 9"),
        ("missing", ["no-such-command-anywhere"], 1, "no-such-command-anywhere"),
    ],
)
def test_a_job_that_fails_says_how(
    cluster: LiveCluster, name: str, command: list[str], code: int, reason: str
) -> None:
    cluster.submit(name, *command)
    found = cluster.wait(name)
    assert (found["state"], found["code"]) == ("failed", code)
    assert reason in found["reason"]


def test_retries_and_a_time_limit(cluster: LiveCluster, tmp_path: Path) -> None:
    script = f"echo x >> {tmp_path}/tries; test $(wc -l < {tmp_path}/tries) -ge 3"
    cluster.submit("flaky", "sh", "-c", script, restart={"retries": 3, "backoff_s": 0.05})
    cluster.submit("slow", "sleep", "60", time_limit_s=0.3)
    assert cluster.wait("flaky")["code"] == 0
    assert len((tmp_path / "tries").read_text().split()) == 3
    found = cluster.wait("slow")
    assert found["state"] == "failed" and "time limit" in found["reason"]


def test_a_service_is_kept_running_until_it_is_killed(cluster: LiveCluster) -> None:
    cluster.submit("web", "sleep", "300", kind="service", count=2)
    first = cluster.running("web", 2)
    os.kill(until(lambda: cluster_pid(cluster, "web.0")), 9)
    until(lambda: {row["run"] for row in cluster.running("web", 2)} == {1, 2})
    cluster.client.delete("jobs", "web")
    assert cluster.wait("web")["state"] == "killed"
    assert first and not [pid for pid in marked(cluster.folder) if is_sleep(pid)]


def is_sleep(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\x00300")
    except OSError:
        return False


def cluster_pid(cluster: LiveCluster, task: str) -> int:
    """The process of a task, found by what only it was told; 0 while its command has not begun."""
    for pid in marked(cluster.folder):
        environ = Path(f"/proc/{pid}/environ").read_bytes()
        if f"MURMUR_TASK={task}".encode() in environ and is_sleep(pid):
            return pid
    return 0


def test_why_dry_run_and_what_can_never_run(cluster: LiveCluster) -> None:
    body = {"name": "many", "command": ["sleep", "300"], "count": 5, "resources": {"cpu": 1}}
    trial = cluster.client.post("jobs", body=body, dry_run=1)
    assert (
        len(trial["placed"]) == 4
        and trial["unplaced"] == 1
        and trial["note"] == "not now: 1 of 5 tasks would wait"
    )
    cluster.client.post("jobs", body=body)
    until(lambda: len(cluster.running("many", 4)) == 4)
    found = cluster.client.get("jobs", "many", "why")
    assert found["tier"] == "resources" and found["position"] == 1
    assert found["decision"]["filtered"] == {"too little cpu free": 2}
    waiting = [row for row in cluster.tasks("many") if row["state"] == "waiting"]
    assert "resources" in waiting[0]["reason"]
    with pytest.raises(AnswerError, match="already") as error:
        cluster.client.post("jobs", body=body)
    assert error.value.status == 409
    cluster.client.delete("jobs", "many")
    cluster.wait("many")
    with pytest.raises(AnswerError, match=r"can never run here.*2 CPU"):
        cluster.client.post("jobs", body={**body, "resources": {"cpu": 3}})


def test_ports_are_told_to_a_task_and_a_taken_one_is_refused(cluster: LiveCluster) -> None:
    cluster.submit("any", "sh", "-c", "echo $MURMUR_PORT $MURMUR_PORTS", ports=[0, 0])
    cluster.wait("any")
    first, both = cluster.output("any.0").split()
    assert both.split(",")[0] == first and int(first) > 0
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        cluster.submit("taken", "true", ports=[port])
        until(lambda: f"port {port} is in use" in cluster.tasks("taken")[0]["reason"])
        assert cluster.facts("NodeUnwell")
    assert cluster.wait("taken")["code"] == 0, "nobody holds it any more"


def test_a_task_is_moved_and_a_drain_foretold(cluster: LiveCluster) -> None:
    folder = ["--dir", str(cluster.folder)]

    def ask(*words: str) -> Any:
        answer = CliRunner().invoke(murmur, [*words, *folder])
        assert answer.exit_code == 0, answer.output
        return answer.output

    cluster.submit("svc", "sleep", "1000", kind="service")
    (before,) = cluster.running("svc", 1)
    told = ask("move", "svc.0", "--dry-run")
    assert told.startswith(f"svc.0 would go from {before['node']} to ")
    assert "goes to" in ask("drain", before["node"], "--dry-run")
    assert cluster.running("svc", 1)[0]["run"] == before["run"]
    assert ask("move", "svc.0").startswith("svc.0 is moved from")
    until(lambda: [row["run"] for row in cluster.running("svc", 1)] == [before["run"] + 1])
    (after,) = cluster.running("svc", 1)
    assert told.split()[-1] == after["node"] != before["node"]
    cluster.client.delete("jobs", "svc")
    cluster.wait("svc")
    with pytest.raises(InputError, match="cannot be moved"):
        cluster.client.post("tasks", "svc.0", "move")


def test_draining_moves_a_service(cluster: LiveCluster) -> None:
    cluster.submit("mover", "sleep", "300", kind="service")
    (before,) = cluster.running("mover", 1)
    cluster.client.post("nodes", before["node"], "drain", body={"on": True})
    until(lambda: cluster.running("mover", 1)[0]["node"] != before["node"])
    (row,) = [row for row in cluster.client.get("nodes")["nodes"] if row["node"] == before["node"]]
    assert row["state"] == "draining"
    cluster.client.post("nodes", before["node"], "drain", body={"on": False})
    cluster.client.delete("jobs", "mover")
    cluster.wait("mover")


def test_a_task_over_its_memory_is_killed_and_says_so(cluster: LiveCluster) -> None:
    hog = (
        "x = bytearray(300_000_000)\nfor i in range(0, len(x), 4096): x[i] = 1\nimport time; "
        "time.sleep(300)"
    )
    cluster.submit("hog", "python3", "-c", hog, resources={"cpu": 0.2, "memory": "64Mi"})
    found = cluster.wait("hog")
    assert found["state"] == "failed" and "memory" in found["reason"]


# The API.


def ask(
    cluster: LiveCluster, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, Any]:
    address = cluster.client.address
    connection = http.client.HTTPConnection(address.host, address.port, timeout=60)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def test_nobody_is_answered_without_the_token(cluster: LiveCluster) -> None:
    assert stat.S_IMODE((cluster.folder / TOKEN).stat().st_mode) == 0o600
    for given in ("", "Bearer wrong", cluster.token[:-1]):
        assert ask(cluster, "GET", "/v1/status", Authorization=given)[0] == 401
    assert ask(cluster, "GET", "/openapi.json")[0] == 200


def test_the_openapi_document_has_every_route_and_resolves(cluster: LiveCluster) -> None:
    document = ask(cluster, "GET", "/openapi.json")[1]
    assert "/v1/jobs/{job}/why" in document["paths"] and set(document["paths"]["/v1/jobs"]) == {
        "get",
        "post",
    }
    names = set(document["components"]["schemas"])
    for reference in find_references(document):
        assert reference.removeprefix("#/components/schemas/") in names
    spec = document["components"]["schemas"]["JobSpec"]
    # A command is needed only where no image brings one.
    assert spec["required"] == ["name"] and {"command", "spread"} <= set(spec["properties"])


def find_references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if "$ref" in node else []
        return own + [reference for value in node.values() for reference in find_references(value)]
    return (
        [reference for value in node for reference in find_references(value)]
        if isinstance(node, list)
        else []
    )


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("GET", "/v1/nothing", b"", 404, "no such path"),
        ("PUT", "/v1/jobs", b"", 405, "GET or POST"),
        ("POST", "/v1/jobs", b"{", 400, "JSON"),
        ("POST", "/v1/jobs", b'{"name": "a"}', 422, "command"),
        (
            "POST",
            "/v1/jobs",
            b'{"name": "a", "command": ["x"], "cuont": 1}',
            422,
            "did you mean 'count'",
        ),
        (
            "POST",
            "/v1/jobs",
            b'{"name": "a", "command": ["x"], "constraints": ["?"]}',
            422,
            "key = value",
        ),
        ("GET", "/v1/jobs/nobody", b"", 404, "no job 'nobody'"),
        ("GET", "/v1/tasks/..%2F..%2Fetc%2Fpasswd/output", b"", 404, "no task"),
        ("GET", "/v1/tasks/hello.99/output", b"", 404, "tasks 0 to"),
        ("GET", "/v1/tasks/hello.0/output?stream=../x", b"", 400, "stdout, stderr or health"),
        ("GET", "/v1/tasks/hello.0/output?offset=-1", b"", 400, "offset"),
        ("GET", "/v1/tasks/hello.0/output?run=999", b"", 404, "no output"),
        ("POST", "/v1/nodes/n9/drain", b"{}", 404, "no node"),
        ("POST", "/v1/jobs", b"[" * 2_000_000, 400, "JSON"),
        ("POST", "/v1/jobs", b'{"a":' * 500_000, 400, "JSON"),
        (
            "POST",
            "/v1/jobs",
            b'{"name": "a", "command": ["x"], "resources": {"cpu": 1e308}}',
            422,
            "expected at most",
        ),
        (
            "POST",
            "/v1/jobs",
            b'{"name": "a", "command": ["x"], "resources": {"memory": 1e300}}',
            422,
            "expected at most",
        ),
        ("POST", "/v1/nodes/n1/drain", b"[" * 2_000_000, 422, ""),
        ("GET", "/v1/nothing?" + "&".join(f"a{k}=1" for k in range(60)), b"", 404, "no such path"),
        ("GET", "//[", b"", 404, "no such path"),
        ("GET", "/v1/events?index=1e400", b"", 400, "index"),
        ("GET", "/v1/tasks?limit=nan", b"", 400, "limit"),
    ],
)
def test_requests_that_are_wrong(
    cluster: LiveCluster, method: str, path: str, body: bytes, status: int, says: str
) -> None:
    if "hello" in path and "hello" not in cluster.master_jobs():
        cluster.submit("hello", "true", count=3)
        cluster.wait("hello")
    found = ask(cluster, method, path, body, Authorization=f"Bearer {cluster.token}")
    assert found[0] == status and says in found[1]["error"], found


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 5000 + b"\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused_and_the_connection_closed(
    cluster: LiveCluster, sent: bytes
) -> None:
    with dial(cluster.client.address, 60) as connection:
        connection.sendall(sent)
        assert connection.recv(65536).startswith(b"HTTP/1.1 4")
        while connection.recv(65536):
            pass


@pytest.mark.parametrize("last", ["²", "9" * 5000, "-1", "x"])
def test_an_odd_place_in_the_events_is_the_beginning(cluster: LiveCluster, last: str) -> None:
    headers = {"Authorization": f"Bearer {cluster.token}", "Last-Event-ID": last}
    sent = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with dial(cluster.client.address, 60) as connection:
        connection.sendall(f"GET /v1/events HTTP/1.1\r\nHost: a\r\n{sent}\r\n".encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_frames_of_strangers_are_not_believed(cluster: LiveCluster) -> None:
    address = FolderDirectory(cluster.folder).leader().frames
    for data in (b"\xff" * 100, encode(Heartbeat("n1", 1, 1)), b"\x00\x00\x00\x05hello"):
        with dial(address, 60) as connection:
            connection.sendall(data)
            while connection.recv(4096):
                pass
    assert {node["state"] for node in cluster.client.get("nodes")["nodes"]} == {"up"}


def test_events_are_resumable_by_index_and_pushed(cluster: LiveCluster) -> None:
    first = cluster.client.get("events")
    index = first[len(first) // 2]["index"]
    assert cluster.client.get("events", index=index)[0] == first[len(first) // 2 + 1]
    got: list[Any] = []

    def follow() -> None:
        for row in cluster.client.events(first[-1]["index"]):
            got.append(row)
            if row["kind"] == "JobEnded":
                return

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    cluster.submit("pushed", "true")
    thread.join(WAIT_S)
    assert [row["kind"] for row in got] == [
        "JobSubmitted",
        "TaskPlaced",
        "TaskStarted",
        "TaskEnded",
        "JobEnded",
    ]
    assert [row["index"] for row in got] == sorted({row["index"] for row in got})


# Schedulers from outside.


class Taker(OfferScheduler):
    """Launches two tasks on what it is offered and stops when they have ended."""

    launched = 0

    def resource_offer(self, offer: ResourceOffer) -> list[Task]:
        self.ended: dict[str, StatusUpdate] = getattr(self, "ended", {})
        tasks = []
        for part in offer.slices:
            if self.launched < 2:
                self.launched += 1
                command = ["sh", "-c", "exit 3"] if self.launched == 2 else ["true"]
                tasks.append(
                    self.new_task(
                        f"t{self.launched}", part.node, command, {"cpu": 0.1, "memory": "8Mi"}
                    )
                )
        self.set_needs_offers(self.launched < 2)
        return tasks

    def status_update(self, update: StatusUpdate) -> None:
        if update.status != "running":
            self.ended[update.task] = update
        if len(self.ended) == 2:
            self.stop()


def test_a_scheduler_by_offers(cluster: LiveCluster) -> None:
    with Taker("taker", cluster.folder) as taker:
        with pytest.raises(InputError, match="connected already"):
            Taker("taker", cluster.folder)
        taker.set_filters(at_least={"cpu": 0.1})
        taker.set_needs_offers(True)
        taker.run(WAIT_S)
        assert {task: str(update.status) for task, update in taker.ended.items()} == {
            "t1": "finished",
            "t2": "failed",
        }
        assert taker.get_guaranteed_share() == (0, 0)
        taker.unregister()


def test_a_scheduler_of_shared_state(cluster: LiveCluster) -> None:
    with SharedStateScheduler("omega", cluster.folder) as omega:
        view = omega.sync()
        assert sorted(view.names) == ["n1", "n2"] and view.attributes[0]["rank"] in (1.0, 2.0)
        fits = omega.new_task("fits", view.names[0], ["true"], {"cpu": 0.5})
        large = omega.new_task("large", view.names[0], ["true"], {"cpu": 1.9})
        refused = omega.commit([fits, large], transaction="all-or-nothing")
        assert refused.accepted == ()
        outcome = omega.commit([fits, large])
        assert (outcome.accepted, outcome.refused) == (("fits",), ("large",))
        assert str(omega.wait_for(["fits"], WAIT_S)["fits"].status) == "finished"
        again = omega.commit(
            [omega.new_task("late", view.names[0], ["true"], {"cpu": 0.1})], conflict="machine"
        )
        assert again.refused == ("late",), "the row has changed since the sync"


def test_the_example_of_schedulers_from_outside(cluster: LiveCluster) -> None:
    script = Path(__file__).parents[2] / "examples" / "outside_scheduler.py"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "MURMUR_DIR": str(cluster.folder),
    }
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout.splitlines() == [
        "by offers: {0: '1 tries', 1: '1 tries', 2: '2 tries', 3: '1 tries'}",
        "by transactions: ['task-0', 'task-1'] accepted, ['huge'] refused",
        "and ended: ['task-0 finished', 'task-1 finished']",
    ], done.stderr


def test_the_log_of_it_all_replays(cluster: LiveCluster) -> None:
    found = replay_log(cluster.folder)
    assert found.agrees, found.difference
    assert found.decisions >= 3


# Starting and ending.


def test_down_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    cluster = LiveCluster(folder, 1)
    cluster.submit("long", "sh", "-c", "sleep 300 & sleep 300", kind="service")
    cluster.running("long", 1)
    with pytest.raises(InputError, match="runs already"):
        supervisor.start_detached(cluster.parts)
    assert supervisor.bring_down(folder, keep=False)
    assert not folder.exists() and until(lambda: not marked(folder))
    assert not supervisor.bring_down(folder, keep=False)
    with pytest.raises(InputError, match="murmur up"):
        ApiClient(folder)


def test_a_port_in_use_is_said_at_once(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port}"):
            LiveCluster(tmp_path / "c", 1, port=port)
    assert until(lambda: not marked(tmp_path / "c"))
