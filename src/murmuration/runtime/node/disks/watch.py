"""What runs have on disk, measured beside the loop: a run over its bound is ended before it takes
the disk from all others.

A quota of the file system would be exact, but has to be set up with the disk, and a disk of its own
for each run costs far more than a start. So folders are walked, in one thread, and no more than a
tenth of the time: a run can be over its bound for as long as its disk takes to write in some
seconds. What a run has deleted and still holds open is not seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

TOO_MUCH_DISK = "too much disk"
BLOCK = 512
#: Of what measuring takes, nine parts are rest; looks are at least and at most so far apart.
REST, LOOK_MIN_S, LOOK_MAX_S = 9.0, 1.0, 60.0


def measure(folder: Path, limit: float = math.inf) -> float:
    """Bytes on disk below a folder, on its own file system; a file with several names counts once.
    Counting stops beyond the limit. What is nested so deep that it has no path is infinite."""
    device, seen = os.lstat(folder).st_dev, set[int]()
    size, ahead = 0.0, [str(folder)]
    while ahead and size <= limit:
        try:
            with os.scandir(ahead.pop()) as entries:
                for entry in entries:
                    size += _count(entry, device, seen, ahead)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return math.inf
    return size


def _count(entry: os.DirEntry[str], device: int, seen: set[int], ahead: list[str]) -> int:
    """The bytes of one entry; a folder is put on the list."""
    try:
        known = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return 0
    if known.st_dev != device or (known.st_nlink > 1 and known.st_ino in seen):
        return 0
    if entry.is_dir(follow_symlinks=False):
        ahead.append(entry.path)
    elif known.st_nlink > 1:
        seen.add(known.st_ino)
    return known.st_blocks * BLOCK


class DiskWatch:
    """Calls `end` for each run that is over its bound."""

    def __init__(self, end: Callable[[str], None]) -> None:
        self._end = end
        self._next_s = 0.0
        self._looking: asyncio.Task[None] | None = None

    def look(self, runs: dict[str, tuple[Path, int]]) -> None:
        """Measure the folders of these runs, unless that is under way or was done just now."""
        is_busy = self._looking is not None and not self._looking.done()
        if runs and not is_busy and time.monotonic() >= self._next_s:
            self._looking = asyncio.get_running_loop().create_task(self._look(runs))

    async def _look(self, runs: dict[str, tuple[Path, int]]) -> None:
        began = time.monotonic()
        over = await asyncio.to_thread(find_over, runs)
        now = time.monotonic()
        self._next_s = now + min(LOOK_MAX_S, max(LOOK_MIN_S, REST * (now - began)))
        for run in over:
            self._end(run)


def find_over(runs: dict[str, tuple[Path, int]]) -> list[str]:
    """The runs whose folders hold more than they may."""
    over = []
    for run, (folder, limit) in runs.items():
        with contextlib.suppress(OSError):
            if measure(folder, limit) > limit:
                over.append(run)
    return over
