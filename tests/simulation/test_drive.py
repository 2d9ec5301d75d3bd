"""The virtual driver, with a toy protocol: a counter that keeps what it is asked to add, and
clients that ask until they are answered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from murmuration.base.random import generator
from murmuration.schedulers.agent import (
    Connected,
    Disconnected,
    Do,
    Effect,
    Message,
    Note,
    Send,
    Wake,
)
from murmuration.simulation.messages.drive import BrokenError, Checker, Disk, Party, VirtualDriver
from murmuration.simulation.messages.network import (
    Crash,
    FaultSettings,
    Jump,
    Network,
    OrderedNetwork,
    Partition,
    Pause,
    draw_faults,
)


class Toy(Message, frozen=True):
    protocol: ClassVar[str] = "toy"


class Add(Toy, frozen=True):
    speaker: ClassVar[str] = "client"
    client: str
    serial: int


class Added(Toy, frozen=True):
    serial: int


class Kept(Toy, frozen=True):
    client: str
    serial: int


class Ring(Toy, frozen=True):
    """An act: ring a bell."""


class Ledger:
    def __init__(self) -> None:
        self.serials: dict[str, int] = {}
        self.times: list[float] = []

    def apply(self, fact: Any, now: float) -> None:
        assert fact.serial == self.serials.get(fact.client, 0) + 1, "kept twice or out of order"
        self.serials[fact.client] = fact.serial
        self.times.append(now)


class Counter:
    """Keeps each serial of each client once, and answers when it is kept."""

    due = math.inf

    def __init__(self, memory: Ledger, careless: bool = False) -> None:
        self.memory, self.careless = memory, careless

    def handle(self, event: Message, now: float) -> list[Effect]:
        if not isinstance(event, Add):
            return []
        answer = Send(event.client, Added(event.serial))
        if event.serial <= self.memory.serials.get(event.client, 0):
            return [answer]
        fact = Kept(event.client, event.serial)
        self.memory.apply(fact, now)
        return [answer, Note(fact)] if self.careless else [Note(fact), answer]


class Client:
    """Asks for one serial after the other, each until it is answered."""

    def __init__(self, name: str, goal: int, retry_s: float = 1.0) -> None:
        self.name, self.goal, self.retry_s = name, goal, retry_s
        self.done, self.due = 0, 0.0

    def handle(self, event: Message, now: float) -> list[Effect]:
        if isinstance(event, Wake):
            assert now >= self.due, "a wake came early"
        if isinstance(event, Added) and event.serial == self.done + 1:
            self.done += 1
        elif now < self.due:
            return []
        if self.done == self.goal:
            self.due = math.inf
            return [Do(Ring())]
        self.due = now + self.retry_s
        return [Send("counter", Add(self.name, self.done + 1))]


class CounterParty(Party):
    careless = False

    def start(self, memory: Any, life: int) -> Counter:
        return Counter(memory, self.careless)


class ClientParty(Party):
    """A client forgets everything in a crash; here it is never crashed."""

    def __init__(self, name: str, goal: int) -> None:
        super().__init__(name)
        self.client, self.rung = Client(name, goal), 0

    def start(self, memory: Any, life: int) -> Client:
        return self.client

    def do(self, act: Message) -> None:
        assert isinstance(act, Ring)
        self.rung += 1


class Trace(Checker):
    """Everything that happened, in order."""

    def __init__(self) -> None:
        self.lines: list[tuple[float, str, str, int]] = []

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        self.lines.append((driver.now, name, repr(event), len(effects)))


class Promise(Checker):
    """What a client was told is kept is on the counter's disk."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        memory = self.disk.memory
        assert isinstance(memory, Ledger)
        if isinstance(event, Added) and event.serial > memory.serials.get(name, 0):
            raise BrokenError(f"{name} was told of {event.serial}, which is not kept")


def world(
    seed: int, faults: FaultSettings, careless: bool = False, write_s: float = 0.5, goal: int = 20
) -> tuple[VirtualDriver, Trace, list[ClientParty]]:
    disk = Disk(Ledger(), write_s, generator(seed, "disk"))
    trace = Trace()
    driver = VirtualDriver(Network(faults, generator(seed, "network")), [trace, Promise(disk)])
    counter = CounterParty("counter", disk)
    counter.careless = careless
    clients = [ClientParty(f"client-{k}", goal) for k in range(3)]
    for party in (counter, *clients):
        driver.add(party)
    driver.inflict(faults)
    return driver, trace, clients


def drawn(seed: int) -> FaultSettings:
    return draw_faults(generator(seed, "faults"), [], ["counter"], 200.0)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_fails_what_was_promised_is_kept_and_all_is_done(seed: int) -> None:
    driver, _, clients = world(seed, drawn(seed))
    driver.run(1000.0)
    assert [client.client.done for client in clients] == [20, 20, 20]
    assert driver.has_sent_all("counter")


def test_an_agent_that_answers_before_it_notes_is_caught() -> None:
    caught = 0
    for seed in range(20):
        driver, _, _ = world(seed, drawn(seed), careless=True)
        try:
            driver.run(1000.0)
        except BrokenError:
            caught += 1
    assert caught > 10


def test_the_same_seed_gives_the_same_trace_and_another_one_does_not() -> None:
    lines = []
    for seed in (7, 7, 8):
        driver, trace, _ = world(seed, drawn(7))
        driver.run(500.0)
        lines.append(trace.lines)
    assert lines[0] == lines[1] != lines[2]


@pytest.mark.parametrize(
    ("crash_s", "kept", "answered"),
    [(0.5, False, False), (1.5, True, False), (2.5, True, True)],
    ids=["before the write", "between write and answer", "after both"],
)
def test_a_crash_before_within_and_after_a_write(
    crash_s: float, kept: bool, answered: bool
) -> None:
    """A write that takes exactly 1 s, acknowledged after exactly 1 s more."""

    class Slow(Disk):
        def delay_s(self) -> float:
            return 1.0

    disk, trace = Slow(Ledger()), Trace()
    driver = VirtualDriver(Network(FaultSettings(delay_s=0.0), generator(1, "x")), [trace])
    driver.add(CounterParty("counter", disk))
    driver.add(ClientParty("client", 0))
    driver.tell("counter", Add("client", 1))
    driver.at(crash_s, driver.crash, "counter")
    driver.run(10.0)
    memory = disk.memory
    assert isinstance(memory, Ledger)
    assert memory.serials == ({"client": 1} if kept else {}) and memory.times == [0.0] * kept
    assert any("Added" in line[2] for line in trace.lines) == answered
    driver.start("counter")
    assert driver.agent("counter").memory.serials == memory.serials, "it starts from its disk"
    assert driver.agent("counter").memory is not memory


def test_later_effects_wait_for_an_earlier_note_unless_they_rest_on_none() -> None:
    class Chatty:
        due = math.inf

        def handle(self, event: Message, now: float) -> list[Effect]:
            assert isinstance(event, Add)
            if event.serial == 1:
                return [Note(Kept("listener", 1))]
            return [Send("listener", Added(event.serial), at_once=event.serial == 3)]

    class ChattyParty(Party):
        def start(self, memory: Any, life: int) -> Chatty:
            return Chatty()

    class Slow(Disk):
        def delay_s(self) -> float:
            return 1.0

    trace = Trace()
    driver = VirtualDriver(Network(FaultSettings(delay_s=0.0), generator(1, "x")), [trace])
    driver.add(ChattyParty("chatty", Slow(Ledger())))
    driver.add(ClientParty("listener", 0))
    for serial in (1, 2, 3):
        driver.tell("chatty", Add("listener", serial))
    driver.run(10.0)
    heard = [(at, text) for at, name, text, _ in trace.lines if "Added" in text]
    assert heard == [(0.0, "Added(serial=3)"), (2.0, "Added(serial=2)")]


def test_without_delays_equal_times_keep_the_order_in_which_things_were_said() -> None:
    driver, trace, clients = world(1, FaultSettings(delay_s=0.0), write_s=0.0, goal=2)
    driver.run()
    order = [(name, text) for _, name, text, _ in trace.lines if name != "counter"]
    names = [f"client-{k}" for k in range(3)]
    assert {line[0] for line in trace.lines} == {0.0}
    assert order == [
        (name, text) for text in ("Wake()", "Added(serial=1)", "Added(serial=2)") for name in names
    ]
    assert [client.rung for client in clients] == [1, 1, 1]


def test_a_clock_that_differs_moves_nobody_elses_time_and_a_jump_brings_wakes_forward() -> None:
    driver, trace, clients = world(1, FaultSettings(loss=1.0, jumps=(Jump(10.0, "client-1", 5.0),)))
    driver.jump("client-0", 1e9 + 0.1)
    for client in clients:
        client.client.retry_s = 7.0
    driver.run(20.0)
    woken = {
        name: [at for at, who, text, _ in trace.lines if who == name] for name in driver.names[1:]
    }
    assert woken["client-0"] == pytest.approx([0.0, 7.0, 14.0], abs=1e-6)
    assert woken["client-1"] == [0.0, 7.0, 10.0, 17.0]
    assert woken["client-2"] == [0.0, 7.0, 14.0]


def test_a_paused_party_gets_everything_late_and_in_order() -> None:
    faults = FaultSettings(delay_s=0.1, pauses=(Pause(0.05, "counter", 4.0),))
    driver, trace, clients = world(1, faults, write_s=0.0)
    driver.run(4.0)
    assert {line[1] for line in trace.lines} == {"client-0", "client-1", "client-2"}
    driver.run(60.0)
    late = [line for line in trace.lines if line[1] == "counter"]
    assert [line[0] for line in late[:12]] == [pytest.approx(4.05)] * 12
    assert [client.client.done for client in clients] == [20, 20, 20]


def test_who_is_down_for_good_stays_down() -> None:
    driver, _, clients = world(1, FaultSettings(crashes=(Crash(3.0, "counter", math.inf),)))
    driver.run(10.0)
    driver.start("counter")
    assert driver.is_gone("counter") and not driver.is_up("counter")
    driver.run(50.0)
    assert all(client.client.done < 20 for client in clients)


# Connections.


class Talker:
    """Says a number every second to whom it is connected; hears numbers."""

    def __init__(self) -> None:
        self.peer, self.session, self.said = "", 0, 0
        self.due = math.inf
        self.heard: list[tuple[int, int]] = []
        self.sessions: list[tuple[str, int]] = []

    def handle(self, event: Message, now: float) -> list[Effect]:
        match event:
            case Connected(peer, session):
                self.peer, self.session, self.due = peer, session, now
                self.sessions.append(("up", session))
            case Disconnected(_, session):
                self.sessions.append(("down", session))
                self.due = math.inf
            case Added(serial):
                self.heard.append((serial // 10**6, serial % 10**6))
            case _:
                self.said += 1
                self.due = now + 0.01
                return [Send(self.peer, Added(10**6 * self.session + self.said))]
        return []


class TalkerParty(Party):
    def start(self, memory: Any, life: int) -> Talker:
        return Talker()


def connected(partitions: tuple[Partition, ...] = ()) -> tuple[VirtualDriver, OrderedNetwork]:
    network = OrderedNetwork(
        generator(1, "network"),
        lambda name: "b",
        FaultSettings(partitions=partitions),
        notice_s=2.0,
    )
    driver = VirtualDriver(network)
    driver.add(TalkerParty("a"))
    driver.add(TalkerParty("b"))
    network.dial("a")
    return driver, network


def test_a_connection_delivers_in_order_and_loses_the_tail_when_it_breaks() -> None:
    driver, _ = connected((Partition(5.0, 10.0, frozenset("a")),))
    driver.run(20.0)
    a, b = driver.agent("a"), driver.agent("b")
    assert b.heard == sorted(b.heard), "nothing overtakes"
    assert {session for session, _ in b.heard} == {1, 2}
    assert a.sessions == [("up", 1), ("down", 1), ("up", 2)] and b.sessions == [("down", 1)]
    first = [said for session, said in b.heard if session == 1]
    second = [said for session, said in b.heard if session == 2]
    assert first == list(range(1, len(first) + 1)), "no gap before the break"
    assert second[0] > first[-1] + 1, "what was said to nobody is lost"


def test_a_crash_breaks_connections_and_the_next_life_hears_nothing_of_them() -> None:
    driver, _ = connected()
    driver.at(5.0, driver.crash, "b", 1.0)
    driver.run(20.0)
    assert driver.agent("a").sessions == [("up", 1), ("down", 1), ("up", 2)]
    assert driver.agent("b").sessions == [] and {s for s, _ in driver.agent("b").heard} == {2}


def test_an_isolated_party_is_not_reached() -> None:
    driver, network = connected()
    driver.at(3.0, network.isolate, "a", True)
    driver.run(30.0)
    assert driver.agent("a").sessions == [("up", 1), ("down", 1)]
    network.isolate("a", False)
    driver.run(40.0)
    assert driver.agent("a").sessions[-1] == ("up", 2)
