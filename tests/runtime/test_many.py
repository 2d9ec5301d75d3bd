"""Many tasks at once: none runs twice when an agent freezes, and neither starting, looking, killing
nor reading holds up a heartbeat."""

from __future__ import annotations

import asyncio
import ctypes
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.runtime.clusters import live_cluster, until

from murmuration.runtime.node.executor import Executor
from murmuration.runtime.node.isolation import Handle, RunLimits, processes
from murmuration.runtime.node.isolation.plain import PlainProcess

LEASE_S = 10.0
SMALL = {"cpu": 0.02, "memory": "1Mi"}
#: Holds a lock of its task for as long as it lives, whatever its end; who does not get it says so.
WITNESS = """exec 9>>"$1/lock.$MURMUR_INDEX"
flock -n 9 || echo "$MURMUR_TASK" >> "$1/twice"
echo "$MURMUR_RUN" >> "$1/runs.$MURMUR_INDEX"
trap '' TERM; while :; do sleep 600; done"""


def test_no_service_of_a_frozen_agent_runs_twice(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    with live_cluster(tmp_path / "c", agent_timeout_s=LEASE_S) as cluster:
        cluster.client.post("nodes", "n2", "drain", body={"on": True})
        service = {"kind": "service", "count": 25, "resources": SMALL}
        cluster.submit("web", "sh", "-c", WITNESS, "sh", str(seen), **service)
        cluster.running("web", 25)
        cluster.client.post("nodes", "n2", "drain", body={"on": False})
        frozen = cluster.kill("n1", signal.SIGSTOP)
        until(lambda: {row["node"] for row in cluster.running("web", 25)} == {"n2"})
        until(lambda: all((seen / f"runs.{k}").read_text() == "1\n2\n" for k in range(25)))
        assert not (seen / "twice").exists(), (seen / "twice").read_text()
        # A hung agent is ended and started again, without anybody's help.
        until(lambda: cluster.pid("n1") != frozen)
        until(lambda: {n["state"] for n in cluster.client.get("nodes")["nodes"]} == {"up"})


def test_an_agent_that_hangs_at_once_is_started_again(tmp_path: Path) -> None:
    """Also one whose loop has not gone round once."""
    with live_cluster(tmp_path / "c", agent_timeout_s=LEASE_S) as cluster:
        frozen = cluster.kill("n1", signal.SIGSTOP)
        until(lambda: cluster.pid("n1") != frozen)
        until(lambda: {n["state"] for n in cluster.client.get("nodes")["nodes"]} == {"up"})


def test_reading_kills_nothing(tmp_path: Path) -> None:
    with live_cluster(tmp_path / "c", 1, agent_timeout_s=LEASE_S) as cluster:
        cluster.submit("web", "sleep", "600", kind="service", count=3, resources=SMALL)
        cluster.running("web", 3)
        cluster.submit("many", "true", count=4000, resources={"cpu": 2, "memory": "1Mi"})
        with ThreadPoolExecutor(40) as threads:
            read = [threads.submit(cluster.client.get, "tasks") for _ in range(40)]
            assert {len(one.result()["tasks"]) for one in read} == {4003}
        assert [row["run"] for row in cluster.running("web", 3)] == [1, 1, 1]
        assert cluster.facts("NodeIsLost") == cluster.facts("NodeUnreachable") == []


@pytest.fixture
def adopts_no_more() -> Iterator[None]:
    """An isolation makes this process the parent of orphans; other tests have their own idea."""
    yield
    ctypes.CDLL(None).prctl(processes.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


class ManyRuns(PlainProcess):
    """Notes the order in which runs are looked at."""

    def __init__(self, seen: list[str]) -> None:
        super().__init__()
        self.seen = seen

    def poll(self, handle: Handle) -> None:
        self.seen.append(handle.task)

    def usage(self, handle: Handle) -> tuple[float, int]:
        return handle.used


@pytest.mark.usefixtures("adopts_no_more")
def test_a_heartbeat_comes_between_looks_at_two_runs(tmp_path: Path) -> None:
    seen: list[str] = []
    executor = Executor(tmp_path / "tasks", ManyRuns(seen), set, print)
    for name in "abc":
        handle = Handle(name, tmp_path, 0, RunLimits())
        executor._handles[name] = handle

    async def look() -> None:
        loop = asyncio.get_running_loop()
        for _ in executor.poll_each():
            loop.call_soon(seen.append, "beat")
            await asyncio.sleep(0)

    asyncio.run(look())
    assert seen == ["a", "beat", "b", "beat", "c", "beat"]
