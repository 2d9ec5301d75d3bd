"""The files of one task: its output, what was asked for, what the shim reported, and whether
anybody still holds it.

What is started is written into `record`, which no task is ever given; the shim is given `state`,
so a task can come by it too: it is a lock, and a text that proves nothing but what a task says of
its own end.

The state file is locked from before a launch begins until the shim ends: the lock goes from the
agent through every launcher to the shim, and the kernel lets go of it when the last of them is
gone, however that happened. So "locked" means "runs or is about to", with no moment in between and
no number of a process that may have been given away.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from murmuration.runtime.node.isolation import shim
from murmuration.runtime.node.isolation.interface import (
    LOST,
    EndOrder,
    Exit,
    RunLimits,
    RunSpec,
    StartFailed,
    check_name,
)

STDOUT, STDERR, STATE, ORDER, WORK = "stdout", "stderr", "state", "order", "work"
RECORD = "record"
#: What the last check of its health wrote that did not go well.
HEALTH = "health"
#: What can be read of a run by those who may.
STREAMS = (STDOUT, STDERR, HEALTH)
#: Room kept for what the shim will write, so that a full disk takes no exit code.
SHIM_BYTES = 512
READ_BYTES_MAX = 2**16
KILL_SIGNAL = 9


class TakenError(StartFailed):
    """Somebody holds the folder; it is not ours to clean."""


class Record(msgspec.Struct, frozen=True):
    """What is started here; written before anything is."""

    isolation: str
    task: str
    limits: RunLimits
    cgroups: dict[str, str] = {}
    ports: tuple[int, ...] = ()


class Files(msgspec.Struct, frozen=True):
    """Descriptors for a launch."""

    state: int
    stdout: int
    stderr: int


def check(spec: RunSpec) -> None:
    """A task that can be started: a name, a command, an environment that fits, a folder of its
    own."""
    check_name(spec.task)
    if not spec.command or not spec.command[0]:
        raise StartFailed("expected a command, got none")
    words = [*spec.command, *spec.env, *spec.env.values()]
    if any("\0" in word for word in words) or any(not name or "=" in name for name in spec.env):
        raise StartFailed(
            "expected a command and an environment without NUL, and names without '='"
        )
    if not spec.folder.is_absolute() or spec.folder.is_symlink() or not spec.folder.is_dir():
        raise StartFailed(f"expected a folder by its whole path, got {spec.folder}")


@contextlib.contextmanager
def open_folder(spec: RunSpec, record: Record) -> Iterator[Files]:
    """Take the folder: everything is written and the lock held, or the error says why not. Never
    through a link."""
    fds: list[int] = []
    try:
        fds.append(_open(spec.folder / STATE, os.O_RDWR))
        try:
            fcntl.flock(fds[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TakenError(f"task {spec.task} runs already in {spec.folder}") from None
        (spec.folder / ORDER).unlink(missing_ok=True)
        os.ftruncate(fds[0], 0)
        _write(spec.folder / RECORD, msgspec.json.encode(record) + b"\n")
        os.posix_fallocate(fds[0], 0, SHIM_BYTES)
        _make_work(spec.folder / WORK)
        fds += [_open(spec.folder / name, os.O_WRONLY | os.O_APPEND) for name in (STDOUT, STDERR)]
        yield Files(*fds)
    except OSError as error:
        raise StartFailed(f"{error.filename or spec.folder}: {error.strerror}") from error
    finally:
        for fd in fds:
            os.close(fd)


def _make_work(place: Path) -> None:
    """A task may go on as another user, so its folder of work is open; the one around it is not."""
    try:
        place.mkdir()
        place.chmod(0o755)
    except FileExistsError:
        if place.is_symlink() or not place.is_dir():
            raise


def _open(path: Path, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _write(path: Path, content: bytes) -> None:
    """Write a file; a pipe that a task has put in its place is an OSError, and nobody's to wait
    for."""
    fd = _open(path, os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK)
    with os.fdopen(fd, "wb") as file:
        file.write(content)


def keep_output(folder: Path, output: bytes) -> None:
    """Keep what a check of the task's health wrote."""
    _write(folder / HEALTH, output)


def read_bytes(path: Path, size_max: int = READ_BYTES_MAX) -> bytes:
    """The beginning of a file of the folder, empty if it is no plain file or not there."""
    try:
        with open_plain(path) as file:
            return os.read(file.fileno(), size_max)
    except OSError:
        return b""


def open_plain(path: Path) -> BinaryIO:
    """A file to read, if it is one: what a task may have put in its place, a link or a pipe that
    nobody writes to, is an OSError at once."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "expected a plain file", str(path))
    return os.fdopen(fd, "rb", buffering=0)


def drop_set_user_bits(work: Path) -> None:
    """A program that a task left must not make anybody root who starts it later."""
    words = ["find", "-P", str(work), "-xdev", "-type", "f", "-perm", "/6000"]
    with contextlib.suppress(FileNotFoundError):
        subprocess.run(
            [*words, "-execdir", "chmod", "ug-s", "{}", "+"],
            check=False,
            stderr=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin"},
        )


def record(folder: Path, isolation: str) -> Record | None:
    """What this isolation started here; None if it did not, or was killed before it wrote so."""
    line, end, _ = read_bytes(folder / RECORD).partition(b"\n")
    try:
        record = msgspec.json.decode(line if end else b"", type=Record)
    except msgspec.DecodeError:
        return None
    return record if record.isolation == isolation else None


def state(folder: Path) -> shim.ShimState:
    """What the shim has reported, or the task in its name."""
    return shim.read(read_bytes(folder / STATE).decode(errors="replace"))


def is_locked(folder: Path) -> bool:
    """Whether a shim, or a launch on its way to one, holds this folder."""
    try:
        with open_plain(folder / STATE) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def await_state(folder: Path, seconds: float) -> shim.ShimState:
    """What a shim on its way reports first; empty if it ends without a report, or is too slow."""
    deadline = time.monotonic() + seconds
    while True:
        held, report = is_locked(folder), state(folder)
        if report != shim.ShimState() or not held or time.monotonic() > deadline:
            return report
        time.sleep(0.002)


def give_order(folder: Path, order: EndOrder) -> None:
    """Note that a task is to end and why, for an agent that comes after this one; a full disk does
    not save it."""
    with contextlib.suppress(OSError):
        _write(folder / ORDER, msgspec.json.encode(order))


def order(folder: Path) -> EndOrder | None:
    try:
        return msgspec.json.decode(read_bytes(folder / ORDER), type=EndOrder)
    except msgspec.DecodeError:
        return None


def exit_of(folder: Path, given: EndOrder | None, reason: str = "") -> Exit:
    """How the task of a folder ended that nobody holds any more."""
    report = state(folder)
    reason = given.reason if given else reason
    if report.code is not None:
        signal = report.signal
        return Exit(report.code if signal is None else None, signal, reason)
    return Exit(None, KILL_SIGNAL if reason else None, reason or LOST)
