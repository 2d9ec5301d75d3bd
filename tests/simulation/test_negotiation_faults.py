"""Hundreds of random fault schedules pass; and a protocol with a hole in it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from murmuration.schedulers.negotiation.books import Held, Status
from murmuration.schedulers.negotiation.messages import RunTask, TakenOver
from murmuration.schedulers.negotiation.node_agent import NodeAgent
from murmuration.schedulers.negotiation.source import Negotiation, Phase, Source
from murmuration.simulation.messages.negotiation import BrokenError
from murmuration.simulation.messages.negotiation_faults import run_schedule

SCHEDULES, CHUNK = 300, 30


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
            and negotiation.phase is Phase.HAND_OVER
        ):
            if negotiation.deadline <= self._now:
                self._take_back(negotiation)
        else:
            original(self, negotiation)

    original = Source._when_late
    monkeypatch.setattr(Source, "_when_late", late)


def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source forgets the task when it has said that the target may run it."""

    def say(self: Any, negotiation: Negotiation) -> None:
        original(self, negotiation)
        self._forget(self.books.tasks[negotiation.task])
        self._end(negotiation)

    original = Source._say_take_over
    monkeypatch.setattr(Source, "_say_take_over", say)


def without_tentative_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target runs the task as soon as it has made room for it."""

    def process(self: Any, request: Any) -> None:
        original(self, request)
        if request.migration in self.coming:
            coming = self.coming.pop(request.migration)
            self.books.tasks[coming.task.name] = Held(coming.task, coming.use, Status.RUNNING)
            self.books.taken[request.migration] = coming.task.name
            self._send(None, RunTask(coming.task))

    original = NodeAgent._on_process
    monkeypatch.setattr(NodeAgent, "_on_process", process)


def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that crashed no longer knows what it took over."""

    def start(self: Any) -> None:
        self.books.taken.clear()
        original(self)

    original = NodeAgent._start
    monkeypatch.setattr(NodeAgent, "_start", start)


def credulous(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target begins a migration again when an old request for it arrives once more."""

    def process(self: Any, request: Any) -> None:
        self.books.highest.clear()
        original(self, request)

    original = NodeAgent._on_process
    monkeypatch.setattr(NodeAgent, "_on_process", process)


def untidy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room that is given back stays counted."""
    monkeypatch.setattr(
        NodeAgent, "_drop_coming", lambda self, migration: self.coming.pop(migration, None)
    )


def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source never hears that the target took over."""
    original = Source.__init__

    def init(self: Any, *arguments: Any) -> None:
        original(self, *arguments)
        self._on[TakenOver] = lambda message: None

    monkeypatch.setattr(Source, "__init__", init)


@pytest.mark.parametrize(
    "hole",
    [impatient, trusting, without_tentative_state, forgetful, credulous, untidy, deaf],
    ids=lambda h: h.__name__,
)
def test_a_hole_in_the_protocol_is_found(
    hole: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    hole(monkeypatch)
    with pytest.raises(
        BrokenError, match="murmur faults --protocol negotiation --schedules 1 --seed"
    ):
        for seed in range(1, 60):
            run_schedule(seed)
