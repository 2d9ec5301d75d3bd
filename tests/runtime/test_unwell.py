"""A node that cannot start tasks loses them to others and is marked until it is well; a task that
is lost again and again does not run hundreds of times."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.clusters import WAIT_S, LiveCluster, live_cluster, until

from murmuration.runtime.folder import NODES


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with live_cluster(tmp_path / "c") as made:
        yield made


def node(cluster: LiveCluster, name: str) -> Any:
    return next(row for row in cluster.client.get("nodes")["nodes"] if row["node"] == name)


def run_all(cluster: LiveCluster, job: str) -> None:
    """All tasks of a job end well, and on the second node."""
    small = {"cpu": 0.2, "memory": "16Mi"}
    cluster.submit(job, "sh", "-c", "sleep 0.1", count=8, resources=small, spread="node")
    ended = cluster.wait(job)
    assert (ended["state"], ended["code"]) == ("finished", 0), ended
    assert {row["node"] for row in cluster.tasks(job)} == {"n2"}


def await_well(cluster: LiveCluster) -> None:
    """A node that can start tasks again is given them, and loses its mark."""

    def is_well() -> bool:
        name = f"again-{time.monotonic_ns()}"
        cluster.submit(name, "true", count=2, spread="node")
        return bool(cluster.wait(name)["code"] == 0 and node(cluster, "n1")["state"] == "up")

    until(is_well)
    assert node(cluster, "n1")["reason"] == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk needs root")
def test_a_node_with_a_full_disk_loses_its_tasks_to_others(cluster: LiveCluster) -> None:
    tasks = cluster.folder / NODES / "n1" / "tasks"
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "small", str(tasks)]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        with open(tasks / "full", "wb") as file:
            file.write(b"x" * 2**16)
        run_all(cluster, "batch")
        marked = node(cluster, "n1")
        assert marked["state"] == "unwell" and "no space left" in marked["reason"].lower()
        (tasks / "full").unlink()
        await_well(cluster)
    finally:
        subprocess.run(["umount", "--lazy", str(tasks)], check=True)


def test_a_node_without_descriptors_loses_its_tasks_to_others(cluster: LiveCluster) -> None:
    pid = cluster.pid("n1")
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    in_use = len(os.listdir(f"/proc/{pid}/fd"))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (in_use, before[1]))
    run_all(cluster, "batch")
    marked = node(cluster, "n1")
    assert marked["state"] == "unwell" and "too many open files" in marked["reason"].lower()
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    await_well(cluster)


def test_a_task_whose_port_another_program_has_waits_for_it(cluster: LiveCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        cluster.submit("served", "true", ports=[port])
        until(lambda: f"port {port} is in use" in str(cluster.client.get("nodes")))
        assert not cluster.client.get("jobs", "served")["ended"]
    ended = cluster.wait("served")
    assert (ended["state"], ended["code"]) == ("finished", 0)


def test_a_task_that_kills_its_shim_is_not_run_hundreds_of_times(
    cluster: LiveCluster, tmp_path: Path
) -> None:
    """Each run is lost, and the next one waits longer."""
    script = f"echo run >> {tmp_path}/runs; kill -9 $PPID; sleep 600"
    cluster.submit("evil", "sh", "-c", script)
    until(lambda: (tmp_path / "runs").exists())
    time.sleep(6.0)
    assert len((tmp_path / "runs").read_text().split()) <= 6
    cluster.client.delete("jobs", "evil")
    cluster.wait("evil")


REBOOT = """
import os, signal, sys
from pathlib import Path
from tests.runtime.clusters import LiveCluster, until
from murmuration.runtime import supervisor
cluster = LiveCluster(Path(sys.argv[1]), 1, agent_timeout_s=3.0)
cluster.submit("steady", "sleep", "600", kind="service")
cluster.running("steady", 1)
pid = cluster.kill("n1", signal.SIGSTOP)
until(lambda: not cluster.client.get("nodes")["nodes"] or cluster.facts("NodeIsLost"))
os.kill(pid, signal.SIGCONT)
cluster.running("steady", 1)
supervisor.bring_down(cluster.folder, keep=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a clock of its own needs root")
def test_after_a_reboot_a_failing_task_fails_once(tmp_path: Path) -> None:
    """Before it the host's clock since its start was far ahead, and a watchdog had to act."""
    words = ["unshare", "--time", "--monotonic", "1000000", "--fork", sys.executable]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    first = subprocess.run(
        [*words, "-c", REBOOT, str(tmp_path / "c")],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        env=environment,
        check=False,
    )
    if "unshare" in first.stderr:
        pytest.skip(first.stderr)
    assert first.returncode == 0, first.stderr
    with live_cluster(tmp_path / "c", 1, agent_timeout_s=3600.0) as cluster:
        cluster.submit("fails", "sh", "-c", f"echo run >> {tmp_path}/runs; exit 3")
        ended = cluster.wait("fails")
        assert (ended["state"], ended["code"]) == ("failed", 3)
        assert (tmp_path / "runs").read_text() == "run\n"
        assert cluster.running("steady", 1)
