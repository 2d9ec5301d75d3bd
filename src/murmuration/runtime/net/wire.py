"""Frames: four bytes of length, then MessagePack of [request, node, key of the message, message].

`request` is 0 for what needs no answer; an answer carries the request's number, negated. One
connection may carry many node agents: `node` says whose frame it is. Sizes are bounded before
anything is decoded. A key is a protocol and a name, as in "central.Launch".

What comes in here was written by somebody else, so nothing is believed before it was looked at. The
length is compared with a bound that is small until a hello was accepted; the outer frame is decoded
without the message in it, whose bytes stay as they are (`msgspec.Raw`); and only if its key is on
the list of what may cross a wire is the message decoded, into exactly that type. A field that is
missing or of another type, text that is no UTF-8 and a nesting without end are one error,
`WireError`, and the connection ends: a peer that broke the protocol once cannot be trusted to be in
step afterwards. Whether the one who speaks may say this is not asked here but where the connection
is known (`runtime/master/peers.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, ClassVar, get_args

import msgspec

from murmuration.schedulers.agent import Message
from murmuration.schedulers.central import messages as central
from murmuration.schedulers.offers import messages as offers

FRAME_MAX = 16 * 2**20
_LENGTH = struct.Struct(">I")


class WireError(Exception):
    """The other side broke the protocol; the connection is closed."""


class WireMessage(Message, frozen=True):
    """What two processes say to each other beside the protocols of their agents."""

    protocol: ClassVar[str] = "wire"


class Hello(WireMessage, frozen=True):
    """The first frame of every connection: who is it, and does it know the cluster's token?"""

    token: str
    role: str
    name: str = ""
    #: A scheduler whose name is taken waits until the one that has it is gone.
    stands_by: bool = False
    #: If this master stands by, the connection shall be kept until it leads (`NowLeads`).
    waits: bool = False


class HelloAnswer(WireMessage, frozen=True):
    """Empty if welcome; with the names of the cluster's resources."""

    error: str = msgspec.field(default="", name="wrong")
    resources: tuple[str, ...] = ()
    #: Another scheduler of this name acts; `YourTurn` says when it is gone.
    waits: bool = False
    #: This master does not lead; `NowLeads` says when it does, and then hello is said again.
    is_standby: bool = False
    #: The term of a master that leads; 0: it does not say.
    term: int = 0
    #: The URL of its API.
    api: str = ""


class NowLeads(WireMessage, frozen=True):
    """The master that stood by leads now."""


class YourTurn(WireMessage, frozen=True):
    """The scheduler that had this name is gone: it is the turn of the one that is told so."""


class ReadOutput(WireMessage, frozen=True):
    """Ask a node agent for a part of what a run has written."""

    run: str
    stream: str
    offset: int
    size: int


class Output(WireMessage, frozen=True):
    """The part, and how long the file is; `error` says why there is none."""

    data: bytes = b""
    size: int = 0
    error: str = msgspec.field(default="", name="wrong")


class BeginSession(WireMessage, frozen=True):
    """Ask a node agent to run a command beside a run, for at most so many seconds."""

    run: str
    command: tuple[str, ...]
    limit_s: float
    takes_input: bool = False
    #: Rows and columns of the terminal it shall have, if it shall.
    size: tuple[int, int] | None = None
    #: Who asks, so that nobody keeps the others out.
    user: str = ""


class SessionBegun(WireMessage, frozen=True):
    """The name of the session; `error` says why there is none."""

    session: str = ""
    error: str = msgspec.field(default="", name="wrong")


class TalkToSession(WireMessage, frozen=True):
    """Input for a session's command, and a wish to hear what it has written."""

    session: str
    run: str
    data: bytes = b""
    is_last: bool = False
    wait_s: float = 0.0
    #: The terminal has another size now.
    size: tuple[int, int] | None = None


class SessionPart(WireMessage, frozen=True):
    """What a session's command has written since, how much of the input it took, and its code when
    it has ended."""

    stdout: bytes = b""
    stderr: bytes = b""
    taken: int = 0
    code: int | None = None
    reason: str = ""
    error: str = msgspec.field(default="", name="wrong")


class DropRuns(WireMessage, frozen=True):
    """Forget the files of these runs."""

    runs: tuple[str, ...]


_SESSIONS = (BeginSession, SessionBegun, TalkToSession, SessionPart)
_OWN = (Hello, HelloAnswer, NowLeads, YourTurn, ReadOutput, Output, DropRuns, *_SESSIONS)
_CENTRAL = (*get_args(central.FromAgent), *get_args(central.ToAgent))
_OFFERS = (*get_args(offers.FromFramework), *get_args(offers.Callback))
TYPES: dict[str, type[Message]] = {kind.key: kind for kind in (*_OWN, *_CENTRAL, *_OFFERS)}

#: What reading bytes of others may raise; text that is no UTF-8 has an error of Python's own.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_encoder = msgspec.msgpack.Encoder()
_outer = msgspec.msgpack.Decoder(tuple[int, str, str, msgspec.Raw])
_decoders: dict[str, Any] = {}

Frame = tuple[int, str, Message]


def encode(message: Message, node: str = "", request: int = 0) -> bytes:
    body = _encoder.encode((request, node, message.key, message))
    if len(body) > FRAME_MAX:
        raise WireError(f"a frame of {len(body)} bytes, at most {FRAME_MAX}")
    return _LENGTH.pack(len(body)) + body


def decode(body: bytes | memoryview) -> Frame:
    try:
        request, node, name, raw = _outer.decode(body)
        if name not in TYPES:
            raise WireError(f"an unknown message {name[:40]!r}")
        if name not in _decoders:
            _decoders[name] = msgspec.msgpack.Decoder(TYPES[name])
        return request, node, _decoders[name].decode(raw)
    except UNREADABLE as error:
        raise WireError(f"a frame that cannot be read: {error}") from error


class FrameReader:
    """Bytes in, frames out."""

    def __init__(self, size_max: int = FRAME_MAX) -> None:
        self._buffer = bytearray()
        self.size_max = size_max

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._buffer += data
        at = 0
        try:
            while len(self._buffer) - at >= 4:
                (size,) = _LENGTH.unpack_from(self._buffer, at)
                if size > self.size_max:
                    raise WireError(f"a frame of {size} bytes, at most {self.size_max}")
                if len(self._buffer) - at - 4 < size:
                    break
                body = bytes(self._buffer[at + 4 : at + 4 + size])
                at += 4 + size
                yield decode(body)
        finally:
            del self._buffer[:at]
