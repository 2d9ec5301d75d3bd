"""The handshakes of one listening socket: who shows a certificate of the cluster's is handed on to
the protocol that serves it, everybody else is refused with a line in the log.

asyncio can do handshakes by itself, but it tells nobody of those that fail, makes a protocol for
each connection before it is known whose it is, and lets any number of them wait. Here they are told
of with an address, bounded in number and time, and a protocol is made when the other side is known.
"""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import logging
import ssl
from collections.abc import Callable

from murmuration.runtime.net.certificates import ServerContext, explain_refusal, peer_identity

HANDSHAKE_S = 10.0
#: How often open connections are looked at for certificates that were revoked meanwhile.
CHECK_S = 5.0
#: Handshakes that are not over; the oldest makes room for the next.
HANDSHAKES_MAX = 128
#: The same refusal of the same host is told of once in this time; so many are remembered.
TELL_AGAIN_S, TOLD_MAX = 60.0, 256
#: A connection reads so much at once. asyncio's 256 KiB for each are most of what a connection
#: takes, and a record of TLS is hardly longer than this.
BUFFER_SIZE = 16 * 1024

MakeProtocol = Callable[[], asyncio.Protocol]
log = logging.getLogger("murmuration.sockets")


def shrink_buffers() -> None:
    """Let encrypted connections of this process have small buffers: with thousands of connections
    they are what fills a master's memory."""
    asyncio.sslproto.SSLProtocol.max_size = BUFFER_SIZE


class Handshakes:
    """Makes a protocol for each connection that comes in."""

    def __init__(self, make_protocol: MakeProtocol, context: ssl.SSLContext) -> None:
        self._make, self._context = make_protocol, context
        #: In the order they came in.
        self._pending: dict[_Handshake, asyncio.Task[None]] = {}
        self._told: dict[tuple[str, str], float] = {}
        #: Connections by the serial number of their certificate, as far as they can be revoked.
        self._open: dict[asyncio.Transport, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        shrink_buffers()

    def make_protocol(self) -> asyncio.Protocol:
        return _Handshake(self.begin)

    def begin(self, handshake: _Handshake, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        self._pending[handshake] = loop.create_task(self._finish(handshake, transport))
        if len(self._pending) > HANDSHAKES_MAX:
            next(iter(self._pending.values())).cancel()

    async def _finish(self, handshake: _Handshake, transport: asyncio.Transport) -> None:
        peer = transport.get_extra_info("peername")
        loop = asyncio.get_running_loop()
        try:
            encrypted = await loop.start_tls(
                transport,
                handshake,
                self._context,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_S,
            )
            if encrypted is None or handshake.ended:
                return
            if peer_identity(encrypted.get_extra_info("ssl_object")) is None:
                self._tell(peer, "its certificate names no role")
                encrypted.abort()
                return
            handshake.hand_on(self._make(), encrypted)
            self._watch(encrypted)
        except ssl.SSLError as error:
            self._tell(peer, explain_refusal(error) or _name_failure(error))
        except OSError as error:
            log.debug("a connection from %s ended in its handshake: %s", peer, error)
        finally:
            self._pending.pop(handshake, None)

    def _watch(self, transport: asyncio.Transport) -> None:
        """Close a connection when its certificate is revoked: that of a node agent may be open for
        weeks."""
        if not isinstance(self._context, ServerContext):
            return
        certificate = transport.get_extra_info("ssl_object").getpeercert()
        self._open[transport] = int(certificate["serialNumber"], 16)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(CHECK_S, self._check)

    def _check(self) -> None:
        assert isinstance(self._context, ServerContext)
        revoked = self._context.read_revoked()
        self._open = {line: serial for line, serial in self._open.items() if not line.is_closing()}
        for line in [line for line, serial in self._open.items() if serial in revoked]:
            identity = peer_identity(line.get_extra_info("ssl_object"))
            log.warning("the connection of %s was closed: its certificate was revoked", identity)
            del self._open[line]
            line.abort()
        self._timer = None
        if self._open:
            self._timer = asyncio.get_running_loop().call_later(CHECK_S, self._check)

    def _tell(self, peer: tuple[str, int] | None, sentence: str) -> None:
        """One line for each host and reason in a while: nobody without a certificate shall fill a
        log."""
        host, now = peer[0] if peer else "a host", asyncio.get_running_loop().time()
        if self._told.get((host, sentence), -TELL_AGAIN_S) + TELL_AGAIN_S > now:
            return
        if len(self._told) >= TOLD_MAX:
            self._told.clear()
        self._told[host, sentence] = now
        log.warning("a connection from %s was refused: %s", host, sentence)


class _Handshake(asyncio.Protocol):
    """A connection until its handshake is over. What comes in with the end of the handshake is kept
    for the protocol that serves it."""

    def __init__(self, begin: Callable[[_Handshake, asyncio.Transport], None]) -> None:
        self._begin = begin
        self._early = bytearray()
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        # Nothing may be read before it can be deciphered.
        transport.pause_reading()
        self._begin(self, transport)

    def data_received(self, data: bytes) -> None:
        self._early += data

    def connection_lost(self, error: Exception | None) -> None:
        self.ended = True

    def hand_on(self, protocol: asyncio.Protocol, transport: asyncio.Transport) -> None:
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._early:
            protocol.data_received(bytes(self._early))


def _name_failure(error: ssl.SSLError) -> str:
    reason = (error.reason or "no reason given").lower().replace("_", " ")
    return f"the handshake of TLS failed ({reason})"
