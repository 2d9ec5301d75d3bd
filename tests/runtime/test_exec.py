"""Commands beside a task: in its isolation, as its user, with its environment; bounded in every
direction; and nothing of them stays when the task has ended."""

from __future__ import annotations

import contextlib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from tests.runtime.clusters import LiveCluster, live_cluster, until
from tests.runtime.networks import private_network

from murmuration.runtime.client.requests import AnswerError
from murmuration.runtime.node.isolation import container

#: Namespaces and control groups of who asks.
WHERE = "{ readlink /proc/self/ns/user /proc/self/ns/pid /proc/self/ns/mnt /proc/self/ns/net \\\n"
WHERE += "/proc/self/ns/ipc /proc/self/ns/uts; cat /proc/self/cgroup; }"
LOOP = ("sh", "-c", f"{WHERE} > where; echo run $MURMUR_RUN; while :; do sleep 0.1; done")


@pytest.fixture(scope="module", params=["process", "runc"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveCluster]:
    if request.param == "runc" and (reason := container.missing()):
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("sessions")
    network = private_network() if request.param == "runc" else contextlib.nullcontext()
    with network, live_cluster(folder, isolation=request.param) as made:
        made.submit("web", *LOOP, kind="service", environment={"COLOUR": "blue"})
        made.running("web", 1)
        until(lambda: made.output("web.0"))
        yield made


class Conversation:
    """One command beside `web.0`, and all that it has written."""

    def __init__(self, cluster: LiveCluster, *command: str, task: str = "web.0", **order: Any):
        self._client, self._task = cluster.client, task
        body = {"command": list(command), **order}
        self._session = self._client.post("tasks", task, "exec", body=body)["session"]
        self.stdout, self.stderr, self.reason = b"", b"", ""

    def say(self, data: bytes = b"", is_last: bool = False, wait_s: float = 2.0) -> int | None:
        body = {"data": b64encode(data).decode(), "is_last": is_last, "wait_s": wait_s}
        answer = self._client.post("tasks", self._task, "exec", self._session, body=body)
        self.stdout += b64decode(answer["stdout"])
        self.stderr += b64decode(answer["stderr"])
        self.reason, self.taken = answer["reason"], answer["taken"]
        return None if answer["code"] is None else int(answer["code"])

    def end(self) -> int:
        while (code := self.say()) is None:
            pass
        return code


def test_a_command_runs_as_its_task_does(cluster: LiveCluster) -> None:
    script = "echo $MURMUR_TASK $COLOUR; echo oops >&2; ls where; exit 7"
    beside = Conversation(cluster, "sh", "-c", script)
    assert beside.end() == 7
    assert beside.stdout == b"web.0 blue\nwhere\n" and beside.stderr == b"oops\n"


def test_it_is_in_the_same_namespaces_and_groups(cluster: LiveCluster) -> None:
    """As the kernel says of the task, which has written it down, and of the command."""
    beside = Conversation(cluster, "sh", "-c", f"{WHERE} > mine; cmp mine where; wc -l < mine")
    assert beside.end() == 0, beside.stdout
    assert int(beside.stdout) > 6


def test_input_and_output_of_any_size_pass(cluster: LiveCluster) -> None:
    data = bytes(range(256)) * 4000
    beside = Conversation(cluster, "cat", input=True)
    sent = 0
    while sent < len(data):
        assert beside.say(data[sent : sent + 400_000], wait_s=0.05) is None
        sent += beside.taken
    beside.say(is_last=True)
    assert beside.end() == 0 and beside.stdout == data


def test_without_input_it_reads_nothing(cluster: LiveCluster) -> None:
    beside = Conversation(cluster, "cat")
    assert beside.end() == 0 and beside.stdout == b""


def test_what_is_not_there_is_127_and_a_signal_128_more(cluster: LiveCluster) -> None:
    assert Conversation(cluster, "no-such-program").end() == 127
    assert Conversation(cluster, "sh", "-c", "kill -9 $$").end() == 137


def test_its_time_is_bounded(cluster: LiveCluster) -> None:
    beside = Conversation(cluster, "sleep", "1000", timeout_s=0.3)
    assert beside.end() == 137 and beside.reason == "its time was over"


def test_it_ends_with_its_task(cluster: LiveCluster) -> None:
    cluster.submit("short", *LOOP, kind="service")
    cluster.running("short", 1)
    beside = Conversation(cluster, "sleep", "1000", task="short.0")
    cluster.client.delete("jobs", "short")
    assert beside.end() != 0
    with pytest.raises(AnswerError, match=r"short\.0 is killed; only a task that runs"):
        until(lambda: cluster.client.get("jobs", "short")["ended"])
        Conversation(cluster, "true", task="short.0")


@pytest.mark.parametrize(
    ("order", "sentence"),
    [
        ({"command": []}, "expected a program and its arguments"),
        ({"command": ["a\0b"]}, "without zero bytes"),
        ({"command": ["true"], "timeout_s": 0}, "expected seconds above 0"),
        ({"command": "true"}, "Expected `array`, got `str`"),
        ({"command": ["true"], "user": "root"}, "unknown field `user`"),
        ({"command": ["x" * 200_000]}, "expected at most 131072 characters"),
    ],
)
def test_bad_orders(cluster: LiveCluster, order: dict[str, Any], sentence: str) -> None:
    with pytest.raises(AnswerError, match=sentence):
        cluster.client.post("tasks", "web.0", "exec", body=order)


def test_a_session_belongs_to_its_task(cluster: LiveCluster) -> None:
    cluster.submit("other", *LOOP, kind="service")
    cluster.running("other", 1)
    beside = Conversation(cluster, "sleep", "5")
    beside._task = "other.0"
    with pytest.raises(AnswerError, match="no such session"):
        beside.say()
    for name in ("nonsense", "a@b@c", "a@1@nowhere"):
        beside._session = name
        with pytest.raises(AnswerError, match=r"expected the name of a session|no node"):
            beside.say()
    cluster.client.delete("jobs", "other")


def test_the_output_of_earlier_runs_is_kept_wherever_they_were(cluster: LiveCluster) -> None:
    cluster.submit("again", *LOOP, kind="service")
    first = cluster.running("again", 1)[0]["node"]
    until(lambda: cluster.output("again.0") == "run 1\n")
    cluster.client.post("nodes", first, "drain", body={})
    moved = until(lambda: [r for r in cluster.running("again", 1) if r["node"] != first])
    assert moved[0]["run"] == 2
    cluster.client.post("nodes", first, "drain", body={"on": False})

    def read(**query: int) -> str:
        return str(cluster.client.get("tasks", "again.0", "output", **query)["text"])

    until(lambda: read() == "run 2\n")
    assert read(back=1) == read(number=1) == "run 1\n"
    with pytest.raises(AnswerError, match="has had runs 1 to 2, so there is no run 3"):
        read(number=3)
    with pytest.raises(AnswerError, match="there is no run 0"):
        read(back=2)
    cluster.client.delete("jobs", "again")
