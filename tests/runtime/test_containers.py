"""A live cluster whose tasks are containers: limits and reasons reach the user, killed parts leave
nothing behind."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.clusters import LiveCluster, live_cluster, until
from tests.runtime.networks import private_network

from murmuration.runtime.net.directory import FolderDirectory
from murmuration.runtime.node.isolation import container
from murmuration.runtime.node.isolation.network import list_taken_ports

GREEDY = "python3 -c 'x = [bytearray(b\"x\" * (1 << 24)) for _ in range(20)]'"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    if reason := container.missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("containers")
    with private_network():
        with live_cluster(folder, isolation="runc") as made:
            yield made
        tables = subprocess.run(["nft", "list", "ruleset"], capture_output=True, check=True)
        assert tables.stdout == b""
    assert groups(folder) == [], "control groups are left"
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()


def groups(folder: Path) -> list[str]:
    """The control groups of a cluster's tasks."""
    names = {container.group_name(run) for run in runs(folder)}
    return [place for place, _, _ in os.walk("/sys/fs/cgroup") if os.path.basename(place) in names]


def runs(folder: Path) -> list[Path]:
    return [path.parent for path in folder.rglob("stdout")]


def test_a_task_over_its_memory_says_so(cluster: LiveCluster) -> None:
    cluster.submit("greedy", "sh", "-c", GREEDY, resources={"cpu": 1, "memory": "96Mi"})
    found = cluster.wait("greedy")
    assert found["state"] == "failed" and "out of memory" in found["reason"]


def test_a_task_does_not_see_the_token_of_its_cluster(cluster: LiveCluster) -> None:
    cluster.submit("curious", "sh", "-c", f"cat {cluster.folder}/*; ls -A {cluster.folder}; exit 0")
    assert cluster.wait("curious")["code"] == 0 and cluster.output("curious.0") == ""


def test_a_command_that_is_not_there_is_said(cluster: LiveCluster) -> None:
    cluster.submit("absent", "nonesuch")
    found = cluster.wait("absent")
    assert found["state"] == "failed" and "command nonesuch: not found" in found["reason"]


@pytest.mark.parametrize("delay_s", [0.0, 0.1, 0.3])
def test_an_agent_killed_while_containers_start(cluster: LiveCluster, delay_s: float) -> None:
    """Every task starts once and ends once."""
    name = f"job-{int(delay_s * 1000)}"
    cluster.submit(name, "sh", "-c", "echo start; sleep 0.5; echo end", count=4)
    time.sleep(delay_s)
    before = cluster.kill("n1")
    assert cluster.wait(name)["code"] == 0
    cluster.reborn("n1", before)
    outputs = [
        (run / "stdout").read_text()
        for run in runs(cluster.folder)
        if run.name.startswith(f"{name}.")
    ]
    assert [text for text in outputs if text] == ["start\nend\n"] * 4


def test_a_container_outlives_its_agent(cluster: LiveCluster) -> None:
    cluster.submit("steady", "sleep", "300", kind="service")
    (row,) = cluster.running("steady", 1)
    cluster.reborn(row["node"], cluster.kill(row["node"]))
    (again,) = until(lambda: cluster.running("steady", 1))
    assert (again["run"], again["node"]) == (row["run"], row["node"])
    cluster.client.delete("jobs", "steady")
    assert cluster.wait("steady")["state"] == "killed"
    until(lambda: not groups(cluster.folder))


def test_a_container_reaches_neither_the_api_nor_the_door_for_frames(cluster: LiveCluster) -> None:
    leader = FolderDirectory(cluster.folder).leader()
    ask = (
        "import socket, sys\n"
        "for port in sys.argv[1:]:\n"
        "    try: socket.create_connection(('127.0.0.1', int(port)), 60); print('reached')\n"
        "    except ConnectionRefusedError: print('refused')\n"
    )
    doors = [str(leader.api.port), str(leader.frames.port)]
    for name, network, answer in (("own", "own", "refused"), ("shared", "host", "reached")):
        cluster.submit(name, "python3", "-c", ask, *doors, network=network)
        assert cluster.wait(name)["code"] == 0
        assert cluster.output(f"{name}.0").split() == [answer] * 2


def test_the_port_of_a_container_is_its_nodes(cluster: LiveCluster) -> None:
    serve = (
        "import os, socket\n"
        "s = socket.create_server(('', int(os.environ['MURMUR_PORT'])))\n"
        "print(os.environ['MURMUR_PORT'], flush=True)\n"
        "while True: s.accept()[0].sendall(b'hello')\n"
    )
    cluster.submit("served", "python3", "-c", serve, kind="service", count=2, ports=[0])
    rows = cluster.running("served", 2)
    until(lambda: all(cluster.output(f"served.{k}") for k in range(2)))
    ports = {int(cluster.output(f"served.{k}")) for k in range(2)}
    assert len(ports) == 2
    for port in ports:
        with socket.create_connection(("127.0.0.1", port), 60) as connection:
            assert connection.recv(10) == b"hello"
    before = cluster.kill(rows[0]["node"])
    cluster.reborn(rows[0]["node"], before)
    cluster.client.delete("jobs", "served")
    assert cluster.wait("served")["state"] == "killed"
    until(lambda: not list_taken_ports())
