"""A scheduler's line to several masters, in blocking code: the latest that leads is served over the
connection that waited for it, and the caller is told of every change."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.clusters import until
from tests.runtime.test_links import FakeMaster

from murmuration import OfferScheduler
from murmuration.base.errors import InputError
from murmuration.runtime.client import line
from murmuration.runtime.client.line import MasterGoneError
from murmuration.runtime.net.directory import FolderDirectory
from murmuration.runtime.net.transport import Connection
from murmuration.runtime.net.wire import Hello, HelloAnswer, YourTurn
from murmuration.schedulers.offers.messages import NodeLost, Register, SetNeedsOffers, Unregister


def lost(node: str) -> NodeLost:
    return NodeLost("mine", node)


class Master(FakeMaster):
    """Notes what it is told; refuses, or lets a scheduler stand by, if it is told to."""

    def __init__(self, term: int = 0, error: str = "", is_taken: bool = False) -> None:
        super().__init__(term)
        self.error, self.is_taken, self.heard = error, is_taken, list[Any]()

    def _receive(self, connection: Connection, request: int, node: str, message: Any) -> None:
        if not isinstance(message, Hello):
            self.heard.append(message)
            return
        assert (message.role, message.name, message.waits) == ("scheduler", "mine", True)
        self.hellos += 1
        answer = HelloAnswer(self.error, ("cpu",), self.is_taken, not self.term, self.term)
        connection.answer(answer, "", request)
        if self.is_taken:
            # In the same write as the answer.
            connection.send(YourTurn())

    def say(self, *messages: NodeLost) -> None:
        for connection in self.accepted:
            for message in messages:
                connection.send(message)


class Run:
    """Masters in a thread of their own, and where they listen."""

    def __init__(self, loop: asyncio.AbstractEventLoop, folder: Path) -> None:
        self._loop, self.folder, self.masters = loop, folder, list[str]()

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        async def run() -> None:
            function(*arguments)

        asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def scheduler(self) -> OfferScheduler:
        return OfferScheduler("mine", self.folder, masters=self.masters)


@contextmanager
def running(folder: Path, *masters: Master) -> Iterator[Run]:
    FolderDirectory(folder).create("token")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    run = Run(loop, folder)
    try:
        for each in masters:
            address = asyncio.run_coroutine_threadsafe(each.listen(), loop).result()
            run.masters.append(str(address))
        yield run
    finally:
        for each in masters:
            run.call(each.vanish)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_the_next_master_is_told_all_over_the_connection_that_waited(tmp_path: Path) -> None:
    first, second = Master(term=1), Master()
    with running(tmp_path / "x", first, second) as run, run.scheduler() as mine:
        mine.set_needs_offers(True)
        until(lambda: mine._line.count_waiting() == 1 and len(first.heard) == 2)
        (waiting,) = second.accepted
        run.call(first.accepted[0].send, lost("n1"))
        run.call(first.accepted[0].close)
        run.call(first.vanish)
        run.call(second.lead, 2)
        until(lambda: second.hellos >= 2 and mine._line._leading is not None)
        assert mine.receive() == lost("n1"), "what was said comes before the end"
        for use in (mine.receive, lambda: mine.kill_task("t"), mine.receive):
            with pytest.raises(MasterGoneError):
                use()
        assert not second.heard, "nothing is said to a master before the caller knows of it"
        mine.reconnect()
        until(lambda: len(second.heard) == 2)
        assert second.heard == [Register("mine", 1.0, 0.0), SetNeedsOffers("mine", True)]
        assert second.accepted == [waiting] and waiting.is_open


def test_one_that_was_replaced_is_left_even_if_it_still_speaks(tmp_path: Path) -> None:
    first, second = Master(term=1), Master()
    with running(tmp_path / "x", first, second) as run, run.scheduler() as mine:
        until(lambda: mine._line.count_waiting() == 1)
        run.call(second.lead, 2)
        with pytest.raises(MasterGoneError):
            mine.receive()
        mine.reconnect()
        until(lambda: second.heard == [Register("mine", 1.0, 0.0)])
        run.call(first.say, lost("old"))
        run.call(second.accepted[0].send, lost("new"))
        assert mine.receive() == lost("new")


def test_run_goes_on_with_the_next_master_and_the_one_after_it(tmp_path: Path) -> None:
    """The second is gone while the scheduler asks it about its tasks."""
    first, second, third = masters = Master(term=1), Master(), Master()
    told: list[str] = []

    def replace(old: Master, new: Master, term: int) -> None:
        run.call(old.vanish)
        run.call(new.lead, term)

    class Mine(OfferScheduler):
        def node_lost(self, node: str) -> None:
            told.append(node)
            if node == "first":
                replace(first, second, 2)
            else:
                self.stop()

        def reconnected(self) -> None:
            told.append("reconnected")
            if not third.term:
                replace(second, third, 3)
                while True:  # until it is noticed
                    self.reconcile(["t"])
                    time.sleep(0.01)
            run.call(third.accepted[0].send, lost("third"))

    with (
        running(tmp_path / "x", *masters) as run,
        Mine("mine", run.folder, masters=run.masters) as mine,
    ):
        until(lambda: mine._line.count_waiting() == 2)
        run.call(first.accepted[0].send, lost("first"))
        mine.run()
        assert told == ["first", "reconnected", "reconnected", "third"]


def test_why_nobody_lets_one_in(tmp_path: Path) -> None:
    standby, refuses = Master(), Master(term=1, error="no, thanks")
    with running(tmp_path / "x", standby, refuses) as run:
        with pytest.raises(InputError, match="scheduler 'mine': no, thanks"):
            run.scheduler()
        run.call(refuses.vanish)
        run.call(standby.vanish)
        with pytest.raises(InputError, match="no master can be reached"):
            run.scheduler()
        with pytest.raises(InputError, match="masters: expected HOST:PORT"):
            OfferScheduler("mine", run.folder, masters=["nowhere"])
        with pytest.raises(InputError, match="without certificates"):
            OfferScheduler("mine", run.folder, masters=["192.0.2.1:1"])
        with pytest.raises(InputError, match="no cluster runs here"):
            OfferScheduler("mine", run.folder)


def test_a_standby_that_refuses_does_not_decide(tmp_path: Path) -> None:
    """It may not know a token that was issued."""
    standby, leads = Master(error="who is that?"), Master(term=0)
    with running(tmp_path / "x", standby, leads) as run:
        threading.Timer(0.3, lambda: run.call(leads.lead, 1)).start()
        with run.scheduler() as mine:
            assert mine.is_acting and standby.hellos


def test_a_turn_that_comes_with_the_answer_is_heard(tmp_path: Path) -> None:
    only = Master(term=1, is_taken=True)
    with running(tmp_path / "x", only) as run, run.scheduler() as mine:
        mine.set_needs_offers(True)  # nothing is said out of turn
        assert not only.heard and mine.await_turn(60.0)
        until(lambda: len(only.heard) == 2)
        assert only.heard == [Register("mine", 1.0, 0.0), SetNeedsOffers("mine", True)]


def test_last_words_are_said_and_who_is_forgotten_hangs_up(tmp_path: Path) -> None:
    with running(tmp_path / "x", only := Master(term=1)) as run:
        mine = run.scheduler()
        mine.unregister()
        mine.close()
        mine.close()
        until(lambda: only.heard == [Register("mine", 1.0, 0.0), Unregister("mine")])
        with pytest.raises(MasterGoneError):
            mine.unregister()
        with pytest.raises(ConnectionError, match="no master"):
            mine.reconnect()
        forgotten = run.scheduler()
        thread = forgotten._line._thread
        del forgotten
        gc.collect()
        until(lambda: not thread.is_alive())
        until(lambda: not any(each.is_open for each in only.accepted))


def test_what_nobody_receives_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "HEARD_MAX", 10)
    with running(tmp_path / "x", only := Master(term=1)) as run, run.scheduler() as mine:
        run.call(only.say, *[lost(f"n{k}") for k in range(1000)])
        until(lambda: not only.accepted[0].is_open)
        heard = []
        with pytest.raises(MasterGoneError):
            while True:
                heard.append(mine.receive().node)
        assert heard == [f"n{k}" for k in range(11)]


def test_reconnect_leaves_a_master_that_does_not_answer(tmp_path: Path) -> None:
    """Its answer may come late, and would be taken for that to the next question."""
    with running(tmp_path / "x", only := Master(term=1)) as run, run.scheduler() as mine:
        until(lambda: len(only.heard) == 1)
        run.call(only.say, lost("late"))
        mine.reconnect(60.0)
        until(lambda: only.heard == 2 * [Register("mine", 1.0, 0.0)])
        assert [each.is_open for each in only.accepted] == [False, True]
        run.call(only.say, lost("next"))
        assert mine.receive() == lost("next")
        only.error = "not any more"
        run.call(only.accepted[1].abort)
        with pytest.raises(MasterGoneError):
            mine.receive()
        with pytest.raises(ConnectionError, match="scheduler 'mine': not any more"):
            mine.reconnect(2.0)
