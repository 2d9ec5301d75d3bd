"""How tasks that run came to their nodes: the log is replayed, and the round that placed them says
what it saw.

A master keeps no explanation of what it decides, which would cost more than the decision. It can be
made again, because the master decides by the events in its log alone. That takes a while, so it is
done beside the event loop, one at a time, and only for logs that are short enough.
"""

from __future__ import annotations

import asyncio

import msgspec

from murmuration.cluster.reasons import Explanation
from murmuration.runtime.master.answers import Decision, render_decision
from murmuration.runtime.master.settings import live_settings
from murmuration.runtime.options import MasterOptions
from murmuration.runtime.store.interface import Entry
from murmuration.runtime.store.log import FactLog
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.replaying import WatchedMaster, replay

#: Lines of a log that a page may have replayed, and decisions that it shows, the latest.
LINES_MAX, SHOWN_MAX = 20_000, 20
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
            entries = self._log.entries(LINES_MAX + 1)
            if len(entries) > LINES_MAX:
                return DecisionsAnswer(job, [], TOO_LONG)
            found = await asyncio.to_thread(find_decisions, entries, job)
        note = "" if found else NO_START
        latest = [render_decision(decision) for decision in reversed(found[-SHOWN_MAX:])]
        return DecisionsAnswer(job, latest, note)


def find_decisions(entries: list[Entry], job: str) -> list[Explanation]:
    """Each decision that placed tasks of a job, in order."""
    decisions: list[Explanation] = []

    def make(options: MasterOptions) -> CentralMaster:
        return WatchedMaster(live_settings(options)[0], options.seed, job, decisions)

    replay(((e.number, e.at_s, e.side, e.value) for e in entries), make)
    return [decision for decision in decisions if decision.placed]
