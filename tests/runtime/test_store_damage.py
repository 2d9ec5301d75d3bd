"""A store that was damaged, lost or written by an older version, and its backups."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.runtime.test_store import entries, story

from murmuration.base.errors import InputError
from murmuration.cli import murmur
from murmuration.runtime.store import sqlite
from murmuration.runtime.store.interface import Entry
from murmuration.runtime.store.sqlite import SqliteStore, open_store, read_log
from murmuration.schedulers.central.memory import TABLES
from murmuration.schedulers.central.messages import KillJob, Recover

V1 = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE jobs (name TEXT PRIMARY KEY, serial INTEGER, submit_s REAL, first_run INTEGER,
    killed INTEGER, duration_s REAL, spec BLOB) WITHOUT ROWID;
CREATE TABLE tasks (job TEXT, idx INTEGER, run INTEGER, node TEXT, status TEXT, failures INTEGER,
    code INTEGER, reason TEXT, placed_s REAL, started_s REAL, ended_s REAL,
    PRIMARY KEY (job, idx)) WITHOUT ROWID;
CREATE TABLE draining (node TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE log (number INTEGER PRIMARY KEY, at_s REAL, side TEXT, kind TEXT, body BLOB);
INSERT INTO meta VALUES ('version', '1'), ('epoch', '4');
"""


def make(path: Path) -> Recover:
    """A store with some jobs, closed; what a master starts from."""
    store = SqliteStore(path)
    store.write(entries(story([0, 1, 2, 4, 7, 9, 12])))
    recovered = store.recover(1)
    store.close()
    return recovered


def test_no_flipped_bit_changes_what_a_master_starts_from(tmp_path: Path) -> None:
    """Each is refused with a sentence, or hit nothing that is read."""
    known = make(tmp_path / "store.db")
    whole, rng = (tmp_path / "store.db").read_bytes(), random.Random(7)
    refused = 0
    for k in range(400):
        path = tmp_path / f"{k}.db"
        place = rng.randrange(len(whole))
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            store = SqliteStore(path)
            found = store.recover(1)
            store.close()
        except InputError as error:
            refused += 1
            assert str(path) in str(error)
        else:
            assert found.jobs == known.jobs and found.draining == known.draining, place
        for left in tmp_path.glob(f"{k}.db*"):
            left.unlink()
    assert refused > 10


@pytest.mark.parametrize("table", ["jobs", "tasks"])
def test_a_row_that_is_gone_is_missed(tmp_path: Path, table: str) -> None:
    make(tmp_path / "store.db")
    database = sqlite3.connect(tmp_path / "store.db")
    key = TABLES[table].key[0]
    database.execute(f"DELETE FROM {table} WHERE {key} = (SELECT MIN({key}) FROM {table})")
    database.commit()
    database.close()
    with pytest.raises(InputError, match=f"rows of {table} are missing"):
        SqliteStore(tmp_path / "store.db").recover(1)


def test_a_log_that_has_become_shorter_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "store.db")
    database = sqlite3.connect(tmp_path / "store.db")
    database.execute("DELETE FROM log WHERE number > 3")
    database.commit()
    database.close()
    with pytest.raises(InputError, match="ends at line 3"):
        SqliteStore(tmp_path / "store.db")


def test_a_store_of_version_1_becomes_one_of_this_version(tmp_path: Path) -> None:
    known = make(tmp_path / "new.db")
    old = sqlite3.connect(tmp_path / "store.db")
    old.executescript(V1)
    old.execute("ATTACH ? AS new", (str(tmp_path / "new.db"),))
    for table in ("jobs", "tasks", "draining", "log"):
        names = [row[1] for row in old.execute(f"PRAGMA main.table_info({table})")]
        listed = ", ".join(names)
        old.execute(f"INSERT INTO main.{table} ({listed}) SELECT {listed} FROM new.{table}")
    old.commit()
    old.close()
    store = SqliteStore(tmp_path / "store.db")
    lines = store.check()
    found = store.recover(1)
    assert (found.jobs, found.draining, found.epoch) == (known.jobs, known.draining, 5)
    last = store.last_number()
    assert lines == last
    store.write(entries(story([3]), last + 1))
    store.close()
    assert SqliteStore(tmp_path / "store.db").check() > lines


def test_the_log_is_bounded_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "LOG_BYTES_MAX", 10_000)
    store = SqliteStore(tmp_path / "store.db")
    for number in range(1, 201):
        store.write([Entry(number, 0.0, "event", KillJob("x" * 500))])
        (size,) = store._db.execute("SELECT SUM(LENGTH(body)) FROM log").fetchone()
        assert size <= 10_000
    kept = [entry.number for entry in store.entries()]
    assert kept == list(range(kept[0], 201))
    store.close()


def test_a_store_that_is_missing_where_tasks_have_run_is_not_made_anew(tmp_path: Path) -> None:
    node = tmp_path / "nodes" / "node-1"
    node.mkdir(parents=True)
    (node / "journal").write_text("{}\n")
    with pytest.raises(InputError, match="node node-1 has run tasks"):
        open_store(tmp_path)
    assert not (tmp_path / "store.db").exists()


WRITE = """
import os, sys
from pathlib import Path
from murmuration.runtime.store.interface import Entry
from murmuration.runtime.store.sqlite import SqliteStore
from murmuration.schedulers.central.messages import KillJob
store = SqliteStore(Path(sys.argv[1]))
for number in (1, 2, 3):
    store.write([Entry(number, 0.0, "event", KillJob("job"))])
    os.write(1, b"answered")
"""


def test_what_is_written_is_forced_to_the_disk(tmp_path: Path) -> None:
    """2 is FULL: SQLite forces the write-ahead log to the disk at every commit."""
    store = SqliteStore(tmp_path / "store.db")
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)
    store.close()


def test_nothing_is_answered_before_the_kernel_was_told_to_write_it(tmp_path: Path) -> None:
    """The calls of the system, in order: every change of the write-ahead log is forced to the disk
    before the next answer."""
    calls = "trace=pwrite64,fdatasync,fsync,write"
    words = ["strace", "-f", "-y", "-e", calls, "-o", str(tmp_path / "calls"), sys.executable, "-c"]
    try:
        subprocess.run([*words, WRITE, str(tmp_path / "store.db")], check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("needs strace, and leave to use it")
    is_forced, answers = True, 0
    for line in (tmp_path / "calls").read_text().splitlines():
        if "store.db-wal>" in line:
            is_forced = "sync(" in line
        elif '"answered"' in line:
            answers += 1
            assert is_forced, f"answer {answers} came before its batch was on disk"
    assert answers == 3


def run(*words: str) -> str:
    result = CliRunner().invoke(murmur, ["store", *words])
    if isinstance(result.exception, Exception):
        raise result.exception
    return result.output


def test_a_backup_takes_the_place_of_a_damaged_store(tmp_path: Path) -> None:
    folder, copy = tmp_path / "cluster", tmp_path / "copy.db"
    folder.mkdir()
    known = make(folder / "store.db")
    run("backup", str(copy), "--dir", str(folder))
    log = read_log(folder)
    database = sqlite3.connect(folder / "store.db")
    database.execute("UPDATE tasks SET run = run + 1")
    database.commit()
    database.close()
    with pytest.raises(InputError, match="another checksum"):
        run("check", "--dir", str(folder))
    with pytest.raises(InputError, match="another checksum"):
        run("backup", str(tmp_path / "bad.db"), "--dir", str(folder))
    run("restore", str(copy), "--dir", str(folder))
    assert f"{len(log)} lines" in run("check", "--dir", str(folder))
    store = SqliteStore(folder / "store.db")
    assert store.recover(1).jobs == known.jobs
    store.close()
    assert (folder / "store.db-before").exists()


def test_what_is_no_backup_is_not_restored(tmp_path: Path) -> None:
    known = make(tmp_path / "store.db")
    (tmp_path / "bad").write_text("nonsense " * 1000)
    with pytest.raises(InputError):
        run("restore", str(tmp_path / "bad"), "--dir", str(tmp_path))
    store = SqliteStore(tmp_path / "store.db")
    assert store.recover(1).jobs == known.jobs
    store.close()
    assert {path.name for path in tmp_path.iterdir()} <= {"store.db", "store.db-mark", "bad"}
