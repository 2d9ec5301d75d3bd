"""HTTP for the API: uvicorn's parser and protocol with strict bounds around them.

Whoever can reach the port can send anything, so everything is bounded before it is stored: the
size of a head, the time it may take, the number of connections. The parser is llhttp, the one of
Node.js, through httptools. What is no HTTP gets an answer in JSON like every other refusal, and the
connection is closed.

Uvicorn's protocol class is used without its server: that one would install signal handlers and wake
up ten times a second, and sockets are opened in `net/sockets` alone. Bounds on bodies and the token
belong to the application (`Gate`), which sees a head before any of the body is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from murmuration.runtime.net.callers import Caller, Doorkeeper, certified, check_role
from murmuration.runtime.net.rates import RateLimit
from murmuration.runtime.net.sessions import MARK, is_foreign
from murmuration.runtime.net.sockets import identify
from murmuration.runtime.net.wire import UNREADABLE

Body = TypeVar("Body")

HEAD_MAX = 16 * 1024
BODY_MAX = 4 * 2**20
#: Of a stranger's body, where one is read: the code of a link.
STRANGERS_BODY_MAX = 1024
#: Connections that have shown the token, and those that have not (yet). Each kind has room of its
#: own, so that nobody without the token can take the place of somebody with it.
CONNECTIONS_MAX = 256
STRANGERS_MAX = 128
#: Connections that only operators may have: nobody else can shut them out.
OPERATORS_ONLY = 64
#: Requests per second of each user, unless the operator says otherwise; and of those who show no
#: token that is known, for each address.
RATE_PER_S, STRANGERS_PER_S = 100.0, 20.0
#: A client that is silent in the middle of a body for this long is refused.
READ_S = 30.0
#: How long a connection may take from its start, or from its last answer, to the end of a head; and
#: how long one that has not shown the token.
IDLE_S = 120
STRANGER_S = 10.0
#: Digits of the largest body; a longer number is no length.
LENGTH_DIGITS = 10
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")
#: Headers that decide about a request and so must not come twice.
_ONCE = (b"host", b"authorization", b"content-length", b"transfer-encoding")
#: Methods that change nothing.
_READING = ("GET", "HEAD")
#: Where the state of a connection says whose certificate was shown, and the scope of a request who
#: asks.
CERTIFIED, CALLER = "certified", "caller"
_PHRASES = {
    400: "Bad Request",
    401: "Unauthorized",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
HEADERS = {"content-type": "application/json", "cache-control": "no-store"}


class ErrorAnswer(msgspec.Struct):
    error: str
    #: The field of the job that is wrong, as a dotted path.
    field: str = ""


class Refusal(Exception):  # noqa: N818 - it is an answer
    """A request that is answered with a status and a sentence."""

    def __init__(self, status: int, sentence: str, retry_s: float = 0.0) -> None:
        super().__init__(sentence)
        self.status, self.retry_s = status, retry_s


class HttpConnections(ServerState):
    """Who is connected. The strangers are in the order they came in: the one that has been silent
    longest makes room for the next."""

    def __init__(self, doorkeeper: Doorkeeper) -> None:
        super().__init__()
        self._doorkeeper = doorkeeper
        self.strangers: dict[BoundedHttp, None] = {}
        self.members: set[BoundedHttp] = set()

    def find(
        self, headers: Iterable[tuple[bytes, bytes]], certified: Caller | None
    ) -> Caller | None:
        fields = dict(headers)
        caller = self._doorkeeper.admit(shown_token(fields), certified)
        return caller or self._doorkeeper.find_session(fields)


class BoundedHttp(HttpToolsProtocol):
    """One connection. A head is *open* from its first byte until its last; only then is anything
    counted and timed here, since bodies are the application's to bound."""

    server_state: HttpConnections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        identity = identify(transport)
        self._certified = None if identity is None else certified(*identity)
        self.app_state = {CERTIFIED: self._certified}
        self._is_member = False
        self._head_open = False
        #: Bytes that were received, and bytes of the fields that were complete.
        self._head_size = self._fields_size = 0
        self._seen: set[bytes] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._refusal = Refusal(400, "expected a request such as GET /v1/status HTTP/1.1")
        self._start_timer()
        strangers = self.server_state.strangers
        strangers[self] = None
        if len(strangers) > STRANGERS_MAX:
            oldest = next(iter(strangers))
            del strangers[oldest]
            oldest._refuse(_too_many())

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self.server_state.strangers.pop(self, None)
        self.server_state.members.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # A header that never ends reaches no callback, so bytes are counted as well.
        if self._head_open and not self.transport.is_closing():
            self._head_size += len(data)
            if self._head_size > HEAD_MAX:
                self._refuse(_head_too_large())

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client sends no more: it has left, or waits for its answer. Whoever was reading a
        stream has left; half a request is refused. False closes the connection, which an encrypted
        one cannot avoid."""
        if self._certified is not None:
            return False
        if self._head_open:
            self._refuse(Refusal(400, "the request ended in its head"))
            return True
        if self.cycle is None or self.cycle.response_started:
            return False
        if self.cycle.more_body:
            self._refuse(Refusal(400, "the request ended in its body"))
        self.cycle.keep_alive = False
        return True

    # What the parser calls. An exception makes it stop, and `send_400_response` answers.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_open = True
        self._head_size = self._fields_size = 0
        self._seen.clear()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count_field(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count_field(len(name) + len(value) + 4)
        lower = name.lower()
        if lower in _ONCE and lower in self._seen:
            raise self._remember(Refusal(400, f"expected one header {lower.decode('latin-1')}"))
        self._seen.add(lower)

    def _count_field(self, size: int) -> None:
        """A head that came in one piece is bounded too."""
        self._fields_size += size
        if self._fields_size > HEAD_MAX:
            raise self._remember(_head_too_large())

    def on_headers_complete(self) -> None:
        self._head_open = False
        self._stop_timer()
        if not self._is_member:
            caller = self.server_state.find(self.headers, self._certified)
            if caller is not None:
                self._admit(caller)
        super().on_headers_complete()

    def _admit(self, caller: Caller) -> None:
        """A token or a certificate was shown: this connection is no stranger's any more."""
        state = self.server_state
        room = CONNECTIONS_MAX - (0 if caller.is_operator else OPERATORS_ONLY)
        if len(state.members) >= room:
            raise self._remember(_too_many())
        state.strangers.pop(self, None)
        state.members.add(self)
        self._is_member = True

    def on_response_complete(self) -> None:
        another_waits = bool(self.pipeline)
        super().on_response_complete()
        if not another_waits and not self.transport.is_closing():
            self._start_timer()

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refusal)

    def _remember(self, refusal: Refusal) -> Refusal:
        self._refusal = refusal
        return refusal

    def _refuse(self, refusal: Refusal) -> None:
        """Answer without the application, and close."""
        if self.cycle is None or not self.cycle.response_started:
            body = encode_error(str(refusal))
            head = f"HTTP/1.1 {refusal.status} {_PHRASES[refusal.status]}\r\n"
            headers = {**HEADERS, "content-length": str(len(body)), "connection": "close"}
            head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            self.transport.write(head.encode() + b"\r\n" + body)
        self.transport.close()

    def _start_timer(self) -> None:
        self._stop_timer()
        idle_s = IDLE_S if self._is_member else min(IDLE_S, STRANGER_S)
        self._timer = self.loop.call_later(idle_s, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class HttpServer:
    """All connections of one application. Callers with the token have room of their own."""

    def __init__(self, app: ASGIApp, doorkeeper: Doorkeeper) -> None:
        # Nobody without the token shall fill a log, not even with lines about itself.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        self._config = Config(
            app,
            http=BoundedHttp,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=IDLE_S,
        )
        self._config.load()
        self._state = HttpConnections(doorkeeper)

    def make_protocol(self) -> asyncio.Protocol:
        return BoundedHttp(self._config, self._state, {})

    async def close(self) -> None:
        """End every connection and whatever is still being answered."""
        for connection in list(self._state.connections):
            connection.transport.close()
        # Connections learn that they are closed before their requests are cancelled.
        await asyncio.sleep(0)
        tasks = list(self._state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Gate:
    """The first part of the application: it decides by the head alone, before a body is read,
    whether a request is let in."""

    def __init__(
        self,
        app: ASGIApp,
        doorkeeper: Doorkeeper,
        public: Collection[str] = (),
        rate_per_s: float = RATE_PER_S,
        requests: Counter[tuple[str, str]] | None = None,
    ) -> None:
        #: Requests that were answered, by method and status.
        self._requests: Counter[tuple[str, str]] = Counter() if requests is None else requests
        self._app, self._doorkeeper, self._public = app, doorkeeper, public
        self._rate, self._strangers_rate = RateLimit(rate_per_s), RateLimit(STRANGERS_PER_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        # Names in a path may contain any character; they are taken apart before they are decoded.
        path = scope["raw_path"].decode("ascii")
        headers = dict(scope["headers"])
        send = self._count(scope["method"], send)
        try:
            _check_origin(scope["method"], headers)
            is_public = path in self._public
            caller = None if is_public else self._check_access(scope, path, headers)
            _check_body(headers, STRANGERS_BODY_MAX if is_public else BODY_MAX)
        except Refusal as refusal:
            await _answer(send, refusal)
            return
        # A request that is cancelled, because the master ends, has nobody to answer to.
        with contextlib.suppress(asyncio.CancelledError):
            await self._app({**scope, "path": path, CALLER: caller}, receive, send)

    def _count(self, method: str, send: Send) -> Send:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = method if method in METHODS else "other"
                self._requests[known, str(message["status"])] += 1
            await send(message)

        return counted

    def _check_access(self, scope: Scope, path: str, headers: dict[bytes, bytes]) -> Caller:
        """A caller with a certificate, a token or the cookie of a session may do what its role
        says."""
        certified: Caller | None = scope.get("state", {}).get(CERTIFIED)
        token = shown_token(headers)
        caller = self._doorkeeper.admit(token, certified)
        if caller is None:
            caller = self._find_session(scope["method"], headers)
        if caller is None:
            _check_rate(self._strangers_rate, (scope.get("client") or ("",))[0])
            raise Refusal(
                401,
                "expected the cluster's token, or one that was issued and is still good, in the "
                "header Authorization: Bearer TOKEN",
            )
        # First: what a role may not do costs an answer too.
        if caller.user or caller.token:
            _check_rate(self._rate, f"{caller.token}\n{caller.user}")
        fault = check_role(caller, scope["method"], path)
        if fault:
            raise Refusal(403, fault)
        return caller

    def _find_session(self, method: str, headers: dict[bytes, bytes]) -> Caller | None:
        caller = self._doorkeeper.find_session(headers)
        if caller is not None and method not in _READING and MARK not in headers:
            raise Refusal(403, "expected the header X-Murmur, which no other site can send")
        return caller


def _check_origin(method: str, headers: dict[bytes, bytes]) -> None:
    if method not in _READING and is_foreign(headers):
        raise Refusal(403, "expected a request of this cluster's own page, got one of another site")


def _check_rate(rate: RateLimit, client: str) -> None:
    wait_s = rate.take(client)
    if wait_s:
        raise Refusal(429, f"too many requests; the next is answered in {wait_s:.2g} s", wait_s)


def shown_token(headers: dict[bytes, bytes]) -> bytes:
    kind, _, given = headers.get(b"authorization", b"").partition(b" ")
    return given if kind.lower() == b"bearer" else b""


def _check_body(headers: dict[bytes, bytes], size_max: int) -> None:
    if b"transfer-encoding" in headers:
        raise Refusal(400, "expected a body with Content-Length, not in chunks")
    length = headers.get(b"content-length", b"0")
    if not length.isdigit():
        raise Refusal(400, "expected a number as Content-Length")
    if len(length) > LENGTH_DIGITS or int(length) > size_max:
        raise Refusal(413, f"expected a body of at most {size_max} bytes")


def reply(value: object, status: int = 200) -> Response:
    """An answer in JSON."""
    return Response(msgspec.json.encode(value), status, HEADERS)


def decode_body(body: bytes, kind: type[Body]) -> Body:
    """What a body says; 400 where it is no JSON, 422 where it is of another shape."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise Refusal(422, str(error)) from error
    except UNREADABLE as error:
        raise Refusal(400, f"expected JSON: {error}") from error


async def read_body(request: Request) -> bytes:
    """The body, whose size the gate has checked."""
    try:
        return await asyncio.wait_for(request.body(), READ_S)
    except TimeoutError as error:
        raise Refusal(408, "the body did not come in time") from error


async def _answer(send: Send, refusal: Refusal) -> None:
    """The body of the request is not read, so the connection cannot be used again."""
    body = encode_error(str(refusal))
    fields = {**HEADERS, "content-length": str(len(body)), "connection": "close"}
    if refusal.retry_s:
        fields["retry-after"] = str(math.ceil(refusal.retry_s))
    headers = [(name.encode(), value.encode()) for name, value in fields.items()]
    start: dict[str, Any] = {"type": "http.response.start", "status": refusal.status}
    await send({**start, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def encode_error(sentence: str, field: str = "") -> bytes:
    return msgspec.json.encode(ErrorAnswer(sentence, field))


def _too_many() -> Refusal:
    return Refusal(503, "too many connections")


def _head_too_large() -> Refusal:
    return Refusal(431, f"expected a head of at most {HEAD_MAX} bytes")
