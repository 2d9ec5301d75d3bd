"""The notes of a master, in its store: events and facts in one log, written in batches.

If the disk is full nothing is lost: a batch is tried again until it is written, and new jobs are
refused meanwhile (`probe`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from murmuration.runtime.options import MasterOptions
from murmuration.runtime.store.interface import Entry, Side, Store, StoreError
from murmuration.runtime.store.log import FactLog
from murmuration.schedulers.agent import Message
from murmuration.schedulers.central.messages import (
    Heartbeat,
    NodeIsLost,
    NodeUnreachable,
    Recover,
)

RETRY_S = 0.5

log = logging.getLogger("murmuration.master")


class StoreNotes:
    """Gathers what is to be written, and writes it on a thread of its own."""

    def __init__(self, store: Store, facts: FactLog) -> None:
        self._store, self._facts = store, facts
        self._entries: list[Entry] = []
        self._writer = ThreadPoolExecutor(1, "store")
        facts.open(store)

    def recover(self, options: MasterOptions, now: float) -> Recover:
        """Start an epoch; the event a master begins with. Its options are logged before it."""
        event = self._store.recover(options.seed)
        # Until now another master may have written on.
        self._facts.open(self._store)
        self._add(now, "options", options)
        return event

    def add_event(self, event: Message, now: float) -> None:
        # A heartbeat changes nothing but when a lease ends, and the log has that end.
        if not isinstance(event, Heartbeat):
            self._add(now, "event", event)

    def add_fact(self, fact: Message, now: float) -> None:
        self._add(now, "fact", fact)
        match fact:
            case NodeUnreachable(node):
                log.warning("%s: the connection broke", node)
            case NodeIsLost(node):
                log.warning("%s was silent for a whole lease", node)

    def _add(self, at_s: float, side: Side, value: Any) -> None:
        self._facts.index += 1
        self._entries.append(Entry(self._facts.index, at_s, side, value))

    def write(self) -> Awaitable[int] | None:
        if not self._entries:
            return None
        entries, self._entries = self._entries, []
        return self._write(entries)

    async def _write(self, entries: list[Entry]) -> int:
        """Try until it is written. `Deposed` goes to the caller: that is final."""
        while True:
            try:
                await self._call(self._store.write, entries)
                break
            except StoreError as error:
                if not self._facts.trouble:
                    log.error("the store cannot be written: %s", error)
                self._facts.trouble = f"the store cannot be written: {error}"
                await asyncio.sleep(RETRY_S)
        self._facts.trouble = ""
        self._facts.publish(entries)
        return entries[-1].number

    async def probe(self, size: int) -> str:
        """What keeps so many bytes from being written; empty if nothing does."""
        if self._facts.trouble:
            return self._facts.trouble
        try:
            await self._call(self._store.probe, size)
        except StoreError as error:
            return f"the store cannot be written: {error}"
        return ""

    async def _call(self, function: Any, *arguments: Any) -> None:
        await asyncio.get_running_loop().run_in_executor(self._writer, function, *arguments)

    def close(self) -> None:
        """A write under way is finished first."""
        self._writer.shutdown()
        self._store.close()
