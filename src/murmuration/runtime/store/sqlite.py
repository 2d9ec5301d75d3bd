"""The store in SQLite: job specifications, decisions and the log, in one file on one host.

A batch is one transaction, so it is there whole or not at all. The log has every event the master
was given and every fact it noted, in order, so that a simulator can replay it.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec

from murmuration.base.errors import InputError
from murmuration.runtime.folder import STORE
from murmuration.runtime.options import MasterOptions
from murmuration.runtime.store.interface import Deposed, Entry, LoggedFact, StoreError
from murmuration.schedulers.agent import Message
from murmuration.schedulers.central import memory
from murmuration.schedulers.central.memory import TABLES, Drop, Patch, Put
from murmuration.schedulers.central.messages import Fact, Recover, ToCentralMaster
from murmuration.schedulers.offers.messages import ToMaster
from murmuration.workload.job_spec import JobSpec

VERSION = 1
#: Lines of the log that are kept, and how often older ones are dropped.
LOG_MAX, PRUNE = 2_000_000, 50_000
#: Everything that may be in the log, by its key; and by its bare name, as older logs have it.
_LOGGED = (*get_args(Fact), *get_args(ToMaster), *get_args(ToCentralMaster), MasterOptions)
LOGGED: dict[str, Any] = {
    **{kind.__name__: kind for kind in _LOGGED},
    **{kind.key: kind for kind in _LOGGED if issubclass(kind, Message)},
}
ENCODER = msgspec.msgpack.Encoder()
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS jobs (
    name TEXT PRIMARY KEY, serial INTEGER, submit_s REAL, first_run INTEGER, killed INTEGER,
    duration_s REAL, spec BLOB
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tasks (
    job TEXT, idx INTEGER, run INTEGER, node TEXT, status TEXT, failures INTEGER,
    code INTEGER, reason TEXT, placed_s REAL, started_s REAL, ended_s REAL, PRIMARY KEY (job, idx)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS draining (node TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log (
    number INTEGER PRIMARY KEY, at_s REAL, side TEXT, kind TEXT, body BLOB
);
"""


class SqliteStore:
    """One database file, and two connections to it: one writes, on whatever thread the driver
    chooses; the other reads the log beside it and never sees half a batch."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._epoch: int | None = None
        self._reader: sqlite3.Connection | None = None
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(_SCHEMA)
            version = int(self.meta("version", str(VERSION)))
        except sqlite3.DatabaseError as error:
            raise InputError(f"{path}: expected the store of a cluster: {error}") from error
        if version != VERSION:
            raise InputError(f"{path}: expected a store of version {VERSION}, got {version}")

    def close(self) -> None:
        self._db.close()
        if self._reader is not None:
            self._reader.close()

    def meta(self, key: str, default: str) -> str:
        """A setting that is written once and kept."""
        self._db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (key, default))
        (value,) = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return str(value)

    def _next_epoch(self) -> int:
        """The number of masters that have started on this store before."""
        self._epoch = int(self.meta("epoch", "-1")) + 1
        self._db.execute("UPDATE meta SET value = ? WHERE key = 'epoch'", (str(self._epoch),))
        return self._epoch

    def probe(self, size: int) -> None:
        """Fail as a write of this size would."""
        with _retryable():
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('probe', ?)", ("x" * size,))
            self._db.execute("DELETE FROM meta WHERE key = 'probe'")

    def last_number(self) -> int:
        (last,) = self._db.execute("SELECT COALESCE(MAX(number), 0) FROM log").fetchone()
        return int(last)

    def write(self, entries: Sequence[Entry]) -> None:
        """One transaction: all of it is on disk, or none."""
        with _retryable(), self._transaction():
            self._check_epoch()
            rows = [
                (e.number, e.at_s, e.side, _kind(e.value), ENCODER.encode(e.value)) for e in entries
            ]
            self._db.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", rows)
            for entry in entries:
                if entry.side == "fact":
                    for change in memory.changes(entry.value, entry.at_s):
                        self._db.execute(*_statement(change))
            if entries and entries[0].number // PRUNE != entries[-1].number // PRUNE:
                self._db.execute(
                    "DELETE FROM log WHERE number <= ?", (entries[-1].number - LOG_MAX,)
                )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _check_epoch(self) -> None:
        """Within the transaction: nobody has started an epoch after ours."""
        if self._epoch is None:
            return
        (now,) = self._db.execute("SELECT value FROM meta WHERE key = 'epoch'").fetchone()
        if int(now) != self._epoch:
            raise Deposed(f"a later master (epoch {now}, after {self._epoch}) uses {self._path}")

    def recover(self, seed: int) -> Recover:
        """Start an epoch; everything a master starts from."""
        tables = {name: self._rows(name, layout) for name, layout in TABLES.items()}
        for row in tables["jobs"].values():
            row["spec"] = _spec(row["spec"])
        return memory.recover(tables, self._next_epoch(), seed)

    def _rows(self, table: str, layout: memory.TableLayout) -> dict[memory.Key, memory.Row]:
        columns, keys = [*layout.key, *layout.defaults], len(layout.key)
        return {
            row[:keys]: dict(zip(layout.defaults, row[keys:], strict=True))
            for row in self._db.execute(f"SELECT {', '.join(columns)} FROM {table}")
        }

    def entries(self) -> Iterator[Entry]:
        """The whole log that is kept, in order."""
        query = "SELECT number, at_s, side, kind, body FROM log ORDER BY number"
        for number, at_s, side, kind, body in self._db.execute(query):
            yield Entry(number, at_s, side, msgspec.msgpack.decode(body, type=LOGGED[kind]))

    def facts(self, after: int, limit: int) -> Iterator[LoggedFact]:
        """The facts of the log after a number, by a connection of their own."""
        if self._reader is None:
            self._reader = sqlite3.connect(self._path, check_same_thread=False)
        query = (
            "SELECT number, at_s, kind, body FROM log WHERE number > ? AND side = 'fact' "
            "ORDER BY number LIMIT ?"
        )
        yield from self._reader.execute(query, (after, limit))


def _statement(change: memory.Change) -> tuple[str, tuple[Any, ...]]:
    """The statement that carries out a change of a row."""
    keys = TABLES[change.table].key
    match change:
        case Put(table, key, columns):
            row = {**dict(zip(keys, key, strict=True)), **TABLES[table].defaults, **columns}
            marks = ", ".join("?" * len(row))
            sets = ", ".join(f"{name} = excluded.{name}" for name in columns)
            sql = (
                f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks}) "
                f"ON CONFLICT ({', '.join(keys)}) DO {f'UPDATE SET {sets}' if sets else 'NOTHING'}"
            )
            return sql, tuple(map(_value, row.values()))
        case Patch(table, key, columns):
            sets = ", ".join(f"{name} = ?" for name in columns)
            values = tuple(map(_value, columns.values()))
            return f"UPDATE {table} SET {sets} WHERE {_where(keys)}", (*values, *key)
        case Drop(table, key):
            return f"DELETE FROM {table} WHERE {_where(keys[: len(key)])}", key


def _where(keys: Sequence[str]) -> str:
    return " AND ".join(f"{name} = ?" for name in keys)


def _value(value: Any) -> Any:
    return ENCODER.encode(value) if isinstance(value, JobSpec) else value


def _kind(value: Any) -> str:
    return value.key if isinstance(value, Message) else type(value).__name__


@contextlib.contextmanager
def _retryable() -> Iterator[None]:
    """What the disk refuses may be tried again."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        raise StoreError(str(error)) from error


def read_log(path: Path) -> list[Entry]:
    """The log of a cluster, from its folder or its store."""
    file = path / STORE if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"{path}: expected the folder or the store of a live cluster")
    store = SqliteStore(file)
    try:
        return list(store.entries())
    except (sqlite3.DatabaseError, msgspec.DecodeError, KeyError) as error:
        raise InputError(f"{file}: expected the log of a live cluster: {error}") from error
    finally:
        store.close()


def _spec(blob: bytes) -> JobSpec:
    return msgspec.msgpack.decode(blob, type=JobSpec)
