"""How tasks that run came to their nodes: the log is replayed, and the round that placed them says
what it saw.

A master keeps no explanation of what it decides, which would cost more than the decision. It can be
made again, because the master decides by the events in its log alone. That takes a while, so it is
done beside the event loop, one at a time, and only for logs that are short enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from murmuration.cluster.reasons import Explanation
from murmuration.runtime.master.answers import Decision, render_decision
from murmuration.runtime.master.settings import live_settings
from murmuration.runtime.options import MasterOptions
from murmuration.runtime.store.interface import StoredLine
from murmuration.runtime.store.lines import decode_value
from murmuration.runtime.store.log import FactLog
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.replaying import WatchedMaster, replay

#: Lines of a log that a page may have replayed, and decisions that it shows, the latest.
LINES_MAX, SHOWN_MAX = 20_000, 20
#: Lines that are read at once.
PAGE = 500
TOO_LONG = f"the log has more than {LINES_MAX:,} lines; `murmur why` replays it all"
NO_START = "the log begins later than the master that placed it"


class DecisionsAnswer(msgspec.Struct):
    """The decisions that placed tasks of a job, the latest first; a note if there are none to be
    had."""

    job: str
    decisions: list[Decision]
    note: str


class DecisionModel:
    """Decisions that were made, worked out again."""

    def __init__(self, log: FactLog) -> None:
        self._log = log
        self._turn = asyncio.Lock()

    async def answer(self, job: str) -> DecisionsAnswer:
        async with self._turn:
            lines = await self._read()
            if len(lines) > LINES_MAX:
                return DecisionsAnswer(job, [], TOO_LONG)
            found = await asyncio.to_thread(find_decisions, lines, job)
        note = "" if found else NO_START
        latest = [render_decision(decision) for decision in reversed(found[-SHOWN_MAX:])]
        return DecisionsAnswer(job, latest, note)

    async def _read(self) -> list[StoredLine]:
        """The log, or a little more than is replayed, in pages between which others have their
        turn."""
        lines: list[StoredLine] = []
        while len(lines) <= LINES_MAX:
            page = self._log.lines(lines[-1][0] if lines else 0, PAGE)
            lines += page
            if len(page) < PAGE:
                break
            await asyncio.sleep(0)
        return lines


def find_decisions(lines: Iterable[StoredLine], job: str) -> list[Explanation]:
    """Each decision that placed tasks of a job, in order. Takes time."""
    decisions: list[Explanation] = []

    def make(options: MasterOptions) -> CentralMaster:
        return WatchedMaster(live_settings(options)[0], options.seed, job, decisions)

    read = ((n, at_s, side, decode_value(kind, body)) for n, at_s, side, kind, body in lines)
    replay(read, make)
    return [decision for decision in decisions if decision.placed]
