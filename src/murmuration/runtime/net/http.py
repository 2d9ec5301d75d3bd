"""A small HTTP/1.1 server: strict, bounded, and no more than the API needs.

One request at a time per connection, bodies by Content-Length only, no chunked bodies, no
pipelining across an error. What is not understood is refused and the connection closed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

HEAD_MAX = 16 * 1024
BODY_MAX = 4 * 2**20
CONNECTIONS_MAX = 256
#: A client that is silent in the middle of a request for this long is let go.
READ_S = 30.0
IDLE_S = 120.0
_WORDS = {
    200: "OK",
    201: "Created",
    202: "Accepted",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    422: "Unprocessable Content",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    507: "Insufficient Storage",
}


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class Reply:
    """A whole body, or a stream of parts (then the connection ends with it)."""

    status: int = 200
    body: bytes = b""
    kind: str = "application/json"
    stream: AsyncIterator[bytes] | None = None
    headers: dict[str, str] = field(default_factory=dict)


class BadRequest(Exception):  # noqa: N818 - it is an answer
    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


Handler = Callable[[Request], Awaitable[Reply]]


class HttpServer:
    """Listens on one address and hands every request to one function."""

    def __init__(self, handler: Handler, refuse: Callable[[int, str], Reply]) -> None:
        self._handler, self._refuse = handler, refuse
        self._tasks: set[asyncio.Task[None]] = set()

    def make_protocol(self) -> asyncio.Protocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(HEAD_MAX), self._accept)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if len(self._tasks) > CONNECTIONS_MAX:
                await _write(writer, self._refuse(503, "too many connections"), last=True)
                return
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await writer.wait_closed()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read and answer one request; False if the connection is done with."""
        try:
            request = await _read(reader)
        except BadRequest as error:
            await _write(writer, self._refuse(error.status, str(error)), last=True)
            return False
        if request is None:
            return False
        reply = await self._handler(request)
        last = reply.stream is not None or request.headers.get("connection", "").lower() == "close"
        await _write(writer, reply, last)
        return not last


async def _read(reader: asyncio.StreamReader) -> Request | None:
    """The next request, or None if the client has left."""
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), IDLE_S)
    except asyncio.IncompleteReadError as error:
        if error.partial.strip():
            raise BadRequest(400, "the request ended in its head") from error
        return None
    except TimeoutError:
        return None
    except asyncio.LimitOverrunError as error:
        raise BadRequest(431, f"expected a head of at most {HEAD_MAX} bytes") from error
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
        raise BadRequest(400, "expected a request such as GET /v1/status HTTP/1.1")
    headers = _headers(lines)
    body = await _body(reader, headers)
    parts = urlsplit(words[1])
    query = dict(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=50))
    return Request(words[0], parts.path, query, headers, body)


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or name.lower() in headers:
            raise BadRequest(400, "expected each header once, as NAME: VALUE")
        headers[name.lower()] = value.strip()
    return headers


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "transfer-encoding" in headers:
        raise BadRequest(400, "expected a body with Content-Length, not in chunks")
    length = headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit():
        raise BadRequest(400, "expected a number as Content-Length")
    if int(length) > BODY_MAX:
        raise BadRequest(413, f"expected a body of at most {BODY_MAX} bytes")
    try:
        return await asyncio.wait_for(reader.readexactly(int(length)), READ_S)
    except asyncio.IncompleteReadError as error:
        raise BadRequest(400, "the request ended in its body") from error
    except TimeoutError as error:
        raise BadRequest(408, "the body did not come in time") from error


async def _write(writer: asyncio.StreamWriter, reply: Reply, last: bool) -> None:
    headers = {"Content-Type": reply.kind, "Cache-Control": "no-store", **reply.headers}
    if reply.stream is None:
        headers["Content-Length"] = str(len(reply.body))
    if last:
        headers["Connection"] = "close"
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(
        f"HTTP/1.1 {reply.status} {_WORDS.get(reply.status, 'Answer')}\r\n{head}\r\n".encode()
        + reply.body
    )
    await writer.drain()
    if reply.stream is not None:
        async for part in reply.stream:
            writer.write(part)
            await writer.drain()
