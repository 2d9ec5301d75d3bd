"""The one place that opens sockets: listening, connecting, and finding free ports.

Every function takes a TLS context, so that encryption is decided by the directory that hands out
the credentials and nowhere else. The functions that need an event loop are given it: commands use
the blocking one and never import asyncio.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeVar

from murmuration.base.errors import InputError
from murmuration.runtime.net.addresses import Address

if TYPE_CHECKING:
    import asyncio
    import ssl

P = TypeVar("P", bound="asyncio.Protocol")
#: Errors after which another port is worth a try.
_PORT_TAKEN = (errno.EADDRINUSE, errno.EACCES)
ACCEPT_ERRORS_S = 60.0
log = logging.getLogger("murmuration.sockets")


def dial(address: Address, timeout_s: float, tls: ssl.SSLContext | None = None) -> socket.socket:
    """A blocking connection, for commands and schedulers outside the cluster's processes."""
    connection = socket.create_connection((address.host, address.port), timeout_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection if tls is None else tls.wrap_socket(connection, server_hostname=address.host)


async def connect(
    loop: asyncio.AbstractEventLoop,
    make_protocol: Callable[[], P],
    address: Address,
    tls: ssl.SSLContext | None = None,
) -> P:
    """A connection that a protocol reads from."""
    _, protocol = await loop.create_connection(make_protocol, address.host, address.port, ssl=tls)
    return protocol


async def listen(
    loop: asyncio.AbstractEventLoop,
    make_protocol: Callable[[], asyncio.Protocol],
    host: str,
    ports: Sequence[int],
    tls: ssl.SSLContext | None = None,
) -> tuple[asyncio.Server, Address]:
    """Listen on the first of these ports that is free (0: any); the address says which it was."""
    for port in ports:
        try:
            server = await loop.create_server(make_protocol, host, port, ssl=tls)
        except OSError as error:
            if error.errno not in _PORT_TAKEN:
                raise
            if port == ports[-1]:
                sentence = (error.strerror or "cannot be used").lower()
                raise InputError(f"port {port}: {sentence}") from error
        else:
            return server, Address(host, int(server.sockets[0].getsockname()[1]))
    raise AssertionError("at least one port is tried")


def log_accept_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Where no descriptor is left for a connection, the loop tells of each with a traceback: here
    one line in a while does, so that a flood of connections fills no disk."""
    told_s = float("-inf")

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        nonlocal told_s
        if "socket.accept()" not in str(context.get("message")):
            loop.default_exception_handler(context)
        elif loop.time() > told_s + ACCEPT_ERRORS_S:
            told_s = loop.time()
            log.warning("connections wait: %s", context.get("exception"))

    loop.set_exception_handler(handle)


def find_ports(
    wanted: Sequence[int], list_taken: Callable[[], Collection[int]] = frozenset
) -> list[int]:
    """These ports of this host, each 0 replaced by a free one. InputError if one is in use.
    `list_taken` tells of those that are in use though nobody listens."""
    ports: list[int] = []
    taken = list_taken() if wanted else ()
    with contextlib.ExitStack() as held:
        # All stay bound until the last one is known, so that no free port is found twice.
        for port in wanted:
            number = 0
            while not number or (number in taken and not port):
                listener = held.enter_context(socket.socket())
                number = _bind(listener, port)
            if number in taken:
                raise InputError(f"port {port} is in use")
            ports.append(number)
    return ports


def _bind(listener: socket.socket, port: int) -> int:
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("", port))
        listener.listen(1)
    except OSError as error:
        raise InputError(f"port {port} is in use") from error
    return int(listener.getsockname()[1])
