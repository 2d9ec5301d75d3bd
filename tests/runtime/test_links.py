"""The connections of a node agent to several masters: the latest that leads is served, over the
connection that waited for it, and no earlier one ever again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from murmuration.runtime.client import links
from murmuration.runtime.client.links import Links
from murmuration.runtime.net.addresses import Address
from murmuration.runtime.net.directory import Credentials, FolderDirectory
from murmuration.runtime.net.sockets import listen
from murmuration.runtime.net.transport import Connection
from murmuration.runtime.net.wire import Hello, HelloAnswer, NowLeads

LIMIT_S = 60.0


class FakeMaster:
    """Answers hellos as it is told to: with a term if it leads, as a standby without."""

    def __init__(self, term: int = 0) -> None:
        self.term, self.hellos = term, 0
        self.accepted: list[Connection] = []

    async def listen(self) -> Address:
        self.server, address = await listen(
            asyncio.get_running_loop(), self._accept, "127.0.0.1", [0]
        )
        return address

    def _accept(self) -> Connection:
        self.accepted.append(Connection(self._receive, lambda _: None))
        return self.accepted[-1]

    def _receive(self, connection: Connection, request: int, node: str, hello: Any) -> None:
        assert isinstance(hello, Hello) and hello.waits
        self.hellos += 1
        answer = HelloAnswer(is_standby=not self.term, term=self.term)
        connection.answer(answer, "", request)

    def lead(self, term: int) -> None:
        self.term = term
        for connection in self.accepted:
            connection.send(NowLeads())

    def vanish(self) -> None:
        self.server.close()
        for connection in self.accepted:
            connection.abort()


class Known(FolderDirectory):
    """A directory of some addresses."""

    def __init__(self, addresses: list[Address]) -> None:
        self.addresses = addresses

    def list_masters(self) -> list[Callable[[], Address]]:
        return [lambda address=each: address for each in self.addresses]  # type: ignore[misc]

    def credentials(self) -> Credentials:
        return Credentials("token")


class Told:
    """What a node agent is told of its connections."""

    def __init__(self) -> None:
        self.joined: list[Connection] = []
        self.lost: list[Connection] = []

    def hears(self, *_: Any) -> None:
        raise AssertionError("nothing is said")


async def eventually(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not holds():
            await asyncio.sleep(0.005)


def play(masters: list[FakeMaster], story: Callable[[Links, Told], Awaitable[None]]) -> None:
    async def run() -> None:
        addresses = [await each.listen() for each in masters]
        told = Told()
        made = Links(
            Known(addresses),
            Hello("", "agent", waits=True),
            told.hears,
            lambda connection, _: told.joined.append(connection),
            told.lost.append,
            lambda _: None,
        )
        keeping = asyncio.create_task(made.keep())
        try:
            await story(made, told)
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            for each in masters:
                each.vanish()

    asyncio.run(run())


def test_the_next_one_is_served_over_the_connection_that_waited() -> None:
    first, second = FakeMaster(term=1), FakeMaster()

    async def story(made: Links, told: Told) -> None:
        await eventually(lambda: told.joined and made.count_waiting() == 1)
        (waiting,) = second.accepted
        first.vanish()
        second.lead(2)
        await eventually(lambda: len(told.joined) == 2)
        assert second.accepted == [waiting] and waiting.is_open
        assert told.lost == told.joined[:1]

    play([first, second], story)


def test_one_that_was_replaced_is_left_even_if_it_still_answers() -> None:
    """It was suspended, say; and it is not joined again when it is met later."""
    first, second = FakeMaster(term=1), FakeMaster()

    async def story(made: Links, told: Told) -> None:
        await eventually(lambda: told.joined and made.count_waiting() == 1)
        second.lead(2)
        await eventually(lambda: len(told.joined) == 2)
        assert told.lost == told.joined[:1]
        await eventually(lambda: len(first.accepted) > 1)  # it is dialled again, and waited for
        second.vanish()
        await eventually(lambda: len(told.lost) == 2)
        hellos = first.hellos
        await eventually(lambda: first.hellos > hellos)
        assert len(told.joined) == 2, "an earlier term is not joined"
        first.lead(3)
        await eventually(lambda: len(told.joined) == 3)

    play([first, second], story)


def test_one_master_at_two_addresses_is_joined_once() -> None:
    one, same = FakeMaster(term=5), FakeMaster(term=5)

    async def story(made: Links, told: Told) -> None:
        await eventually(lambda: one.hellos and same.hellos and made.count_waiting() == 1)
        assert len(told.joined) == 1 and not told.lost
        told.joined[0].abort()  # what was spare is asked at once, and joined
        await eventually(lambda: len(told.joined) == 2)
        assert told.lost == told.joined[:1]

    play([one, same], story)


def test_a_standby_that_has_vanished_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its host lost its power: nothing says so, but it answers no more."""
    monkeypatch.setattr(links, "LOOK_S", 0.02)
    monkeypatch.setattr(links, "CONNECT_S", 0.5)
    first, second = FakeMaster(term=1), FakeMaster()

    async def story(made: Links, told: Told) -> None:
        await eventually(lambda: second.hellos > 3)
        silent = second._receive
        second._receive = lambda *_: None  # type: ignore[method-assign]
        for connection in second.accepted:
            connection._receive = lambda *_: None
        before = len(second.accepted)
        await eventually(lambda: len(second.accepted) > before)
        second._receive = silent  # type: ignore[method-assign]
        second.lead(2)
        await eventually(lambda: len(told.joined) == 2)

    play([first, second], story)
