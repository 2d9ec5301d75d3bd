"""The real driver of a master: events in, one at a time and in order; what it notes is on disk
before anything after it leaves.

While one batch is being written the next one gathers (group commit). If the disk is full nothing
that rests on a note is sent and nothing is lost: the batch is tried again until it is written, and
new jobs are refused meanwhile. Heartbeats are still answered, because those answers rest on no
note: a full disk must not end the leases of a whole cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from murmuration.runtime.options import MasterOptions
from murmuration.runtime.store.interface import Entry, Side, Store, StoreError
from murmuration.runtime.store.log import FactLog
from murmuration.schedulers.agent import Do, Message, Note, Send, Wake
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.messages import Heartbeat, NodeIsLost, NodeUnreachable

RETRY_S = 0.5
#: One is enough; a master that is never content must not keep others from being heard.
WAKES_MAX = 10

log = logging.getLogger("murmuration.master")


class Clock:
    """Seconds since 1970 that never go back: the wall's at the start, then what has passed."""

    def __init__(self) -> None:
        self._base = time.time() - time.monotonic()

    def now(self) -> float:
        return self._base + time.monotonic()


@dataclass
class Batch:
    """What is written together, what leaves after that, and who waits for it."""

    entries: list[Entry] = field(default_factory=list)
    effects: list[Send | Do] = field(default_factory=list)
    waiting: list[asyncio.Future[int]] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.entries or self.effects or self.waiting)


class Engine:
    """Drives one `CentralMaster`. `carry_out` is given what it sends and does, once that may
    leave."""

    def __init__(
        self, master: CentralMaster, clock: Clock, carry_out: Callable[[Send | Do], None]
    ) -> None:
        self.master, self.clock = master, clock
        self._carry_out = carry_out
        self._inbox: list[tuple[Message, asyncio.Future[int] | None]] = []
        self._bell = asyncio.Event()
        self._batch = Batch()
        self._full = asyncio.Event()
        self._writer = ThreadPoolExecutor(1, "store")
        self.log = FactLog()

    def start(self, store: Store, options: MasterOptions) -> int:
        """Start from what the store has, before anything else is heard; the epoch."""
        self.store = store
        self.log.open(store)
        event = store.recover(options.seed)
        self._batch.entries.append(self._entry(self.clock.now(), "options", options))
        self._handle(event, self.clock.now())
        self._full.set()
        return event.epoch

    def tell(self, event: Message) -> None:
        self._inbox.append((event, None))
        self._bell.set()

    async def ask(self, event: Message) -> int:
        """Tell an event and wait until what comes of it is on disk; the index of the log then."""
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._inbox.append((event, done))
        self._bell.set()
        return await done

    async def run(self) -> None:
        """Decide and write until cancelled."""
        parts = [asyncio.ensure_future(self._decide()), asyncio.ensure_future(self._keep())]
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in done:
                part.result()
        finally:
            for part in parts:
                part.cancel()

    async def _decide(self) -> None:
        """Hand over what was told as it comes; the notes gather until the disk is free."""
        while True:
            await self._wait()
            inbox, self._inbox = self._inbox, []
            now, wakes = self.clock.now(), 0
            for event, done in inbox:
                self._handle(event, now)
                self._batch.waiting += [done] if done is not None else []
            while self.master.due <= now and wakes < WAKES_MAX:
                wakes += 1
                self._handle(Wake(), now)
            if not self._batch.is_empty:
                self._full.set()

    def _handle(self, event: Message, now: float) -> None:
        batch = self._batch
        if not isinstance(event, Heartbeat):
            # A heartbeat changes nothing but when a lease ends, and the log has that end.
            batch.entries.append(self._entry(now, "event", event))
        try:
            effects = self.master.handle(event, now)
        except Exception:
            # One event that cannot be dealt with must not end the cluster; what was decided before
            # stands.
            log.exception("the master could not deal with %r", event)
            return
        for effect in effects:
            if isinstance(effect, Note):
                batch.entries.append(self._entry(now, "fact", effect.fact))
                _tell_operator(effect.fact)
            elif isinstance(effect, Send) and effect.at_once:
                self._carry_out(effect)
            else:
                batch.effects.append(effect)

    async def _keep(self) -> None:
        """Write one batch after the other; what rests on it leaves when it is written."""
        while True:
            await self._full.wait()
            self._full.clear()
            batch, self._batch, index = self._batch, Batch(), self.log.index
            await self._write(batch.entries)
            self.log.publish(batch.entries)
            for effect in batch.effects:
                self._carry_out(effect)
            for done in batch.waiting:
                if not done.done():
                    done.set_result(index)

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


def _tell_operator(fact: Message) -> None:
    match fact:
        case NodeUnreachable(node):
            log.warning("%s: the connection broke", node)
        case NodeIsLost(node):
            log.warning("%s was not heard of for a whole lease", node)
