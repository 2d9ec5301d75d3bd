"""HTTP/1.1 to an API server: connections that are kept, answers whole or as they come.

Six verbs on a handful of paths need no framework. The parser is llhttp through httptools, the one
of our own API; a request is one write, an answer one pass of the parser. Everything is bounded:
connections, the time a request may take, how long a stream may be silent.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import httptools

#: A whole answer takes at most this long.
ANSWER_S = 30.0
CONNECT_S = 10.0
CONNECTIONS_MAX = 32
#: What was read of a stream and not taken yet, before reading pauses.
BUFFER_MAX = 4 * 2**20


class UnreachableError(Exception):
    """The server could not be asked, or its answer did not come: what was asked for may have
    happened or not."""


@dataclass
class Answer:
    """An answer: its status, its headers in lower case, and its body."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Server:
    """Where an API server listens; `path` stands before every path asked for."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    #: The name its certificate is for, where that is not `host`.
    name: str | None = None
    path: str = ""


class ApiConnection(asyncio.Protocol):
    """One connection; at most one request is under way."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.answer = Answer()
        #: Whether the connection may carry another request.
        self.is_open = False
        #: Whether any byte of the answer has come.
        self.answered = False
        self._parts: list[bytes] = []
        self._done: asyncio.Future[None] | None = None
        self._stream: LineStream | None = None
        self._parser = httptools.HttpResponseParser(self)

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.is_open = transport, True

    def data_received(self, data: bytes) -> None:
        self.answered = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"the answer is no HTTP: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(f"the connection broke{'' if error is None else f': {error}'}")

    # What the parser calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        self.answer.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.answer.status = self._parser.get_status_code()
        if self._stream is not None and self.answer.status == 200:
            self._finish()

    def on_body(self, body: bytes) -> None:
        if self._stream is not None and self.answer.status == 200:
            self._stream.add(body)
        else:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        self.is_open = self.is_open and self._parser.should_keep_alive()
        self.answer.body = b"".join(self._parts)
        if self._stream is not None:
            self._stream.end("")
        self._finish()

    # What the pool calls.

    def ask(
        self, head: bytes, body: bytes, stream: LineStream | None = None
    ) -> asyncio.Future[None]:
        """Send a request; the answer is complete, or its stream has begun, when this is done."""
        assert self.transport is not None
        self.answer, self._parts, self.answered = Answer(), [], False
        self._parser = httptools.HttpResponseParser(self)
        self._stream = stream
        self._done = asyncio.get_running_loop().create_future()
        self.transport.write(head + body)
        return self._done

    def close(self) -> None:
        self.is_open = False
        if self.transport is not None:
            self.transport.abort()

    def _finish(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    def _fail(self, reason: str) -> None:
        self.is_open = False
        if self._stream is not None:
            self._stream.end(reason)
        if self._done is not None and not self._done.done():
            self._done.set_exception(UnreachableError(reason))
        if self.transport is not None:
            self.transport.abort()


class LineStream:
    """The lines of an answer that does not end. Reading from the server pauses while too much waits
    to be taken."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection
        self._rest = b""
        self._lines: list[bytes] = []
        self._size = 0
        self._wakeup: asyncio.Event = asyncio.Event()
        self._ended: str | None = None

    def add(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if lines:
            self._lines += lines
            self._size += sum(map(len, lines))
            if self._size > BUFFER_MAX and self._connection.transport is not None:
                self._connection.transport.pause_reading()
            self._wakeup.set()

    def end(self, reason: str) -> None:
        self._ended = reason if self._ended is None else self._ended
        self._wakeup.set()

    async def batches(self, silence_s: float) -> AsyncIterator[list[bytes]]:
        """Lines as they come, all that are there at once; raises when the stream breaks or is
        silent for too long."""
        try:
            while True:
                if not self._lines and self._ended is None:
                    self._wakeup.clear()
                    try:
                        async with asyncio.timeout(silence_s):
                            await self._wakeup.wait()
                    except TimeoutError:
                        raise UnreachableError(f"nothing came for {silence_s:g} s") from None
                lines, self._lines, self._size = self._lines, [], 0
                if lines:
                    if self._connection.transport is not None and self._ended is None:
                        self._connection.transport.resume_reading()
                    yield lines
                elif self._ended:
                    raise UnreachableError(self._ended)
                elif self._ended is not None:
                    return
        finally:
            self._connection.close()


class Pool:
    """Connections to one server, kept and used again."""

    def __init__(self, server: Server, limit: int = CONNECTIONS_MAX) -> None:
        self._server = server
        self._idle: list[ApiConnection] = []
        self._slots = asyncio.Semaphore(limit)
        self._streams: set[ApiConnection] = set()
        self._host = f"{server.host}:{server.port}"

    async def request(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes = b"",
        timeout_s: float = ANSWER_S,
    ) -> Answer:
        """One request and its whole answer. A kept connection that the server had closed meanwhile
        is replaced once; nothing of the request had been looked at then."""
        head = self._head(method, path, headers, body)
        async with self._slots:
            while True:
                connection, kept = await self._connect()
                try:
                    await self._await(connection, connection.ask(head, body), timeout_s)
                except UnreachableError:
                    if kept and not connection.answered and method == "GET":
                        continue
                    raise
                except BaseException:
                    connection.close()
                    raise
                if connection.is_open:
                    self._idle.append(connection)
                return connection.answer

    async def stream(
        self, path: str, headers: dict[str, str], timeout_s: float = ANSWER_S
    ) -> tuple[Answer, LineStream]:
        """A request whose answer comes line by line, on a connection of its own; the body is in the
        answer if its status is not 200."""
        connection = await self._open()
        stream = LineStream(connection)
        head = self._head("GET", path, headers, b"")
        self._streams = {each for each in self._streams if each.is_open} | {connection}
        try:
            await self._await(connection, connection.ask(head, b"", stream), timeout_s)
        except BaseException:
            connection.close()
            raise
        return connection.answer, stream

    def close(self) -> None:
        for connection in [*self._idle, *self._streams]:
            connection.close()
        self._idle, self._streams = [], set()

    def _head(self, method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
        lines = [f"{method} {self._server.path}{path} HTTP/1.1", f"host: {self._host}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body or method != "GET":
            lines.append(f"content-length: {len(body)}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    async def _connect(self) -> tuple[ApiConnection, bool]:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection, True
        return await self._open(), False

    async def _open(self) -> ApiConnection:
        server, loop = self._server, asyncio.get_running_loop()
        name = (server.name or server.host) if server.tls is not None else None
        opening = loop.create_connection(
            ApiConnection, server.host, server.port, ssl=server.tls, server_hostname=name
        )
        try:
            # Not `wait_for`: before 3.12 it may swallow that we are cancelled.
            async with asyncio.timeout(CONNECT_S):
                _, connection = await opening
        except (OSError, TimeoutError) as error:
            reason = "no answer" if isinstance(error, TimeoutError) else str(error)
            raise UnreachableError(f"{self._host}: {reason}") from None
        return connection

    async def _await(
        self, connection: ApiConnection, done: asyncio.Future[None], timeout_s: float
    ) -> None:
        """Wait for an answer. A timer of the loop is cheaper than a task for each request."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(timeout_s, _give_up, done, timeout_s)
        try:
            await done
        except UnreachableError:
            connection.close()
            raise
        finally:
            timer.cancel()


def _give_up(done: asyncio.Future[None], timeout_s: float) -> None:
    if not done.done():
        done.set_exception(UnreachableError(f"no answer for {timeout_s:g} s"))
