"""Locks that name their holder: a file that is locked while a process lives, with the process's
number in it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from murmuration.base.errors import InputError


def hold(path: Path, what: str) -> int:
    """Lock a file for as long as this process lives; refused if another one holds it. The
    descriptor is returned."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise InputError(
            f"{what} runs already (process {holder(path)}) in {path.parent}"
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def holder(path: Path) -> int | None:
    """The process that holds a lock, or None if nobody does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        text = os.pread(descriptor, 20, 0)
        return int(text) if text.isdigit() else None
    finally:
        os.close(descriptor)
