"""What the parts of one agent share: its clock, its timers, and the effects of the event it
handles."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any

from murmuration.schedulers.agent import Do, Effect, Message, Note, Send


class Outlet:
    """Parts of an agent write their effects here, in order."""

    def __init__(self) -> None:
        self.now = 0.0
        self.effects: list[Effect] = []
        self._timers: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._timer_count = 0

    def begin(self, now: float) -> None:
        """The agent handles an event now."""
        self.now, self.effects = now, []

    def send(self, to: str, message: Message) -> None:
        self.effects.append(Send(to, message))

    def do(self, act: Message) -> None:
        self.effects.append(Do(act))

    def note(self, fact: Message) -> None:
        self.effects.append(Note(fact))

    def after(self, seconds: float, call: Callable[..., None], *arguments: Any) -> None:
        """Make a call in so many seconds."""
        self._timer_count += 1
        heapq.heappush(self._timers, (self.now + seconds, self._timer_count, call, arguments))

    def wake(self) -> None:
        """Make the calls that are due."""
        while self._timers and self._timers[0][0] <= self.now:
            _at, _count, call, arguments = heapq.heappop(self._timers)
            call(*arguments)

    @property
    def due(self) -> float:
        return self._timers[0][0] if self._timers else math.inf
