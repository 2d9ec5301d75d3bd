"""The engine of a live master: events in, one at a time and in order; what comes of them is on disk
before it is sent.

While one batch is being written the next one gathers (group commit). If the disk is full nothing is
sent and nothing is lost: the batch is tried again until it is written, and new jobs are refused
meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from murmuration.runtime.options import MasterOptions
from murmuration.runtime.store.interface import Entry, Side, Store, StoreError
from murmuration.runtime.store.log import FactLog
from murmuration.schedulers.agent import Wake
from murmuration.schedulers.central.master import LiveMaster, Out
from murmuration.schedulers.central.messages import Send
from murmuration.schedulers.offers.messages import Callback

RETRY_S = 0.5
#: One is enough; a master that is never content must not keep others from being heard.
WAKES_MAX = 10
_CALLBACKS = Callback.__args__

log = logging.getLogger("murmuration.master")


class Clock:
    """Seconds since 1970 that never go back: the wall's at the start, then what has passed."""

    def __init__(self) -> None:
        self._base = time.time() - time.monotonic()

    def now(self) -> float:
        return self._base + time.monotonic()


@dataclass(slots=True)
class Told:
    event: Any
    done: asyncio.Future[int] | None


class Engine:
    """Drives one `LiveMaster`. `deliver` is given what it says to agents and frameworks, once that
    is on disk."""

    def __init__(self, master: LiveMaster, clock: Clock, deliver: Callable[[Any], None]) -> None:
        self.master, self.clock = master, clock
        self._deliver = deliver
        self._inbox: list[Told] = []
        self._bell = asyncio.Event()
        self._writer = ThreadPoolExecutor(1, "store")
        self.log = FactLog()

    def start(self, store: Store, options: MasterOptions) -> tuple[list[Entry], int]:
        """Start from what the store has, before anything else is heard: the first batch, and the
        epoch."""
        self.store = store
        self.log.open(store)
        event = store.recover(options.seed)
        entries = [self._entry(self.clock.now(), "options", options)]
        self._handle(event, self.clock.now(), entries, [])
        return entries, event.epoch

    def tell(self, event: Any) -> None:
        self._inbox.append(Told(event, None))
        self._bell.set()

    async def ask(self, event: Any) -> int:
        """Tell an event and wait until what comes of it is on disk; the index of the log then."""
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._inbox.append(Told(event, done))
        self._bell.set()
        return await done

    async def run(self, first: list[Entry]) -> None:
        """Take batches for ever."""
        await self._write(first)
        while True:
            await self._wait()
            batch, self._inbox = self._inbox, []
            entries: list[Entry] = []
            out: list[Out] = []
            now = self.clock.now()
            for told in batch:
                self._handle(told.event, now, entries, out)
            wakes = 0
            while self.master.due <= now and wakes < WAKES_MAX:
                wakes += 1
                self._handle(Wake(), now, entries, out)
            await self._write(entries)
            self.log.publish(entries)
            for message in out:
                if isinstance(message, (Send, *_CALLBACKS)):
                    self._deliver(message)
            for told in batch:
                if told.done is not None and not told.done.done():
                    told.done.set_result(self.log.index)

    def _handle(self, event: Any, now: float, entries: list[Entry], out: list[Out]) -> None:
        entries.append(self._entry(now, "event", event))
        try:
            said = self.master.handle(event, now)
        except Exception:
            # One event that cannot be dealt with must not end the cluster; what was decided before
            # stands.
            log.exception("the master could not deal with %r", event)
            return
        for message in said:
            if not isinstance(message, (Send, *_CALLBACKS)):
                entries.append(self._entry(now, "fact", message))
        out += said

    def _entry(self, at_s: float, side: Side, value: Any) -> Entry:
        self.log.index += 1
        return Entry(self.log.index, at_s, side, value)

    async def _wait(self) -> None:
        """Until something was told or the master wants to be woken."""
        delay = min(self.master.due - self.clock.now(), 3600.0)
        if not self._inbox and delay > 0.0:
            self._bell.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._bell.wait(), delay)
        self._bell.clear()

    async def _write(self, entries: list[Entry]) -> None:
        loop = asyncio.get_running_loop()
        while entries:
            try:
                await loop.run_in_executor(self._writer, self.store.write, entries)
                self.log.trouble = ""
                return
            except StoreError as error:
                if not self.log.trouble:
                    log.error("the store cannot be written: %s", error)
                self.log.trouble = f"the store cannot be written: {error}"
                await asyncio.sleep(RETRY_S)

    async def probe(self, size: int) -> str:
        """Whether the store has room for so many bytes; the trouble, if not."""
        if self.log.trouble:
            return self.log.trouble
        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, self.store.probe, size)
        except StoreError as error:
            return f"the store cannot be written: {error}"
        return ""

    def close(self) -> None:
        self._writer.shutdown()
        self.store.close()
