"""What node and entry agents have in common, whatever they negotiate: effects, a memory, numbers
that are used once, timers on a clock that never goes back."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any

from murmuration.schedulers.agent import Do, Effect, Message, Note, Send, Wake
from murmuration.schedulers.negotiation.memory import (
    NUMBERS_PER_NOTE,
    Fact,
    NegotiationMemory,
    NumbersReserved,
)
from murmuration.schedulers.negotiation.messages import Local, Spoken


class SteadyClock:
    """A clock that never goes back, made of one that may: `now` is the host's clock plus all it has
    ever jumped back.

    Deadlines are points on it, so that none is an hour away because somebody set the host's clock.
    A jump forward is time passed: what was waited for is late, which is always safe.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._host = -math.inf
        self._ahead = 0.0

    def advance(self, host: float) -> float:
        """The host's clock shows this; returns steady time."""
        if host < self._host:
            self._ahead += self._host - host
        self._host = host
        self.now = host + self._ahead
        return self.now

    def on_host(self, steady: float) -> float:
        """What the host's clock shows at a steady time, if it does not jump again."""
        return steady - self._ahead


class NegotiationAgent:
    """An agent of the contract with a memory. A class derived from it says in `_dispatch` which
    method takes which event."""

    def __init__(self, name: str, memory: NegotiationMemory) -> None:
        self.name, self.memory = name, memory
        self._next_number = memory.unused_number
        self._clock = SteadyClock()
        self._timers: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._timer_count = 0
        self._started = False
        #: Of the event that is handled: its time, and what it causes.
        self._now = 0.0
        self._effects: list[Effect] = []

    def handle(self, event: Message, now: float) -> list[Effect]:
        """Take one event; return what it causes, in order."""
        self._now, self._effects = self._clock.advance(now), []
        if not self._started:
            self._started = True
            self._start()
            self._check(Wake)
        self._dispatch(event, now)
        self._check(type(event))
        return self._effects

    @property
    def due(self) -> float:
        """When the agent must be woken; at once if it has not begun yet."""
        if not self._started:
            return -math.inf
        return self._clock.on_host(self._timers[0][0]) if self._timers else math.inf

    def _start(self) -> None:
        """Before the first event of a life: go on from the memory."""

    def _dispatch(self, event: Message, now: float) -> None:
        raise NotImplementedError

    def _check(self, event: type[Message]) -> None:
        """What must hold after each event."""

    # Effects.

    def _send(self, to: str, message: Spoken) -> None:
        self._effects.append(Send(to, message))

    def _do(self, act: Local) -> None:
        self._effects.append(Do(act))

    def _note(self, fact: Fact) -> None:
        """Remember a fact, here and on disk: what is said from now on may rest on it."""
        self.memory.apply(fact, self._now)
        self._effects.append(Note(fact))

    def _number(self) -> int:
        """A number this agent never uses again, crashes included."""
        if self._next_number == self.memory.unused_number:
            self._note(NumbersReserved(self.memory.unused_number + NUMBERS_PER_NOTE))
        self._next_number += 1
        return self._next_number - 1

    # Time.

    def _set_timer(self, at: float, call: Callable[[Any], None], subject: Any = None) -> None:
        self._timer_count += 1
        heapq.heappush(self._timers, (at, self._timer_count, call, subject))

    def _on_wake(self, now: float) -> None:
        while self._timers and self._clock.on_host(self._timers[0][0]) <= now:
            at, _, call, subject = heapq.heappop(self._timers)
            # Clocks are rounded; what was waited for until then has waited long enough.
            self._now = max(self._now, at)
            call(subject)
