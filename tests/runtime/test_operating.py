"""What an operator counts on: a supervisor that died is replaced without harm, commands that follow
outlive a master, a clock set back loses no node, and nothing leaks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.runtime.clusters import LiveCluster, live_cluster, until

from murmuration.base.errors import InputError
from murmuration.runtime import supervisor
from murmuration.runtime.locks import holder

MURMUR = "from murmuration.cli import main; main()"
#: A node agent whose clock somebody has set back by an hour.
LATE_AGENT = """
import sys, time
real = time.time
time.time = lambda: real() - 3600.0
from murmuration.runtime.node import host
host.ThisHost.wall = staticmethod(time.time)
from murmuration.runtime.node import process
import msgspec
process.main(msgspec.json.decode(sys.argv[1], type=process.AgentOptions))
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with live_cluster(tmp_path / "c", 2, agent_timeout_s=3600.0) as made:
        yield made


def kill_supervisor(cluster: LiveCluster) -> None:
    pid = holder(cluster.folder / supervisor.LOCK)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: holder(cluster.folder / supervisor.LOCK) is None)


def test_up_adopts_what_a_dead_supervisor_has_left(cluster: LiveCluster) -> None:
    cluster.submit("steady", "sleep", "600", kind="service", count=3)
    before = {(row["task"], row["run"], row["node"]) for row in cluster.running("steady", 3)}
    parts = ("master", "n1", "n2")
    pids = [cluster.pid(part) for part in parts]
    kill_supervisor(cluster)
    other = msgspec.structs.replace(cluster.parts.master, agent_timeout_s=7.0)
    with pytest.raises(InputError, match="started with other options"):
        supervisor.start_detached(supervisor.Parts(other, cluster.parts.agents))
    supervisor.start_detached(cluster.parts)
    assert [cluster.pid(part) for part in parts] == pids
    assert {(r["task"], r["run"], r["node"]) for r in cluster.running("steady", 3)} == before
    for part in parts:
        cluster.reborn(part, cluster.kill(part))
    assert {(r["task"], r["run"], r["node"]) for r in cluster.running("steady", 3)} == before


def follow(cluster: LiveCluster, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", MURMUR, *words, "--dir", str(cluster.folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def test_commands_that_follow_outlive_a_master(cluster: LiveCluster, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"echo before; until [ -e {go} ]; do sleep 0.1; done; echo after"
    cluster.submit("talks", "sh", "-c", script)
    cluster.running("talks", 1)
    with follow(cluster, "logs", "-f", "talks.0") as logs, follow(cluster, "events", "-f") as facts:
        assert logs.stdout is not None and facts.stdout is not None
        assert logs.stdout.readline() == "before\n"
        while "talks" not in facts.stdout.readline():
            pass
        cluster.reborn("master", cluster.kill("master"))
        go.touch()
        assert logs.stdout.readline() == "after\n"
        assert logs.wait(200) == 0
        line = facts.stdout.readline()
        while line and not ("talks" in line and "finished" in line):
            line = facts.stdout.readline()
        facts.kill()
    assert line, "the end was told to who followed"


def test_a_clock_set_back_loses_no_node(cluster: LiveCluster) -> None:
    kill_supervisor(cluster)
    cluster.kill("n1")
    options = msgspec.json.encode(cluster.parts.agents[0]).decode()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", LATE_AGENT, options], env=environment) as agent:
        try:
            until(
                lambda: (
                    {n["state"] for n in cluster.client.get("nodes")["nodes"]} == {"up"}
                    and cluster.pid("n1") == agent.pid
                )
            )
            # Until the new agent is connected the master counts on the old one, and places on the
            # other node alone what it cannot place there.
            for attempt in range(60):
                name = f"spread-{attempt}"
                cluster.submit(name, "sleep", "600", kind="service", count=2, spread="node")
                if {row["node"] for row in cluster.running(name, 2)} == {"n1", "n2"}:
                    break
            else:
                pytest.fail("a node whose clock was set back gets no task")
        finally:
            agent.kill()


def test_a_large_job_submitted_again_leaks_nothing(cluster: LiveCluster) -> None:
    """The memory of the master is that of one such job, not of all that had its name."""

    def submit() -> int:
        cluster.submit("large", "true", count=20_000, resources={"cpu": 2, "memory": "1Gi"})
        cluster.client.delete("jobs", "large")
        cluster.wait("large")
        status = Path(f"/proc/{cluster.pid('master')}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])

    sizes = [submit() for _ in range(8)]
    one = max(sizes[1] - sizes[0], 8_000)
    assert sizes[-1] - sizes[2] < 3 * one, sizes
    assert len(cluster.client.get("jobs")["jobs"]) == 1


def test_what_emptied_its_environment_does_not_outlive_its_node(cluster: LiveCluster) -> None:
    """It left its session and its parent too; when nothing runs any more, it is the last task's."""
    script = "setsid env -i sh -c 'env -i setsid sleep 98761 & sleep 0.2' & sleep 0.5"
    cluster.submit("stray", "sh", "-c", script)
    assert cluster.wait("stray")["code"] == 0
    until(lambda: not strays())


def strays() -> list[str]:
    pattern = ["pgrep", "-f", "^sleep 98761$"]
    return subprocess.run(pattern, capture_output=True, text=True, check=False).stdout.split()
