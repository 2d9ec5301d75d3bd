"""The network of a container: a way out, none to its node, ports that were asked for, and nothing
left behind. The node and the world outside are two network namespaces of this test."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.runtime.isolation.conftest import LIMIT_S, House, show, until

from murmuration.runtime.net.sockets import find_ports
from murmuration.runtime.node.isolation import Handle, StartFailed, network

NODE, OUTSIDE, METADATA = "203.0.113.1", "203.0.113.2", "169.254.169.254"
PORT, ASKED = 7001, 7002
#: Answers each connection with the address it came from.
SERVER = """
import socket, sys
listener = socket.create_server(("", int(sys.argv[1])))
print("up", flush=True)
while True:
    connection, peer = listener.accept()
    connection.sendall(peer[0].encode())
    connection.close()
"""
#: Says for each address what the server there says, or which error came.
CLIENT = """
import errno, json, socket, sys
answers = {}
for place in sys.argv[1:]:
    host, port = place.split(":")
    try:
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            answers[place] = connection.recv(100).decode()
    except OSError as error:
        answers[place] = errno.errorcode.get(error.errno, str(error))
print(json.dumps(answers))
"""


@contextmanager
def server(*around: str) -> Iterator[None]:
    """A server on every address of this network, or of another one that the words lead to."""
    words = [*around, sys.executable, "-c", SERVER, str(PORT)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "up\n"
            yield
        finally:
            process.kill()


@pytest.fixture
def outside(runc: House) -> Iterator[list[str]]:
    """The words that lead to a command in the world outside, where a server runs too."""
    if reason := network.missing():
        pytest.skip(reason)
    assert runc.isolation.name == "runc"
    with subprocess.Popen(["unshare", "--net", "sleep", "3600"]) as holder:
        try:
            here = Path("/proc/self/ns/net").readlink()
            until(lambda: Path(f"/proc/{holder.pid}/ns/net").readlink() != here)
            enter = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
            link = f"ip link add up0 type veth peer name up1 netns {holder.pid}"
            for command in (
                link.split(),
                ["ip", "address", "add", f"{NODE}/24", "dev", "up0"],
                ["ip", "link", "set", "up0", "up"],
                ["ip", "route", "add", "default", "via", OUTSIDE],
                [*enter, "ip", "address", "add", f"{OUTSIDE}/24", "dev", "up1"],
                [*enter, "ip", "address", "add", f"{METADATA}/32", "dev", "up1"],
                [*enter, "ip", "link", "set", "up1", "up"],
                [*enter, "ip", "route", "add", str(network.ADDRESSES), "via", NODE],
            ):
                subprocess.run(command, check=True)
            with server(*enter):
                yield enter
        finally:
            holder.kill()


def ask(*around: str, places: list[str]) -> dict[str, str]:
    words = [*around, sys.executable, "-c", CLIENT, *places]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    return dict(json.loads(done.stdout))


def ask_inside(runc: House, task: str, places: list[str], host: bool = False) -> dict[str, str]:
    """What a task is answered at these places."""
    spec = runc.spec(task, "python3", "-c", CLIENT, *places)
    handle = runc.isolation.start(
        type(spec)(spec.task, spec.command, {}, spec.limits, spec.folder, (), host)
    )
    runc.handles.append(handle)
    assert runc.wait(handle).code == 0, runc.output(task, "stderr")
    return dict(json.loads(runc.output(task)))


def serve_inside(runc: House, task: str, ports: tuple[int, ...], listen: int) -> Handle:
    spec = runc.spec(task, "python3", "-c", SERVER, str(listen))
    handle = runc.isolation.start(
        type(spec)(spec.task, spec.command, {}, spec.limits, spec.folder, ports)
    )
    runc.handles.append(handle)
    until(lambda: "up" in runc.output(task))
    return handle


def address_of(folder: Path) -> str:
    """The address of a folder's container, as the node's routes have it."""
    routes = json.loads(show("ip", "-j", "route", "show", "dev", network.link_name(folder)))
    return str(routes[0]["dst"])


def test_a_task_reaches_the_world_and_not_its_node(runc: House, outside: list[str]) -> None:
    own = [f"{host}:{PORT}" for host in ("127.0.0.1", NODE, str(network.GATEWAY))]
    places = [f"{OUTSIDE}:{PORT}", f"{METADATA}:{PORT}", *own]
    with server():
        assert ask(places=own[:2]) == {own[0]: "127.0.0.1", own[1]: NODE}
        answers = ask_inside(runc, "a", places)
        assert answers.pop(f"{OUTSIDE}:{PORT}") == NODE, "it leaves under the address of its node"
        assert answers.pop(f"{METADATA}:{PORT}") in ("EHOSTUNREACH", "EACCES")
        assert set(answers.values()) == {"ECONNREFUSED"}
        asked_for = ask_inside(runc, "b", own[:2], host=True)
    assert asked_for == {own[0]: "127.0.0.1", own[1]: NODE}
    assert set(ask(*outside, places=[f"{NODE}:{PORT}"]).values()) == {"ECONNREFUSED"}


def test_a_port_is_reached_from_everywhere_and_nothing_else_is(
    runc: House, outside: list[str]
) -> None:
    handle = serve_inside(runc, "a", (ASKED,), ASKED)
    serve_inside(runc, "b", (), ASKED)
    asked = f"{NODE}:{ASKED}"
    assert ask(*outside, places=[asked]) == {asked: OUTSIDE}
    assert "" not in ask(places=[f"127.0.0.1:{ASKED}", asked]).values()
    direct = [f"{address_of(runc.base / name)}:{ASKED}" for name in ("a", "b")]
    answers = ask_inside(runc, "c", [asked, *direct])
    assert answers.pop(asked) == str(network.GATEWAY), "by the node's address"
    assert not any("." in answer for answer in answers.values()), "not by another's"
    reached = ask_closed(outside, direct[1])
    assert not reached, "what asked for no port is not reached from outside"
    assert network.list_taken_ports() == {ASKED}
    assert ASKED not in find_ports([0] * 3, network.list_taken_ports)
    with pytest.raises(StartFailed, match="container") as failed:
        serve_inside(runc, "d", (ASKED,), ASKED)
    assert isinstance(failed.value.__cause__, OSError), "its node's fault, not the task's"
    runc.isolation.kill(handle, 0.0)
    runc.wait(handle)
    runc.isolation.clean(handle.folder)
    assert network.list_taken_ports() == set()


def ask_closed(around: list[str], place: str) -> bool:
    """Whether something answers where packets are dropped; the client's own time-out is long."""
    script = CLIENT.replace("timeout=60", "timeout=1")
    words = [*around, sys.executable, "-c", script, place]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    return "." in json.loads(done.stdout)[place]


def test_nothing_of_a_network_is_left(runc: House, outside: list[str]) -> None:
    """The node forwards for containers alone, and no longer than there are any."""
    assert outside
    network.FORWARDING.write_text("0")
    handle = serve_inside(runc, "a", (ASKED,), ASKED)
    assert network.FORWARDING.read_text() == "1\n"
    assert network.GUARD in show("nft", "list", "tables")
    assert network.link_name(handle.folder) in show("ip", "link")
    # As by kill -9 of everything, agent included: another agent clears up.
    runc.isolation.kill_all([handle.folder])
    runc.wait(handle)
    network.release(handle.folder)
    assert network.list_taken_ports() == set()
    network.remove(runc.base)
    assert show("nft", "list", "ruleset") == "" and network.FORWARDING.read_text() == "0\n"


def test_a_table_that_was_cleared_is_put_back(runc: House, outside: list[str]) -> None:
    places = [f"{OUTSIDE}:{PORT}", f"{NODE}:{PORT}"]
    with server():
        expected = {places[0]: NODE, places[1]: "ECONNREFUSED"}
        assert outside and ask_inside(runc, "a", places) == expected
        subprocess.run(["nft", "flush", "ruleset"], check=True)
        assert ask_inside(runc, "b", places) == expected


def test_without_tools_a_task_has_a_loopback_only(
    runc: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "missing", lambda: "nft is not installed")
    _, out = runc.run("a", "ls /sys/class/net")
    assert out == "lo\n"
    with pytest.raises(StartFailed, match="ports need a network for containers: nft is not"):
        serve_inside(runc, "b", (ASKED,), ASKED)
