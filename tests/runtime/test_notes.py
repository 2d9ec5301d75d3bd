"""The notes of a master in its store: nothing is lost on a full disk, and what was noted before a
crash is what the next master starts from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.schedulers.central.clusters import Cluster, spec

from murmuration.runtime.drive import LiveDriver
from murmuration.runtime.master import notes as master_notes
from murmuration.runtime.master.notes import StoreNotes
from murmuration.runtime.options import MasterOptions
from murmuration.runtime.store.interface import Deposed, Entry, StoreError
from murmuration.runtime.store.log import FactLog
from murmuration.runtime.store.sqlite import SqliteStore, read_log
from murmuration.schedulers.agent import Do, Message, Send
from murmuration.schedulers.central.master import CentralMaster, CentralSettings
from murmuration.schedulers.central.messages import (
    AgentJoined,
    Heartbeat,
    KillJob,
    Launch,
    NodeIsUp,
    SubmitJob,
)

LIMIT_S = 60.0
JOIN = AgentJoined("n1", "id", 1, {"cpu": 4_000_000, "memory": 2**32})


class FlakyStore(SqliteStore):
    """A store whose next writes fail, or which calls something once a batch is on disk."""

    failures = 0
    written: Callable[[], None] = staticmethod(lambda: None)

    def write(self, entries: Sequence[Entry]) -> None:
        if self.failures:
            self.failures -= 1
            raise StoreError("database or disk is full")
        super().write(entries)
        self.written()

    def probe(self, size: int) -> None:
        if self.failures:
            raise StoreError("database or disk is full")


def limited(story: Callable[[], object]) -> None:
    async def main() -> None:
        async with asyncio.timeout(LIMIT_S):
            await story()  # type: ignore[misc]

    asyncio.run(main())


def test_a_full_disk_is_said_waited_for_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(master_notes, "RETRY_S", 0.01)

    async def story() -> None:
        store, facts = FlakyStore(tmp_path / "store.db"), FactLog()
        notes = StoreNotes(store, facts)
        store.failures = 2
        notes.add_event(KillJob("job"), 1.0)
        notes.add_fact(NodeIsUp("n1"), 1.0)
        written = notes.write()
        assert written is not None and notes.write() is None, "nothing more to write"
        waiting = asyncio.ensure_future(written)
        while not facts.trouble:
            await asyncio.sleep(0.001)
        assert "full" in await notes.probe(1)
        assert facts.after(0, 10) == [], "nobody hears of a fact before it is on disk"
        assert await waiting == 2 and facts.trouble == ""
        assert await notes.probe(1) == ""
        assert [row.kind for row in facts.after(0, 10)] == ["NodeIsUp"]
        notes.close()

    limited(story)
    assert [entry.value for entry in read_log(tmp_path)] == [KillJob("job"), NodeIsUp("n1")]


def test_a_master_that_was_replaced_is_told_so(tmp_path: Path) -> None:
    async def story() -> None:
        notes = StoreNotes(SqliteStore(tmp_path / "store.db"), FactLog())
        notes.recover(MasterOptions(folder=str(tmp_path)), 0.0)
        SqliteStore(tmp_path / "store.db").recover(1)
        written = notes.write()
        assert written is not None
        with pytest.raises(Deposed):
            await written
        notes.close()

    limited(story)


def test_heartbeats_are_not_logged(tmp_path: Path) -> None:
    async def story() -> None:
        notes = StoreNotes(SqliteStore(tmp_path / "store.db"), FactLog())
        notes.add_event(Heartbeat("n1", 1, 1), 0.0)
        assert notes.write() is None
        notes.close()

    limited(story)


def test_a_master_killed_between_its_note_and_its_send_has_placed_the_task(tmp_path: Path) -> None:
    """The batch with the placement is on disk, and the launch never leaves. The next master starts
    from the placement, and launches when the agent joins: once."""
    settings = Cluster().master.settings
    first = asyncio.run(drive(settings, tmp_path, [JOIN, SubmitJob(spec())], crash=True))
    assert first == []
    with_task = SqliteStore(tmp_path / "store.db").recover(1)
    (job,) = with_task.jobs
    assert [(run.node, run.status) for run in job.runs] == [("n1", "starting")]
    rejoin = AgentJoined("n1", "id", 2, JOIN.total)
    launches = asyncio.run(drive(settings, tmp_path, [rejoin], crash=False))
    assert [message.run.rpartition(".")[0] for message in launches] == [f"{job.spec.name}.0"]


async def drive(
    settings: CentralSettings, folder: Path, events: list[Message], crash: bool
) -> list[Launch]:
    """Run a master on the store of a folder until it is killed, or has launched something; what it
    launched."""
    left: list[Send | Do] = []
    store = FlakyStore(folder / "store.db")
    notes = StoreNotes(store, FactLog())
    driver = LiveDriver(CentralMaster(settings, 1), lambda: 10.0, notes, left.append)
    driver.start(notes.recover(MasterOptions(folder=str(folder)), 10.0))
    await driver.ask(KillJob("nothing"))
    loop, killed = asyncio.get_running_loop(), asyncio.Event()

    def kill() -> None:
        driver.close()
        killed.set()

    def launched() -> list[Launch]:
        return [e.message for e in left if isinstance(e, Send) and isinstance(e.message, Launch)]

    if crash:
        # On the loop, before it hears that the batch is on disk.
        store.written = lambda: (loop.call_soon_threadsafe(kill), None)[1]
    for event in events:
        driver.tell(event)
    async with asyncio.timeout(LIMIT_S):
        while not (killed.is_set() if crash else launched()):
            await asyncio.sleep(0.001)
    await driver_is_idle()
    driver.close()
    notes.close()
    return launched()


async def driver_is_idle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
