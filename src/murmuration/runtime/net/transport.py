"""Connections that carry frames: bounded in what they hold, quick because many frames share one
write.

A turn of the driver may send a thousand frames to one node agent. Each is queued here, and one call
at the end of the loop's round writes them all: a system call and a TLS record for the lot. A peer
that does not read is not waited for, since the one who waits would be the master; what lies in the
buffer is bounded, and beyond the bound the connection ends. That loses nothing: every protocol on
top tells all that is needed again when a connection stands.

An answer to a question finds whoever asked by its number and passes the driver by: reading a task's
output is no event of any agent, and must not wait for a disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from murmuration.runtime.net.sockets import identify
from murmuration.runtime.net.wire import FRAME_MAX, FrameReader, WireError, encode
from murmuration.schedulers.agent import Message

if TYPE_CHECKING:
    from murmuration.runtime.net.certificates import Identity

#: What may wait to be read by the other side before the connection is closed. A peer that connects
#: again is sent everything it needs.
WRITE_MAX = 64 * 2**20
#: Before its hello was accepted, a peer may send no more than this.
HELLO_MAX = 4096
ANSWER_S = 10.0

Receive = Callable[["Connection", int, str, Message], None]
Lose = Callable[["Connection"], None]


class Connection(asyncio.Protocol):
    """One end of a connection."""

    def __init__(self, receive: Receive, lose: Lose, size_max: int | None = None) -> None:
        self._receive, self._lose = receive, lose
        self._reader = FrameReader() if size_max is None else FrameReader(size_max)
        self._transport: asyncio.Transport | None = None
        self._frames: list[bytes] = []
        self._request = 0
        self._answers: dict[int, asyncio.Future[Message]] = {}
        #: What whoever accepted it wants to know of it.
        self.peer: Any = None
        self.error = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def identify(self) -> Identity | None:
        """Whose certificate the other side has shown; None on a connection in clear text."""
        return None if self._transport is None else identify(self._transport)

    def trust(self) -> None:
        """Its hello was accepted: frames may be large from now on."""
        self._reader.size_max = FRAME_MAX

    def data_received(self, data: bytes) -> None:
        try:
            for request, node, message in self._reader.feed(data):
                if request < 0:
                    answer = self._answers.pop(-request, None)
                    if answer is not None and not answer.done():
                        answer.set_result(message)
                else:
                    self._receive(self, request, node, message)
                if self._transport is None or self._transport.is_closing():
                    return
        except WireError as error:
            self.error = str(error)
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ConnectionError("the connection was lost"))
        self._answers.clear()
        self._lose(self)

    def send(self, message: Message, node: str = "", request: int = 0) -> None:
        self.send_frame(encode(message, node, request))

    def send_frame(self, frame: bytes) -> None:
        """Queue a frame; all frames of one turn of the loop go out in one write."""
        if self._transport is None or self._transport.is_closing():
            return
        self._frames.append(frame)
        if len(self._frames) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        frames, self._frames = self._frames, []
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(b"".join(frames))
        if self._transport.get_write_buffer_size() > WRITE_MAX:
            self.error = "the other side does not read"
            self.abort()

    def answer(self, message: Message, node: str, request: int) -> None:
        self.send(message, node, -request)

    async def ask(self, message: Message, node: str = "", timeout_s: float = ANSWER_S) -> Message:
        """Send a request and wait for its answer."""
        self._request += 1
        number = self._request
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        self.send(message, node, number)
        try:
            return await asyncio.wait_for(answer, timeout_s)
        finally:
            self._answers.pop(number, None)

    def close(self) -> None:
        """Send what is queued, then end."""
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
