"""The store: what was written is there after a crash, whole or not at all, and is what the
simulated disk has."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schedulers.central.clusters import Cluster, spec

from murmuration.base.errors import InputError
from murmuration.runtime.store.interface import Deposed, Entry, StoreError
from murmuration.runtime.store.lines import LOGGED
from murmuration.runtime.store.sqlite import SqliteStore, read_log
from murmuration.schedulers.agent import Wake
from murmuration.schedulers.central.memory import MasterMemory
from murmuration.schedulers.central.messages import (
    JOBS,
    AgentLost,
    Ended,
    JobForgotten,
    KillJob,
    Recover,
    RunEnded,
    SubmitJob,
    TaskPlaced,
)
from murmuration.schedulers.central.node_agent import Exited
from murmuration.schedulers.offers.messages import Status


def entries(facts: list[tuple[float, Any]], first: int = 1) -> list[Entry]:
    return [Entry(first + k, at, "fact", fact) for k, (at, fact) in enumerate(facts)]


def story(choices: list[int]) -> list[tuple[float, Any]]:
    """The facts of a cluster in which jobs are submitted, killed, and end one way or another."""
    cluster = Cluster(nodes=2)
    facts: list[tuple[float, Any]] = []
    for at, choice in enumerate(choices):
        runs = list(cluster.master.jobs.runs)
        event: Any = SubmitJob(
            spec(
                f"job-{choice}",
                count=1 + choice % 3,
                kind="service" if choice % 2 else "terminating",
            )
        )
        if runs and choice > 5:
            run = runs[choice % len(runs)]
            status = (Status.FINISHED, Status.FAILED, Status.LOST)[choice % 3]
            event = RunEnded(
                cluster.launched[run][0], Ended(JOBS, run, status, 0 if status == "finished" else 1)
            )
        elif f"job-{choice}" in cluster.master.jobs.jobs:
            event = KillJob(f"job-{choice}")
        said = cluster.tell(event, float(at))
        facts += [(float(at), message) for message in said if type(message).__name__ in LOGGED]
    return facts


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 20), max_size=40), st.integers(1, 7))
def test_a_master_starts_from_the_same_as_the_simulated_one(
    tmp_path_factory: pytest.TempPathFactory, choices: list[int], batch: int
) -> None:
    facts = story(choices)
    store, memory = SqliteStore(tmp_path_factory.mktemp("store") / "store.db"), MasterMemory()
    for start in range(0, len(facts), batch):
        store.write(entries(facts[start : start + batch], start + 1))
    for at, fact in facts:
        memory.apply(fact, at)
    assert store.recover(1) == memory.recover(0, 1)
    store.close()


def test_a_batch_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    facts = story([0, 1])
    store.write(entries(facts))
    with pytest.raises(sqlite3.IntegrityError):
        store.write([*entries(facts, 100), *entries(facts)])
    assert store.last_number() == len(facts)
    assert [row[0] for row in store.facts(1, 100)] == list(range(2, len(facts) + 1))
    store.close()


def test_a_forgotten_job_is_gone_and_old_lines_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("murmuration.runtime.store.sqlite.LOG_MAX", 3)
    monkeypatch.setattr("murmuration.runtime.store.sqlite.PRUNE", 5)
    store = SqliteStore(tmp_path / "store.db")
    facts = story([0, 2])
    store.write(entries(facts))
    store.write(entries([(9.0, JobForgotten("job-0"))], 100))
    assert [job.spec.name for job in store.recover(1).jobs] == ["job-2"]
    store.write([Entry(104, 0.0, "event", KillJob("a")), Entry(106, 0.0, "event", KillJob("a"))])
    assert [entry.number for entry in store.entries()] == [104, 106]
    store.close()


def test_the_log_comes_back_as_it_was_told(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    told = [SubmitJob(spec(), 2.0), KillJob("job"), Recover(0, 1), TaskPlaced("job", 0, 1, "n")]
    store.write([Entry(k + 1, 0.5, "event", value) for k, value in enumerate(told)])
    store.close()
    assert [entry.value for entry in read_log(tmp_path)] == told
    assert read_log(tmp_path / "store.db")[0].at_s == 0.5


def test_a_log_with_bare_names_is_still_read(tmp_path: Path) -> None:
    """Older versions wrote "KillJob" where this one writes "central.KillJob"."""
    store = SqliteStore(tmp_path / "store.db")
    told = [SubmitJob(spec(), 2.0), AgentLost("n"), Wake(), TaskPlaced("job", 0, 1, "n")]
    store.write([Entry(k + 1, 0.5, "event", value) for k, value in enumerate(told)])
    query = "SELECT kind FROM log ORDER BY number"
    kinds = [kind for (kind,) in store._db.execute(query)]
    assert kinds == ["central.SubmitJob", "central.AgentLost", "agent.Wake", "central.TaskPlaced"]
    for number, kind in enumerate(kinds, start=1):
        bare = kind.rpartition(".")[2]
        store._db.execute("UPDATE log SET kind = ?, sum = NULL WHERE number = ?", (bare, number))
    store.close()
    assert [entry.value for entry in read_log(tmp_path)] == told


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    facts = story([0, 2, 4])
    store.write(entries(facts[:2]))
    (pages,) = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    big = [
        Entry(10 + k, 0.0, "event", SubmitJob(spec(environment={"A": "x" * 4000})))
        for k in range(20)
    ]
    with pytest.raises(StoreError, match="full"):
        store.write(big)
    with pytest.raises(StoreError, match="full"):
        store.probe(100_000)
    assert store.last_number() == 2
    store._db.execute("PRAGMA max_page_count = 1000000")
    store.write(big)
    store.close()
    assert len(read_log(tmp_path)) == 22


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("something else " * 100)
    with pytest.raises(InputError, match="expected the store of a cluster"):
        SqliteStore(path)
    with pytest.raises(InputError, match="expected the folder or the store"):
        read_log(tmp_path / "nothing")


def test_everything_a_master_is_told_can_be_logged() -> None:
    from murmuration.schedulers.central import master

    assert {kind.__name__ for kind in master._ON} <= set(LOGGED)
    assert Exited.__name__ not in LOGGED
    assert msgspec.msgpack.decode(
        msgspec.msgpack.encode(KillJob("a", 1)), type=LOGGED["KillJob"]
    ) == KillJob("a", 1)


def test_a_master_that_was_replaced_can_write_nothing_more(tmp_path: Path) -> None:
    before, after = SqliteStore(tmp_path / "store.db"), SqliteStore(tmp_path / "store.db")
    facts = story([0])
    assert before.recover(1).epoch == 0
    before.write(entries(facts[:1]))
    assert after.recover(1).epoch == 1
    with pytest.raises(Deposed, match="epoch 1"):
        before.write(entries(facts, 10))
    assert after.last_number() == 1
    after.write(entries(facts, 20))
    before.close()
    after.close()
