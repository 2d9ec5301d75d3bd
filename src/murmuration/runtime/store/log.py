"""The log as its followers see it: recent facts from memory, older ones from the store, and a bell
that rings for new ones."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from murmuration.runtime.store.interface import Entry, Store, StoredLine

#: Facts that are kept in memory; older ones are read from the store.
RECENT = 10_000
#: Numbers of the log that are looked through for older facts, and how many at once.
OLDER_MAX, CHUNK = 20_000, 1000


class EventRow(msgspec.Struct):
    """One fact: its number in the log, when it was noted, the name of its type, and itself."""

    index: int
    at_s: float
    kind: str
    fact: msgspec.Raw


class FactLog:
    """The facts of a store, for those who follow them."""

    def __init__(self) -> None:
        self._store: Store | None = None
        self._recent: deque[Entry] = deque(maxlen=RECENT)
        #: Set, and replaced by a fresh one, whenever there are new facts.
        self._news = asyncio.Event()
        #: The number of the last entry of the log, events and facts.
        self.index = 0
        #: What keeps the store from being written; empty if nothing does.
        self.trouble = ""
        #: Facts by kind since this master started, batches written, and the seconds that took.
        self.counts: Counter[str] = Counter()
        self.writes, self.write_s = 0, 0.0

    def open(self, store: Store) -> None:
        self._store, self.index = store, store.last_number()

    def publish(self, entries: Iterable[Entry]) -> None:
        """These entries are in the store now."""
        facts = [entry for entry in entries if entry.side == "fact"]
        self._recent.extend(facts)
        self.counts.update(type(entry.value).__name__ for entry in facts)
        news, self._news = self._news, asyncio.Event()
        news.set()

    def lines(self, after: int, limit: int) -> list[StoredLine]:
        """Lines of the log, events included, after a number; from the store alone."""
        return [] if self._store is None else list(self._store.lines(after, limit))

    async def wait(self, timeout_s: float) -> bool:
        """Until a fact is new; False if none was in time."""
        try:
            return await asyncio.wait_for(self._news.wait(), timeout_s)
        except TimeoutError:
            return False

    def recent(self) -> Iterable[Entry]:
        """The facts in memory, the newest first."""
        return reversed(self._recent)

    def newest(self) -> Iterator[EventRow]:
        """Facts as their followers see them, the newest first: those in memory, then those that an
        earlier master left in the store, as far back as a page is worth waiting for."""
        yield from map(row_of, self.recent())
        end = self._recent[0].number if self._recent else self.index + 1
        last = max(0, end - OLDER_MAX)
        while end > last + 1:
            begin = max(last, end - 1 - CHUNK)
            rows = [row for row in self._read_store(begin, CHUNK) if row.index < end]
            yield from reversed(rows)
            end = begin + 1

    def after(self, index: int, limit: int) -> list[EventRow]:
        """The facts after an index, in order, so many at most."""
        if self._recent and self._recent[0].number <= index + 1:
            entries = islice((e for e in self._recent if e.number > index), limit)
            return [row_of(entry) for entry in entries]
        return self._read_store(index, limit)

    def _read_store(self, index: int, limit: int) -> list[EventRow]:
        if self._store is None:
            return []
        return [
            # Followers know facts by their name alone: the log is of one protocol.
            EventRow(number, at_s, kind.rpartition(".")[2], _raw(msgspec.msgpack.decode(body)))
            for number, at_s, kind, body in self._store.facts(index, limit)
        ]


def row_of(entry: Entry) -> EventRow:
    """A fact as its followers see it."""
    return EventRow(entry.number, entry.at_s, type(entry.value).__name__, _raw(entry.value))


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
