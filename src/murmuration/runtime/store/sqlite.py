"""The store: job specifications, decisions and the log in SQLite, written ahead of what they cause.

A batch of facts is one transaction (group commit); what a fact causes is sent only when its batch
is on disk. The log has every event the master was told and every fact that came of it, in order, so
that a simulator can replay it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import msgspec

from murmuration.base.errors import InputError
from murmuration.runtime.folder import STORE
from murmuration.runtime.options import MasterOptions
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


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the log: an event the master was told (`event`), a fact that came of it (`fact`),
    or how a master was started (`options`)."""

    number: int
    at_s: float
    side: str
    value: Any


class Store:
    """One database file. `write` may be called from another thread than the rest, one call at a
    time."""

    def __init__(self, path: Path) -> None:
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

    def meta(self, key: str, default: str) -> str:
        """A setting that is written once and kept."""
        self._db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (key, default))
        (value,) = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return str(value)

    def next_epoch(self) -> int:
        """How many masters have started on this store before."""
        epoch = int(self.meta("epoch", "-1")) + 1
        self._db.execute("UPDATE meta SET value = ? WHERE key = 'epoch'", (str(epoch),))
        return epoch

    def probe(self, size: int) -> None:
        """Fail as a write of this size would."""
        self._db.execute("INSERT OR REPLACE INTO meta VALUES ('probe', ?)", ("x" * size,))
        self._db.execute("DELETE FROM meta WHERE key = 'probe'")

    def last_number(self) -> int:
        (last,) = self._db.execute("SELECT COALESCE(MAX(number), 0) FROM log").fetchone()
        return int(last)

    def write(self, entries: Sequence[Entry]) -> None:
        """One transaction: all of it is on disk, or none."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
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
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

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
        return Recover(self.next_epoch(), seed, jobs, draining)

    def entries(self) -> Iterator[Entry]:
        """The whole log, with its values as they were told."""
        query = "SELECT number, at_s, side, kind, body FROM log ORDER BY number"
        for number, at_s, side, kind, body in self._db.execute(query):
            yield Entry(number, at_s, side, msgspec.msgpack.decode(body, type=LOGGED[kind]))

    def facts(self, after: int, limit: int) -> Iterator[tuple[int, float, str, bytes]]:
        """The facts of the log after a number: number, time, kind and MessagePack."""
        query = (
            "SELECT number, at_s, kind, body FROM log WHERE number > ? AND side = 'fact' "
            "ORDER BY number LIMIT ?"
        )
        yield from self._db.execute(query, (after, limit))


def read_log(path: Path) -> list[Entry]:
    """The log of a cluster, from its folder or its store."""
    file = path / STORE if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"{path}: expected the folder or the store of a live cluster")
    store = Store(file)
    try:
        return list(store.entries())
    except (sqlite3.DatabaseError, msgspec.DecodeError, KeyError) as error:
        raise InputError(f"{file}: expected the log of a live cluster: {error}") from error
    finally:
        store.close()


def _spec(blob: bytes) -> JobSpec:
    return msgspec.msgpack.decode(blob, type=JobSpec)
