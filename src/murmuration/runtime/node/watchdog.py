"""The watchdog of a node: a small process beside its agent that fences the node. When the lease is
over and the agent has not ended its tasks, the watchdog does.

A node agent that hangs or was killed cannot end its tasks, and after a while the master starts them
elsewhere; without a watchdog they would then run twice. The lease is a time in a file, by the clock
that all processes of a host share. The agent writes it, the watchdog reads it once a second.

The watchdog writes down which runs it ends before it ends them: such an end is no failure of the
task. It kills all of them in one pass, and clears up after that, because the master's margin covers
the killing only.

It is a fork and not a program of its own: it shares the agent's memory until one of them writes,
and it needs nothing from a disk that may be full by the time it has to act. Which watchdog is in
charge is decided by a lock, which the kernel releases however the process ends; so is whether there
is an agent. The lease is a time by the monotonic clock, which no administrator can set back.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from murmuration.runtime.locks import hold, holder
from murmuration.runtime.node.isolation import Isolation
from murmuration.runtime.node.isolation.folder import is_locked

#: The lock keeps its old name: an agent must find the watchdog of one of an earlier version.
AGENT_LOCK, WATCHDOG_LOCK, LEASE = "agent.lock", "warden.lock", "lease"
FENCED = "fenced"
#: The agent is given this long after the end of the lease to do it itself.
LATE_S = 0.5
LOOK_S = 1.0
_TIME = struct.Struct("d")


class Lease:
    """The file with the end of the lease, and when the agent's loop last went round."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / LEASE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, until_s: float) -> None:
        os.pwrite(self._file, _TIME.pack(until_s), 0)

    def read(self) -> float:
        data = os.pread(self._file, _TIME.size, 0)
        return float(_TIME.unpack(data)[0]) if len(data) == _TIME.size else float("inf")

    def beat(self, now_s: float) -> None:
        """The agent is alive: its loop goes round."""
        os.pwrite(self._file, _TIME.pack(now_s), _TIME.size)

    def close(self) -> None:
        os.close(self._file)


class FencedRuns:
    """The file with the names of the folders whose runs a watchdog has ended. Names, not times: a
    clock that counts from the host's start begins again with it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FENCED

    def add(self, names: Iterable[str]) -> None:
        """A full disk must not keep a watchdog from its work."""
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.writelines(f"{name}\n" for name in names)

    def read(self) -> set[str]:
        try:
            return set(self._path.read_text(errors="replace").splitlines())
        except OSError:
            return set()

    def keep(self, names: Collection[str]) -> None:
        """Forget all but these. Only while no watchdog runs."""
        kept = self.read().intersection(names)
        with contextlib.suppress(OSError):
            self._path.unlink()
        if kept:
            self.add(kept)


def start_watchdog(folder: Path, tasks: Path, isolation: Isolation) -> int:
    """Fork a watchdog; it replaces the one that an earlier agent may have left."""
    end_watchdog(folder)
    pid = os.fork()
    if pid == 0:
        try:
            _watch(folder, tasks, isolation)
        finally:
            os._exit(0)
    return pid


def has_ended(watchdog: int) -> bool:
    try:
        return os.waitpid(watchdog, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def end_watchdog(folder: Path) -> None:
    """End the watchdog of a node, if there is one."""
    pid = holder(folder / WATCHDOG_LOCK)
    if pid is None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    for _ in range(200):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        if holder(folder / WATCHDOG_LOCK) is None:
            return
        time.sleep(0.01)


def _watch(folder: Path, tasks: Path, isolation: Isolation) -> None:
    # A session of its own: a signal to the agent's group, from a terminal say, is not for it. Only
    # SIGKILL ends it, or having nothing left to watch.
    os.setsid()
    # Close what the agent has open, above all its lock.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    hold(folder / WATCHDOG_LOCK, "a watchdog")
    watchdog = Watchdog(folder, tasks, isolation)
    while watchdog.is_needed:
        time.sleep(LOOK_S)
        watchdog.look()


class Watchdog:
    """What a watchdog does between two sleeps."""

    def __init__(
        self,
        folder: Path,
        tasks: Path,
        isolation: Isolation,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._tasks, self._isolation = folder, tasks, isolation
        self._clock, self._lease = clock, Lease(folder)
        self.is_needed = True

    def look(self) -> None:
        """End what runs without a lease. Without an agent, and with nothing that runs or may run,
        there is nothing to watch."""
        # Every second again while the lease is over, not once: a run whose start was under way at
        # the first look has its lock by the second.
        if self._is_over():
            fence(_open_runs(self._tasks), self._isolation, FencedRuns(self._folder))
        is_alone = holder(self._folder / AGENT_LOCK) is None
        self.is_needed = not (is_alone and (self._is_over() or not _open_runs(self._tasks)))

    def _is_over(self) -> bool:
        return self._clock() > self._lease.read() + LATE_S

    def close(self) -> None:
        self._lease.close()


def fence(runs: list[Path], isolation: Isolation, fenced: FencedRuns) -> None:
    """End these runs: write it down, kill all, and only then clear up, one after the other."""
    if not runs:
        return
    fenced.add(run.name for run in runs)
    isolation.kill_all(runs)
    for run in runs:
        isolation.clean(run)


def _open_runs(tasks: Path) -> list[Path]:
    """The folders of runs that still run."""
    try:
        return [path for path in tasks.iterdir() if is_locked(path)]
    except OSError:
        return []
