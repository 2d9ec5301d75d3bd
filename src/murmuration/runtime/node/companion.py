"""A command that runs beside a task, in its isolation: for somebody who looks at it (`beside.py`)
or to see whether it is well (`probes.py`).

Its output is held in memory, and no more of it than somebody fetches: a pipe that nobody empties
stops the command, not the agent. It ends when the task does, when it is killed, or by itself. What
it leaves running is the task's from then on.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import termios
from typing import IO

from murmuration.runtime.node.isolation import processes
from murmuration.runtime.node.isolation.interface import (
    Inside,
    Isolation,
    StartFailed,
    TerminalSize,
)

#: Bytes of one output that wait to be fetched, and of input that wait to be read.
HELD_MAX = 2**18
PIECE = 2**16
STDOUT, STDERR = "stdout", "stderr"


class Companion:
    """One command. `code` is that of its end, 128 + n for a signal, and None while it runs."""

    def __init__(
        self,
        inside: Inside,
        isolation: Isolation,
        takes_input: bool = False,
        size: TerminalSize | None = None,
    ) -> None:
        self._inside, self._isolation = inside, isolation
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self.code: int | None = None
        self.held = {STDOUT: bytearray(), STDERR: bytearray()}
        self._input = bytearray()
        self._is_last = not takes_input
        self._is_terminal = size is not None
        self._pipes: dict[str, IO[bytes]] = {}
        try:
            self._start_on_terminal(size) if size else self._start(takes_input)
        except OSError as error:
            self._remove_files()
            raise StartFailed(f"command {inside.words[0]}: {error.strerror}") from error
        isolation.keep_child(self._process.pid, True)
        self._pidfd = os.pidfd_open(self._process.pid)
        self._loop.add_reader(self._pidfd, self._end)
        self._paused: set[str] = set()
        for name, pipe in self._pipes.items():
            os.set_blocking(pipe.fileno(), False)
            self._loop.add_reader(pipe.fileno(), self._read, name)
        if self._keyboard is not None:
            os.set_blocking(self._keyboard.fileno(), False)

    def _start(self, takes_input: bool) -> None:
        self._process = subprocess.Popen(
            self._inside.words,
            env=self._inside.environment,
            cwd=self._inside.folder,
            stdin=subprocess.PIPE if takes_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            umask=0o022,
            # What it leaves behind is told from the agent's own children by its session.
            start_new_session=True,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        self._pipes = {STDOUT: self._process.stdout, STDERR: self._process.stderr}
        self._keyboard: IO[bytes] | None = self._process.stdin

    def _start_on_terminal(self, size: TerminalSize) -> None:
        """One terminal for input and both outputs, which is its session's: keys such as Ctrl-C
        reach it as signals."""
        ours, theirs = os.openpty()
        self._pipes = {STDOUT: os.fdopen(ours, "r+b", buffering=0)}
        self._keyboard = self._pipes[STDOUT]
        try:
            self.resize(size)
            self._process = subprocess.Popen(
                ["setsid", "--ctty", *self._inside.words],
                env=self._inside.environment,
                cwd=self._inside.folder,
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                umask=0o022,
            )
        except OSError:
            self._keyboard.close()
            raise
        finally:
            os.close(theirs)

    def resize(self, size: TerminalSize) -> None:
        """The terminal has so many rows and columns now; who uses it is told by a signal."""
        if self._is_terminal and STDOUT in self._pipes:
            packed = struct.pack("HHHH", *size, 0, 0)
            fcntl.ioctl(self._pipes[STDOUT].fileno(), termios.TIOCSWINSZ, packed)

    @property
    def is_done(self) -> bool:
        """It has ended, and nothing of its output waits."""
        return self.code is not None and not any(self.held.values())

    async def wait(self, seconds: float) -> None:
        """Until there is output, or it has ended, or so much time has passed."""
        if self.code is not None or any(self.held.values()):
            return
        self._news.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), seconds)

    def take(self, name: str) -> bytes:
        """What it has written since the last time."""
        data, self.held[name] = bytes(self.held[name]), bytearray()
        if name in self._paused:
            self._paused.discard(name)
            self._loop.add_reader(self._pipes[name].fileno(), self._read, name)
        return data

    def give(self, data: bytes, is_last: bool) -> int:
        """Input for it; how many bytes of it were taken. The rest may be given again."""
        taken = data[: HELD_MAX - len(self._input)]
        self._input += taken
        self._is_last |= is_last and len(taken) == len(data)
        self._write()
        return len(taken)

    def kill(self) -> None:
        """SIGKILL to the command and what it started; behind a launcher only the number that was
        written down is the command's."""
        roots = [self._process.pid]
        if self._inside.pid_file is not None:
            with contextlib.suppress(OSError, ValueError):
                roots.append(int(self._inside.pid_file.read_text()))
        if self.code is None:
            processes.send(processes.trees(roots), signal.SIGKILL)

    def _read(self, name: str) -> None:
        pipe = self._pipes[name]
        try:
            data = os.read(pipe.fileno(), PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._news.set()
        self.held[name] += data
        if not data:
            self._close_pipe(name)
        elif len(self.held[name]) >= HELD_MAX:
            self._paused.add(name)
            self._loop.remove_reader(pipe.fileno())

    def _write(self) -> None:
        pipe = self._keyboard
        if pipe is None or pipe.closed:
            self._input.clear()
            return
        try:
            while self._input:
                del self._input[: os.write(pipe.fileno(), self._input[:PIECE])]
        except BlockingIOError:
            self._loop.add_writer(pipe.fileno(), self._write)
            return
        except OSError:
            # It reads no more.
            self._input.clear()
            self._is_last = True
        self._loop.remove_writer(pipe.fileno())
        if self._is_last and not self._is_terminal:
            pipe.close()

    def _end(self) -> None:
        """It has ended. Its pipes may be held open by what it started: what is in them now is all
        that is waited for."""
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        code = self._process.wait()
        self._isolation.keep_child(self._process.pid, False)
        for name in list(self._pipes):
            self._drain(name)
        if self._keyboard is not None and not self._keyboard.closed:
            self._loop.remove_writer(self._keyboard.fileno())
            self._keyboard.close()
        self._remove_files()
        self.code = 128 - code if code < 0 else code
        self._news.set()

    def _drain(self, name: str) -> None:
        """What is left in a pipe: no more than a kernel holds."""
        with contextlib.suppress(OSError):
            while data := os.read(self._pipes[name].fileno(), PIECE):
                self.held[name] += data
                if len(self.held[name]) > 2 * HELD_MAX:
                    break
        self._close_pipe(name)

    def _close_pipe(self, name: str) -> None:
        pipe = self._pipes.pop(name)
        self._paused.discard(name)
        self._loop.remove_reader(pipe.fileno())
        self._loop.remove_writer(pipe.fileno())
        pipe.close()

    def _remove_files(self) -> None:
        for path in self._inside.files:
            with contextlib.suppress(OSError):
                path.unlink()
