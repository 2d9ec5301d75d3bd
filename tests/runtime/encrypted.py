"""A server that says whose certificate it was shown, and clients for it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

from murmuration.runtime.net.addresses import Address
from murmuration.runtime.net.certificates import server_context
from murmuration.runtime.net.sockets import connect, identify, listen

#: Far longer than anything here takes; a test that waits so long has failed.
LIMIT_S = 60.0
HOST = "127.0.0.1"


class Echo(asyncio.Protocol):
    """Says who it talks to, then repeats what it is told."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(f"{identify(transport)}\n".encode())

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Listener(asyncio.Protocol):
    """A client that keeps what it is told."""

    def __init__(self) -> None:
        self.heard, self.lines = bytearray(), asyncio.Event()
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard += data
        self.lines.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set()
        self.lines.set()


@contextlib.asynccontextmanager
async def serving(folder: Path, host: str = HOST) -> AsyncIterator[Address]:
    loop = asyncio.get_running_loop()
    server, address = await listen(loop, Echo, host, [0], server_context(folder))
    try:
        yield address
    finally:
        server.close()


async def greet(address: Address, tls: ssl.SSLContext) -> str:
    """What the server calls us; empty if it has closed the connection instead."""
    client = await connect(asyncio.get_running_loop(), Listener, address, tls)
    await asyncio.wait_for(client.lines.wait(), LIMIT_S)
    client.transport.abort()
    return client.heard.decode().strip()
