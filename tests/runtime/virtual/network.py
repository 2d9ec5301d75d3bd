"""Connections in virtual time, as the kernels of two hosts keep them.

What is written arrives in order and late. A partition delays it; nothing is lost by that. A process
that ends or hangs up closes its end: the other side reads what was sent before, then the end. A
connection that is reset is heard of by each side in its own time, and what was under way is dropped
or, where it had reached the other kernel, still read. A host that goes down says nothing.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from typing import Any

from tests.runtime.virtual.world import VirtualLoop, World

DELAY_S, NOTICE_S, RETRY_S = (0.001, 0.05), 5.0, 0.2
FIRST_PORT = 30000


class End(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: VirtualNetwork, loop: VirtualLoop, protocol: Any) -> None:
        super().__init__()
        self._network, self.loop, self.protocol = network, loop, protocol
        self.other: End | None = None
        #: What is on its way to the other end; None is the end.
        self._way: deque[bytes | None] = deque()
        self._busy_s = self._stalled_until_s = 0.0
        #: Nothing that is written arrives any more.
        self._is_broken = self._is_closed = False
        self._written = 0
        loop.ends.append(self)

    # What a protocol asks.

    def write(self, data: Any) -> None:
        if not self._is_closed:
            self._written += 1
            self._push(bytes(data))

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self._is_closed:
            self._push(None)
            self._lose(None)

    def is_closing(self) -> bool:
        return self._is_closed

    def get_write_buffer_size(self) -> int:
        return sum(len(data) for data in self._way if data is not None)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    # What the kernels do.

    def _push(self, data: bytes | None, seconds: float = 0.0) -> None:
        if self._is_broken:
            return
        world, (low, high) = self._network.world, DELAY_S
        self._busy_s = max(self._busy_s, world.now + seconds + world.rng.uniform(low, high))
        # Somebody who is not sure says a thing twice; the greeting comes once.
        doubled = self._written > 1 and world.rng.random() < self._network.doubling
        for _ in range(2 if data is not None and doubled else 1):
            self._way.append(data)
            world.at(self._busy_s, self._arrive)

    def _arrive(self) -> None:
        if not self._way:
            return
        assert self.other is not None
        world = self._network.world
        if self._network.is_cut(self.loop.host, self.other.loop.host):
            world.after(RETRY_S, self._arrive)
            return
        if world.now < self._stalled_until_s:
            world.at(self._stalled_until_s, self._arrive)
            return
        self.other.loop.call_soon(self.other._receive, self._way.popleft())

    def _receive(self, data: bytes | None) -> None:
        if self._is_closed:
            return
        if data is None:
            self._lose(None)
        else:
            self.protocol.data_received(data)

    def _lose(self, error: Exception | None) -> None:
        self._is_closed = True
        if self in self.loop.ends:
            self.loop.ends.remove(self)
        self.loop.call_soon(self.protocol.connection_lost, error)

    def break_off(self, drops: bool, notice_s: float) -> None:
        """Nothing more arrives at the other end, but that this has ended; what is on its way is
        dropped, or comes late, when the other side may have another connection already."""
        if self._is_broken:
            return
        if drops:
            self._way.clear()
        self._stalled_until_s = self._network.world.now + notice_s
        self._push(None, notice_s)
        self._is_broken = True

    def vanish(self) -> None:
        """The host went down: not even the end arrives."""
        self._way.clear()
        self._is_broken = True


class Listener:
    def __init__(self, network: VirtualNetwork, port: int) -> None:
        self._network, self._port, self.sockets = network, port, [self]

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", self._port

    def close(self) -> None:
        self._network.listeners.pop(self._port, None)


class VirtualNetwork:
    def __init__(self, world: World) -> None:
        self.world, self.doubling = world, 0.0
        self.listeners: dict[int, tuple[VirtualLoop, Any]] = {}
        #: Hosts that are cut off from all others.
        self.isolated: set[str] = set()
        self._ports = FIRST_PORT

    def is_cut(self, one: str, other: str) -> bool:
        return one != other and bool({one, other} & self.isolated)

    def listen(self, loop: VirtualLoop, factory: Any, port: int) -> Listener:
        if port in self.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        if not port:
            self._ports += 1
            port = self._ports
        self.listeners[port] = loop, factory
        return Listener(self, port)

    async def connect(self, loop: VirtualLoop, factory: Any, port: int) -> tuple[End, Any]:
        await asyncio.sleep(self.world.rng.uniform(*DELAY_S))
        while port in self.listeners and self.is_cut(loop.host, self.listeners[port][0].host):
            await asyncio.sleep(RETRY_S)
        if port not in self.listeners:
            raise ConnectionRefusedError
        server, accept = self.listeners[port]
        here = End(self, loop, factory())
        there = End(self, server, None)
        here.other, there.other = there, here

        def accepted() -> None:
            there.protocol = accept()
            there.protocol.connection_made(there)

        # The kernel has the connection, whether or not the process has come to see it.
        server.call_soon(accepted)
        here.protocol.connection_made(here)
        return here, here.protocol

    # What goes wrong.

    def close_all(self, loop: VirtualLoop) -> None:
        """A process has ended."""
        for end in list(loop.ends):
            end._push(None)
        loop.ends.clear()
        for port in [port for port, (owner, _) in self.listeners.items() if owner is loop]:
            del self.listeners[port]

    def reset(self, loop: VirtualLoop) -> None:
        rng = self.world.rng
        for end in list(loop.ends):
            if end.other is not None:
                end.break_off(rng.random() < 0.5, NOTICE_S * rng.random())
                end.other.break_off(rng.random() < 0.5, NOTICE_S * rng.random())

    def power_off(self, loop: VirtualLoop, back_s: float) -> None:
        """The host of a process goes down; who talked to it hears of that when it is back, or
        never."""
        for end in list(loop.ends):
            if back_s < float("inf"):
                end.break_off(True, back_s + NOTICE_S * self.world.rng.random())
            else:
                end.vanish()
        loop.ends.clear()
