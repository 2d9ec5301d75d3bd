"""Connections in virtual time: what one carries arrives in order and late; it breaks, and what was
under way is lost.

One side *dials*, the other listens. A dialer without a connection tries again every `redial_s`, to
the party that `where` names at that moment, if both are up and nothing lies between them. When a
connection breaks nothing passes any more in either direction, at once; but each side hears of it
in its own time, up to `notice_s` later, and goes on talking to nobody until then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from murmuration.schedulers.agent import Connected, Disconnected
from murmuration.simulation.messages.network import Faults, Network, Partition

if TYPE_CHECKING:
    from murmuration.simulation.messages.drive import Driver

Pair = tuple[str, str]


@dataclass
class _Connection:
    session: int
    #: When the last message in each direction arrives: none overtakes another.
    busy_s: dict[str, float]


class Connections(Network):
    """A network of ordered connections. `faults` has the partitions; a message takes between the
    two times of `delay_s`, drawn evenly."""

    def __init__(
        self,
        rng: np.random.Generator,
        where: Callable[[str], str | None],
        faults: Faults | None = None,
        delay_s: tuple[float, float] = (0.001, 0.05),
        notice_s: float = 5.0,
        redial_s: float = 0.5,
    ) -> None:
        super().__init__(faults or Faults(), rng)
        self._where, self._delay_s = where, delay_s
        self._notice_s, self._redial_s = notice_s, redial_s
        self._sessions = 0
        self._open: dict[Pair, _Connection] = {}
        self._dialers: set[str] = set()
        #: Dialers that know that they have no connection, in the order in which they try.
        self._idle: dict[str, None] = {}
        self._isolated: set[str] = set()

    def attach(self, driver: Driver) -> None:
        self._driver = driver
        driver.at(self._redial_s, self._redial)
        for part in self.faults.partitions:
            driver.at(part.start_s, self._divide, part)

    def dial(self, name: str) -> None:
        """This party keeps a connection from now on."""
        self._dialers.add(name)
        self._idle[name] = None

    # What the driver asks.

    def line(self, sender: str, to: str) -> int:
        connection = self._between(sender, to)
        return connection.session if connection is not None else -1

    def arrivals(self, sender: str, to: str, now: float) -> list[float]:
        self.sent += 1
        connection = self._between(sender, to)
        if connection is None:
            self.lost += 1
            return []
        low, high = self._delay_s
        arrives = now + low + float(self._rng.random()) * (high - low)
        connection.busy_s[to] = max(arrives, connection.busy_s[to])
        return [connection.busy_s[to]]

    def drop(self, name: str) -> None:
        self.break_all(name)
        if name in self._dialers:
            # A party that starts again knows of no connection.
            self._idle[name] = None

    # What goes wrong.

    def isolate(self, name: str, on: bool) -> None:
        """Cut a party off from everybody, or end that."""
        (self._isolated.add if on else self._isolated.discard)(name)
        if on:
            self.break_all(name)

    def break_all(self, name: str) -> None:
        """Break a party's connections; it hears of that later, as the others do."""
        for pair in [pair for pair in self._open if name in pair]:
            self._break(pair)

    def hang_up(self, dialer: str, listener: str, session: int) -> None:
        """One side closes a connection, if it is still this one."""
        connection = self._open.get((dialer, listener))
        if connection is not None and connection.session == session:
            self._break((dialer, listener))

    def _divide(self, part: Partition) -> None:
        for pair in list(self._open):
            if (pair[0] in part.side) != (pair[1] in part.side):
                self._break(pair)

    def _break(self, pair: Pair) -> None:
        connection = self._open.pop(pair)
        for name, peer in (pair, pair[::-1]):
            if self._driver.is_up(name):
                later = self._driver.now + self._notice_s * float(self._rng.random())
                life = self._driver.life(name)
                self._driver.at(later, self._notice, name, life, peer, connection.session)

    def _notice(self, name: str, life: int, peer: str, session: int) -> None:
        if self._driver.life(name) == life:
            self._driver.tell(name, Disconnected(peer, session))
            if name in self._dialers:
                self._idle[name] = None

    # Dialling.

    def _redial(self) -> None:
        self._driver.at(self._driver.now + self._redial_s, self._redial)
        for name in list(self._idle):
            listener = self._where(name)
            if listener is not None and self._can_connect(name, listener):
                self._connect(name, listener)

    def _can_connect(self, name: str, listener: str) -> bool:
        cut = self.cut(name, listener, self._driver.now) or {name, listener} & self._isolated
        return not cut and self._driver.is_up(name) and self._driver.is_up(listener)

    def _connect(self, name: str, listener: str) -> None:
        self._sessions += 1
        del self._idle[name]
        busy = {name: 0.0, listener: 0.0}
        self._open[name, listener] = _Connection(self._sessions, busy)
        self._driver.tell(name, Connected(listener, self._sessions))

    def _between(self, a: str, b: str) -> _Connection | None:
        return self._open.get((a, b)) or self._open.get((b, a))
