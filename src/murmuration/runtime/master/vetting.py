"""What a node agent may say: everything it tells is about itself, and within bounds.

Frames are typed and their speaker is known to be connected; here the content is looked at. A node
that breaks these rules is not believed in anything, because a number that is too large or a run of
another node would be counted against all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable

import msgspec

from murmuration.schedulers.central.messages import (
    AgentJoined,
    Ended,
    FromAgent,
    Heartbeat,
    RunEnded,
    RunHealth,
    RunStarted,
)

NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+-]{0,127}")
#: Of one resource on one node; the sum over ten thousand nodes still fits 64 bits.
AMOUNT_MAX = 2**48
NUMBER_MAX = 2**62
ATTRIBUTES_MAX, TEXT_MAX, REASON_MAX = 100, 256, 1000

#: The node a run is on, by framework and run; None if nobody knows the run.
Where = Callable[[str, str], str | None]


def find_fault(message: FromAgent, columns: int, where: Where) -> str:
    """Why a message of a node agent cannot be; empty if it can."""
    if not NODE.fullmatch(message.node):
        return (
            "expected a node's name of up to 128 letters, digits and . _ : / + -, got "
            f"{message.node[:40]!a}"
        )
    if not -1 <= message.session < NUMBER_MAX:
        return "expected a session from 0 to 2^62"
    match message:
        case AgentJoined():
            return _find_fault_in_join(message, columns, where)
        case RunStarted(node, framework, run) | RunHealth(node, framework, run):
            return _find_stranger(node, [(framework, run)], where)
        case RunEnded(node, ended):
            return _find_stranger(node, [(ended.framework, ended.run)], where)
        case Heartbeat(serial=serial) if not 0 <= serial < NUMBER_MAX:
            return "expected a heartbeat's number from 0 to 2^62"
    return ""


def _find_fault_in_join(joined: AgentJoined, columns: int, where: Where) -> str:
    for name, amount in joined.total.items():
        if not (_is_text(name) and 0 <= amount <= AMOUNT_MAX):
            return f"expected resources from 0 to 2^48, got {name[:40]!a} = {str(amount)[:40]}"
    if len(joined.attributes) > ATTRIBUTES_MAX:
        return f"expected at most {ATTRIBUTES_MAX} attributes, got {len(joined.attributes)}"
    for name, value in joined.attributes.items():
        if not _is_text(name) or not (
            _is_text(value) if isinstance(value, str) else _is_finite(value)
        ):
            return f"expected attributes of short printable text or numbers, got {name[:40]!a}"
    for run in joined.running:
        if len(run.request) != columns or not all(0 <= a <= AMOUNT_MAX for a in run.request):
            return f"expected {columns} amounts from 0 to 2^48 for {run.run[:40]!a}"
    claimed = [(run.framework, run.run) for run in joined.running]
    claimed += [(end.framework, end.run) for end in joined.ended]
    return _find_stranger(joined.node, claimed, where)


def _find_stranger(node: str, runs: Iterable[tuple[str, str]], where: Where) -> str:
    """A run stays on one node: a node that speaks of another node's run is not believed."""
    for framework, run in runs:
        if not (_is_text(framework) and _is_text(run)):
            return "expected names of runs in short printable text"
        if where(framework, run) not in (None, node):
            return f"expected runs of {node}, got {run}, which is on {where(framework, run)}"
    return ""


def _is_text(text: str) -> bool:
    return 0 < len(text) <= TEXT_MAX and text.isprintable()


def _is_finite(value: float) -> bool:
    return math.isfinite(value)


def tidy(message: FromAgent) -> FromAgent:
    """The message with texts that can be shown and measures that can be."""
    match message:
        case RunHealth(reason=reason):
            return msgspec.structs.replace(message, reason=_tidy_text(reason))
        case RunEnded(ended=ended):
            tidied = _tidy_end(ended)
            return message if tidied is ended else msgspec.structs.replace(message, ended=tidied)
        case AgentJoined(ended=ended_runs) if ended_runs:
            return msgspec.structs.replace(message, ended=tuple(map(_tidy_end, ended_runs)))
        case Heartbeat(usage=usage) if usage:
            possible = {
                run: (cpu_s, memory)
                for run, (cpu_s, memory) in usage.items()
                if 0.0 <= cpu_s < NUMBER_MAX and 0 <= memory <= AMOUNT_MAX
            }
            return msgspec.structs.replace(message, usage=possible)
    return message


def _tidy_text(text: str) -> str:
    if len(text) <= REASON_MAX and text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else " " for sign in text[:REASON_MAX])


def _tidy_end(ended: Ended) -> Ended:
    reason = _tidy_text(ended.reason)
    code = ended.code if ended.code is None or 0 <= ended.code <= 255 else 255
    number = ended.signal if ended.signal is None or 0 < ended.signal <= 64 else None
    if (reason, code, number) == (ended.reason, ended.code, ended.signal):
        return ended
    return msgspec.structs.replace(ended, reason=reason, code=code, signal=number)
