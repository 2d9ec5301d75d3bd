"""A house to start tasks in, for each isolation; at the end it checks that nothing of them is
left."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.runtime.networks import private_network

from murmuration.runtime.node.isolation import (
    Exit,
    Handle,
    Isolation,
    RunLimits,
    RunSpec,
    choose,
    container,
    network,
    processes,
)
from murmuration.runtime.node.isolation.interface import task_folder

#: How long a test waits for what must come before it fails; it passes as soon as it came.
LIMIT_S = 200.0
ROOMY = RunLimits(cpu=1.0, memory=256 * 2**20)


class House:
    """One isolation and the folders of its tasks."""

    def __init__(self, isolation: Isolation, base: Path) -> None:
        self.isolation, self.base = isolation, base
        self.handles: list[Handle] = []

    def spec(self, task: str, *command: str, limits: RunLimits = ROOMY, **env: str) -> RunSpec:
        folder = task_folder(self.base, task)
        folder.mkdir(exist_ok=True)
        return RunSpec(task, list(command), env, limits, folder)

    def start(self, task: str, *command: str, limits: RunLimits = ROOMY, **env: str) -> Handle:
        handle = self.isolation.start(self.spec(task, *command, limits=limits, **env))
        self.handles.append(handle)
        return handle

    def shell(self, task: str, script: str, limits: RunLimits = ROOMY, **env: str) -> Handle:
        return self.start(task, "sh", "-c", script, limits=limits, **env)

    def wait(self, handle: Handle, seconds: float = LIMIT_S) -> Exit:
        until(lambda: self.isolation.poll(handle) is not None, seconds)
        assert handle.ended is not None
        return handle.ended

    def run(
        self, task: str, script: str, limits: RunLimits = ROOMY, **env: str
    ) -> tuple[Exit, str]:
        handle = self.shell(task, script, limits, **env)
        return self.wait(handle), self.output(task)

    def output(self, task: str, name: str = "stdout") -> str:
        return (self.base / task / name).read_text()

    def close(self) -> None:
        for folder in self.base.iterdir():
            self.isolation.clean(folder)
        for handle in self.handles:
            handle.close()
        network.remove(self.base)


def until(holds: Callable[[], bool], seconds: float = LIMIT_S) -> None:
    """Wait for what must come; how long it takes proves nothing."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


def left_behind(base: Path) -> list[str]:
    """Processes, mounts, loop devices and control groups of the tasks in a folder."""
    marks = [(processes.mark(folder), container.group_name(folder)) for folder in base.iterdir()]
    pids = [
        pid
        for pid in processes.all_pids()
        if any(processes.carries(pid, mark) for mark, _ in marks)
    ]
    adopted = [pid for pid in processes.list_children(os.getpid()) if is_stranger(pid)]
    mounts = [
        line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(base) in line
    ]
    mounts += [name for name in list_loop_files() if name.startswith(str(base))]
    names = {name for _, name in marks}
    groups = [
        place for place, below, _ in os.walk("/sys/fs/cgroup") for name in below if name in names
    ]
    return [f"process {pid}" for pid in pids + adopted] + mounts + groups + networks(base)


def list_loop_files() -> list[str]:
    """Files behind the node's loop devices."""
    names = []
    for place in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            names.append(place.read_text().strip())
    return names


def networks(base: Path) -> list[str]:
    """Interfaces and tables of the tasks in a folder. The kernel removes an interface some moments
    after its container."""
    if network.missing():
        return []
    links = {network.link_name(folder) for folder in base.iterdir()}
    until(lambda: not any(link in show("ip", "link", "show") for link in links))
    tables = show("nft", "list", "tables").split() if os.geteuid() == 0 else []
    return [name for name in tables if name == network.table_name(base)]


def show(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def is_stranger(pid: int) -> bool:
    found = processes.stat(pid)
    return found is not None and found.session != os.getsid(0)


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    """Where tasks' folders are. Orphans are adopted no more afterwards: other tests have their own
    idea of children."""
    base = tmp_path / "tasks"
    base.mkdir()
    yield base
    ctypes.CDLL(None).prctl(processes.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def open_isolation(name: str) -> Isolation:
    if name == "runc" and (reason := container.missing()):
        pytest.skip(reason)
    return choose(name)


def house(name: str, base: Path) -> Iterator[House]:
    isolation = open_isolation(name)
    with private_network() if name == "runc" else contextlib.nullcontext():
        house = House(isolation, base)
        try:
            yield house
        finally:
            house.close()
        assert left_behind(base) == []


@pytest.fixture(params=["process", "runc"])
def home(request: pytest.FixtureRequest, base: Path) -> Iterator[House]:
    yield from house(request.param, base)


@pytest.fixture
def plain(base: Path) -> Iterator[House]:
    yield from house("process", base)


@pytest.fixture
def runc(base: Path) -> Iterator[House]:
    yield from house("runc", base)
