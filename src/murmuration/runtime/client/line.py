"""A scheduler's line to the masters, for plain blocking code: a thread keeps the connections
(`links.py`), so that they stand also while the scheduler is busy deciding.

The caller serves one connection at a time, and is told when it is over: what was said to a master
that is gone may be lost, so nothing goes to the next one before the caller has asked for it
(`connect`). By then the thread has usually said hello to it already.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable

from murmuration.runtime.client.links import Links
from murmuration.runtime.net.directory import FolderDirectory
from murmuration.runtime.net.transport import Connection
from murmuration.runtime.net.wire import Hello, HelloAnswer, encode
from murmuration.schedulers.agent import Message

#: So many messages may wait for a caller that does not receive; beyond, the connection ends.
HEARD_MAX = 100_000
#: How long the last words may take.
CLOSE_S = 5.0


class MasterGoneError(ConnectionError):
    """The master that was served is gone."""

    def __init__(self) -> None:
        super().__init__("the master has gone; connect again")


class MasterLine:
    """The connections to all masters, one of which is served."""

    def __init__(self, directory: FolderDirectory, hello: Hello) -> None:
        #: Guards what the caller and the thread share, and tells the caller that it has changed.
        self._changed = threading.Condition()
        self._heard: dict[Connection, deque[Message]] = {}
        #: The connection to the master that leads, with its answer; and the one the caller serves.
        self._leading: tuple[Connection, HelloAnswer] | None = None
        self._served: Connection | None = None
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._links = Links(directory, hello, self._hear, self._join, self._lose, self._fail)
        self._thread = threading.Thread(target=self._run, name="murmuration-line", daemon=True)
        self._thread.start()

    # For the caller.

    def connect(self, timeout_s: float, is_patient: bool = False) -> HelloAnswer:
        """Serve the master that leads, from now on and over another connection than before; what it
        answered. An InputError or OSError says why there is none: at once, or for one who is
        patient when the time is over."""

        def is_decided() -> bool:
            is_lost = not is_patient and bool(self._links.find_errors())
            is_found = self._leading is not None and not self._is_leading()
            return is_found or is_lost or not self._thread.is_alive()

        with self._changed:
            if self._is_leading() and self._served is not None:
                self._loop.call_soon_threadsafe(self._served.abort)
            self._wait(is_decided, timeout_s)
            if self._leading is None or self._is_leading():
                errors = self._links.find_errors() or [TimeoutError("no master leads")]
                raise errors[0]
            self._served, answer = self._leading
            self._heard = {self._served: self._heard.get(self._served, deque())}
            return answer

    def send(self, message: Message) -> None:
        frame = encode(message)
        with self._changed:
            if self._served is None or not self._is_leading():
                raise MasterGoneError
            self._loop.call_soon_threadsafe(self._served.send_frame, frame)

    def receive(self, timeout_s: float) -> Message | None:
        """The next message of the master that is served, or None if none came in time. All it has
        said comes before the error that it is gone."""
        with self._changed:
            self._wait(lambda: bool(self._said()) or not self._is_leading(), timeout_s)
            if said := self._said():
                return said.popleft()
            if not self._is_leading():
                raise MasterGoneError
            return None

    def count_waiting(self) -> int:
        """Connections to masters that stand by."""
        return self._links.count_waiting()

    def close(self) -> None:
        """Say what is left to say, and hang up."""
        with contextlib.suppress(RuntimeError):  # it is closed already
            self._loop.call_soon_threadsafe(self._closing.set)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _said(self) -> deque[Message] | None:
        return None if self._served is None else self._heard.get(self._served)

    def _is_leading(self) -> bool:
        return self._leading is not None and self._leading[0] is self._served

    def _wait(self, holds: Callable[[], bool], timeout_s: float) -> None:
        self._changed.wait_for(holds, min(max(timeout_s, 0.0), threading.TIMEOUT_MAX))

    # In the thread.

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._keep())
        finally:
            self._change(None)

    async def _keep(self) -> None:
        keeping = asyncio.create_task(self._links.keep())
        await self._closing.wait()
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                while self._leading is not None:
                    await asyncio.sleep(0.005)

    def _hear(self, connection: Connection, _: int, node: str, message: Message) -> None:
        with self._changed:
            heard = self._heard.setdefault(connection, deque())
            heard.append(message)
            self._changed.notify_all()
        if len(heard) > HEARD_MAX:
            connection.abort()

    def _join(self, connection: Connection, answer: HelloAnswer) -> None:
        self._change((connection, answer))

    def _lose(self, connection: Connection) -> None:
        self._change(None)

    def _fail(self, _: Exception) -> None:
        with self._changed:
            self._changed.notify_all()

    def _change(self, leading: tuple[Connection, HelloAnswer] | None) -> None:
        with self._changed:
            self._leading = leading
            self._changed.notify_all()
