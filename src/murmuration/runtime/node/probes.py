"""Whether a task is well, seen from where it runs: a command in its isolation, or a connection in
its network."""

from __future__ import annotations

import asyncio
import contextlib
import os

from murmuration.runtime.net.sockets import open_in_network
from murmuration.runtime.node.companion import STDERR, STDOUT, Companion
from murmuration.runtime.node.isolation import Handle, Isolation, StartFailed
from murmuration.runtime.node.isolation.folder import keep_output
from murmuration.workload.service_spec import HealthCheck

#: What is kept of a check's output, and read of a page.
KEPT, HEAD_MAX = 4096, 4096
WELL = range(200, 400)


async def probe(check: HealthCheck, handle: Handle, isolation: Isolation) -> str:
    """Why a task is not well; empty if it is. Everybody sees that, so what a command wrote is not
    in it: that is kept beside the task's outputs, for those who may read them."""
    try:
        async with asyncio.timeout(check.timeout_s):
            if check.command:
                return await _run(check, handle, isolation)
            return await _connect(check, handle, isolation)
    except TimeoutError:
        return f"no answer within {check.timeout_s:g} s"
    except (OSError, StartFailed) as error:
        what = f"port {check.port}: " if check.port else ""
        number = error.errno if isinstance(error, OSError) else None
        sentence = os.strerror(number) if number else str(error)
        return f"{what}{sentence.lower()}"


async def _run(check: HealthCheck, handle: Handle, isolation: Isolation) -> str:
    companion = Companion(isolation.enter(handle, check.command), isolation)
    shown = b""
    try:
        while not companion.is_done:
            await companion.wait(check.timeout_s)
            shown = (shown + companion.take(STDOUT) + companion.take(STDERR))[-KEPT:]
    finally:
        companion.kill()
    if companion.code == 0:
        return ""
    with contextlib.suppress(OSError):
        keep_output(handle.folder, shown)
    return f"the check ended with code {companion.code}"


async def _connect(check: HealthCheck, handle: Handle, isolation: Isolation) -> str:
    """Connect to the task's own loopback; a page is asked for by a request of three lines."""
    loop = asyncio.get_running_loop()
    network = handle.fileno() if isolation.has_networks else None
    with open_in_network(network) as connection:
        connection.setblocking(False)
        await loop.sock_connect(connection, ("127.0.0.1", check.port))
        if check.tcp:
            return ""
        host = f"Host: 127.0.0.1:{check.port}\r\nUser-Agent: murmur\r\nConnection: close"
        await loop.sock_sendall(connection, f"GET {check.http} HTTP/1.1\r\n{host}\r\n\r\n".encode())
        head = b""
        while b"\r\n" not in head and len(head) < HEAD_MAX:
            part = await loop.sock_recv(connection, HEAD_MAX)
            if not part:
                break
            head += part
    words, status = head.split(None, 2)[:2], 0
    with contextlib.suppress(ValueError, IndexError):
        status = int(words[1]) if words[0].startswith(b"HTTP/") else 0
    if status in WELL:
        return ""
    return f"{check.http}: {f'status {status}' if status else 'no answer in HTTP'}"
