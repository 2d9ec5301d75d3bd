"""A network in virtual time that loses, delays, duplicates and reorders messages, and has
partitions.

It knows nothing of what is sent: the driver asks when a message arrives (never, once, or more
often). What goes wrong is a `FaultSettings` value, written by hand or drawn from a seed, so that
any run can be repeated.

`Network` is asked about single messages. `Streams` keeps them in order until an end crashes.
`OrderedNetwork` open and break, and both sides are notified: one side *dials*, the other listens. A
dialer without a connection tries again every `redial_s`, to the party that `where` names at that
moment, if both are up and nothing lies between them. When a connection breaks nothing passes any
more in either direction, at once; but each side hears of it in its own time, up to `notice_s`
later, and goes on talking to nobody until then. What was under way when it broke is lost, or, with
`late` among the faults, comes seconds later all the same: it lay in a buffer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from murmuration.schedulers.agent import Connected, Disconnected

if TYPE_CHECKING:
    from murmuration.simulation.messages.drive import VirtualDriver


Pair = tuple[str, str]
#: What a broken connection delivers late comes within this.
LATE_S = 20.0


class Partition(msgspec.Struct, frozen=True):
    """For a while nothing passes between one side and all others."""

    start_s: float
    end_s: float
    side: frozenset[str]


class Crash(msgspec.Struct, frozen=True):
    """An agent is down for a while, and then starts again from its disk; for infinity: the whole
    node is gone."""

    at_s: float
    name: str
    down_s: float


class Pause(msgspec.Struct, frozen=True):
    """An agent is suspended for a while and does not know it."""

    at_s: float
    name: str
    seconds: float


class Jump(msgspec.Struct, frozen=True):
    """An agent's clock jumps, forwards or back."""

    at_s: float
    name: str
    seconds: float


class FaultSettings(msgspec.Struct, frozen=True):
    """What goes wrong, until `end_s`; from then on only the minimum delay remains."""

    loss: float = 0.0
    duplication: float = 0.0
    #: Every message takes at least this; and on top a random time with this mean, so that messages
    #: overtake.
    delay_s: float = 0.01
    jitter_s: float = 0.0
    partitions: tuple[Partition, ...] = ()
    crashes: tuple[Crash, ...] = ()
    end_s: float = math.inf
    pauses: tuple[Pause, ...] = ()
    jumps: tuple[Jump, ...] = ()
    #: The share of broken connections whose messages under way arrive all the same, late.
    late: float = 0.0


def draw_faults(
    rng: np.random.Generator,
    mortal: Sequence[str],
    others: Sequence[str],
    end_s: float,
    deaths: int = 1,
) -> FaultSettings:
    """A random schedule: from nearly calm to very bad. Only `mortal` agents may be down for
    good."""
    names = [*mortal, *others]
    partitions, crashes = [], []
    for _ in range(int(rng.integers(0, 4))):
        start = float(rng.uniform(0, end_s))
        side = frozenset(name for name in names if rng.random() < 0.4)
        partitions.append(Partition(start, min(start + float(rng.exponential(60)), end_s), side))
    for _ in range(int(rng.integers(0, 7))):
        down = float(rng.exponential(40)) + 0.5
        crashes.append(
            Crash(float(rng.uniform(0, end_s)), names[int(rng.integers(len(names)))], down)
        )
    for name in rng.permutation(list(mortal))[: int(rng.integers(0, deaths + 1))]:
        crashes.append(Crash(float(rng.uniform(0, end_s)), str(name), math.inf))
    return FaultSettings(
        loss=float(rng.choice([0.0, 0.02, 0.1, 0.3])),
        duplication=float(rng.choice([0.0, 0.05, 0.3])),
        jitter_s=float(rng.choice([0.0, 0.5, 5.0, 30.0])),
        partitions=tuple(partitions),
        crashes=tuple(crashes),
        end_s=end_s,
    )


class Network:
    """When messages arrive."""

    def __init__(self, faults: FaultSettings, rng: np.random.Generator) -> None:
        self.faults, self._rng = faults, rng
        self.sent = self.lost = 0

    def attach(self, driver: VirtualDriver) -> None:
        """The driver that asks; for networks that have something to tell it."""

    def line(self, sender: str, to: str) -> int:
        """The connection a message takes; what is under way arrives only if it is still the same
        then. Here there are none, and everything takes line 0."""
        return 0

    def late_s(self, line: int) -> float | None:
        """How much later the messages of a line that has broken arrive; None if they do not."""
        return None

    def drop(self, name: str) -> None:
        """A party has crashed, and its connections with it."""

    def arrivals(self, sender: str, to: str, now: float) -> list[float]:
        """The times at which a message arrives: none if it is lost, several if it is doubled."""
        faults = self.faults
        self.sent += 1
        if now >= faults.end_s or not (
            faults.loss or faults.duplication or faults.jitter_s or faults.partitions
        ):
            return [now + faults.delay_s]
        # A partition takes what is *sent* during it. What was under way when it began arrives: that
        # is the message from before the cut that protocols forget.
        if self.cut(sender, to, now) or self._rng.random() < faults.loss:
            self.lost += 1
            return []
        copies = 2 if self._rng.random() < faults.duplication else 1
        return [
            now + faults.delay_s + faults.jitter_s * float(self._rng.exponential())
            for _ in range(copies)
        ]

    def cut(self, sender: str, to: str, now: float) -> bool:
        """Whether a partition lies between both."""
        for part in self.faults.partitions:
            if part.start_s <= now < part.end_s and (sender in part.side) != (to in part.side):
                return True
        return False


class Streams(Network):
    """Between every two parties a stream: what is sent arrives in order, and late. A stream breaks
    when one of its ends crashes, and takes with it what was under way."""

    def __init__(self, faults: FaultSettings, rng: np.random.Generator) -> None:
        super().__init__(faults, rng)
        self._busy_s: dict[tuple[str, str], float] = {}

    def attach(self, driver: VirtualDriver) -> None:
        self._driver = driver

    def line(self, sender: str, to: str) -> int:
        # Lives only grow, so that their sum stays the same only if both do.
        return self._driver.life(sender) + self._driver.life(to)

    def arrivals(self, sender: str, to: str, now: float) -> list[float]:
        self.sent += 1
        if not self._driver.is_up(to):
            self.lost += 1
            return []
        delay = self.faults.delay_s
        if now < self.faults.end_s:
            delay += self.faults.jitter_s * float(self._rng.exponential())
        arrives = max(now + delay, self._busy_s.get((sender, to), 0.0))
        self._busy_s[sender, to] = arrives
        return [arrives]


@dataclass
class _Connection:
    session: int
    #: When the last message in each direction arrives: none overtakes another.
    busy_s: dict[str, float]


class OrderedNetwork(Network):
    """A network of ordered connections. `faults` has the partitions; a message takes between the
    two times of `delay_s`, drawn evenly.

    It is what TCP gives two processes and no more: while a connection stands, messages arrive in
    order; when it breaks, what was under way is lost, and nobody knows how much of it was. Both
    sides hear of the break, but each at a time of its own and up to `notice_s` late, so that one
    may have dialled again and spoken before the other knows that the old connection is gone.
    Numbered sessions tell the two apart; most of the hard schedules are made of that overlap.

    Only dialers connect (node agents dial, a master listens), and all of them look for their
    listener at the same beat (`redial_s`): drawing a time for each would cost an event per dialer
    and second for nothing that a protocol could tell.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        where: Callable[[str], str | None],
        faults: FaultSettings | None = None,
        delay_s: tuple[float, float] = (0.001, 0.05),
        notice_s: float = 5.0,
        redial_s: float = 0.5,
    ) -> None:
        super().__init__(faults or FaultSettings(), rng)
        self._where, self._delay_s = where, delay_s
        self._notice_s, self._redial_s = notice_s, redial_s
        self._sessions = 0
        self._open: dict[Pair, _Connection] = {}
        self._dialers: set[str] = set()
        #: To whom each dialer was connected last.
        self._listeners: dict[str, str] = {}
        #: Dialers that know that they have no connection, in the order in which they try.
        self._idle: dict[str, None] = {}
        self._isolated: set[str] = set()
        #: The connections whose messages arrive although they are broken, and how late.
        self._late: dict[int, float] = {}

    def attach(self, driver: VirtualDriver) -> None:
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

    def late_s(self, line: int) -> float | None:
        return self._late.get(line)

    def arrivals(self, sender: str, to: str, now: float) -> list[float]:
        self.sent += 1
        connection = self._between(sender, to)
        if connection is None:
            self.lost += 1
            return []
        low, high = self._delay_s
        arrives = now + low + float(self._rng.random()) * (high - low)
        connection.busy_s[to] = max(arrives, connection.busy_s[to])
        # A peer that is not sure says a thing twice.
        doubles = self.faults.duplication if now < self.faults.end_s else 0.0
        copies = 2 if doubles and self._rng.random() < doubles else 1
        return [connection.busy_s[to]] * copies

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

    def hang_up(self, dialer: str, session: int) -> None:
        """One side closes a connection, if it is still this one."""
        listener = self._listeners.get(dialer, "")
        connection = self._open.get((dialer, listener))
        if connection is not None and connection.session == session:
            self._break((dialer, listener))

    def is_open(self, dialer: str, listener: str) -> bool:
        return (dialer, listener) in self._open

    def _divide(self, part: Partition) -> None:
        for pair in list(self._open):
            if (pair[0] in part.side) != (pair[1] in part.side):
                self._break(pair)

    def _break(self, pair: Pair) -> None:
        connection = self._open.pop(pair)
        if self.faults.late and self._rng.random() < self.faults.late:
            self._late[connection.session] = LATE_S * float(self._rng.random())
        # One that is down hears nothing, and if it is up again before the notice comes it is
        # another life, which has never heard of the connection.
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
        self._listeners[name] = listener
        busy = {name: 0.0, listener: 0.0}
        self._open[name, listener] = _Connection(self._sessions, busy)
        self._driver.tell(name, Connected(listener, self._sessions))

    def _between(self, a: str, b: str) -> _Connection | None:
        return self._open.get((a, b)) or self._open.get((b, a))
