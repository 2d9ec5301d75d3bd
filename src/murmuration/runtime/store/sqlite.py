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
from murmuration.schedulers.central.messages import (
    AgentJoined,
    AgentLost,
    Drain,
    Fact,
    JobForgotten,
    JobKilled,
    JobSubmitted,
    KillJob,
    LeaseEnded,
    NodeDraining,
    Recover,
    RunEnded,
    RunStarted,
    StoredJob,
    StoredRun,
    SubmitJob,
    TaskEnded,
    TaskPlaced,
    TaskStarted,
)
from murmuration.schedulers.offers.messages import ToMaster
from murmuration.workload.job_spec import JobSpec

VERSION = 1
#: Lines of the log that are kept, and how often older ones are dropped.
LOG_MAX, PRUNE = 2_000_000, 50_000
#: Everything that may be in the log, by its name.
LOGGED: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *get_args(Fact),
        *get_args(ToMaster),
        SubmitJob,
        KillJob,
        Drain,
        AgentJoined,
        AgentLost,
        LeaseEnded,
        RunStarted,
        RunEnded,
        Recover,
        MasterOptions,
    )
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
_PLACED = """
INSERT INTO tasks VALUES (?, ?, ?, ?, 'starting', 0, NULL, '', ?, 0, 0)
ON CONFLICT (job, idx) DO UPDATE SET run = excluded.run, node = excluded.node, status = 'starting',
    code = NULL, reason = '', placed_s = excluded.placed_s, started_s = 0, ended_s = 0
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
                (e.number, e.at_s, e.side, type(e.value).__name__, ENCODER.encode(e.value))
                for e in entries
            ]
            self._db.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", rows)
            for entry in entries:
                if entry.side == "fact":
                    self._apply(entry.value, entry.at_s)
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

    def _apply(self, fact: Fact, at_s: float) -> None:
        """What a fact changes in the tables a master starts from."""
        do = self._db.execute
        match fact:
            case JobSubmitted(job, serial, first_run, spec, duration_s):
                do("DELETE FROM tasks WHERE job = ?", (job,))
                row = (job, serial, at_s, first_run, 0, duration_s, ENCODER.encode(spec))
                do("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            case JobForgotten(job):
                do("DELETE FROM tasks WHERE job = ?", (job,))
                do("DELETE FROM jobs WHERE name = ?", (job,))
            case JobKilled(job):
                do("UPDATE jobs SET killed = 1 WHERE name = ?", (job,))
            case TaskPlaced(job, index, run, node):
                do(_PLACED, (job, index, run, node, at_s))
            case TaskStarted(job, index, _, _):
                do(
                    "UPDATE tasks SET status = 'running', started_s = ? WHERE job = ? AND idx = ?",
                    (at_s, job, index),
                )
            case TaskEnded(job, index, _, _, _, code, reason, failures, state):
                do(
                    "UPDATE tasks SET status = ?, code = ?, reason = ?, failures = ?, ended_s = ?"
                    " WHERE job = ? AND idx = ?",
                    (str(state), code, reason, failures, at_s, job, index),
                )
            case NodeDraining(node, on):
                do(
                    "INSERT OR REPLACE INTO draining VALUES (?)"
                    if on
                    else "DELETE FROM draining WHERE node = ?",
                    (node,),
                )
            case _:
                pass

    def recover(self, seed: int) -> Recover:
        """Everything a master starts from."""
        runs: dict[str, list[StoredRun]] = {}
        columns = (
            "job, idx, run, node, status, failures, code, reason, placed_s, started_s, ended_s"
        )
        for job, *row in self._db.execute(f"SELECT {columns} FROM tasks ORDER BY job, idx"):
            runs.setdefault(job, []).append(StoredRun(*row))
        jobs = tuple(
            StoredJob(
                _spec(spec),
                serial,
                submit_s,
                first_run,
                bool(killed),
                duration_s,
                tuple(runs.get(name, ())),
            )
            for name, serial, submit_s, first_run, killed, duration_s, spec in self._db.execute(
                "SELECT name, serial, submit_s, first_run, killed, duration_s, spec FROM jobs "
                "ORDER BY serial"
            )
        )
        draining = tuple(
            node for (node,) in self._db.execute("SELECT node FROM draining ORDER BY node")
        )
        return Recover(self._next_epoch(), seed, jobs, draining)

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
