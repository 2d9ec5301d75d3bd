"""Commands beside a task: in its isolation, as its user, with its environment; bounded in every
direction; and nothing of them stays when the task has ended."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import termios
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtime.clusters import LiveCluster, live_cluster, until
from tests.runtime.networks import private_network

from murmuration.runtime.client.requests import AnswerError
from murmuration.runtime.net.wire import BeginSession
from murmuration.runtime.node import beside
from murmuration.runtime.node.isolation import bundle, container

#: Namespaces and control groups of who asks.
WHERE = "{ readlink /proc/self/ns/user /proc/self/ns/pid /proc/self/ns/mnt /proc/self/ns/net \\\n"
WHERE += "/proc/self/ns/ipc /proc/self/ns/uts; cat /proc/self/cgroup; \\\n"
WHERE += "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp)' /proc/self/status; }"
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


def test_it_is_in_the_same_namespaces_and_groups_and_has_no_more_powers(
    cluster: LiveCluster,
) -> None:
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


# Terminals.


def heard(beside: Conversation, text: bytes) -> bool:
    """Whether a command has written this by now; it is listened to once more."""
    if text not in beside.stdout:
        beside.say(wait_s=0.5)
    return text in beside.stdout


def test_a_terminal_has_a_size_and_follows_it(cluster: LiveCluster) -> None:
    script = "test -t 0 && test -t 1 && test -t 2 && echo $TERM && stty size; read x; stty size"
    beside = Conversation(cluster, "sh", "-c", script, rows=24, columns=80)
    until(lambda: heard(beside, b"24 80"))
    assert b"xterm-256color" in beside.stdout
    body = {"rows": 50, "columns": 132, "data": b64encode(b"go\n").decode()}
    answer = cluster.client.post("tasks", "web.0", "exec", beside._session, body=body)
    beside.stdout += b64decode(answer["stdout"])
    until(lambda: heard(beside, b"50 132"))
    assert beside.stderr == b""


def test_a_terminal_of_a_container_has_its_size_before_the_command_begins(tmp_path: Path) -> None:
    """runc passes the caller's size on only while the command runs already: a race that the first
    `stty size` may lose."""
    (tmp_path / bundle.BUNDLE).mkdir()
    config = {"root": {"path": "/"}, "process": {"args": ["sh", "-c", ""], "env": []}}
    (tmp_path / bundle.BUNDLE / "config.json").write_text(json.dumps(config))
    for size, expected in ((33, 99), {"height": 33, "width": 99}), (None, None):
        process = json.loads(bundle.enter(tmp_path, ["true"], size).files[0].read_text())
        assert process["terminal"] is (size is not None)
        assert process.get("consoleSize") == expected


def test_keys_of_a_terminal_are_signals(cluster: LiveCluster) -> None:
    script = "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.1; done"
    beside = Conversation(cluster, "sh", "-c", script, rows=24, columns=80)
    until(lambda: heard(beside, b"ready"))
    beside.say(b"\x03")
    assert beside.end() == 5
    assert b"caught" in beside.stdout


def test_a_shell_on_a_terminal_has_job_control(cluster: LiveCluster) -> None:
    beside = Conversation(cluster, "sh", "-i", rows=24, columns=80)
    beside.say(b"sleep 600 &\njobs\nkill %1; exit 3\n")
    assert beside.end() == 3
    assert b"Running" in beside.stdout and b"job control turned off" not in beside.stdout


@pytest.mark.parametrize("size", [{"rows": 5}, {"rows": -1, "columns": 3}, {"columns": 70_000}])
def test_sizes_that_no_terminal_has(cluster: LiveCluster, size: dict[str, Any]) -> None:
    with pytest.raises(AnswerError, match="expected a number from 1 to 65535"):
        Conversation(cluster, "true", **size)


def test_the_command_passes_a_terminal_on(cluster: LiveCluster) -> None:
    """Typed at a terminal: the keys go to the command, and its code comes back."""
    child, keyboard = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
        words = ["exec", "-t", "web.0", "--dir", str(cluster.folder), "--", "sh", "-i"]
        path = os.pathsep.join(entry for entry in sys.path if entry)
        os.environ["PYTHONPATH"] = path
        os.execv(
            sys.executable,
            [sys.executable, "-c", "from murmuration.cli import main; main()", *words],
        )
    shown = b""

    def sees(text: bytes) -> bool:
        nonlocal shown
        if select.select([keyboard], [], [], 0.2)[0]:
            with contextlib.suppress(OSError):
                shown += os.read(keyboard, 4096)
        return text in shown

    def has_ended() -> bool:
        sees(b"")
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    try:
        os.write(keyboard, b"PS1='>>''> '; stty size\n")
        until(lambda: sees(b"33 99\r\n>>> "))
        os.write(keyboard, b"echo $((50 + 3)); sleep 600\n")
        until(lambda: sees(b"53\r\n"))
        os.write(keyboard, b"\x03")
        # A shell that is interrupted forgets what was typed before it asks again.
        until(lambda: sees(b"^C\r\n>>> "))
        os.write(keyboard, b"exit 9\n")
        until(has_ended)
    finally:
        os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.close(keyboard)
    assert code == 9, shown


class Quiet:
    """A command beside a task that does nothing."""

    def __init__(self, *_: object) -> None:
        self.is_killed = False

    def kill(self) -> None:
        self.is_killed = True


def test_nobody_keeps_the_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """One user has half of the sessions at most; where all are taken, who comes with fewer gets one
    of who has the most."""
    monkeypatch.setattr(beside, "Companion", Quiet)

    async def tell() -> None:
        isolation = SimpleNamespace(enter=lambda *_: None)
        sessions = beside.ExecSessions(isolation, lambda run: SimpleNamespace())  # type: ignore[arg-type,return-value]

        def begin(user: str) -> str:
            return sessions.begin(BeginSession("r", ("x",), 60.0, user=user)).error

        half = beside.OF_USER_MAX
        assert [begin("anna") for _ in range(half)] == [""] * half
        assert begin("anna") == f"{half} commands of yours run beside tasks here already"
        assert [begin("ben") for _ in range(half)] == [""] * half
        assert [begin("carl") for _ in range(half)] == [""] * 10 + [
            "32 commands run beside tasks here already"
        ] * 6
        held = Counter(each.user for each in sessions._sessions.values())
        assert held == {"anna": 11, "ben": 11, "carl": 10}
        sessions.close()

    asyncio.run(tell())
