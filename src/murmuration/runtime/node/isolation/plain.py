"""Plain processes: what any user can have, anywhere, for a millisecond per start.

A task is a session of its own under a shell that notes how it ended. Memory and the number of
processes are watched once a second and the task ended when it is over; CPU is a weight (nice, and
the nice of the session's autogroup where the kernel has them), not a ceiling. What leaves its
session is found by the environment it inherited.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from murmuration.runtime.isolations import PROCESS
from murmuration.runtime.node.isolation import folder as files
from murmuration.runtime.node.isolation import processes, shim
from murmuration.runtime.node.isolation.ending import Ending, has_ended
from murmuration.runtime.node.isolation.interface import (
    OUT_OF_MEMORY,
    TERMINAL_KIND,
    TOO_MANY_PROCESSES,
    Exit,
    Handle,
    Inside,
    RunSpec,
    StartFailed,
    TerminalSize,
)
from murmuration.runtime.node.isolation.spawn import DEFAULT_PATH, spawn

WATCH_S = 1.0
#: What was seen so recently is not looked at again.
FRESH_S = 0.2
#: What a burst between two looks may take beyond the limit; one process that asks for more data is
#: refused it.
HEADROOM = 2**30
SHELL = "/bin/sh"
STARTING_S = 10.0
#: A step of nice is worth a quarter more or less of a CPU's time.
NICE_STEP = math.log(1.25)
NICE_MAX = 19


class PlainProcess(Ending):
    """Tasks as sessions of the agent's own user."""

    name = PROCESS
    is_slow = False
    has_networks = False

    def __init__(self) -> None:
        processes.become_parent()
        self._running: dict[Path, Handle] = {}
        self._reaped_s = 0.0
        #: Folders whose processes, these, were all killed in one pass: nobody need look for them
        #: again, which takes a look at every process of the host.
        self._killed: dict[Path, set[int]] = {}
        #: Tasks of an agent before this one that still run.
        self._recovered: set[Path] = set()
        #: Commands that run beside a task and that somebody else waits for.
        self._kept: set[int] = set()
        #: Whether every child of this process in another session comes from a task. Only who starts
        #: nothing else may say so.
        self.owns_orphans = False

    def start(self, spec: RunSpec) -> Handle:
        files.check(spec)
        self._killed.pop(spec.folder, None)
        environment = {
            "PATH": DEFAULT_PATH,
            "MURMUR_TASK": spec.task,
            **spec.env,
            "MURMUR_FOLDER": str(spec.folder),
        }
        with files.open_folder(spec, files.Record(self.name, spec.task, spec.limits)) as opened:
            find_program(spec, environment["PATH"])
            data_kb = (spec.limits.memory + HEADROOM) // 1024 if spec.limits.memory else None
            words = shim.arguments(spec.task, str(spec.folder / files.WORK), data_kb, spec.command)
            pid = spawn(SHELL, words, environment, opened, setsid=True)
        handle = Handle(spec.task, spec.folder, pid, spec.limits, watched=time.monotonic())
        self._running[spec.folder] = handle
        weigh(pid, spec.limits.cpu)
        return handle

    def recover(self, folder: Path) -> Handle | None:
        record = files.record(folder, self.name)
        if record is None:
            return None
        order = files.order(folder)
        pid = files.await_state(folder, STARTING_S).pid
        if pid is not None and files.is_locked(folder):
            handle = Handle(record.task, folder, pid, record.limits, child=False, order=order)
            with contextlib.suppress(ProcessLookupError):
                handle.fileno()
                if files.is_locked(
                    folder
                ):  # so the descriptor is of the shim, not of a later process of its number
                    self._recovered.add(folder)
                    return handle
            handle.close()
        self._end_strays(folder)
        ended = files.exit_of(folder, order)
        return None if ended.lost else Handle(record.task, folder, 0, record.limits, ended=ended)

    def poll(self, handle: Handle) -> Exit | None:
        if handle.ended:
            return handle.ended
        if has_ended(handle):
            handle.ended = self._finish(handle)
            return handle.ended
        self._carry_on(handle)
        if time.monotonic() >= handle.watched + WATCH_S:
            self._watch(handle)
        return None

    def kill_all(self, folders: Sequence[Path]) -> None:
        killed = processes.kill_marked({processes.mark(folder) for folder in folders})
        if killed is not None:
            self._killed.update({folder: killed[processes.mark(folder)] for folder in folders})

    def usage(self, handle: Handle) -> tuple[float, int]:
        if not handle.ended and time.monotonic() >= handle.watched + FRESH_S:
            self._watch(handle)
        return handle.used

    def enter(
        self, handle: Handle, command: Sequence[str], size: TerminalSize | None = None
    ) -> Inside:
        """With the environment the shim was started with, which marks it as the task's."""
        marks = (mark.decode(errors="surrogateescape") for mark in processes.marks_of(handle.pid))
        environment = dict(mark.split("=", 1) for mark in marks if "=" in mark)
        folder = handle.folder / files.WORK
        if "MURMUR_FOLDER" not in environment or not folder.is_dir():
            raise StartFailed(f"task {handle.task} does not run any more")
        if size is not None:
            environment = {"TERM": TERMINAL_KIND, **environment}
        return Inside(shim.enter(command, (SHELL,)), environment, folder)

    def keep_child(self, pid: int, is_kept: bool) -> None:
        (self._kept.add if is_kept else self._kept.discard)(pid)

    def clean(self, folder: Path) -> None:
        handle = self._running.pop(folder, None)
        if handle and not handle.ended:
            self._end(handle)
            self._finish(handle)
        self._end_strays(folder, adopted_only=handle is not None and handle.child)
        self._killed.pop(folder, None)
        self._recovered.discard(folder)
        if self.owns_orphans and not self._running and not self._recovered:
            processes.end_all(find_unclaimed)
        self._reap()

    def _others(self, handle: Handle) -> set[int]:
        return self._members(handle) - {handle.pid}

    def _members(self, handle: Handle) -> set[int]:
        """The shim and all below it, and what has left it."""
        return processes.trees([handle.pid, *self._strays(handle.folder, handle.child)])

    def _find_members(self, handle: Handle) -> set[int]:
        """The members that can be found every second: the strays of a task found again are
        anywhere."""
        return self._members(handle) if handle.child else processes.trees([handle.pid])

    def _strays(self, folder: Path, adopted_only: bool) -> list[int]:
        """Processes of the task that no longer descend from the shim. Those of tasks started by
        this process have become its children."""
        shims = {handle.pid for handle in list(self._running.values())}
        pids = processes.list_children(os.getpid()) if adopted_only else processes.all_pids()
        mark = processes.mark(folder)
        return [
            pid
            for pid in pids
            if pid not in shims and pid != os.getpid() and processes.carries(pid, mark)
        ]

    def _end(self, handle: Handle) -> None:
        processes.end_all(lambda: self._members(handle))

    def _end_strays(self, folder: Path, adopted_only: bool = False) -> None:
        if folder in self._killed and processes.await_ends(self._killed[folder]):
            return
        processes.end_all(lambda: processes.trees(self._strays(folder, adopted_only)))

    def _finish(self, handle: Handle) -> Exit:
        """The shim has ended, and so has the task: what it left running ends too."""
        if handle.child:
            # Before the shim is waited for, the number of its group cannot be another's.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(handle.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                rusage = os.wait4(handle.pid, 0)[2]
                handle.used = (rusage.ru_utime + rusage.ru_stime, 0)
        else:
            self._end_strays(handle.folder)
        return files.exit_of(handle.folder, handle.order)

    def _watch(self, handle: Handle) -> None:
        handle.watched = time.monotonic()
        members = self._find_members(handle)
        handle.used = measure(members)
        limits, memory = handle.limits, handle.used[1]
        # Summing up is exact but slow, so only what looks too much is summed up.
        if (
            limits.memory
            and memory > limits.memory
            and sum(map(processes.measure_shared, members)) > limits.memory
        ):
            self.kill(handle, 0.0, OUT_OF_MEMORY)
        elif limits.pids and len(members) - 1 > limits.pids:
            self.kill(handle, 0.0, TOO_MANY_PROCESSES)
        if handle.watched >= self._reaped_s + WATCH_S:
            self._reap()

    def _reap(self) -> None:
        """Wait for orphans of tasks that this process adopted and that have ended."""
        self._reaped_s = time.monotonic()
        shims = [handle.pid for handle in list(self._running.values())]
        processes.reap_orphans([*shims, *self._kept])


def find_program(spec: RunSpec, path: str) -> None:
    """Refuse at once what the shim would refuse: a command that is no program."""
    program = spec.command[0]
    place = str(spec.folder / files.WORK / program) if os.sep in program else program
    if shutil.which(place, path=path) is None:
        raise StartFailed(f"command {program}: not found, or not a program")


def weigh(pid: int, cpu: float) -> None:
    """Less than one CPU asked for is less weight: for the processes, and for the session as a
    whole."""
    nice = min(NICE_MAX, round(-math.log(cpu) / NICE_STEP)) if 0.0 < cpu < 1.0 else 0
    if nice:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PGRP, pid, nice)
        with contextlib.suppress(OSError), open(f"/proc/{pid}/autogroup", "w") as file:
            file.write(str(nice))


def measure(pids: set[int]) -> tuple[float, int]:
    """CPU seconds and resident bytes of processes together."""
    stats = [stat for pid in pids if (stat := processes.stat(pid))]
    return sum(stat.cpu_s for stat in stats), sum(stat.memory for stat in stats)


def find_unclaimed() -> set[int]:
    """What this process has adopted, while no task runs: the rest of tasks that left their session
    and parent and emptied their environment, so that nobody could tell whose they were. The
    watchdog, a copy of this process, is none of them."""
    here, own = os.getsid(0), processes.command_line(os.getpid())
    adopted = [
        pid
        for pid in processes.list_children(os.getpid())
        if (known := processes.stat(pid)) and known.session != here
        if processes.command_line(pid) not in (own, b"")
    ]
    return processes.trees(adopted)
