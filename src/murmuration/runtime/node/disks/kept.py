"""The folders of runs that have ended: their output can be read for a while, and what they left on
disk be looked at. The oldest go when they are too many or take too much."""

from __future__ import annotations

import contextlib
from collections import deque
from pathlib import Path
from threading import Lock

from murmuration.runtime.folder import remove_tree
from murmuration.runtime.node.disks.watch import measure

#: How many are kept.
KEEP = 500


class KeptRuns:
    """Folders in the order in which their runs ended; without a bound of bytes none is measured."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._new: deque[Path] = deque()
        self._folders: deque[tuple[Path, float]] = deque()
        self._bytes = 0.0
        self._lock = Lock()

    def add(self, folder: Path) -> None:
        """This one's run has ended."""
        self._new.append(folder)

    @property
    def has_to_look(self) -> bool:
        """Whether `make_room` may have something to do."""
        return bool(self._bytes_max) or len(self._folders) + len(self._new) > KEEP

    def make_room(self) -> None:
        """Remove the oldest until the rest is within bounds; takes time, and may be called from any
        thread. One is always kept: the output of a task that wrote too much is what somebody will
        ask for."""
        with self._lock:
            while self._new:
                self._take(self._new.popleft())
            while len(self._folders) > 1 and self._is_over():
                folder, size = self._folders.popleft()
                self._bytes -= size
                remove_tree(folder)

    def _is_over(self) -> bool:
        is_large = bool(self._bytes_max) and self._bytes > self._bytes_max
        return is_large or len(self._folders) > KEEP

    def _take(self, folder: Path) -> None:
        """What no run writes to any more is measured once."""
        size = 0.0
        if self._bytes_max:
            with contextlib.suppress(OSError):
                size = min(measure(folder, self._bytes_max), self._bytes_max)
        self._bytes += size
        self._folders.append((folder, size))
