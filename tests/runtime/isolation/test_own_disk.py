"""The disk of a container's own: what a task writes is bounded by the kernel."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.runtime.isolation.conftest import House, list_loop_files

from murmuration.runtime.node.disks import own_disk
from murmuration.runtime.node.isolation import RunLimits
from murmuration.runtime.node.isolation.interface import Exit

MB = 2**20
pytestmark = pytest.mark.skipif(bool(own_disk.missing()), reason=own_disk.missing())


@pytest.mark.parametrize("place", [".", "/tmp", "/var/lib", "/etc", "/"])
def test_a_task_that_writes_without_end_is_told_that_no_space_is_left(
    runc: House, place: str
) -> None:
    """Wherever it writes; and another task beside it goes on as if nothing were."""
    neighbour = runc.shell("neighbour", "sleep 300")
    before = os.statvfs(runc.base).f_bavail * os.statvfs(runc.base).f_frsize
    script = f"cd {place}; cat /dev/zero > flood; wc -c < flood; exit 3"
    ended, _ = runc.run("a", script, limits=RunLimits(disk=24 * MB))
    assert ended == Exit(3, None, own_disk.DISK_FULL)
    assert "No space left on device" in runc.output("a", "stderr")
    written = int(runc.output("a"))
    assert 24 * MB <= written <= 26 * MB
    taken = before - os.statvfs(runc.base).f_bavail * os.statvfs(runc.base).f_frsize
    assert taken < 512 * MB  # others write to this disk too
    assert runc.isolation.poll(neighbour) is None


def test_what_is_deleted_and_held_open_counts(runc: House) -> None:
    script = "exec 5>f; rm f; cat /dev/zero >&5; head -c 500000 /dev/zero > g || exit 4"
    assert runc.run("a", script, limits=RunLimits(disk=8 * MB))[0].code == 4


def test_many_small_files_are_bounded_too(runc: House) -> None:
    script = "i=0; while (: > f$i); do i=$((i+1)); done; echo $i"
    _, output = runc.run("a", script, limits=RunLimits(disk=2 * MB))
    assert 0 < int(output) < 2 * MB // 4096


def test_room_that_is_freed_is_free_again_and_given_back(runc: House) -> None:
    write = "head -c 15000000 /dev/urandom > f && rm f && sync"
    script = f"{write} && {write} && {write} && echo well"
    ended, output = runc.run("a", script, limits=RunLimits(disk=16 * MB))
    assert (ended, output) == (Exit(0, None), "well\n")
    assert (runc.base / "a/disk").stat().st_blocks * 512 < 8 * MB


def test_a_task_that_ends_well_with_a_full_disk_has_ended_well(runc: House) -> None:
    script = "cat /dev/zero > flood; exit 0"
    assert runc.run("a", script, limits=RunLimits(disk=4 * MB))[0] == Exit(0, None)


def test_nothing_but_the_file_is_left(runc: House, tmp_path: Path) -> None:
    """No loop device, no mount; and what it left can be looked at."""
    ended, _ = runc.run("a", "echo kept > file; ln -s /etc/shadow link", limits=RunLimits(disk=MB))
    assert ended == Exit(0, None)
    runc.isolation.clean(runc.base / "a")
    assert not any(name.startswith(str(runc.base)) for name in list_loop_files())
    assert str(runc.base) not in Path("/proc/self/mountinfo").read_text()
    look = f"mount -o ro,loop {runc.base / 'a/disk'} {tmp_path} && cat {tmp_path}/work/file"
    shown = subprocess.run(
        ["unshare", "--mount", "sh", "-c", look], capture_output=True, text=True, check=True
    )
    assert shown.stdout == "kept\n"


def test_sizes(tmp_path: Path) -> None:
    for limit in (1, MB, 100 * MB, 2**30):
        size = own_disk.find_size(limit, tmp_path)
        assert size % 4096 == 0 and limit < size < 1.05 * limit + 2.1 * MB


def test_what_is_no_disk_is_not_full(tmp_path: Path) -> None:
    assert not own_disk.is_full(tmp_path)
    (tmp_path / "disk").write_bytes(b"\0" * 3000)
    assert not own_disk.is_full(tmp_path) and own_disk.has_own(tmp_path)


def test_no_disk_is_larger_than_the_node_s(runc: House) -> None:
    """Whatever a job wishes for: its tables alone would fill the node."""
    whole = os.statvfs(runc.base)
    script = "df -P . | tail -n 1"
    ended, output = runc.run("a", script, limits=RunLimits(disk=2**53))
    assert ended == Exit(0, None)
    assert int(output.split()[1]) * 1024 <= 1.05 * whole.f_blocks * whole.f_frsize
    assert (runc.base / "a/disk").stat().st_blocks * 512 < 64 * MB


def test_a_task_does_not_see_whose_disks_there_are(runc: House) -> None:
    other = runc.shell("secret-name", "sleep 300", limits=RunLimits(disk=MB))
    script = "cat /sys/block/*/loop/backing_file /sys/class/block/*/loop/backing_file; mount"
    _, output = runc.run("a", script, limits=RunLimits(disk=MB))
    assert "secret-name" not in output and str(runc.base) not in output
    assert runc.isolation.poll(other) is None
