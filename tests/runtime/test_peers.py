"""A node agent speaks for itself alone: what it says of others, or what cannot be, is not heard.

A real master; the node agents are connections that this test holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.clusters import CPU, LiveCluster, live_cluster

from murmuration.runtime.master import vetting
from murmuration.runtime.master.peers import ReadPace
from murmuration.runtime.net.directory import FolderDirectory
from murmuration.runtime.net.sockets import connect
from murmuration.runtime.net.transport import Connection
from murmuration.runtime.net.wire import Hello
from murmuration.schedulers.central.messages import (
    JOBS,
    AgentJoined,
    Ended,
    FromAgent,
    Heartbeat,
    Refused,
    RunEnded,
    Running,
    RunStarted,
    Welcome,
)
from murmuration.schedulers.offers.messages import Status

TOTAL = {"cpu": CPU, "memory": 2**30}
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with live_cluster(tmp_path_factory.mktemp("peers") / "d", agents=1) as made:
        yield made


def tell(cluster: LiveCluster, *messages: FromAgent) -> list[Any]:
    """Say something as a node agent that has the token; what the master answers until it hangs up
    or has answered every message."""

    async def talk() -> list[Any]:
        heard: list[Any] = []
        lost, done = asyncio.Event(), asyncio.Event()

        def receive(_: Connection, __: int, ___: str, message: Any) -> None:
            heard.append(message)
            done.set()

        directory = FolderDirectory(cluster.folder)
        connection = await connect(
            asyncio.get_running_loop(),
            lambda: Connection(receive, lambda _: lost.set()),
            directory.leader().frames,
        )
        await connection.ask(Hello(directory.credentials().token, "agent"))
        for message in messages:
            done.clear()
            connection.send(message, message.node)
            waits = [asyncio.ensure_future(event.wait()) for event in (lost, done)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED, timeout=LIMIT_S)
            for wait in waits:
                wait.cancel()
        connection.close()
        return heard

    return asyncio.run(talk())


@pytest.mark.parametrize("name", ["", "\x1b[31m", "a\nb", "x" * 100_000, "ä", "-a", "a b"])
def test_a_name_that_cannot_be_shown_is_refused(cluster: LiveCluster, name: str) -> None:
    (answer,) = tell(cluster, AgentJoined(name, "me", 1, TOTAL))
    assert isinstance(answer, Refused) and "a node's name" in answer.reason
    assert answer.reason.isprintable() and len(answer.reason) < 200
    assert {node["node"] for node in cluster.client.get("nodes")["nodes"]} == {"n1"}


@pytest.mark.parametrize("amount", [-5, -1, 2**48 + 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("name", ["cpu", "memory"])
def test_a_node_of_impossible_size_is_refused(cluster: LiveCluster, name: str, amount: int) -> None:
    (answer,) = tell(cluster, AgentJoined("liar", "me", 1, {**TOTAL, name: amount}))
    assert isinstance(answer, Refused) and f"'{name}' = {amount}" in answer.reason
    job = f"after-{name}-{abs(amount)}"
    cluster.submit(job, "true")
    assert cluster.wait(job)["code"] == 0


def test_nobody_ends_a_run_of_another_node(cluster: LiveCluster) -> None:
    cluster.submit("web", "sleep", "600", kind="service")
    (row,) = cluster.running("web", 1)
    run = f"web.0.{row['run']}"
    end = Ended(JOBS, run, Status.FINISHED, 0)
    joined = AgentJoined("liar", "me", 1, TOTAL)
    welcome, *rest = tell(cluster, joined, RunEnded("liar", end, 1))
    assert isinstance(welcome, Welcome) and rest == []
    request = (1, 1)
    for lie in (
        AgentJoined("other", "me", 2, TOTAL, ended=(end,)),
        AgentJoined("other", "me", 2, TOTAL, running=(Running(JOBS, run, request),)),
    ):
        (answer,) = tell(cluster, lie)
        assert isinstance(answer, Refused) and f"{run}, which is on n1" in answer.reason
    (again,) = cluster.running("web", 1)
    assert (again["run"], again["node"]) == (row["run"], "n1")
    cluster.client.delete("jobs", "web")
    assert cluster.wait("web")["state"] == "killed"


def find(message: FromAgent) -> str:
    return vetting.find_fault(message, 2, lambda _, run: "n2" if run == "theirs" else None)


def test_each_message_is_looked_at() -> None:
    end = Ended(JOBS, "theirs", Status.FAILED)
    assert "which is on n2" in find(RunStarted("n1", JOBS, "theirs", 1))
    assert "which is on n2" in find(RunEnded("n1", end, 1))
    assert find(RunEnded("n2", end, 1)) == "" == find(RunStarted("n1", JOBS, "mine", 1))
    assert find(Heartbeat("n1", 1, -1)) and find(Heartbeat("n1", 2**63, 1))
    many: dict[str, str | float] = {f"a{k}": 1.0 for k in range(101)}
    wrong: list[dict[str, str | float]] = [
        many,
        {"a": "\x1b"},
        {"a": float("nan")},
        {"": 1.0},
        {"a": "x" * 300},
    ]
    for attributes in wrong:
        assert "attributes" in find(AgentJoined("n1", "me", 1, TOTAL, attributes)), attributes
    for request in ((), (1,), (-1, 1), (1, 2**63)):
        running = (Running(JOBS, "mine", request),)
        assert "amounts" in find(AgentJoined("n1", "me", 1, TOTAL, running=running))


@given(st.text(), st.integers(-(2**63), 2**64 - 1) | st.none())
def test_whatever_an_end_says_can_be_shown(reason: str, code: int | None) -> None:
    message = RunEnded("n1", Ended(JOBS, "a.0.1", Status.FAILED, code, code, reason), 1)
    tidied = vetting.tidy(message)
    assert isinstance(tidied, RunEnded)
    shown = tidied.ended
    assert shown.reason.isprintable() and (shown.code is None or 0 <= shown.code <= 255)
    assert (shown.code is None) == (code is None)
    if reason.isprintable() and len(reason) <= vetting.REASON_MAX:
        assert shown.reason == reason


def test_outputs_are_read_as_fast_as_a_link_carries_them() -> None:
    """A link of 32 KiB a second: within a few parts each comes in about a second; a quick one soon
    brings a whole mebibyte at once."""

    async def settle(bytes_per_s: float) -> int:
        pace = ReadPace()
        for _ in range(20):
            pace.note(pace.size / bytes_per_s)
        return pace.size

    assert asyncio.run(settle(32 * 2**10)) in (2**14, 2**15)
    assert asyncio.run(settle(1e9)) == 2**20
    assert asyncio.run(settle(1.0)) == 2**13
