"""Nodes of a swarm, message by message: what each event causes, in order, and what a crash, a late
copy or a race must not do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from murmuration.schedulers.agent import Do, Effect, Message, Note, Send, Wake
from murmuration.schedulers.swarm.container_agent import Stage
from murmuration.schedulers.swarm.memory import SwarmMemory
from murmuration.schedulers.swarm.messages import (
    AskRoom,
    CancelMove,
    ContainerDropped,
    ContainerEnded,
    ContainerHosted,
    ContainerPlaced,
    ContainerResumed,
    ContainerSent,
    ContainerStopped,
    HandedOver,
    HandOver,
    HandOverClosed,
    HandOverRefused,
    LifeBegun,
    MoveBarred,
    MoveClosed,
    PeerGone,
    RoomGranted,
    RoomRefused,
    RunContainer,
    SendContainer,
    StopContainer,
    StrategyChanged,
    SwarmContainer,
)
from murmuration.schedulers.swarm.node_agent import NUMBERS_PER_LIFE, SwarmNode
from murmuration.schedulers.swarm.pheromone import SPREAD
from murmuration.schedulers.swarm.settings import SwarmSettings

WEB = SwarmContainer("web", (1,))
MOVE = ("a", NUMBERS_PER_LIFE + 1)


class Draws:
    """A generator that draws the same number every time."""

    def __init__(self, value: float = 0.5) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


def memory_of(*names: str) -> SwarmMemory:
    memory = SwarmMemory()
    for name in names:
        memory.apply(ContainerHosted(SwarmContainer(name, (1,))), 0.0)
    return memory


def node(name: str, memory: SwarmMemory, draw: float = 0.5, started: bool = True) -> SwarmNode:
    """One of three nodes with room for four containers of size 1."""
    rng: np.random.Generator = Draws(draw)  # type: ignore[assignment]
    agent = SwarmNode(name, ["a", "b", "c"], (4,), [True], SwarmSettings(), rng, memory)
    if started:
        agent.handle(Wake(), 0.0)
    return agent


def notes(effects: list[Effect]) -> list[Message]:
    return [effect.fact for effect in effects if isinstance(effect, Note)]


def moving() -> tuple[SwarmNode, SwarmNode]:
    """`web` on its way from a to b, up to the copy being complete."""
    a, b = node("a", memory_of("web")), node("b", memory_of("x", "y"))
    a.handle(Wake(), 2.5)
    b.handle(AskRoom("a", MOVE, WEB, 0.25), 2.6)
    a.handle(RoomGranted("b", MOVE, 0.75), 2.7)
    return a, b


def test_a_move_from_the_first_question_to_the_last_word() -> None:
    """The last container of a node always wants to leave (p = 1) and finds a fuller node."""
    a, b = node("a", memory_of("web"), started=False), node("b", memory_of("x", "y"))
    assert a.handle(Wake(), 0.0) == [Note(LifeBegun(1)), Do(RunContainer(WEB))]
    assert a.due == 2.5
    assert a.handle(Wake(), 2.5) == [Send("b", AskRoom("a", MOVE, WEB, 0.25))]
    assert b.handle(AskRoom("a", MOVE, WEB, 0.25), 2.6) == [Send("a", RoomGranted("b", MOVE, 0.75))]
    assert b.host.used.tolist() == [3]
    assert a.handle(RoomGranted("b", MOVE, 0.75), 2.7) == [Do(SendContainer(MOVE, "web", "b"))]
    assert a.host.used.tolist() == [0]
    assert a.handle(ContainerSent(MOVE), 7.7) == [
        Note(ContainerStopped("web", MOVE, "b")),
        Do(StopContainer("web")),
        Send("b", HandOver("a", MOVE)),
    ]
    assert b.handle(HandOver("a", MOVE), 7.8) == [
        Note(ContainerHosted(WEB, MOVE)),
        Do(RunContainer(WEB)),
        Send("a", HandedOver("b", MOVE)),
    ]
    assert a.handle(HandedOver("b", MOVE), 7.9) == [
        Note(ContainerDropped("web")),
        Send("b", HandOverClosed("a", MOVE)),
    ]
    assert b.handle(HandOverClosed("a", MOVE), 8.0) == [Note(MoveClosed(MOVE))]
    assert not a.containers and set(b.containers) == {"web", "x", "y"}
    a.check()
    b.check()


def test_copies_of_old_messages_change_nothing() -> None:
    """Without the mark that notes leave, b would reserve room again and then run web twice."""
    a, b = moving()
    a.handle(ContainerSent(MOVE), 7.7)
    b.handle(HandOver("a", MOVE), 7.8)
    assert b.handle(HandOver("a", MOVE), 7.9) == [Send("a", HandedOver("b", MOVE))]
    b.handle(HandOverClosed("a", MOVE), 8.0)
    reborn = node("b", b.memory)
    for agent in (b, reborn):
        late = agent.handle(AskRoom("a", MOVE, WEB, 0.0), 50.0)
        assert late == [Send("a", RoomRefused("b", MOVE))]
        assert agent.handle(HandOver("a", MOVE), 51.0) == [Send("a", HandOverRefused("b", MOVE))]


def test_a_target_that_forgot_the_room_refuses_for_good() -> None:
    a, b = moving()
    reborn = node("b", b.memory)
    a.handle(ContainerSent(MOVE), 7.7)
    assert reborn.handle(HandOver("a", MOVE), 7.8) == [
        Note(MoveBarred(MOVE)),
        Send("a", HandOverRefused("b", MOVE)),
    ]
    assert a.handle(HandOverRefused("b", MOVE), 7.9) == [
        Note(ContainerResumed("web")),
        Do(RunContainer(WEB)),
    ]
    assert a.host.used.tolist() == [1]
    assert reborn.handle(AskRoom("a", MOVE, WEB, 0.0), 9.0) == [Send("a", RoomRefused("b", MOVE))]


def test_a_source_that_crashes_in_the_hand_over_goes_on_with_it() -> None:
    """It stops the container again, because the crash may have come before the act."""
    a, _ = moving()
    folded = memory_of("web")
    folded.apply(LifeBegun(1), 0.0)
    for fact in notes(a.handle(ContainerSent(MOVE), 7.7)):
        folded.apply(fact, 7.7)
    reborn = node("a", folded, started=False)
    assert reborn.handle(Wake(), 20.0) == [
        Note(LifeBegun(2)),
        Do(StopContainer("web")),
        Send("b", HandOver("a", MOVE)),
    ]
    reborn.check()
    assert reborn.handle(HandedOver("b", MOVE), 21.0) == [
        Note(ContainerDropped("web")),
        Send("b", HandOverClosed("a", MOVE)),
    ]


def test_a_source_that_crashes_before_it_forgets_the_move_and_cancels_it() -> None:
    a, b = moving()
    reborn = node("a", a.memory)
    assert reborn.containers["web"].stage is Stage.STAYING
    again = b.handle(Wake(), b.due)
    while not again:
        again = b.handle(Wake(), b.due)
    assert again == [Send("a", RoomGranted("b", MOVE, 0.75))]
    assert reborn.handle(RoomGranted("b", MOVE, 0.75), 40.0) == [Send("b", CancelMove("a", MOVE))]
    b.handle(CancelMove("a", MOVE), 40.1)
    assert b.host.used.tolist() == [2] and not b.reserved


def test_numbers_of_moves_are_never_used_twice() -> None:
    a, _ = moving()
    reborn = node("a", a.memory)
    asked = reborn.handle(Wake(), 2.5)
    assert asked == [Send("b", AskRoom("a", ("a", 2 * NUMBERS_PER_LIFE + 1), WEB, 0.25))]


def test_room_that_is_granted_counts_at_once() -> None:
    """Three of four places are taken: of two that ask in the same moment one gets the last."""
    b = node("b", memory_of("x", "y", "z"))
    first = b.handle(AskRoom("a", ("a", 7), WEB, 0.25), 1.0)
    second = b.handle(AskRoom("c", ("c", 9), SwarmContainer("db", (1,)), 0.25), 1.0)
    assert first == [Send("a", RoomGranted("b", ("a", 7), 1.0))]
    assert second == [Send("c", RoomRefused("b", ("c", 9)))]


def test_only_a_fuller_node_takes_from_one_that_packs() -> None:
    """Eq. 21: with the container b holds 2 of 4, which is not more than the source's half."""
    b = node("b", memory_of("x"))
    assert b.handle(AskRoom("a", ("a", 7), WEB, 0.5), 1.0) == [
        Send("a", RoomRefused("b", ("a", 7)))
    ]
    assert b.handle(AskRoom("a", ("a", 8), WEB, 0.4), 1.0) == [
        Send("a", RoomGranted("b", ("a", 8), 0.5))
    ]


def test_two_nodes_that_ask_each_other_do_not_swap() -> None:
    """a asks b and grants b's own question meanwhile: now it is as full as b would be."""
    a = node("a", memory_of("web", "db"), draw=0.1)
    asked = a.handle(Wake(), 0.5)
    assert isinstance(asked[0], Send) and isinstance(asked[0].message, AskRoom)
    move = asked[0].message.move
    granted = a.handle(AskRoom("b", ("b", 5), SwarmContainer("x", (1,)), 0.5), 0.6)
    assert granted == [Send("b", RoomGranted("a", ("b", 5), 0.75))]
    assert a.handle(RoomGranted("b", move, 0.75), 0.7) == [Send("b", CancelMove("a", move))]
    a.check()


def test_the_ring_is_asked_from_the_next_node_on() -> None:
    a = node("c", memory_of("web"))
    move = ("c", NUMBERS_PER_LIFE + 1)
    assert a.handle(Wake(), 2.5) == [Send("a", AskRoom("c", move, WEB, 0.25))]
    assert a.handle(RoomRefused("a", move), 2.6) == [Send("b", AskRoom("c", move, WEB, 0.25))]
    assert a.handle(RoomRefused("a", move), 2.7) == []
    assert a.handle(RoomRefused("b", move), 2.8) == []
    assert a.containers["web"].stage is Stage.STAYING and a.counts["searches_failed"] == 1


def test_a_node_that_does_not_answer_is_passed_over() -> None:
    a = node("a", memory_of("web"))
    a.handle(Wake(), 2.5)
    assert a.due == 3.5
    assert a.handle(Wake(), 3.5) == [Send("c", AskRoom("a", MOVE, WEB, 0.25))]
    # The first one had reserved room after all.
    assert a.handle(RoomGranted("b", MOVE, 0.75), 3.6) == [Send("b", CancelMove("a", MOVE))]


def test_one_container_leaves_after_the_other() -> None:
    """Both have a destination; the second is copied when the first is done."""
    a = node("a", memory_of("web", "db"), draw=0.1)
    asked = a.handle(Wake(), 0.5)
    moves = [
        effect.message.move
        for effect in asked
        if isinstance(effect, Send) and isinstance(effect.message, AskRoom)
    ]
    assert len(moves) == 2
    assert a.handle(RoomGranted("b", moves[0], 0.75), 0.6) == [
        Do(SendContainer(moves[0], "web", "b"))
    ]
    assert a.handle(RoomGranted("b", moves[1], 1.0), 0.7) == []
    sent = a.handle(ContainerSent(moves[0]), 5.0)
    assert sent[-1] == Do(SendContainer(moves[1], "db", "b"))


def test_a_container_may_not_move_on_before_its_source_dropped_it() -> None:
    """If b died now, a would run web again; so b must still be where it is."""
    a, b = moving()
    a.handle(ContainerSent(MOVE), 7.7)
    b.handle(ContainerEnded("x"), 7.7)
    b.handle(ContainerEnded("y"), 7.7)
    b.handle(HandOver("a", MOVE), 7.8)
    asked = [b.handle(Wake(), b.due) for _ in range(20)]
    questions = [e for row in asked for e in row if isinstance(e, Send)]
    assert all(isinstance(e.message, HandedOver) for e in questions) and questions
    b.handle(HandOverClosed("a", MOVE), 1000.0)
    later = b.handle(Wake(), 2000.0)
    assert any(isinstance(e, Send) and isinstance(e.message, AskRoom) for e in later)


def test_the_death_of_a_target_frees_the_source() -> None:
    a, _ = moving()
    a.handle(ContainerSent(MOVE), 7.7)
    assert a.handle(PeerGone("b", "operator"), 60.0) == [
        Note(ContainerResumed("web")),
        Do(RunContainer(WEB)),
    ]
    a, b = moving()
    b.handle(PeerGone("a", "operator"), 5.0)
    assert not b.reserved and b.host.used.tolist() == [2]


def test_a_container_that_ends_on_its_way_out_cancels_the_move() -> None:
    a, _ = moving()
    assert a.handle(ContainerEnded("web"), 4.0) == [
        Send("b", CancelMove("a", MOVE)),
        Note(ContainerDropped("web")),
    ]
    assert a.handle(ContainerSent(MOVE), 7.7) == []
    a.check()


def test_a_node_that_spreads_expels_only_what_is_above_the_threshold() -> None:
    """Eq. 3: with five containers where four fit one fifth is too many."""
    a = node("a", memory_of("1", "2", "3", "4"))
    a.handle(ContainerPlaced(SwarmContainer("5", (1,))), 0.0)
    a.handle(StrategyChanged(SPREAD), 0.0)
    assert a.scent().pheromone == pytest.approx(0.2)
    a.handle(ContainerEnded("5"), 0.0)
    assert a.scent().pheromone == 0.0 and a.due < math.inf
