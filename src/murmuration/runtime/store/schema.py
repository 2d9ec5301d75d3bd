"""The tables of the store and how a file of an older version becomes one of this version."""

from __future__ import annotations

import sqlite3

from murmuration.runtime.store.sums import row_sum, total
from murmuration.schedulers.central.memory import TABLES

#: 2: why runs are stopped, losses, and a checksum for each row. 3: tokens and quotas. 4: versions
#: of services that are updated. 5: runs that are suspended.
VERSION = 5
SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS jobs (
    name TEXT PRIMARY KEY, serial INTEGER, submit_s REAL, first_run INTEGER, killed INTEGER,
    duration_s REAL, spec BLOB, sum INTEGER
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tasks (
    job TEXT, idx INTEGER, run INTEGER, node TEXT, status TEXT, failures INTEGER,
    code INTEGER, reason TEXT, placed_s REAL, started_s REAL, ended_s REAL,
    stopped_for TEXT NOT NULL DEFAULT '', losses INTEGER NOT NULL DEFAULT 0, sum INTEGER,
    PRIMARY KEY (job, idx)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rollouts (
    job TEXT PRIMARY KEY, state BLOB, sum INTEGER
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS versions (
    job TEXT, idx INTEGER, version INTEGER, sum INTEGER, PRIMARY KEY (job, idx)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pauses (
    job TEXT, idx INTEGER, run INTEGER, suspended INTEGER, done_s REAL, resumed_s REAL,
    sum INTEGER, PRIMARY KEY (job, idx)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS draining (node TEXT PRIMARY KEY, sum INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tokens (
    name TEXT PRIMARY KEY, role TEXT, user TEXT, digest TEXT, issued_s REAL, lasts_s REAL,
    sum INTEGER
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS quotas (
    user TEXT, what TEXT, amount INTEGER, sum INTEGER, PRIMARY KEY (user, what)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log (
    number INTEGER PRIMARY KEY, at_s REAL, side TEXT, kind TEXT, body BLOB, sum INTEGER
);
"""
#: Columns that version 1 did not have.
_NEW_IN_2 = (
    "ALTER TABLE jobs ADD COLUMN sum INTEGER",
    "ALTER TABLE tasks ADD COLUMN stopped_for TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE tasks ADD COLUMN losses INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE tasks ADD COLUMN sum INTEGER",
    "ALTER TABLE draining ADD COLUMN sum INTEGER",
    "ALTER TABLE log ADD COLUMN sum INTEGER",
)


def columns(table: str) -> tuple[str, ...]:
    """The columns of a table that its sums cover."""
    return (*TABLES[table].key, *TABLES[table].defaults)


def match_keys(keys: tuple[str, ...]) -> str:
    return " AND ".join(f"{name} = ?" for name in keys)


def migrate(db: sqlite3.Connection, version: int) -> None:
    """Bring a store of an older version up to this one, within a transaction. Lines of the log that
    are there already get no sum: nobody knows what they were when they were written."""
    if version == 1:
        for statement in _NEW_IN_2:
            db.execute(statement)
        for table in TABLES:
            set_total(db, table, sum_rows(db, table, (), ()))
    db.execute("UPDATE meta SET value = ? WHERE key = 'version'", (str(VERSION),))


def sum_rows(
    db: sqlite3.Connection, table: str, keys: tuple[str, ...], key: tuple[object, ...]
) -> int:
    """Give each row with this key (or the beginning of one) its sum; all of them together."""
    names, sums = columns(table), []
    rows = _select(db, table, names, keys, key)
    own = TABLES[table].key
    for row in rows:
        sums.append(row_sum(table, row))
        db.execute(
            f"UPDATE {table} SET sum = ? WHERE {match_keys(own)}", (sums[-1], *row[: len(own)])
        )
    return total(sums)


def total_of(
    db: sqlite3.Connection, table: str, keys: tuple[str, ...], key: tuple[object, ...]
) -> int:
    """The sums of rows with this key (or the beginning of one) as they were written, together."""
    condition = f" WHERE {match_keys(keys)}" if keys else ""
    return total([value for (value,) in db.execute(f"SELECT sum FROM {table}{condition}", key)])


def _select(
    db: sqlite3.Connection,
    table: str,
    names: tuple[str, ...],
    keys: tuple[str, ...],
    key: tuple[object, ...],
) -> list[tuple[object, ...]]:
    condition = f" WHERE {match_keys(keys)}" if keys else ""
    return db.execute(f"SELECT {', '.join(names)} FROM {table}{condition}", key).fetchall()


def get_total(db: sqlite3.Connection, table: str) -> int:
    row = db.execute("SELECT value FROM meta WHERE key = ?", (f"sum:{table}",)).fetchone()
    return int(row[0]) if row else 0


def set_total(db: sqlite3.Connection, table: str, value: int) -> None:
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"sum:{table}", str(value)))
