"""What tasks may have on disk, and what works when one has taken it all."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.clusters import LiveCluster, live_cluster, until
from tests.runtime.networks import private_network

from murmuration.base.errors import InputError
from murmuration.runtime.node.disks import own_disk
from murmuration.runtime.node.disks.kept import KeptRuns
from murmuration.runtime.node.disks.watch import find_over, measure
from murmuration.runtime.node.executor import DiskBounds
from murmuration.runtime.node.isolation import container
from murmuration.runtime.node.journal import Begun, Journal
from murmuration.schedulers.central.messages import JOBS, Launch, Order
from murmuration.workload.job_spec import job_from_tables

MB = 2**20
FLOOD = "while :; do cat /dev/zero >> flood 2>/dev/null; done"


def test_a_folder_is_measured_as_du_does(tmp_path: Path) -> None:
    deep = tmp_path / "a/b"
    deep.mkdir(parents=True)
    (deep / "file").write_bytes(os.urandom(100_000))
    os.link(deep / "file", tmp_path / "again")
    (tmp_path / "link").symlink_to("/usr")
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(2**30)
    os.mkfifo(tmp_path / "pipe")
    shown = subprocess.run(
        ["du", "-sx", "-B1", str(tmp_path)], capture_output=True, text=True, check=True
    )
    own = tmp_path.stat().st_blocks * 512
    assert measure(tmp_path) + own == int(shown.stdout.split()[0])
    assert find_over({"a": (tmp_path, 90_000), "b": (tmp_path, 10**6)}) == ["a"]


def test_what_is_too_deep_to_be_measured_is_too_much(tmp_path: Path) -> None:
    script = "i=0; while [ $i -lt 60 ]; do mkdir $1 && cd -P $1; i=$((i+1)); done"
    subprocess.run(["sh", "-c", script, "sh", "d" * 200], cwd=tmp_path, check=True)
    try:
        assert measure(tmp_path) == math.inf
    finally:
        subprocess.run(["rm", "-rf", *map(str, tmp_path.iterdir())], check=True)


def test_a_task_over_its_bound_is_ended(tmp_path: Path) -> None:
    with live_cluster(tmp_path / "c", 1) as cluster:
        cluster.submit("greedy", "sh", "-c", "head -c 3000000 /dev/zero > f; sleep 600", disk="1Mi")
        cluster.submit("modest", "sh", "-c", "head -c 3000 /dev/zero > f", disk="1Mi")
        ended = cluster.wait("greedy")
        assert (ended["state"], ended["reason"]) == ("failed", "greedy.0: too much disk")
        assert cluster.wait("modest")["code"] == 0
        with pytest.raises(InputError, match="disk: "):
            cluster.submit("odd", "true", disk="many")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own for a cluster."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=96m,mode=700", "small", str(place)]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_task_that_has_filled_the_disk_is_killed(small_disk: Path) -> None:
    with live_cluster(small_disk / "c", 2) as cluster:
        cluster.submit("flood", "sh", "-c", FLOOD, kind="service", disk=0)
        until(lambda: os.statvfs(small_disk).f_bavail == 0)
        with pytest.raises(InputError, match="disk is full; the job was not taken"):
            cluster.submit("late", "true")
        cluster.client.delete("jobs", "flood")
        assert cluster.wait("flood")["state"] == "killed"
        assert_room_again(cluster)


def assert_room_again(cluster: LiveCluster) -> None:
    """When the operator has made room, all goes on."""
    for flood in cluster.folder.rglob("flood"):
        flood.unlink()

    def is_taken() -> bool:
        try:
            return bool(cluster.submit("after", "true"))
        except InputError:
            return False

    until(is_taken)
    assert cluster.wait("after")["code"] == 0


def test_a_full_disk_does_not_keep_a_journal_from_being_read(small_disk: Path) -> None:
    journal = Journal(small_disk / "journal")
    journal.write(Begun("jobs", "a.0.1", (1, 2), None))
    with pytest.raises(OSError, match="No space"), open(small_disk / "flood", "wb", 0) as file:
        while True:
            file.write(b"x" * 2**16)
    again = Journal(small_disk / "journal")
    assert list(again.begun) == ["a.0.1"] and not (small_disk / "journal.new").exists()


# Containers have disks of their own.


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[LiveCluster]:
    if reason := container.missing() or own_disk.missing():
        pytest.skip(reason)
    agent = {"disk_bytes_max": 64 * MB, "kept_bytes_max": 40 * MB}
    with (
        private_network(),
        live_cluster(
            tmp_path / "c", 1, isolation="runc", agent=agent, disk="16Mi", disk_max="64Mi"
        ) as made,
    ):
        yield made


def test_a_task_cannot_write_more_than_its_disk(containers: LiveCluster) -> None:
    """It is told that no space is left, and fails by itself with a reason that says so; the
    operator's word counts where the job has none, and nobody can ask for more than allowed."""
    containers.submit("said", "sh", "-c", "cat /dev/zero > flood", disk="8Mi")
    containers.submit("unsaid", "sh", "-c", "cat /dev/zero > flood || wc -c < flood")
    ended = containers.wait("said")
    assert (ended["state"], ended["reason"]) == ("failed", "said.0: its disk was full")
    errors = containers.client.get("tasks", "said.0", "output", stream="stderr")["text"]
    assert "No space left on device" in errors
    containers.wait("unsaid")
    assert 16 * MB <= int(containers.output("unsaid.0")) < 18 * MB
    for disk in (0, "65Mi"):
        with pytest.raises(InputError, match="disk: expected a bound of at most 64Mi"):
            containers.submit("greedy", "true", disk=disk)


def test_outputs_are_bounded_too(containers: LiveCluster) -> None:
    containers.submit("loud", "cat", "/dev/zero", disk="2Mi")
    ended = containers.wait("loud")
    assert (ended["state"], ended["reason"]) == ("failed", "loud.0: too much output")


def test_a_disk_outlives_an_agent_that_is_killed(containers: LiveCluster) -> None:
    """The task goes on writing to it, and is still bounded by it."""
    script = "echo first > f; while [ ! -e go ]; do sleep 0.1; done; cat f; cat /dev/zero > flood"
    containers.submit("long", "sh", "-c", script, disk="8Mi")
    containers.running("long", 1)
    containers.reborn("n1", containers.kill("n1"))
    began = containers.client.post("tasks", "long.0", "exec", body={"command": ["touch", "go"]})
    assert began["session"]
    ended = containers.wait("long")
    assert ended["reason"] == "long.0: its disk was full"
    assert containers.output("long.0") == "first\n"


def test_what_ended_tasks_left_is_bounded(containers: LiveCluster) -> None:
    """The newest is kept, and the oldest makes room."""
    for k in range(5):
        containers.submit(f"j{k}", "sh", "-c", "echo out; head -c 12000000 /dev/urandom > f")
        assert containers.wait(f"j{k}")["code"] == 0
    tasks = containers.folder / "nodes/n1/tasks"
    until(lambda: measure(tasks) < 50 * MB and not list(tasks.glob("j0.0*")))
    assert containers.output("j4.0") == "out\n"


def test_the_folders_of_ended_runs(tmp_path: Path) -> None:
    kept = KeptRuns(250_000)
    for k in range(5):
        (tmp_path / str(k)).mkdir()
        (tmp_path / str(k) / "out").write_bytes(bytes(100_000))
        kept.add(tmp_path / str(k))
    kept.make_room()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "4"]
    (tmp_path / "large").mkdir()
    (tmp_path / "large/out").write_bytes(bytes(300_000))
    kept.add(tmp_path / "large")
    kept.make_room()
    assert [path.name for path in tmp_path.iterdir()] == ["large"]


def test_what_a_run_of_another_scheduler_may_have() -> None:
    def launch(framework: str, disk: int) -> Launch:
        return Launch(1, framework, "r", (1, 1), Order(("true",), disk=disk))

    assert DiskBounds().bound(launch(JOBS, 0)) == 0
    assert DiskBounds().bound(launch("mine", 0)) == 10 * 2**30
    assert DiskBounds(5).bound(launch("mine", 7)) == DiskBounds(5).bound(launch(JOBS, 0)) == 5
    assert DiskBounds(5).bound(launch(JOBS, 3)) == 3


def test_sizes_that_cannot_be() -> None:
    for disk in ("-1", "1e300", "10X", 2.0**60):
        with pytest.raises(InputError, match="disk: "):
            job_from_tables({"name": "j", "command": ["x"], "disk": disk})
