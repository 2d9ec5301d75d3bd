"""Processes as the kernel shows them: who descends from whom, what they use, and whose they are.

A process that left its parent and its session is still known by what it inherited: the variable
`MURMUR_FOLDER` in the environment it was started with.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

import msgspec

PR_SET_CHILD_SUBREAPER = 36
CAP_SYS_ADMIN = 21
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
#: Not every kernel lists children; where it does not, every process is looked at.
LISTS_CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children").exists()
OPEN_FILES_MAX = 2**16
ENDING_ROUNDS = 1000
AWAIT_S = 1.0
KILLING_ROUNDS = 5


class Stat(msgspec.Struct, frozen=True):
    """One process: `cpu_s` includes the children it has waited for."""

    zombie: bool
    parent: int
    session: int
    cpu_s: float
    memory: int


def become_parent() -> None:
    """From now on a process whose parent dies becomes this process's child, not that of process 1;
    and there is a descriptor for each of very many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, OPEN_FILES_MAX)), hard))
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become the parent of orphans")


def may(capability: int) -> bool:
    """Whether this process has one of root's powers."""
    with open("/proc/self/status") as file:
        effective = next(line.split()[1] for line in file if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> capability & 1)


def _read(path: str) -> bytes:
    """A file of /proc, several of which are read at the end of every task: a quarter of the system
    calls that a file object makes of it."""
    parts, descriptor = list[bytes](), os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)


def stat(pid: int) -> Stat | None:
    try:
        # The name of the program comes second, in brackets, and may hold anything.
        words = _read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
    except OSError:
        return None
    ticks = sum(int(word) for word in words[11:15])
    return Stat(
        words[0] in b"ZX", int(words[1]), int(words[3]), ticks / TICKS, int(words[21]) * PAGE
    )


def measure_shared(pid: int) -> int:
    """Bytes of a process in which a page that several share counts in parts."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup", "rb") as file:
        for line in file:
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def list_children(pid: int) -> list[int]:
    if not LISTS_CHILDREN:
        return [other for other in all_pids() if (seen := stat(other)) and seen.parent == pid]
    pids: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            pids += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    except OSError:  # it ended while we looked
        pass
    return pids


def trees(roots: Iterable[int]) -> set[int]:
    """The processes and all that descend from them."""
    members: set[int] = set()
    ahead = list(roots)
    while ahead:
        pid = ahead.pop()
        if pid not in members:
            members.add(pid)
            ahead += list_children(pid)
    return members


def mark(folder: Path) -> str:
    return f"MURMUR_FOLDER={folder}"


def carries(pid: int, mark: str) -> bool:
    return os.fsencode(mark) in marks_of(pid)


def is_outside(pid: int) -> bool:
    """Whether a process is in no container: it sees the same processes as this one."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid") == os.readlink("/proc/self/ns/pid")
    except OSError:
        return False


def command_line(pid: int) -> bytes:
    """Words ended by NUL; empty for what has ended."""
    try:
        return _read(f"/proc/{pid}/cmdline")
    except OSError:
        return b""


def send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def end_all(find: Callable[[], set[int]]) -> None:
    """SIGKILL until none is found and those found have ended: stopped first, so that none can
    multiply meanwhile."""
    dying: set[int] = set()
    for _ in range(ENDING_ROUNDS):
        dying = {
            pid for pid in dying | find() if runs(pid)
        }  # what is exiting can no longer be told whose it is
        if not dying:
            return
        send(dying, signal.SIGSTOP)
        send(dying, signal.SIGKILL)
        time.sleep(0.002)


def kill_marked(marks: Collection[str]) -> dict[str, set[int]] | None:
    """SIGKILL to every process that carries one of the marks, and to all in their sessions: a look
    at every process of the host, and again while that finds more. The processes of each mark, or
    None if they multiply faster than that."""
    wanted = {os.fsencode(mark): mark for mark in marks}
    killed: dict[str, set[int]] = {mark: set() for mark in marks}
    for _ in range(KILLING_ROUNDS):
        members = _find_marked(wanted)
        send(members, signal.SIGKILL)
        if all(pid in killed[mark] for pid, mark in members.items()):
            return killed
        for pid, mark in members.items():
            killed[mark].add(pid)
    return None


def _find_marked(wanted: Mapping[bytes, str]) -> dict[int, str]:
    """The processes that carry one of these marks, and those in their sessions, each with its
    mark; never this one, nor its session for its own sake."""
    own = os.getpid()
    sessions = {pid: known.session for pid in all_pids() if pid != own and (known := stat(pid))}
    carriers: dict[int, str] = {}
    for pid in sessions:
        mark = next(iter(marks_of(pid) & wanted.keys()), None)
        if mark is not None:
            carriers[pid] = wanted[mark]
    led = {sessions[pid]: mark for pid, mark in carriers.items() if sessions[pid] != os.getsid(0)}
    others = {pid: led[session] for pid, session in sessions.items() if session in led}
    return others | carriers


def await_ends(pids: Iterable[int]) -> bool:
    """Wait a while for processes that were killed; whether all have ended."""
    deadline = time.monotonic() + AWAIT_S
    while any(map(runs, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def marks_of(pid: int) -> set[bytes]:
    """The environment a process was started with, as `name=value`."""
    try:
        return set(_read(f"/proc/{pid}/environ").split(b"\0"))
    except OSError:
        return set()


def runs(pid: int) -> bool:
    known = stat(pid)
    return known is not None and not known.zombie


def has_ended(pidfd: int, within_s: float = 0.0) -> bool:
    """Whether the process behind a descriptor has ended, waited for or not."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(within_s * 1000))


def reap_orphans(known: Iterable[int]) -> None:
    """Reap adopted processes that have ended. A task's are never of this session; children that
    somebody here started are."""
    here = os.getsid(0)
    for pid in set(list_children(os.getpid())) - set(known):
        orphan = stat(pid)
        if orphan and orphan.zombie and orphan.session != here:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
