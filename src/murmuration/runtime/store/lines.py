"""Lines of a log as bytes: what may be in a log, by which key it is known, and back."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from murmuration.runtime.options import MasterOptions
from murmuration.schedulers.agent import Message
from murmuration.schedulers.central.messages import Fact, ToCentralMaster
from murmuration.schedulers.offers.messages import ToMaster

#: Everything that may be in the log, by its key; and by its bare name, as older logs have it.
_LOGGED = (*get_args(Fact), *get_args(ToMaster), *get_args(ToCentralMaster), MasterOptions)
LOGGED: dict[str, Any] = {
    **{kind.__name__: kind for kind in _LOGGED},
    **{kind.key: kind for kind in _LOGGED if issubclass(kind, Message)},
}
_ENCODER = msgspec.msgpack.Encoder()


def kind_of(value: object) -> str:
    """The key by which a value is known in the log."""
    return value.key if isinstance(value, Message) else type(value).__name__


def encode_value(value: object) -> bytes:
    return _ENCODER.encode(value)


def decode_value(kind: str, body: bytes) -> Any:
    return msgspec.msgpack.decode(body, type=LOGGED[kind])
