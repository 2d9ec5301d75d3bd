"""What a container adds: files and processes of the node out of reach, a root of one's own, no
mount to be seen."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.isolation.conftest import House, left_behind, until
from tests.runtime.networks import private_network

from murmuration.base.errors import InputError
from murmuration.runtime.node.isolation import Exit, RunLimits, StartFailed, choose, container


@pytest.fixture(autouse=True)
def own_network() -> Iterator[None]:
    """What these tests start changes nothing in the network of this host."""
    with contextlib.nullcontext() if container.missing() else private_network():
        yield


def test_what_a_task_writes_stays_in_its_folder(runc: House) -> None:
    ended, _ = runc.run(
        "a",
        "for d in /etc /tmp; do echo x > $d/murmur-was-here; done; rm /etc/hostname; "
        "echo kept > file",
    )
    assert ended == Exit(0, None)
    assert not Path("/etc/murmur-was-here").exists() and Path("/etc/hostname").exists()
    assert not Path("/tmp/murmur-was-here").exists()
    runc.isolation.clean(runc.base / "a")
    assert {path.name for path in (runc.base / "a").iterdir()} == {
        "stdout",
        "stderr",
        "state",
        "record",
        "work",
    }
    assert (runc.base / "a/work/file").read_text() == "kept\n"


def test_a_task_sees_only_itself(runc: House) -> None:
    _, out = runc.run(
        "a", "ls /proc | grep -c '^[0-9]'; ls -A /tmp; ls /sys/fs/cgroup | head -1 | wc -l"
    )
    count, groups = out.split()
    assert int(count) <= 5 and groups == "1"


@pytest.mark.parametrize(
    "script",
    [
        "mount -t tmpfs none /mnt",
        "mknod /tmp/disk b 8 0",
        "echo 1 > /proc/sys/vm/drop_caches",
        "unshare -m true",
        "cd /sys/fs/cgroup; for d in memory .; do [ -e $d/tasks ] && echo 1 > $d/cgroup.procs && "
        "exit; done; exit 1",
        "date -s 2001-01-01",
    ],
)
def test_a_task_has_few_of_roots_powers(runc: House, script: str) -> None:
    ended, _ = runc.run("a", script)
    assert ended.code not in (0, None), runc.output("a")


@pytest.mark.usefixtures("base")
def test_hidden_folders_look_empty() -> None:
    """As in a cluster: the tasks' folders lie in the hidden one. Not in /tmp, of which a task has
    its own anyway."""
    if reason := container.missing():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        cluster = Path(folder)
        (cluster / "token").write_text("se" + "cret")
        (cluster / "tasks").mkdir()
        house = House(choose("runc", hidden=[cluster]), cluster / "tasks")
        try:
            _, out = house.run(
                "a", f"ls -A {cluster}; cat {cluster}/token; ls -d /var/tmp; echo kept > file"
            )
            assert out == "/var/tmp\n" and (cluster / "tasks/a/work/file").read_text() == "kept\n"
        finally:
            house.close()
        assert left_behind(cluster / "tasks") == []


@pytest.fixture
def small_root(tmp_path: Path) -> Path:
    """A root with a shell, the libraries it needs, and nothing else."""
    root = tmp_path / "root"
    for program in ("/bin/sh", "/bin/cat"):
        for path in [program, *libraries(program)]:
            place = root / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.realpath(path), place)
    return root


def libraries(program: str) -> Iterator[str]:
    shown = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    yield from (word for word in shown.split() if word.startswith("/"))


def test_a_given_root_is_used_and_not_changed(base: Path, small_root: Path) -> None:
    if reason := container.missing(small_root):
        pytest.skip(reason)
    house = House(choose("runc", root=small_root), base)
    try:
        ended, out = house.run("a", "echo from inside > /new; cat /new; echo /*")
        with pytest.raises(StartFailed, match="command ls"):
            house.start("b", "ls")
    finally:
        house.close()
    assert ended == Exit(0, None) and out.startswith("from inside\n") and "/home" not in out
    assert not (small_root / "new").exists()
    assert left_behind(base) == []


def test_a_root_without_a_shell_is_said(tmp_path: Path) -> None:
    if os.geteuid() != 0 or container.missing():
        pytest.skip(container.missing() or "containers need root")
    with pytest.raises(
        InputError,
        match=r"isolation 'runc': the root folder .* has no /bin/sh; 'process' runs anywhere",
    ):
        choose("runc", root=tmp_path)


@pytest.mark.usefixtures("base")
def test_isolation_is_chosen_by_name() -> None:
    with pytest.raises(InputError, match="did you mean 'runc'"):
        choose("run")
    assert choose("process").name == "process"
    assert choose().name == ("process" if container.missing() else "runc")


def test_one_container_is_tried_before_all_are_trusted(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert choose(trial=base).name == ("process" if container.missing() else "runc")
    monkeypatch.setattr(container, "LAUNCH", "exit 1")
    assert choose(trial=base).name == "process"
    assert list(base.iterdir()) == []


def test_the_node_sees_no_mount_while_a_container_runs(runc: House) -> None:
    handle = runc.shell("a", "echo up; sleep 300")
    until(lambda: "up" in runc.output("a"))
    assert str(handle.folder) not in Path("/proc/self/mountinfo").read_text()


def test_a_folder_that_cannot_be_used_is_told(runc: House) -> None:
    spec = runc.spec("a", "true")
    (spec.folder / "state").mkdir()
    with pytest.raises(StartFailed, match="state: Is a directory"):
        runc.isolation.start(spec)


def test_a_limit_too_small_to_start_in_is_told(runc: House) -> None:
    with pytest.raises(StartFailed, match=r"container: .*memory"):
        runc.shell("a", "sleep 300", limits=RunLimits(memory=4096))


def test_a_launch_cut_off_before_its_last_step_is_noticed(
    runc: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`create` leaves what a runc leaves that is killed at the wrong moment: a container nobody
    will ever begin."""
    monkeypatch.setattr(container, "LAUNCH", container.LAUNCH.replace("run --detach", "create"))
    monkeypatch.setattr(container, "REPORT_S", 0.3)
    with pytest.raises(StartFailed, match="container"):
        runc.shell("a", "echo ran")
    spec = runc.spec("b", "echo", "ran")
    monkeypatch.setattr(runc.isolation, "clean", lambda folder: None)
    with pytest.raises(StartFailed, match="container"):
        runc.isolation.start(spec)
    monkeypatch.undo()
    monkeypatch.setattr(container, "REPORT_S", 0.3)
    assert runc.isolation.recover(spec.folder) is None
    assert runc.output("b") == ""
