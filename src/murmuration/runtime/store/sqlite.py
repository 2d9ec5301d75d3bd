"""The store in SQLite: job specifications, decisions and the log, in one file on one host.

A batch is one transaction, so it is there whole or not at all. The log has every event the master
was given and every fact it noted, in order, so that a simulator can replay it; it is bounded in
lines and in bytes.

Every row has a checksum, and every table one over all its rows (`sums.py`): a master does not start
from tables that are not as they were written. Beside the database lies the number of the last line
that was ever written to it (`-mark`), because SQLite takes a damaged write-ahead log for a shorter
one, without a word.

The tables are a fold of the facts in the log, but they are written in the same transaction and not
computed from it: the log is cut at some length, the tables are not. What a fact changes is said
once, in `schedulers/central/memory.py`; here a change becomes a statement, on the virtual disk of
the fault schedules the same change is carried out on dictionaries. So what is tested under
thousands of crashes is the fold that ships.

Who may write is decided here too. `recover` raises the epoch, and every batch checks in its own
transaction that the epoch is still its own. A master that was suspended while another took over can
therefore believe what it likes: its next fact is refused, and without a fact on disk nothing of it
leaves (`Deposed`).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import struct
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from murmuration.base.errors import InputError
from murmuration.runtime.folder import NODES, STORE
from murmuration.runtime.store import schema
from murmuration.runtime.store.interface import (
    SKIPPED_EPOCHS,
    Deposed,
    Entry,
    LoggedFact,
    StoreCopy,
    StoredLine,
    StoreError,
)
from murmuration.runtime.store.lines import decode_value, encode_value, kind_of
from murmuration.runtime.store.schema import match_keys
from murmuration.runtime.store.sums import row_sum, total
from murmuration.schedulers.central import memory
from murmuration.schedulers.central.memory import TABLES, Drop, Patch, Put
from murmuration.schedulers.central.messages import Recover, Rollout
from murmuration.workload.job_spec import JobSpec

#: Lines of the log that are kept, and how often older ones are dropped.
LOG_MAX, PRUNE = 2_000_000, 50_000
#: Bytes of the log; when there are more, the older half goes.
LOG_BYTES_MAX = 2**28
ADVICE = "murmur store restore takes a backup back, murmur store check says more"
#: The write-ahead log has this much of the disk from the start, so that a task which fills the disk
#: can be killed: an order is a fact, and a fact must be written.
RESERVED = 2**24
PROBE_MARGIN = 2**20
_MARK = struct.Struct("q")
ENCODER = msgspec.msgpack.Encoder()


class SqliteStore:
    """One database file, and two connections to it: one writes, on whatever thread the driver
    chooses; the other reads the log beside it and never sees half a batch."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._epoch: int | None = None
        self._reader: sqlite3.Connection | None = None
        self._log_bytes: int | None = None
        mode = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._mark = os.open(mark_path(path), mode, 0o600)
        try:
            marked = read_mark(self._mark)
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            # A write-ahead log lets readers go on beside a batch. FULL, not NORMAL: the latter may
            # lose the last commits in a power failure, after their effects have left.
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(schema.SCHEMA)
            self._migrate()
            last = self.last_number()
            _reserve(path)
        except (sqlite3.DatabaseError, ValueError) as error:
            raise InputError(f"{path}: expected the store of a cluster: {error}") from error
        if last < marked:
            raise InputError(
                f"{path}: expected a log that goes on to line {marked}, got one that ends at line "
                f"{last}; {ADVICE}"
            )

    def _migrate(self) -> None:
        version = int(self.meta("version", str(schema.VERSION)))
        if not 1 <= version <= schema.VERSION:
            raise InputError(
                f"{self._path}: expected a store of version {schema.VERSION} or older, "
                f"got {version}"
            )
        if version < schema.VERSION:
            with self._transaction():
                schema.migrate(self._db, version)

    def close(self) -> None:
        self._db.close()
        os.close(self._mark)
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

    def skip_epochs(self) -> None:
        """Before a master starts on a backup."""
        epoch = int(self.meta("epoch", "-1")) + SKIPPED_EPOCHS
        self._db.execute("UPDATE meta SET value = ? WHERE key = 'epoch'", (str(epoch),))

    def probe(self, size: int) -> None:
        """Fail as a write of this size would, and before the room that is kept for orders is
        touched."""
        place = os.statvfs(self._path)
        if place.f_bavail * place.f_frsize < size + PROBE_MARGIN:
            raise StoreError("disk is full")
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
                (e.number, e.at_s, e.side, kind_of(e.value), encode_value(e.value)) for e in entries
            ]
            summed = [(*row, row_sum("log", row)) for row in rows]
            self._db.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", summed)
            self._change(
                change
                for entry in entries
                if entry.side == "fact"
                for change in memory.changes(entry.value, entry.at_s)
            )
            self._prune(entries, sum(len(row[-1]) for row in rows))
        # After the commit: a mark ahead of the log would refuse a healthy store. One that lags by a
        # batch only notices less.
        if entries:
            os.pwrite(self._mark, _MARK.pack(entries[-1].number), 0)

    def _change(self, changes: Iterable[memory.Change]) -> None:
        """Change rows, their sums, and those of their tables."""
        totals: dict[str, int] = {}
        for change in changes:
            table, key = change.table, change.key
            keys = TABLES[table].key[: len(key)]
            # A table's sum is the exclusive or of its rows' sums, so a change takes the old rows
            # out and puts the new ones in without a look at the others.
            before = schema.total_of(self._db, table, keys, key)
            self._db.execute(*_statement(change))
            after = schema.sum_rows(self._db, table, keys, key)
            known = totals.get(table)
            known = schema.get_total(self._db, table) if known is None else known
            totals[table] = known ^ before ^ after
        for table, whole in totals.items():
            schema.set_total(self._db, table, whole)

    def _prune(self, entries: Sequence[Entry], added: int) -> None:
        """Drop the oldest lines of a log that has grown too long or too large."""
        if not entries:
            return
        first, last = entries[0].number, entries[-1].number
        if first // PRUNE != last // PRUNE:
            self._db.execute("DELETE FROM log WHERE number <= ?", (last - LOG_MAX,))
        if self._log_bytes is None:
            query = "SELECT COALESCE(SUM(LENGTH(body)), 0) FROM log"
            (self._log_bytes,) = self._db.execute(query).fetchone()
        else:
            self._log_bytes += added
        if self._log_bytes > LOG_BYTES_MAX:
            self._db.execute("DELETE FROM log WHERE number <= ?", (self._half(first),))
            self._log_bytes = None

    def _half(self, first: int) -> int:
        """The number up to which the log goes when its younger half is kept: less than this."""
        kept = 0
        query = "SELECT number, LENGTH(body) FROM log ORDER BY number DESC"
        for number, size in self._db.execute(query):
            kept += size
            if kept > LOG_BYTES_MAX // 2:
                return min(int(number), first - 1)
        return 0

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        # IMMEDIATE takes the write lock before the epoch is read, so that nobody can start another
        # one between that look and the commit.
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
        """Start an epoch; everything a master starts from. Tables that are not as they were written
        are refused."""
        try:
            return memory.recover(self._tables(), self._next_epoch(), seed)
        except (sqlite3.Error, msgspec.MsgspecError, ValueError, TypeError) as error:
            raise InputError(f"{self._path}: it is damaged ({error}); {ADVICE}") from error

    def _tables(self) -> dict[str, dict[memory.Key, memory.Row]]:
        tables = {name: self._rows(name, layout) for name, layout in TABLES.items()}
        for row in tables["jobs"].values():
            row["spec"] = _spec(row["spec"])
        for row in tables["rollouts"].values():
            row["state"] = msgspec.msgpack.decode(row["state"], type=Rollout)
        return tables

    def copy(self) -> StoreCopy:
        """All of it, checked; a master may go on writing."""
        self.check()
        lines = self._db.execute("SELECT number, at_s, side, kind, body FROM log ORDER BY number")
        return StoreCopy(self._tables(), lines.fetchall(), int(self.meta("epoch", "-1")))

    def fill(self, copied: StoreCopy) -> None:
        """Make a store that is empty the copy of another one."""
        with _retryable(), self._transaction():
            self._change(
                Put(table, key, row)
                for table, rows in copied.tables.items()
                for key, row in rows.items()
            )
            summed = [(*line, row_sum("log", line)) for line in copied.lines]
            self._db.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", summed)
            epoch = str(copied.epoch)
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('epoch', ?)", (epoch,))

    def check(self) -> int:
        """Look at everything; InputError says what is wrong first. The lines of the log that
        are in order."""
        try:
            (state,) = self._db.execute("PRAGMA integrity_check(1)").fetchone()
            if state != "ok":
                raise InputError(f"{self._path}: it is damaged ({state}); {ADVICE}")
            for name, layout in TABLES.items():
                self._rows(name, layout)
            return sum(1 for _ in self.entries())
        except (sqlite3.Error, msgspec.MsgspecError, ValueError, TypeError, KeyError) as error:
            raise InputError(f"{self._path}: it is damaged ({error}); {ADVICE}") from error

    def backup(self, to: Path) -> None:
        """Copy the store as it is now to a file, beside a master that goes on writing."""
        target = sqlite3.connect(to)
        with contextlib.closing(target):
            self._db.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")

    def _rows(self, table: str, layout: memory.TableLayout) -> dict[memory.Key, memory.Row]:
        """The rows of a table, each of them and all together as they were written."""
        names, keys = schema.columns(table), len(layout.key)
        rows, sums = {}, []
        for *values, written in self._db.execute(f"SELECT {', '.join(names)}, sum FROM {table}"):
            key = tuple(values[:keys])
            sums.append(row_sum(table, values))
            if sums[-1] != written:
                raise ValueError(f"{table} {'.'.join(map(str, key))} has another checksum")
            rows[key] = dict(zip(layout.defaults, values[keys:], strict=True))
        if total(sums) != schema.get_total(self._db, table):
            raise ValueError(f"rows of {table} are missing, or there twice")
        return rows

    def entries(self) -> Iterator[Entry]:
        """The whole log that is kept, in order. Lines of older versions have no checksum."""
        query = "SELECT number, at_s, side, kind, body, sum FROM log ORDER BY number"
        for *row, written in self._db.execute(query):
            number, at_s, side, kind, body = row
            if written is not None and row_sum("log", row) != written:
                raise ValueError(f"line {number} of the log has another checksum")
            yield Entry(number, at_s, side, decode_value(kind, body))

    def facts(self, after: int, limit: int) -> Iterator[LoggedFact]:
        """The facts of the log after a number, by a connection of their own."""
        query = (
            "SELECT number, at_s, kind, body FROM log WHERE number > ? AND side = 'fact' "
            "ORDER BY number LIMIT ?"
        )
        yield from self._open_reader().execute(query, (after, limit))

    def lines(self, after: int, limit: int) -> Iterator[StoredLine]:
        query = (
            "SELECT number, at_s, side, kind, body FROM log WHERE number > ? "
            "ORDER BY number LIMIT ?"
        )
        yield from self._open_reader().execute(query, (after, limit))

    def _open_reader(self) -> sqlite3.Connection:
        if self._reader is None:
            self._reader = sqlite3.connect(self._path, check_same_thread=False)
        return self._reader


def _reserve(path: Path) -> None:
    """Take room for the write-ahead log. SQLite overwrites it from its beginning, and reads no
    further than its frames go; what lies beyond is nothing to it."""
    log = f"{path}-wal"
    with contextlib.suppress(OSError):
        descriptor = os.open(log, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.posix_fallocate(descriptor, 0, RESERVED)
        finally:
            os.close(descriptor)


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
            return f"UPDATE {table} SET {sets} WHERE {match_keys(keys)}", (*values, *key)
        case Drop(table, key):
            return f"DELETE FROM {table} WHERE {match_keys(keys[: len(key)])}", key


def _value(value: Any) -> Any:
    return ENCODER.encode(value) if isinstance(value, JobSpec | Rollout) else value


@contextlib.contextmanager
def _retryable() -> Iterator[None]:
    """What the disk refuses may be tried again."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        raise StoreError(str(error)) from error


def mark_path(path: Path) -> Path:
    """Where the number of the last line lies that was ever written to a store."""
    return path.with_name(path.name + "-mark")


def read_mark(file: int) -> int:
    data = os.pread(file, _MARK.size, 0)
    return int(_MARK.unpack(data)[0]) if len(data) == _MARK.size else 0


def open_store(folder: Path) -> SqliteStore:
    """The store of a cluster. One that is missing where tasks have run is not made again: a master
    with an empty store would end everything that runs."""
    path = folder / STORE
    journals = (folder / NODES).glob("*/journal")
    full = next((file.parent.name for file in journals if file.stat().st_size), None)
    if full is not None and (not path.exists() or not path.stat().st_size):
        raise InputError(
            f"{path}: expected the store of the cluster whose node {full} has run tasks, and there "
            f"is none; {ADVICE}; or remove {folder / NODES} to start over"
        )
    return SqliteStore(path)


def read_log(path: Path) -> list[Entry]:
    """The log of a cluster, from its folder, its store, or a file of `murmur dump`."""
    if path.is_file() and tarfile.is_tarfile(path):
        return _read_dump(path)
    file = path / STORE if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"{path}: expected the folder or the store of a live cluster")
    store = SqliteStore(file)
    try:
        return list(store.entries())
    except (sqlite3.DatabaseError, msgspec.DecodeError, KeyError, ValueError) as error:
        raise InputError(f"{file}: expected the log of a live cluster: {error}") from error
    finally:
        store.close()


def read_copy(path: Path) -> StoreCopy:
    """All that is in a backup, which is left as it is."""
    if not path.is_file():
        raise InputError(f"{path}: expected a backup")
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / STORE
        copied.write_bytes(path.read_bytes())
        store = SqliteStore(copied)
        try:
            return store.copy()
        finally:
            store.close()


def _read_dump(path: Path) -> list[Entry]:
    with tempfile.TemporaryDirectory() as folder, tarfile.open(path) as archive:
        try:
            member = archive.extractfile(STORE)
        except KeyError:
            member = None
        if member is None:
            raise InputError(f"{path}: expected a file of murmur dump, with {STORE} in it")
        # Only this one file is taken out, under a name of ours.
        copied = Path(folder) / STORE
        copied.write_bytes(member.read())
        return read_log(copied)


def _spec(blob: bytes) -> JobSpec:
    return msgspec.msgpack.decode(blob, type=JobSpec)
