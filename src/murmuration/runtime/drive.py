"""The real driver: it runs one agent of the contract (`schedulers/agent.py`) in real time.

It is the counterpart of the simulator's virtual driver and knows no protocol either. The process
around it tells it events as they come in; the driver hands them to the agent one at a time and in
order, and carries out the effects as the contract promises:

- **Turns.** Events gather until the event loop has read all that was ready; then they are handled
  together. An agent that asked to be woken is woken in the same turn, so what arrives together is
  decided on together. An act that fails at once tells its event into the next turn, never into the
  middle of this one.
- **Notes.** What an agent notes is written by `Notes`; everything after the note waits until it is
  on disk. While one batch is being written the next one gathers (group commit). If the process is
  killed before a batch is on disk, nothing that rests on it has left; if it is killed later, the
  facts are there when the next agent starts.
- **At once.** A `Send` marked `at_once` rests on no note and overtakes the batch: a disk that is
  full or slow does not keep heartbeats from being answered.
- **Time.** One timer, set to the agent's `due` after every turn. A wake may be late and is never
  early.
- **Faults.** An event the agent cannot handle is logged and dropped: one bad event must not end a
  cluster, and what was decided before stands. The same holds for an effect that cannot be carried
  out. A store that was taken over by another master ends the driver: `run` raises.

```
 tell(event) ─▶ inbox ─▶ agent.handle(event, now) ─┬─ Note ─────▶ notes ─▶ disk ─┐
                                                   ├─ Send, Do ─▶ batch, waits ──┴─▶ carried out
                                                   └─ Send at once ────────────────▶ carried out
```
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from murmuration.schedulers.agent import Agent, Do, Message, Note, Send, Wake

#: Wakes in one turn. One is enough; an agent that is never content must not starve the others.
WAKES_MAX = 10
#: A timer is set again after this long at the latest.
SLEEP_MAX_S = 3600.0

log = logging.getLogger("murmuration.drive")


class Notes(Protocol):
    """Where the notes of an agent are kept."""

    def add_event(self, event: Message, now: float) -> None:
        """The agent is about to handle this; a log that can be replayed keeps it."""

    def add_fact(self, fact: Message, now: float) -> None:
        """The agent has noted this."""

    def write(self) -> Awaitable[int] | None:
        """Write what was added since the last call: the answer comes when all of it is on disk and
        is the number of the last line. None if it is on disk already."""


@dataclass
class WriteBatch:
    """What may leave when the notes before it are on disk, and who waits for that."""

    effects: list[Send | Do] = field(default_factory=list)
    waiting: list[asyncio.Future[int]] = field(default_factory=list)


class LiveDriver:
    """Drives one agent. `carry_out` is given what it sends and does, once that may leave."""

    def __init__(
        self,
        agent: Agent,
        clock: Callable[[], float],
        notes: Notes,
        carry_out: Callable[[Send | Do], None],
    ) -> None:
        self._agent, self._clock = agent, clock
        self._notes, self._carry_out = notes, carry_out
        self._inbox: list[tuple[Message, asyncio.Future[int] | None]] = []
        self._turn_is_due = False
        self._batch = WriteBatch()
        self._writer: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        #: Becomes an exception when the notes can never be written again.
        self._failure: asyncio.Future[None] | None = None

    # What the process around it calls.

    def tell(self, event: Message) -> None:
        """Give the agent an event."""
        self._take(event, None)

    async def ask(self, event: Message) -> int:
        """Give the agent an event and wait until what it notes is on disk; the number of the last
        line then."""
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._take(event, done)
        return await done

    def start(self, *events: Message) -> None:
        """Handle these before anything else, and set the timer."""
        now = self._clock()
        for event in events:
            self._handle(event, now)
        self._write()
        self._set_timer()

    async def run(self) -> None:
        """Wait until the driver cannot go on; the exception says why."""
        self._failure = self._failure or asyncio.get_running_loop().create_future()
        await self._failure

    def close(self) -> None:
        """Stop as a crash would: what was not written is not, and what rests on it does not
        leave."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._writer is not None:
            self._writer.cancel()

    # One turn.

    def _take(self, event: Message, done: asyncio.Future[int] | None) -> None:
        self._inbox.append((event, done))
        if not self._turn_is_due:
            self._turn_is_due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_is_due = False
        if self._closed:
            return
        inbox, self._inbox = self._inbox, []
        now, wakes = self._clock(), 0
        for event, done in inbox:
            self._handle(event, now)
            self._batch.waiting += [done] if done is not None else []
        while self._agent.due <= now and wakes < WAKES_MAX:
            wakes += 1
            self._handle(Wake(), now)
        self._write()
        self._set_timer()

    def _handle(self, event: Message, now: float) -> None:
        self._notes.add_event(event, now)
        try:
            effects = self._agent.handle(event, now)
        except Exception:
            log.exception("the agent could not handle %r", event)
            return
        for effect in effects:
            if isinstance(effect, Note):
                self._notes.add_fact(effect.fact, now)
            elif isinstance(effect, Send) and effect.at_once:
                self._release([effect])
            else:
                self._batch.effects.append(effect)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_s = min(max(0.0, self._agent.due - self._clock()), SLEEP_MAX_S)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._turn)

    # Writing.

    def _write(self) -> None:
        """Write the notes of this batch, unless another batch is being written: then they gather
        until it is done."""
        if self._writer is not None:
            return
        written = self._notes.write()
        batch, self._batch = self._batch, WriteBatch()
        if written is None:
            self._finish(batch, 0)
        else:
            self._writer = asyncio.get_running_loop().create_task(self._await(written, batch))

    async def _await(self, written: Awaitable[int], batch: WriteBatch) -> None:
        try:
            number = await written
        except Exception as error:
            self._fail(error)
            return
        self._finish(batch, number)
        self._writer = None
        self._write()

    def _finish(self, batch: WriteBatch, number: int) -> None:
        """The notes are on disk: what rests on them leaves."""
        self._release(batch.effects)
        for done in batch.waiting:
            if not done.done():
                done.set_result(number)

    def _release(self, effects: list[Send | Do]) -> None:
        for effect in effects:
            try:
                self._carry_out(effect)
            except Exception:
                log.exception("%r could not be carried out", effect)

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or asyncio.get_running_loop().create_future()
        if not self._failure.done():
            self._failure.set_exception(error)
