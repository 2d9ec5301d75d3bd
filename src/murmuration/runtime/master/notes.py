"""The notes of a master, in its store: events and facts in one log, written in batches.

If the disk is full nothing is lost: a batch is tried again until it is written, and new jobs are
refused meanwhile (`probe`).

Why try again instead of giving up: the agent has handled these events and decided on them. There is
no way back to before, and a master that went on without its notes would promise what it could not
remember. So decisions wait in memory, what rests on them does not leave, and only what rests on no
note (heartbeats) is still answered, so that a full disk does not end the tasks of a whole cluster.
The one refusal that is final is `Deposed`: another master has begun an epoch, and what this one has
not written yet was never true.

The store has a thread of its own and one write at a time. While it is busy the loop goes on, and
what gathers meanwhile is the next batch: the slower the disk, the larger the batches, which is what
keeps a slow disk from becoming a queue.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from murmuration.runtime.options import MasterOptions
from murmuration.runtime.store.interface import Entry, Side, Store, StoreError
from murmuration.runtime.store.log import FactLog
from murmuration.schedulers.agent import Message
from murmuration.schedulers.central.messages import (
    Heartbeat,
    JobEnded,
    JobSubmitted,
    NodeIsLost,
    NodeUnreachable,
    Recover,
    TaskEnded,
    TokenIssued,
    TokenRevoked,
)
from murmuration.schedulers.offers.messages import Status

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
        _tell_operator(fact)

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
                began = time.monotonic()
                await self._call(self._store.write, entries)
                self._facts.writes += 1
                self._facts.write_s += time.monotonic() - began
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


def _tell_operator(fact: Message) -> None:
    """A line in the log of this process for what an operator wants to read there: jobs that come
    and go, what did not end well, nodes, and who may come in."""
    match fact:
        case NodeUnreachable(node):
            log.warning("%s: the connection broke", node, extra={"node": node})
        case NodeIsLost(node):
            log.warning("%s was silent for a whole lease", node, extra={"node": node})
        case JobSubmitted(job, spec=spec):
            about = {"job": job, "user": spec.user}
            log.info("%s was submitted: %d tasks", job, spec.count, extra=about)
        case JobEnded(job, status, code):
            log.info("%s %s, code %s", job, status, code, extra={"job": job})
        case TaskEnded(job, index, node=node, status=status) if status is not Status.FINISHED:
            task, about = f"{job}.{index}", {"job": job, "task": f"{job}.{index}", "node": node}
            log.warning("%s %s on %s: %s", task, status, node, fact.reason, extra=about)
        case TokenIssued(name, role, user):
            log.info("a token %s was issued to %s (%s)", name, user, role, extra={"user": user})
        case TokenRevoked(name):
            log.info("the token %s was revoked", name)
