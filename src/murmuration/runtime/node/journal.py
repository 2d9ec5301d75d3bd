"""A node agent's journal: which runs it was given, how they ended, and which ends the master has
recorded.

Lines are only added, each in one write, so a line that was cut off was never acted on. An agent
that starts again reads it, and writes a fresh one without what is settled.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

import msgspec

from murmuration.runtime.folder import open_private
from murmuration.schedulers.central.messages import Ended
from murmuration.schedulers.central.node_agent import RunStopping
from murmuration.workload.job_spec import GRACE_S
from murmuration.workload.service_spec import HealthCheck


class Begun(msgspec.Struct, frozen=True, tag=True):
    """A run was ordered; written before anything of it is started."""

    framework: str
    run: str
    request: tuple[int, ...]
    #: By the clock that counts from the host's start; None without a time limit.
    ends_s: float | None
    #: What it has between being told to stop and being killed.
    grace_s: float = GRACE_S
    #: How to see whether it is well, with the port it was given.
    health: HealthCheck | None = None
    #: It is suspended, and so much is left of its time limit, −1 without one; None if it is not.
    left_s: float | None = None


class Stopping(msgspec.Struct, frozen=True, tag=True):
    """A run is about to be told to stop; written before it is."""

    stop: RunStopping


class Over(msgspec.Struct, frozen=True, tag=True):
    ended: Ended


class Settled(msgspec.Struct, frozen=True, tag=True):
    """The master has recorded the end."""

    run: str


#: Settled runs after which a fresh journal is written.
SETTLED_MAX = 5000
Line = Begun | Stopping | Over | Settled
_encoder, _decoder = msgspec.json.Encoder(), msgspec.json.Decoder(Line)


class Journal:
    """The runs that are not settled, in memory and on disk."""

    def __init__(self, path: Path) -> None:
        self.begun: dict[str, Begun] = {}
        self.stopping: dict[str, RunStopping] = {}
        self.over: dict[str, Ended] = {}
        self._path, self._file, self._settled = path, -1, 0
        if path.exists():
            for text in path.read_bytes().splitlines():
                with contextlib.suppress(msgspec.DecodeError):
                    self._take(_decoder.decode(text))
        try:
            self._rewrite()
        except OSError:
            if not path.exists():
                raise
            # A full disk: the journal that is there goes on.
            self._file = open_private(path, os.O_WRONLY | os.O_APPEND)

    def write(self, line: Line) -> None:
        """Add a line; an OSError says that it is not there."""
        text = _encoder.encode(line) + b"\n"
        # A full disk may take half a line; the newline in front of the next one keeps them apart.
        if os.write(self._file, text) != len(text):
            os.write(self._file, b"\n")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._take(line)
        if self._settled > SETTLED_MAX:
            with contextlib.suppress(OSError):  # the line is written; the rest can wait
                self._rewrite()

    def _take(self, line: Line) -> None:
        match line:
            case Begun(run=run):
                self.begun[run] = line
            case Stopping(stop):
                self.stopping[stop.run] = stop
            case Over(ended):
                self.over[ended.run] = ended
            case Settled(run):
                self._settled += 1
                self.begun.pop(run, None)
                self.stopping.pop(run, None)
                self.over.pop(run, None)

    def _rewrite(self) -> None:
        """Only what is not settled, in a file that takes the old one's place."""
        fresh = self._path.with_suffix(".new")
        lines: list[Line] = [*self.begun.values(), *map(Stopping, self.stopping.values())]
        lines += map(Over, self.over.values())
        fresh.unlink(missing_ok=True)
        try:
            with open(fresh, "xb", opener=open_private) as file:
                file.write(b"".join(_encoder.encode(line) + b"\n" for line in lines))
        except OSError:
            fresh.unlink(missing_ok=True)
            raise
        fresh.replace(self._path)
        if self._file >= 0:
            os.close(self._file)
        self._file = open_private(self._path, os.O_WRONLY | os.O_APPEND)
        self._settled = 0
