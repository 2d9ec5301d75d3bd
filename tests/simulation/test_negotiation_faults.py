"""Hundreds of random fault schedules pass; and a protocol with a hole in it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from murmuration.schedulers.agent import Note, Send
from murmuration.schedulers.negotiation.base_agent import NegotiationAgent
from murmuration.schedulers.negotiation.giver import Giver, Negotiation
from murmuration.schedulers.negotiation.memory import (
    Fact,
    MigrationSeen,
    TaskAdmitted,
    TaskResumed,
    TaskStopped,
    TaskTaken,
)
from murmuration.schedulers.negotiation.messages import KeepRunning, NotTaken, TakeOver
from murmuration.schedulers.negotiation.node_agent import NegotiatingNode
from murmuration.schedulers.negotiation.phases import NegotiationPhase
from murmuration.simulation.messages.negotiation.cluster import BrokenError
from murmuration.simulation.messages.negotiation.faults import run_schedule

SCHEDULES, CHUNK = 300, 30
#: A hole must show within so many schedules; most do within a few.
HOLE_SCHEDULES = 400


@pytest.mark.parametrize("first", range(1, SCHEDULES + 1, CHUNK))
def test_whatever_happens_every_task_runs_on_exactly_one_node(first: int) -> None:
    runs = [run_schedule(seed) for seed in range(first, first + CHUNK)]
    # The schedules are not idle: messages are lost, agents crash, and tasks move all the same.
    for key in ("messages_lost", "crashes", "partitions", "migrations"):
        assert sum(run[key] for run in runs) > CHUNK / 2


def test_a_schedule_is_the_same_every_time() -> None:
    assert run_schedule(7) == run_schedule(7)


# Holes. Each must be found within a few dozen schedules.


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that hears nothing of its target runs the task on."""

    def late(self: Any, negotiation: Negotiation) -> None:
        if (
            self.negotiations.get(negotiation.task) is negotiation
            and negotiation.phase is NegotiationPhase.HAND_OVER
        ):
            if negotiation.deadline <= self._now:
                self._take_back(negotiation)
        else:
            original(self, negotiation)

    original = Giver._when_late
    monkeypatch.setattr(Giver, "_when_late", late)
    # The table of phases would notice at once; here the checkers must.
    monkeypatch.setattr(Giver, "_check", lambda self, event: None)


def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source forgets the task when it has said that the target may run it."""

    def say(self: Any, negotiation: Negotiation) -> None:
        original(self, negotiation)
        self._forget(self.memory.tasks[negotiation.task])
        self._end(negotiation)

    original = Giver._say_take_over
    monkeypatch.setattr(Giver, "_say_take_over", say)
    monkeypatch.setattr(Giver, "_check", lambda self, event: None)


def without_reservation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target runs the task as soon as it has made room for it."""

    def process(self: Any, request: Any) -> None:
        original(self, request)
        if request.migration in self.reserved:
            self._take_task(request.migration, self.reserved.pop(request.migration))

    original = NegotiatingNode._on_process
    monkeypatch.setattr(NegotiatingNode, "_on_process", process)


def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that crashed no longer knows what it took over."""

    def start(self: Any) -> None:
        self.memory.taken.clear()
        original(self)

    original = NegotiatingNode._start
    monkeypatch.setattr(NegotiatingNode, "_start", start)


def credulous(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target begins a migration again when an old request for it arrives once more."""

    def process(self: Any, request: Any) -> None:
        self.memory.highest.clear()
        original(self, request)

    original = NegotiatingNode._on_process
    monkeypatch.setattr(NegotiatingNode, "_on_process", process)


def untidy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room that is given back stays counted."""
    monkeypatch.setattr(
        NegotiatingNode,
        "_drop_reservation",
        lambda self, migration: self.reserved.pop(migration, None),
    )


def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source never hears that the target took over."""
    monkeypatch.setattr(Giver, "_on_taken_over", lambda self, answer: None)


def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that has nothing of a migration does not say so."""
    leave_out_messages(monkeypatch, NotTaken)


def two_tongued(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that took a task over answers twice: that it did, and that it did not."""

    def take(self: Any, order: TakeOver) -> None:
        original(self, order)
        self._send(order.sender, NotTaken(self.name, order.migration))

    original = NegotiatingNode._on_take_over
    monkeypatch.setattr(NegotiatingNode, "_on_take_over", take)


def without_keep_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that starts does not tell its host what is to run."""

    def do(self: Any, act: Any) -> None:
        if not isinstance(act, KeepRunning):
            original(self, act)

    original = NegotiationAgent._do
    monkeypatch.setattr(NegotiationAgent, "_do", do)


def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages leave before the notes they rest on."""

    def handle(self: Any, event: Any, now: float) -> Any:
        effects = original(self, event, now)
        return sorted(effects, key=lambda effect: not isinstance(effect, Send))

    original = NegotiationAgent.handle
    monkeypatch.setattr(NegotiationAgent, "handle", handle)


def leave_out_messages(monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    def send(self: Any, to: str, message: Any) -> None:
        if not isinstance(message, kind):
            original(self, to, message)

    original = NegotiationAgent._send
    monkeypatch.setattr(NegotiationAgent, "_send", send)


def forget_note(kind: type) -> Callable[[pytest.MonkeyPatch], None]:
    """Facts of one kind are remembered, but not put on disk."""

    def hole(monkeypatch: pytest.MonkeyPatch) -> None:
        def note(self: Any, fact: Fact) -> None:
            original(self, fact)
            if isinstance(fact, kind):
                assert isinstance(self._effects.pop(), Note)

        original = NegotiationAgent._note
        monkeypatch.setattr(NegotiationAgent, "_note", note)

    hole.__name__ = f"forgets_{kind.__name__}"
    return hole


HOLES = [
    impatient,
    trusting,
    without_reservation,
    forgetful,
    credulous,
    untidy,
    deaf,
    silent,
    two_tongued,
    without_keep_running,
    hasty,
    *map(forget_note, (TaskAdmitted, TaskStopped, TaskResumed, TaskTaken, MigrationSeen)),
]


@pytest.mark.parametrize("hole", HOLES, ids=lambda h: h.__name__)
def test_a_hole_in_the_protocol_is_found(
    hole: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    hole(monkeypatch)
    with pytest.raises(
        BrokenError, match="murmur faults --protocol negotiation --schedules 1 --seed"
    ):
        for seed in range(1, HOLE_SCHEDULES):
            run_schedule(seed)
