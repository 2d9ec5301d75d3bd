"""What a node agent asks of an isolation: start a task, find it again, look at it, end it, leave
nothing behind.

Everything an isolation knows of a task lies in the task's folder, so an agent that was killed in
the middle of anything can be replaced by one that knows nothing. No method waits for a task.
`start`, `recover` and `clean` take time (some milliseconds for a process, up to a tenth of a second
for a container, see `is_slow`) and may be called from any thread.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from murmuration.base.errors import InputError

KILLED = "killed"
OUT_OF_MEMORY = "out of memory"
TOO_MANY_PROCESSES = "too many processes"
LOST = "ended without a trace"
#: Rows and columns.
TerminalSize = tuple[int, int]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")


class StartFailed(Exception):  # noqa: N818 - it is an answer, not a fault
    """The task does not run, and nothing of it is left; the sentence says why."""


class RunLimits(msgspec.Struct, frozen=True):
    """What a task may use; zero is no limit."""

    cpu: float = 0.0
    memory: int = 0
    pids: int = 0
    #: Bytes of its folder, which holds all that it writes; the executor looks after it.
    disk: int = 0


class RootImage(msgspec.Struct, frozen=True):
    """The root that a container has instead of the node's: an image that was unpacked."""

    key: str
    root: Path
    #: A layer above it with a shell, and how that is called: an image need not have one.
    shell_layer: Path
    shell: tuple[str, ...]
    #: Where the command begins; empty: in the task's folder of work.
    folder: str = ""


class RunVolume(msgspec.Struct, frozen=True):
    """A folder of the node, where the task finds it, and whether it may only read."""

    path: Path
    at: str
    is_read_only: bool = False
    #: The user and group of the node that the task's are in there; None: nobody.
    account: tuple[int, int] | None = None


class RunUser(msgspec.Struct, frozen=True):
    """A user of a container, by the numbers inside it."""

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()


class RunSpec(msgspec.Struct, frozen=True):
    """One task to start. The folder exists, belongs to this task alone and takes its output, state
    and work."""

    task: str
    command: list[str]
    env: dict[str, str]
    limits: RunLimits
    folder: Path
    #: Ports of the node that are this task's.
    ports: tuple[int, ...] = ()
    #: The network of the node, not one of its own. Plain processes have no other.
    host_network: bool = False
    volumes: tuple[RunVolume, ...] = ()
    #: Without it, the root is the node's own.
    image: RootImage | None = None
    user: RunUser = RunUser()


#: What a terminal is called to a command that has one, unless its task calls it otherwise.
TERMINAL_KIND = "xterm-256color"


class Inside(msgspec.Struct, frozen=True):
    """How to run a further command in the isolation of a task that runs: what to call, with which
    environment and from where."""

    words: list[str]
    environment: dict[str, str]
    folder: Path
    #: Where the number of the command is written, if `words` is only its launcher.
    pid_file: Path | None = None
    #: What only the launch needs.
    files: tuple[Path, ...] = ()


class Exit(msgspec.Struct, frozen=True):
    """How a task ended: by its own code, by a signal, or (both None) nobody knows; the reason if it
    was made to."""

    code: int | None
    signal: int | None
    reason: str = ""

    @property
    def lost(self) -> bool:
        return self.code is None and self.signal is None


class EndOrder(msgspec.Struct, frozen=True):
    """A task is to end, for this reason; it is killed after `deadline` (of the system's monotonic
    clock)."""

    reason: str
    deadline: float


class Handle(msgspec.Struct, eq=False):
    """A started task. `fileno()` turns readable when it has ended, so an event loop need not ask
    again and again; only who holds the handle closes it, once no loop watches it any more."""

    task: str
    folder: Path
    pid: int
    limits: RunLimits
    child: bool = True  # of this process, so its number is not given away before it is waited for
    ended: Exit | None = None
    order: EndOrder | None = None
    asked: bool = False
    #: CPU seconds and bytes of memory when it was measured last.
    used: tuple[float, int] = (0.0, 0)
    watched: float = 0.0
    cgroups: dict[str, str] = {}
    pidfd: int = -1

    def fileno(self) -> int:
        if self.pidfd < 0:
            self.pidfd = os.pidfd_open(self.pid)
        return self.pidfd

    def close(self) -> None:
        """Give the descriptor back."""
        if self.pidfd >= 0:
            with contextlib.suppress(OSError):
                os.close(self.pidfd)
            self.pidfd = -1


class Isolation(Protocol):
    """One way to run tasks. `name` is what a user chooses it by."""

    name: str
    #: Starting and cleaning take so long that they must not hold up an event loop.
    is_slow: bool
    #: Tasks may have networks of their own.
    has_networks: bool

    def start(self, spec: RunSpec) -> Handle:
        """Returns when the process runs; raises StartFailed if it cannot, InputError if the name is
        no name."""

    def recover(self, folder: Path) -> Handle | None:
        """The task of a folder that another agent started: running, or ended with a trace; else
        None."""

    def kill(self, handle: Handle, grace_s: float, reason: str = KILLED) -> None:
        """SIGTERM to the whole tree now, SIGKILL by the first `poll` after the grace; `reason`
        becomes the exit's."""

    def freeze(self, handle: Handle) -> None:
        """Its processes do nothing from now on, and keep their memory; one that is to end is left
        alone. Repeatable."""

    def thaw(self, handle: Handle) -> None:
        """They go on. Repeatable."""

    def kill_all(self, folders: Sequence[Path]) -> None:
        """SIGKILL to the tasks of all these folders, as fast as can be: what is left of them is for
        `clean`."""

    def poll(self, handle: Handle) -> Exit | None:
        """None while it runs. Ask about once a second: this is also what ends a grace and watches
        plain limits."""

    def usage(self, handle: Handle) -> tuple[float, int]:
        """CPU seconds so far and bytes of memory now, of the whole tree; the last known once it has
        ended."""

    def enter(
        self, handle: Handle, command: Sequence[str], size: TerminalSize | None = None
    ) -> Inside:
        """How to run a command beside the task: as its user, with its environment, under its
        limits, and ended with it at the latest; on a terminal of this size, that of who calls it,
        or with pipes. StartFailed if that cannot be."""

    def keep_child(self, pid: int, is_kept: bool) -> None:
        """Whoever started this process waits for it; nobody else may, while it is kept."""

    def clean(self, folder: Path) -> None:
        """No process, mount or cgroup of this folder is left, whatever state it was in. Output
        stays. Repeatable."""


def check_name(task: str) -> str:
    """The name of a task, if it can be the name of a folder and nothing else."""
    if not _NAME.fullmatch(task) or ".." in task:
        raise InputError(
            f"task {task!r}: expected at most 128 letters, digits and . _ + -, no '..', no sign "
            "in front"
        )
    return task


def task_folder(parent: Path, task: str) -> Path:
    """Where a task of this name lives: always directly in `parent`."""
    return parent / check_name(task)
