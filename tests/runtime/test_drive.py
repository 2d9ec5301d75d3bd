"""The real driver keeps the promises of the contract: nothing leaves before the note it rests on is
on disk, whatever the disk does and wherever the process is killed."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import ClassVar

import pytest

from murmuration.runtime.drive import LiveDriver
from murmuration.runtime.store.interface import Deposed
from murmuration.schedulers.agent import Do, Effect, Message, Note, Send, Wake

LIMIT_S = 60.0


class ToyMessage(Message, frozen=True):
    protocol: ClassVar[str] = "toy-drive"


class Order(ToyMessage, frozen=True):
    """Note it, then tell `to`, then act."""

    name: str


class Ping(ToyMessage, frozen=True):
    """Answered at once."""

    name: str


class Bad(ToyMessage, frozen=True):
    """Cannot be handled."""


class Toy:
    """An agent that notes orders before it acts on them, and counts wakes."""

    def __init__(self) -> None:
        self.due = math.inf
        self.handled: list[Message] = []
        self.wakes_s: list[float] = []

    def handle(self, event: Message, now: float) -> list[Effect]:
        self.handled.append(event)
        match event:
            case Order(name):
                return [Note(event), Send(name, event), Do(event)]
            case Ping(name):
                return [Send(name, event, at_once=True)]
            case Wake():
                self.wakes_s.append(now)
                self.due = math.inf
                return []
        raise ValueError(event)


class SlowDisk:
    """Notes that are on disk only when the test says so; `writes` has the facts of each write."""

    def __init__(self) -> None:
        self.events: list[Message] = []
        self.writes: list[list[Message]] = []
        self.on_disk: list[Message] = []
        self._facts: list[Message] = []
        self._gate: asyncio.Future[None] | None = None

    def add_event(self, event: Message, now: float) -> None:
        self.events.append(event)

    def add_fact(self, fact: Message, now: float) -> None:
        self._facts.append(fact)

    def write(self) -> Awaitable[int] | None:
        if not self._facts:
            return None
        facts, self._facts = self._facts, []
        self.writes.append(facts)
        self._gate = asyncio.get_running_loop().create_future()
        return self._await(self._gate)

    async def _await(self, gate: asyncio.Future[None]) -> int:
        await gate
        return len(self.on_disk)

    def release(self) -> None:
        """The write is done; the driver hears of it in its next turn."""
        assert self._gate is not None
        self.on_disk += self.writes[-1]
        self._gate.set_result(None)

    def fail(self, error: Exception) -> None:
        assert self._gate is not None
        self._gate.set_exception(error)


class Bench:
    """A driver of a toy, its disk, and what has left it."""

    def __init__(self) -> None:
        self.agent, self.disk, self.left = Toy(), SlowDisk(), list[Send | Do]()
        self.now = 0.0
        self.driver = LiveDriver(self.agent, lambda: self.now, self.disk, self.left.append)

    @property
    def sent(self) -> list[str]:
        return [effect.to for effect in self.left if isinstance(effect, Send)]


Story = Callable[[Bench], Awaitable[None]]


def run(story: Story) -> None:
    async def main() -> None:
        async with asyncio.timeout(LIMIT_S):
            bench = Bench()
            await story(bench)
            bench.driver.close()

    asyncio.run(main())


async def turns() -> None:
    """Let everything happen that needs no disk."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_nothing_leaves_before_its_note_is_on_disk_and_then_all_in_order() -> None:
    async def story(it: Bench) -> None:
        it.driver.tell(Order("a"))
        it.driver.tell(Order("b"))
        await turns()
        assert it.disk.writes == [[Order("a"), Order("b")]], "one write for both"
        assert it.left == []
        it.disk.release()
        await turns()
        assert it.left == [
            Send("a", Order("a")),
            Do(Order("a")),
            Send("b", Order("b")),
            Do(Order("b")),
        ]

    run(story)


@pytest.mark.parametrize("is_written", [False, True])
def test_a_crash_before_the_disk_has_answered_sends_nothing(is_written: bool) -> None:
    """Killed before the write nothing is there; killed between the write and the send, the fact is
    there and the next agent acts on it."""

    async def story(it: Bench) -> None:
        it.driver.tell(Order("a"))
        await turns()
        if is_written:
            it.disk.release()
        it.driver.close()
        await turns()
        assert it.left == [] and it.disk.on_disk == ([Order("a")] if is_written else [])

    run(story)


def test_what_comes_while_the_disk_writes_is_written_together_afterwards() -> None:
    async def story(it: Bench) -> None:
        it.driver.tell(Order("first"))
        await turns()
        for name in "abc":
            it.driver.tell(Order(name))
            await turns()
        assert len(it.agent.handled) == 4, "the agent decides while the disk writes"
        assert it.disk.writes == [[Order("first")]]
        it.disk.release()
        await turns()
        assert it.sent == ["first"]
        assert it.disk.writes[1:] == [[Order("a"), Order("b"), Order("c")]]
        it.disk.release()
        await turns()
        assert it.sent == ["first", "a", "b", "c"]

    run(story)


def test_what_rests_on_no_note_overtakes_a_slow_disk() -> None:
    async def story(it: Bench) -> None:
        it.driver.tell(Order("a"))
        it.driver.tell(Ping("p"))
        await turns()
        assert it.sent == ["p"]

    run(story)


def test_who_asks_is_answered_when_it_is_on_disk() -> None:
    async def story(it: Bench) -> None:
        asked = asyncio.ensure_future(it.driver.ask(Order("a")))
        await turns()
        assert not asked.done()
        it.disk.release()
        assert await asked == 1
        assert await it.driver.ask(Ping("p")) == 0, "nothing to write"

    run(story)


def test_an_event_that_cannot_be_handled_stops_nothing() -> None:
    async def story(it: Bench) -> None:
        it.driver.tell(Bad())
        it.driver.tell(Ping("p"))
        await turns()
        assert it.sent == ["p"] and it.disk.events == [Bad(), Ping("p")]

    run(story)


def test_an_effect_that_cannot_be_carried_out_stops_nothing() -> None:
    async def main() -> None:
        left: list[Send | Do] = []

        def carry_out(effect: Send | Do) -> None:
            if isinstance(effect, Send):
                raise OSError("the other side is gone")
            left.append(effect)

        disk = SlowDisk()
        driver = LiveDriver(Toy(), lambda: 0.0, disk, carry_out)
        driver.tell(Order("a"))
        await turns()
        disk.release()
        await turns()
        assert left == [Do(Order("a"))]
        driver.close()

    asyncio.run(main())


def test_an_act_may_tell_the_next_event() -> None:
    """It is handled after the effects of this one, not in the middle of them."""

    async def main() -> None:
        order: list[str] = []

        def carry_out(effect: Send | Do) -> None:
            order.append(type(effect).__name__)
            if isinstance(effect, Send) and effect.to == "a":
                driver.tell(Ping("p"))

        disk = SlowDisk()
        driver = LiveDriver(Toy(), lambda: 0.0, disk, carry_out)
        driver.tell(Order("a"))
        await turns()
        disk.release()
        await turns()
        assert order == ["Send", "Do", "Send"]
        driver.close()

    asyncio.run(main())


def test_a_wake_is_never_early() -> None:
    async def story(it: Bench) -> None:
        it.agent.due = 5.0
        it.driver.tell(Ping("p"))
        await turns()
        assert it.agent.wakes_s == []
        it.now = 5.0
        it.driver.tell(Ping("q"))
        await turns()
        assert it.agent.wakes_s == [5.0]

    run(story)


def test_a_wake_needs_no_event() -> None:
    async def main() -> None:
        loop, toy = asyncio.get_running_loop(), Toy()
        driver = LiveDriver(toy, loop.time, SlowDisk(), lambda effect: None)
        due = toy.due = loop.time() + 0.02
        driver.start()
        while not toy.wakes_s:
            await asyncio.sleep(0.005)
        assert toy.wakes_s[0] >= due and len(toy.wakes_s) == 1
        driver.close()

    asyncio.run(asyncio.wait_for(main(), LIMIT_S))


def test_a_deposed_driver_ends_and_sends_nothing_more() -> None:
    async def story(it: Bench) -> None:
        running = asyncio.ensure_future(it.driver.run())
        it.driver.tell(Order("a"))
        await turns()
        it.disk.fail(Deposed("a later master"))
        with pytest.raises(Deposed):
            await running
        it.driver.tell(Order("b"))
        await turns()
        assert it.left == []

    run(story)
