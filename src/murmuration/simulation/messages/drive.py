"""The virtual driver: it runs agents of the contract (`schedulers/agent.py`) through virtual time.

It decides nothing and knows no protocol. A protocol's set-up gives it *parties*, a *network* and
*checkers*, and tells it what goes wrong; the driver owns everything an agent may not touch:

- **Time.** One event queue, ordered by (time, sequence): events at equal times come in the order
  in which they were posted. A run is therefore a function of its seeds alone. Each party has a
  clock of its own, which may differ from the queue's time and may jump.
- **Effects.** A `Send` is handed to the network, which answers when the message arrives: never,
  once or several times. A `Do` is carried out by the party. A `Note` goes to the party's disk.
- **Disks.** A write takes time, and one write follows the other. Every effect after a note
  waits until the note is on disk *and* the disk has acknowledged it; a crash may fall before
  the write, between the write and the answer, or later. What is on disk is the fold of the notes.
  A disk may refuse (`Unwritten`): the same write is tried again, or never acknowledged.
- **Crashes.** A crash ends a party's *life*: its agent, its unwritten notes and its unsent effects
  are gone, and nothing that was scheduled for the old life reaches a new one. A party that starts
  again gets a fresh agent made from what is on its disk. What its host does meanwhile (processes
  that go on running) is the party's own business.
- **Pauses.** A paused party receives nothing, sends nothing and is unaware of it; what arrives is
  handed to it, late and in order, when it goes on.
- **Checkers.** They look at the whole world after every step and at the end, and raise
  `BrokenError`.

```
             tell(name, event)
 queue ────────────────────────▶ agent.handle(event, now) ──▶ outbox, in order
   ▲                                                            │
   │   network: when does it arrive?                            ├── Send ──▶ network
   ├────────────────────────────────────────────────────────────┘
   │   party.do(act): its outcome is told by a later event      ├── Do ────▶ party
   ├────────────────────────────────────────────────────────────┘
   │   written, then acknowledged: only now the outbox goes on  ├── Note ──▶ disk
   └────────────────────────────────────────────────────────────┘
```

Without notes and with a network that takes no time, effects are posted in the order in which they
were emitted, at the time at which they were emitted.
"""

from __future__ import annotations

import copy
import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from murmuration.schedulers.agent import Agent, Do, Effect, Memory, Message, Note, Send, Wake
from murmuration.simulation.messages.network import FaultSettings, Network

WAKE = Wake()
#: By how much a wake may come early, at most.
ROUNDING_S = 1e-3


class BrokenError(AssertionError):
    """An invariant is broken."""


class Unwritten(Exception):  # noqa: N818 - it is an answer, not a fault
    """A disk could not write, or cannot say whether it has: the same is tried again after so long;
    never, for infinity."""

    def __init__(self, again_s: float) -> None:
        super().__init__(again_s)
        self.again_s = again_s


class EventQueue:
    """Calls in the order of their times; equal times in the order in which they were posted."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._posted = 0

    def post(self, at: float, call: Callable[..., None], *arguments: Any) -> None:
        assert at >= self.now, f"{at} is before now ({self.now}), or no time at all"
        self._posted += 1
        heapq.heappush(self._events, (at, self._posted, call, arguments))

    def run(self, until: float = math.inf) -> None:
        """Make all calls up to a time, which is then the time; or, without one, until none is
        left."""
        events = self._events
        while events and events[0][0] <= until:
            self.now, _, call, arguments = heapq.heappop(events)
            call(*arguments)
        if until < math.inf:
            self.now = until


class Disk:
    """A party's disk: the fold of the facts that were written.

    `memory` is what an empty disk folds to. With a generator a write takes up to `write_s`, and
    its acknowledgement up to as much again; without one both take no time.
    """

    def __init__(
        self, memory: Memory, write_s: float = 0.0, rng: np.random.Generator | None = None
    ) -> None:
        self.memory = memory
        self._write_s, self._rng = write_s, rng

    def delay_s(self) -> float:
        return 0.0 if self._rng is None else self._write_s * float(self._rng.random())

    def write(self, facts: Sequence[tuple[Message, float]]) -> None:
        """These facts are on disk now, each with the time at which it was noted."""
        for fact, noted_s in facts:
            self.memory.apply(fact, noted_s)

    def load(self) -> Memory:
        """What a fresh agent starts from: a copy, for the agent changes it before the disk does."""
        return copy.deepcopy(self.memory)


class Party:
    """Somebody with a name: how its agent starts, and the host that carries out what it does.

    A protocol derives its parties from this; only `start` must be written.
    """

    #: What the party's agent may be sent: a union of messages, or any.
    hears: Any = Message

    def __init__(self, name: str, disk: Disk | None = None) -> None:
        self.name, self.disk = name, disk

    def start(self, memory: Any, life: int) -> Agent:
        """A fresh agent. `memory` is what its disk holds (None without a disk); `life` counts its
        starts from 1, so that each life may draw from a generator of its own."""
        raise NotImplementedError

    def first_events(self) -> Sequence[Message]:
        """The first event of a fresh agent."""
        return ()

    def do(self, act: Message) -> None:
        """Carry out an act on the host."""
        raise BrokenError(f"{self.name} cannot do {act}")

    def may_leave(self, effect: Send | Do) -> bool:
        """Asked when all notes before an effect are on disk: whether it is carried out."""
        return True

    def stop(self) -> None:
        """The agent has crashed; what the host does without it goes on."""


class Checker:
    """A plug-in that looks for what must never be."""

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        """A party has handled an event, with these effects."""

    def leaves(self, driver: VirtualDriver, name: str, effect: Send | Do) -> None:
        """An effect of a party is carried out now."""

    def end(self, driver: VirtualDriver) -> None:
        """The run is over."""


@dataclass
class _Seat:
    """A party as the driver knows it."""

    party: Party
    agent: Agent | None = None
    #: Raised by every start and every crash: what was scheduled under another number is void.
    life: int = 0
    starts: int = 0
    #: Down for good.
    gone: bool = False
    paused: bool = False
    #: What its clock shows beyond the queue's time.
    offset_s: float = 0.0
    #: The time, on the queue, of the wake that is scheduled.
    wake_s: float = math.inf
    #: Effects that have not left yet, each with the time of its `handle`.
    outbox: deque[tuple[Effect, float]] = field(default_factory=deque)
    #: A write is under way or not acknowledged yet.
    writing: bool = False
    #: What arrived while it was paused.
    held: deque[Message] = field(default_factory=deque)


class VirtualDriver:
    """Parties, the network between them, and all events in order of time."""

    def __init__(self, network: Network, checkers: Sequence[Checker] = ()) -> None:
        self.queue, self.network, self.checkers = EventQueue(), network, list(checkers)
        self._seats: dict[str, _Seat] = {}
        network.attach(self)

    # Looking.

    @property
    def now(self) -> float:
        return self.queue.now

    @property
    def names(self) -> list[str]:
        return list(self._seats)

    def clock(self, name: str) -> float:
        """What a party's own clock shows."""
        return self.queue.now + self._seats[name].offset_s

    def agent(self, name: str) -> Any:
        """A party's agent, or None while it is down."""
        return self._seats[name].agent

    def is_up(self, name: str) -> bool:
        return name in self._seats and self._seats[name].agent is not None

    def is_paused(self, name: str) -> bool:
        return self._seats[name].paused

    def life(self, name: str) -> int:
        """A number that changes whenever a party starts or crashes."""
        return self._seats[name].life

    def is_gone(self, name: str) -> bool:
        """Whether a party is down for good."""
        return self._seats[name].gone

    def has_sent_all(self, name: str) -> bool:
        """Whether all effects of a party have left it."""
        return not self._seats[name].outbox and not self._seats[name].writing

    # Running.

    def at(self, when: float, call: Callable[..., None], *arguments: Any) -> None:
        """Call something at a time, or now if that is past."""
        self.queue.post(max(when, self.queue.now), call, *arguments)

    def run(self, until: float = math.inf) -> None:
        self.queue.run(until)

    def finish(self) -> None:
        """The run is over: let the checkers look at how it ended."""
        for checker in self.checkers:
            checker.end(self)

    def tell(self, name: str, event: Message) -> None:
        """Hand an event to a party's agent now, and carry out its answer. Nobody hears what is
        told to a party that is down."""
        seat = self._seats[name]
        if seat.agent is None:
            return
        if seat.paused:
            seat.held.append(event)
            return
        due = seat.agent.due if event is WAKE else -math.inf
        now = self.clock(name)
        if due > now + ROUNDING_S:
            return  # it was held while the party was suspended, and what it was for is done
        # A wake that was asked for at a time may, by rounding, come a moment before it.
        self._handle(seat, event, due if now < due else now)

    def _handle(self, seat: _Seat, event: Message, now: float) -> None:
        assert seat.agent is not None
        effects = seat.agent.handle(event, now)
        for effect in effects:
            if isinstance(effect, Send) and effect.at_once:
                self._carry_out(seat, effect)
            else:
                seat.outbox.append((effect, now))
        self._flush(seat)
        self._schedule_wake(seat)
        for checker in self.checkers:
            checker.after(self, seat.party.name, event, effects)

    # Effects.

    def _flush(self, seat: _Seat) -> None:
        """Carry out the effects, in order, up to the first note that takes time to write."""
        outbox = seat.outbox
        while outbox and not seat.writing and not seat.paused:
            effect, now = outbox.popleft()
            if not isinstance(effect, Note):
                self._carry_out(seat, effect)
                continue
            facts = [(effect.fact, now)]
            while outbox and isinstance(outbox[0][0], Note):
                note, noted_s = outbox.popleft()
                assert isinstance(note, Note)
                facts.append((note.fact, noted_s))
            self._write(seat, facts)

    def _carry_out(self, seat: _Seat, effect: Send | Do) -> None:
        if not seat.party.may_leave(effect):
            return
        for checker in self.checkers:
            checker.leaves(self, seat.party.name, effect)
        if isinstance(effect, Send):
            self._send(seat.party.name, effect)
        else:
            seat.party.do(effect.act)

    def _send(self, sender: str, send: Send) -> None:
        line = self.network.line(sender, send.to)
        for arrives in self.network.arrivals(sender, send.to, self.queue.now):
            self.queue.post(arrives, self._deliver, sender, send.to, send.message, line)

    def _deliver(
        self, sender: str, to: str, message: Message, line: int, late_to: int | None = None
    ) -> None:
        """A connection that has broken since takes with it what was under way, or brings it late
        to the same life of the other side: its buffer goes with a process."""
        life = self.life(to)
        if self.network.line(sender, to) == line or late_to == life:
            if not isinstance(message, self._seats[to].party.hears):
                raise BrokenError(f"{sender} sends {to} a {message.key}, which it may not hear")
            self.tell(to, message)
        elif late_to is None and (seconds := self.network.late_s(line)) is not None:
            at = self.queue.now + seconds
            self.queue.post(at, self._deliver, sender, to, message, line, life)

    def _write(self, seat: _Seat, facts: Sequence[tuple[Message, float]]) -> None:
        disk = seat.party.disk
        assert disk is not None, f"{seat.party.name} has no disk to note {facts[0][0]} on"
        delay, acknowledged = disk.delay_s(), disk.delay_s()
        if delay == acknowledged == 0.0:
            disk.write(facts)
            return
        seat.writing = True
        self.queue.post(
            self.queue.now + delay, self._on_written, seat, seat.life, facts, acknowledged
        )

    def _on_written(self, seat: _Seat, life: int, facts: Any, acknowledged: float) -> None:
        if life != seat.life:
            return
        assert seat.party.disk is not None
        try:
            seat.party.disk.write(facts)
        except Unwritten as refusal:
            if refusal.again_s < math.inf:
                again = self.queue.now + refusal.again_s
                self.queue.post(again, self._on_written, seat, life, facts, acknowledged)
        else:
            self.queue.post(self.queue.now + acknowledged, self._on_acknowledged, seat, life)

    def _on_acknowledged(self, seat: _Seat, life: int) -> None:
        if life == seat.life:
            seat.writing = False
            self._flush(seat)

    # Wakes.

    def _schedule_wake(self, seat: _Seat) -> None:
        due = seat.agent.due - seat.offset_s if seat.agent is not None else math.inf
        if due < seat.wake_s:
            seat.wake_s = due
            self.queue.post(max(due, self.queue.now), self._wake, seat, seat.life, due)

    def _wake(self, seat: _Seat, life: int, due: float) -> None:
        # A wake that was brought forward since, or of a party that has crashed since, is void.
        if seat.agent is None or seat.life != life or seat.wake_s != due:
            return
        seat.wake_s = math.inf
        if seat.agent.due - seat.offset_s > self.queue.now:
            self._schedule_wake(seat)
        else:
            self.tell(seat.party.name, WAKE)

    # Parties, and what goes wrong.

    def add(self, party: Party, offset_s: float = 0.0) -> None:
        """A party comes in, with a clock that is so far ahead, and starts."""
        assert party.name not in self._seats, f"two parties are named {party.name}"
        self._seats[party.name] = _Seat(party, offset_s=offset_s)
        self.start(party.name)

    def start(self, name: str) -> None:
        """A party that is down starts, from what is on its disk."""
        seat = self._seats[name]
        if seat.agent is not None or seat.gone:
            return
        seat.life += 1
        seat.starts += 1
        disk = seat.party.disk
        seat.agent = seat.party.start(None if disk is None else disk.load(), seat.starts)
        for event in seat.party.first_events():
            self.tell(name, event)
        self._schedule_wake(seat)

    def crash(self, name: str, down_s: float | None = None) -> None:
        """A party's agent is gone: for a while, for good (infinity), or until somebody starts
        it."""
        seat = self._seats[name]
        if seat.agent is None:
            return
        seat.agent, seat.life, seat.wake_s = None, seat.life + 1, math.inf
        seat.writing = seat.paused = False
        seat.outbox.clear()
        seat.held.clear()
        seat.gone = down_s == math.inf
        seat.party.stop()
        self.network.drop(name)
        if down_s is not None and not seat.gone:
            self.at(self.queue.now + down_s, self.start, name)

    def pause(self, name: str, seconds: float) -> None:
        """A party is suspended for a while and does not know it."""
        seat = self._seats[name]
        if seat.agent is not None and not seat.paused:
            seat.paused = True
            self.at(self.queue.now + seconds, self._resume, seat, seat.life)

    def _resume(self, seat: _Seat, life: int) -> None:
        if seat.life != life:
            return
        seat.paused = False
        self._flush(seat)
        held, seat.held = seat.held, deque()
        while held and seat.life == life:
            self.tell(seat.party.name, held.popleft())
        if seat.life == life:
            self._schedule_wake(seat)

    def jump(self, name: str, seconds: float) -> None:
        """A party's clock jumps, forwards or back."""
        seat = self._seats[name]
        seat.offset_s += seconds
        seat.wake_s = math.inf
        self._schedule_wake(seat)

    def inflict(self, faults: FaultSettings) -> None:
        """Schedule the crashes, pauses and jumps of a fault schedule."""
        for crash in faults.crashes:
            self.at(crash.at_s, self.crash, crash.name, crash.down_s)
        for pause in faults.pauses:
            self.at(pause.at_s, self.pause, pause.name, pause.seconds)
        for jump in faults.jumps:
            self.at(jump.at_s, self.jump, jump.name, jump.seconds)
