"""What a master needs of a store: a place for its facts that outlives it.

A store keeps two things: what the facts fold to, so that a master can start from it, and the log,
so that others can follow and a simulator can replay. SQLite is the one that ships; a store that is
replicated over several hosts has to fit the same protocol, which is why it says so much about
failures.

**Epochs.** `recover` starts an epoch, one higher than any before. From then on the store takes
batches of that epoch only: a master that was replaced without knowing it gets `Deposed` from its
next write, and nothing of the batch is kept. That is what makes "on disk before it is sent" safe
with more than one master: whoever can still write is the only one who can.

**Failures.** `StoreError` says that nothing was written and that the same batch may be tried again:
a full disk, a store that cannot be reached. `Deposed` is final.

**Threads.** Any method may block. The driver calls `write` and `probe` one at a time on a thread of
their own, never on its event loop; `facts` may be called beside them, from another thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import msgspec

from murmuration.schedulers.central.memory import Key, Row
from murmuration.schedulers.central.messages import Recover

#: An event the master was given, a fact that it noted, or how a master was started.
Side = Literal["event", "fact", "options"]


class StoreError(Exception):
    """Nothing was written; the same may be tried again later. The sentence says why."""


class Deposed(Exception):  # noqa: N818 - it is an answer, not a fault
    """A later master has started on this store; this one must stop."""


class Entry(msgspec.Struct, frozen=True):
    """One line of the log. Numbers grow by one."""

    number: int
    at_s: float
    side: Side
    value: Any


#: A fact as the log has it: number, time, kind and MessagePack.
LoggedFact = tuple[int, float, str, bytes]


#: A line as the log has it: number, time, side, kind and MessagePack.
StoredLine = tuple[int, float, Side, str, bytes]


@dataclass(frozen=True)
class StoreCopy:
    """All that a store has: the tables, the log that is kept, and how many masters have led."""

    tables: Mapping[str, Mapping[Key, Row]]
    lines: Sequence[StoredLine]
    epoch: int


#: More masters than can have started since a backup was made. Node agents may have served later
#: masters than a backup knows of, and obey none that is earlier than those.
SKIPPED_EPOCHS = 1_000_000


class Store(Protocol):
    """The facts and the log of one cluster."""

    def recover(self, seed: int) -> Recover:
        """Start an epoch; everything a master starts from."""

    def write(self, entries: Sequence[Entry]) -> None:
        """Keep a batch: all of it is on disk when this returns, or none if it raises."""

    def probe(self, size: int) -> None:
        """Fail as a write of so many bytes would."""

    def last_number(self) -> int:
        """The number of the last entry; 0 if there is none."""

    def entries(self) -> Iterator[Entry]:
        """The whole log that is kept, in order."""

    def facts(self, after: int, limit: int) -> Iterator[LoggedFact]:
        """The facts of the log after a number, in order, so many at most."""

    def lines(self, after: int, limit: int) -> Iterator[StoredLine]:
        """The lines of the log after a number, in order, so many at most; beside `write`, as
        `facts`."""

    def close(self) -> None:
        """Give back what is open; nothing is called after this."""
