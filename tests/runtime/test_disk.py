"""What tasks may have on disk, and what works when one has taken it all."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.clusters import LiveCluster, live_cluster, until

from murmuration.base.errors import InputError
from murmuration.runtime.node.disk import find_over, measure
from murmuration.runtime.node.journal import Begun, Journal

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
