"""An API server that says what a test tells it to: for answers a real one gives once a year."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from murmuration.kubernetes.api.access import Access
from murmuration.kubernetes.api.client import KubeClient
from murmuration.kubernetes.api.credentials import Fixed
from murmuration.kubernetes.api.http import Server

Object = dict[str, Any]


@dataclass
class Call:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    writer: asyncio.StreamWriter
    headers: dict[str, str]

    async def answer(self, status: int, body: Object | str, headers: str = "") -> None:
        text = (json.dumps(body) if isinstance(body, dict) else body).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-length: {len(text)}\r\n{headers}\r\n"
        self.writer.write(head.encode() + text)
        await self.writer.drain()

    async def refuse(self, status: int, message: str = "no", reason: str = "", **more: Any) -> None:
        body = {"kind": "Status", "code": status, "message": message, "reason": reason, **more}
        await self.answer(status, body)

    async def begin_stream(self) -> None:
        self.writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")

    async def send(self, type_: str, thing: Object) -> None:
        line = (json.dumps({"type": type_, "object": thing}) + "\n").encode()
        self.writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        await self.writer.drain()

    async def end_stream(self) -> None:
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    def cut(self) -> None:
        self.writer.transport.abort()


Handler = Callable[[Call], Awaitable[None]]


@dataclass
class Scripted:
    """Answers calls by a function of the test's, and keeps a list of them."""

    handler: Handler
    calls: list[Call] = field(default_factory=list)
    port: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *rest = head.decode().strip().split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in rest)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                method, target, _ = first.split(" ")
                parts = urlsplit(target)
                query = {key: values[0] for key, values in parse_qs(parts.query).items()}
                asked = json.loads(body) if body else None
                call = Call(method, parts.path, query, asked, writer, headers)
                self.calls.append(call)
                await self.handler(call)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()

    def access(self) -> Access:
        return Access(Server("127.0.0.1", self.port), Fixed("Bearer t"), "default", "scripted")


@asynccontextmanager
async def scripted(handler: Handler) -> AsyncIterator[tuple[Scripted, KubeClient]]:
    """A scripted server on loopback and a client of it."""
    script = Scripted(handler)
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
    script.port = server.sockets[0].getsockname()[1]
    client = KubeClient(script.access())
    try:
        yield script, client
    finally:
        client.close()
        server.close()
        for writer in script.writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)


def thing(name: str, version: int, **more: Any) -> Object:
    return {"metadata": {"name": name, "resourceVersion": str(version)}, **more}


def listing(version: int, *things: Object, more: str = "") -> Object:
    metadata = {"resourceVersion": str(version), "continue": more}
    return {"kind": "PodList", "metadata": metadata, "items": list(things)}
