"""The one place that opens sockets: listening, connecting, and finding free ports.

Every function takes a TLS context, so that encryption is decided by the directory that hands out
the credentials and nowhere else. The functions that need an event loop are given it: commands use
the blocking one and never import asyncio.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import logging
import socket
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeVar

from murmuration.base.errors import InputError
from murmuration.runtime.net.addresses import Address

if TYPE_CHECKING:
    import asyncio
    import ssl

    from murmuration.runtime.net.certificates import Identity

P = TypeVar("P", bound="asyncio.Protocol")
#: Errors after which another port is worth a try.
_PORT_TAKEN = (errno.EADDRINUSE, errno.EACCES)
ACCEPT_ERRORS_S = 60.0
CLONE_NEWNET = 0x40000000
log = logging.getLogger("murmuration.sockets")


def dial(address: Address, timeout_s: float, tls: ssl.SSLContext | None = None) -> socket.socket:
    """A blocking connection, for commands and schedulers outside the cluster's processes.
    InputError if the other side's certificate is refused."""
    connection = socket.create_connection((address.host, address.port), timeout_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls is None:
        return connection
    try:
        return tls.wrap_socket(connection, server_hostname=address.host)
    except OSError as error:
        raise _explain_refusal(address, error) from error


async def connect(
    loop: asyncio.AbstractEventLoop,
    make_protocol: Callable[[], P],
    address: Address,
    tls: ssl.SSLContext | None = None,
) -> P:
    """A connection that a protocol reads from. InputError if the other side's certificate is
    refused."""
    if tls is not None:
        from murmuration.runtime.net.handshakes import shrink_buffers

        shrink_buffers()
    try:
        _, protocol = await loop.create_connection(
            make_protocol, address.host, address.port, ssl=tls
        )
    except OSError as error:
        raise (error if tls is None else _explain_refusal(address, error)) from error
    return protocol


def _explain_refusal(address: Address, error: OSError) -> Exception:
    """Why an encrypted connection could not be made: a sentence where it is about certificates,
    else the error as it is."""
    from murmuration.runtime.net.certificates import explain_refusal

    sentence = explain_refusal(error)
    return InputError(f"{address}: {sentence}") if sentence else error


async def listen(
    loop: asyncio.AbstractEventLoop,
    make_protocol: Callable[[], asyncio.Protocol],
    host: str,
    ports: Sequence[int],
    tls: ssl.SSLContext | None = None,
) -> tuple[asyncio.Server, Address]:
    """Listen on the first of these ports that is free (0: any); the address says which it was.
    Without TLS, this host alone can be listened to."""
    if tls is None:
        check_loopback(host)
    else:
        from murmuration.runtime.net.handshakes import Handshakes

        make_protocol = Handshakes(make_protocol, tls).make_protocol
    for port in ports:
        try:
            server = await loop.create_server(make_protocol, host, port)
        except OSError as error:
            if error.errno not in _PORT_TAKEN:
                raise
            if port == ports[-1]:
                sentence = (error.strerror or "cannot be used").lower()
                raise InputError(f"port {port}: {sentence}") from error
        else:
            return server, Address(host, int(server.sockets[0].getsockname()[1]))
    raise AssertionError("at least one port is tried")


def identify(transport: asyncio.BaseTransport) -> Identity | None:
    """Whose certificate the other side of a connection has shown; None in clear text."""
    tls = transport.get_extra_info("ssl_object")
    if tls is None:
        return None
    from murmuration.runtime.net.certificates import peer_identity

    return peer_identity(tls)


def check_loopback(host: str) -> None:
    """InputError if an address is one that other hosts can reach."""
    try:
        # An empty host is every address of this one.
        places = socket.getaddrinfo(host or None, 0, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise InputError(f"{host}: expected the name or an address of this host") from error
    if not all(ipaddress.ip_address(str(place[4][0])).is_loopback for place in places):
        raise InputError(
            f"{host or 'every address'}: nothing listens there without certificates; make them "
            "with murmur ca, or listen on 127.0.0.1"
        )


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


def open_in_network(process: int | None) -> socket.socket:
    """A socket in the network of a process, given by a descriptor of it (pidfd), or without one in
    this network. A thread goes there to open it, and never comes back."""
    if process is None:
        return socket.socket()
    import ctypes
    import os
    import threading

    opened: list[socket.socket | OSError] = []

    def open_there() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(process, CLONE_NEWNET):
            opened.append(OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno())))
        else:
            opened.append(socket.socket())

    thread = threading.Thread(target=open_there)
    thread.start()
    thread.join()
    if isinstance(opened[0], OSError):
        raise opened[0]
    return opened[0]


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
