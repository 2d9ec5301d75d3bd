"""The HTTP server of the API: whatever is sent gets an answer or an end, and nothing is unbounded.

The server runs in this process under a small application; requests are written byte by byte, and
answers are read by the standard library.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from murmuration.base.errors import InputError
from murmuration.runtime.net import http as served
from murmuration.runtime.net.addresses import Address, parse_address
from murmuration.runtime.net.callers import Doorkeeper
from murmuration.runtime.net.sockets import find_ports, listen

TOKEN = "secret"
HEAD = f"Host: a\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
#: Far longer than anything here takes; a test that waits so long has failed.
LIMIT_S = 60.0


class Recorder:
    """An application that says what it was asked; it also waits, streams and reads on demand."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.ended: list[str] = []
        self.release = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self.asked.append(scope["path"])
        try:
            response = await self._answer(request)
        except served.Refusal as refusal:
            response = Response(served.encode_error(str(refusal)), refusal.status)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if request.scope["path"] == "/stream":
            return StreamingResponse(self._stream())
        if request.scope["path"] == "/wait":
            await self.release.wait()
        body = await served.read_body(request)
        return Response(json.dumps([request.method, request.scope["path"], len(body)]))

    async def _stream(self) -> AsyncIterator[bytes]:
        try:
            yield b"first"
            await self.release.wait()
        finally:
            self.ended.append("stream")


class Served:
    """A running server, and connections to it."""

    def __init__(self, app: Recorder, address: Address, server: served.HttpServer) -> None:
        self.app, self.address, self.server = app, address, server

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.address.host, self.address.port)

    async def ask(self, sent: bytes, end: bool = False) -> tuple[int, Any, bool]:
        """Send bytes on a connection of their own; the status, the body, and whether the server
        closed the connection afterwards."""
        reader, writer = await self.connect()
        writer.write(sent)
        if end:
            writer.write_eof()
        answer = await read_answer(reader)
        closed = answer[2] and await reader.read() == b""
        writer.close()
        return answer[0], answer[1], closed


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, Any, bool]:
    head = await reader.readuntil(b"\r\n\r\n")
    response = http.client.HTTPResponse(Fake(head))  # type: ignore[arg-type]
    response.begin()
    body = await reader.readexactly(int(response.headers["content-length"]))
    return response.status, json.loads(body), response.headers.get("connection") == "close"


class Fake:
    """A socket for the standard library to read an answer from."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


Story = Callable[[Served], Awaitable[None]]


def run(story: Story) -> None:
    async def main() -> None:
        app = Recorder()
        gate: ASGIApp = served.Gate(app, Doorkeeper(TOKEN), public=("/open",))
        server = served.HttpServer(gate, Doorkeeper(TOKEN))
        loop = asyncio.get_running_loop()
        listening, address = await listen(loop, server.make_protocol, "127.0.0.1", [0])
        try:
            async with asyncio.timeout(LIMIT_S):
                await story(Served(app, address, server))
        finally:
            listening.close()
            await server.close()

    asyncio.run(main())


LONG = b"x" * (served.HEAD_MAX + 1)


@pytest.mark.parametrize(
    ("sent", "status", "says"),
    [
        (b"nonsense\r\n\r\n", 400, "expected a request such as"),
        (b"GET / HTTP/9.9\r\n\r\n", 400, "expected a request such as"),
        (b"GET \xff HTTP/1.1\r\n" + HEAD + b"\r\n", 400, "expected a request such as"),
        (
            b"POST / HTTP/1.1\r\n" + HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
            400,
            "expected a request such as",
        ),
        (
            b"POST / HTTP/1.1\r\n" + HEAD + b"Content-Length: " + b"0" * 5000 + b"1\r\n\r\n",
            413,
            "a body of at most",
        ),
        (b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: secret\r\n\r\n", 401, "token"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 400, "expected a request such as"),
        (b"GET / HTTP/1.1\r\n" + HEAD + b"A: b\r\n" * 5000 + b"\r\n", 431, "a head of at most"),
        (b"GET / HTTP/1.1\r\n" + HEAD + b"A: " + LONG + b"\r\n\r\n", 431, "a head of at most"),
        (b"GET / HTTP/1.1\r\n" + HEAD + LONG, 431, "a head of at most"),
        (b"GET / HTTP/1.1\r\n" + HEAD + b"A: " + LONG, 431, "a head of at most"),
        (b"GET /" + LONG + b" HTTP/1.1\r\n" + HEAD + b"\r\n", 431, "a head of at most"),
        (b"GET / HTTP/1.1\r\n" + HEAD + b"Host: b\r\n\r\n", 400, "one header host"),
        (b"GET / HTTP/1.1\r\n" + HEAD + HEAD[9:] + b"\r\n", 400, "one header authorization"),
        (b"GET / HTTP/1.1\r\n" + HEAD + b"bad header\r\n\r\n", 400, "expected a request such as"),
        (b"POST / HTTP/1.1\r\n" + HEAD + b"Content-Length: -1\r\n\r\n", 400, "expected"),
        (b"POST / HTTP/1.1\r\n" + HEAD + b"Content-Length: 1e3\r\n\r\n", 400, "expected"),
        (b"POST / HTTP/1.1\r\n" + HEAD + b"Content-Length: 99999999\r\n\r\n", 413, "a body of at"),
        (b"POST / HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n", 400, "chunks"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n", 401, "token"),
        (b"GET / HTTP/1.1\r\nAuthorization: Bearer secre\r\n\r\n", 401, "token"),
        (b"GET / HTTP/1.1\r\nAuthorization: Bearer secret2\r\n\r\n", 401, "token"),
        (b"GET /open/x HTTP/1.1\r\n\r\n", 401, "token"),
    ],
)
def test_what_is_refused_is_answered_at_once_and_the_connection_closed(
    sent: bytes, status: int, says: str
) -> None:
    """No body is sent in any of them: whatever is decided is decided by the head."""

    async def story(it: Served) -> None:
        got, body, closed = await it.ask(sent)
        assert (got, closed) == (status, True) and says in body["error"]
        assert it.app.asked == [], "the application was not asked"
        assert (await it.ask(b"GET /ok HTTP/1.1\r\n" + HEAD + b"\r\n"))[0] == 200

    run(story)


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"GET / HTT", "ended in its head"),
        (b"POST / HTTP/1.1\r\n" + HEAD + b"Content-Length: 10\r\n\r\nhalf", "ended in its body"),
    ],
)
def test_half_a_request_is_told_so(sent: bytes, says: str) -> None:
    async def story(it: Served) -> None:
        status, body, closed = await it.ask(sent, end=True)
        assert (status, closed) == (400, True) and says in body["error"]

    run(story)


def test_a_client_that_sends_no_more_still_gets_its_answer() -> None:
    async def story(it: Served) -> None:
        sent = b"POST /x HTTP/1.1\r\n" + HEAD + b"Content-Length: 4\r\n\r\nbody"
        assert (await it.ask(sent, end=True))[:2] == (200, ["POST", "/x", 4])

    run(story)


def test_a_connection_is_used_again_and_requests_may_be_sent_ahead() -> None:
    async def story(it: Served) -> None:
        reader, writer = await it.connect()
        for name in ("one", "two"):
            writer.write(f"GET /{name} HTTP/1.1\r\n".encode() + HEAD + b"\r\n")
            assert await read_answer(reader) == (200, ["GET", f"/{name}", 0], False)
        ahead = b"".join(
            f"GET /{name} HTTP/1.1\r\n".encode() + HEAD + b"\r\n" for name in ("three", "four")
        )
        writer.write(ahead)
        assert [(await read_answer(reader))[1][1] for _ in range(2)] == ["/three", "/four"]
        writer.close()

    run(story)


def test_a_head_that_comes_byte_by_byte_is_understood() -> None:
    async def story(it: Served) -> None:
        reader, writer = await it.connect()
        for byte in b"GET /slow HTTP/1.1\r\n" + HEAD + b"\r\n":
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert (await read_answer(reader))[1] == ["GET", "/slow", 0]
        writer.close()

    run(story)


def test_names_in_a_path_arrive_as_they_were_written() -> None:
    """A slash inside a name must not become one between names."""

    async def story(it: Served) -> None:
        await it.ask(b"GET /v1/tasks/..%2Fx/output?a=%2F HTTP/1.1\r\n" + HEAD + b"\r\n")
        assert it.app.asked == ["/v1/tasks/..%2Fx/output"]

    run(story)


def test_the_largest_body_is_read_and_waited_for_but_not_forever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(it: Served) -> None:
        size = served.BODY_MAX
        head = b"POST /big HTTP/1.1\r\n" + HEAD + b"Content-Length: %d\r\n" % size
        status, body, _ = await it.ask(head + b"\r\n" + b"x" * size)
        assert (status, body) == (200, ["POST", "/big", size])
        monkeypatch.setattr(served, "READ_S", 0.05)
        status, body, _ = await it.ask(head + b"\r\n" + b"x")
        assert status == 408 and "in time" in body["error"]

    run(story)


def test_a_client_that_waits_to_be_told_to_send_its_body_is_told() -> None:
    async def story(it: Served) -> None:
        reader, writer = await it.connect()
        head = b"POST /late HTTP/1.1\r\n" + HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\n"
        writer.write(head + b"\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"ab")
        assert (await read_answer(reader))[1] == ["POST", "/late", 2]
        writer.close()

    run(story)


def test_there_are_only_so_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "CONNECTIONS_MAX", 2)
    request = b"GET /x HTTP/1.1\r\n" + HEAD + b"\r\n"

    async def story(it: Served) -> None:
        held = [await it.connect() for _ in range(2)]
        for reader, writer in held:
            writer.write(request)
            assert (await read_answer(reader))[0] == 200
        status, body, closed = await it.ask(request)
        assert (status, closed) == (503, True) and "too many" in body["error"]
        held[0][1].close()
        while (await it.ask(request))[0] != 200:
            await asyncio.sleep(0.01)
        held[1][1].close()

    run(story)


def test_strangers_take_no_place_from_who_has_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many silent connections are held, a request with the token is answered; the
    strangers that came first make room."""
    monkeypatch.setattr(served, "STRANGERS_MAX", 3)
    request = b"GET /x HTTP/1.1\r\n" + HEAD + b"\r\n"

    async def story(it: Served) -> None:
        member = await it.connect()
        member[1].write(request)
        assert (await read_answer(member[0]))[0] == 200
        silent = [await it.connect() for _ in range(8)]
        for reader, _ in silent[:5]:
            assert (await read_answer(reader))[0] == 503
        assert (await it.ask(request))[0] == 200
        member[1].write(request)
        assert (await read_answer(member[0]))[0] == 200, "it was let in before and stays"
        for _, writer in [*silent, member]:
            writer.close()

    run(story)


def test_no_body_is_read_before_the_token() -> None:
    """Who sends a body without the token is answered while most of it is still to come."""
    size = served.BODY_MAX

    async def story(it: Served) -> None:
        reader, writer = await it.connect()
        writer.write(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size)
        assert (await read_answer(reader))[0] == 401
        with contextlib.suppress(ConnectionError):
            for _ in range(size // 65536):
                writer.write(b"x" * 65536)
                await writer.drain()
            pytest.fail("the server took the whole body")
        writer.close()
        assert it.app.asked == []

    run(story)


def test_silence_before_a_head_ends_a_connection_and_silence_after_it_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(served, "IDLE_S", 0.05)

    async def story(it: Served) -> None:
        reader, writer = await it.connect()
        assert await reader.read() == b""
        writer.close()
        reader, writer = await it.connect()
        writer.write(b"GET /never HTTP/1.1\r\nA: ")
        assert await reader.read() == b""
        writer.close()
        reader, writer = await it.connect()
        writer.write(b"GET /wait HTTP/1.1\r\n" + HEAD + b"\r\n")
        await asyncio.sleep(10 * served.IDLE_S)
        it.app.release.set()
        assert (await read_answer(reader))[0] == 200
        assert await reader.read() == b"", "silent after its answer"
        writer.close()

    run(story)


def test_a_stream_ends_with_its_client_and_with_the_server() -> None:
    async def story(it: Served) -> None:
        for _ in range(2):
            reader, writer = await it.connect()
            writer.write(b"GET /stream HTTP/1.1\r\n" + HEAD + b"\r\n")
            await reader.readuntil(b"first")
            writer.transport.abort()
        while len(it.app.ended) < 2:
            await asyncio.sleep(0.01)
        reader, writer = await it.connect()
        writer.write(b"GET /stream HTTP/1.1\r\n" + HEAD + b"\r\n")
        await reader.readuntil(b"first")
        await it.server.close()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        assert len(it.app.ended) == 3
        writer.close()

    run(story)


# Addresses and ports.


@pytest.mark.parametrize("text", ["127.0.0.1:80", "localhost:65535", "[::1]:8080"])
def test_an_address_reads_what_it_writes(text: str) -> None:
    address = parse_address(text)
    assert str(address) == text and parse_address(address.url) == address
    assert "[" not in address.host


@pytest.mark.parametrize(
    "text", ["", "x", ":80", "a:", "a:b", "a:-1", "a:65536", "a:²", f"a:{'9' * 99}"]
)
def test_what_is_no_address_is_said(text: str) -> None:
    with pytest.raises(ValueError, match=r"^got '"):
        parse_address(text)


def test_a_taken_port_is_left_for_the_next_one_unless_it_was_the_last() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        taken, address = await listen(loop, asyncio.Protocol, "127.0.0.1", [0])
        with pytest.raises(InputError, match=f"port {address.port}"):
            await listen(loop, asyncio.Protocol, "127.0.0.1", [address.port])
        other, found = await listen(loop, asyncio.Protocol, "127.0.0.1", [address.port, 0])
        assert found.port != address.port
        taken.close()
        other.close()

    asyncio.run(main())


def test_free_ports_are_all_different() -> None:
    ports = find_ports([0] * 20)
    assert len(set(ports)) == 20 and 0 not in ports
