"""Lines of a log without what is nobody else's: environments, arguments, digests of tokens.

The rest is as it was, and what is cut out is cut out of events and facts alike, so that such a log
replays as the whole one does: no decision depends on what a task is told to do.
"""

from __future__ import annotations

from typing import Any

import msgspec

#: Fields that hold what a user passes to a program, and what stands in their place.
_TABLES, _LISTS = ("environment",), ("arguments",)
REDACTED = "…"


def redact_body(body: bytes) -> bytes:
    """A line's MessagePack, redacted."""
    return msgspec.msgpack.encode(redact(msgspec.msgpack.decode(body)))


def redact(value: Any) -> Any:
    """A value of plain tables and lists, redacted."""
    if isinstance(value, list):
        return [redact(each) for each in value]
    if not isinstance(value, dict):
        return value
    redacted = {key: redact(each) for key, each in value.items()}
    for key in redacted.keys() & {*_TABLES}:
        redacted[key] = {}
    for key in redacted.keys() & {*_LISTS}:
        redacted[key] = []
    # The program stays: a command must have one.
    command = redacted.get("command")
    if isinstance(command, list) and len(command) > 1:
        redacted["command"] = [command[0], REDACTED]
    if "digest" in redacted:
        # Digests are told apart, and so are these.
        redacted["digest"] = f"{REDACTED} {redacted.get('name', '')}"
    return redacted
