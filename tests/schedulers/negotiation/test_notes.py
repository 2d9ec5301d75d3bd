"""What an agent keeps, in which order, whom it believes, and what clocks do to it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from tests.schedulers.negotiation.builders import (
    GIB,
    MEMBERSHIP,
    TOTAL,
    asks_for_room,
    entry,
    handed_over,
    kinds,
    node,
    overload,
    restart,
    task,
    tell,
)

from murmuration.schedulers.agent import Do, Effect, Message, Note, Wake
from murmuration.schedulers.negotiation import messages as m
from murmuration.schedulers.negotiation.memory import (
    MigrationSeen,
    TaskLeft,
    TaskState,
    TaskStopped,
    TaskTaken,
)
from murmuration.schedulers.negotiation.node_agent import NegotiatingNode

# Notes.


def order_of(effects: list[Effect]) -> list[type]:
    """The effects of interest in order: facts, acts and messages by their types."""
    return [
        type(effect.fact)
        if isinstance(effect, Note)
        else type(effect.act if isinstance(effect, Do) else effect.message)
        for effect in effects
    ]


def test_what_rests_on_a_note_comes_after_it() -> None:
    source, target = node("a", task("x", 4), task("y", 4)), node("b")
    overload(source)
    name = next(iter(source.negotiations))
    request = asks_for_room(source, source.memory.tasks[name].task, 11.0, "b")
    process = target.handle(request, 11.0)
    assert order_of(process) == [MigrationSeen, m.TaskMigrationProcessConfirmationResponse]
    source.handle(m.TaskMigrationProcessConfirmationResponse("b", request.migration), 12.0)
    stop = source.handle(m.MigrationFinished(request.migration), 60.0)
    assert order_of(stop) == [TaskStopped, m.HaltTask, m.TakeOver]
    take = target.handle(m.TakeOver("a", request.migration), 61.0)
    assert order_of(take) == [TaskTaken, m.RunTask, m.TakenOver]
    left = source.handle(m.TakenOver("b", request.migration), 62.0)
    assert order_of(left) == [TaskLeft, m.SuspendTasks, m.Released] or order_of(left) == [
        TaskLeft,
        m.Released,
    ]


def test_the_fold_of_all_notes_is_the_memory() -> None:
    """Nothing changes an agent's memory but a note."""
    source, target = node("a", task("x", 4), task("y", 4)), node("b")
    disks = {"a": deepcopy(source.memory), "b": deepcopy(target.memory)}

    def drive(agent: NegotiatingNode, event: Message, now: float) -> None:
        for effect in agent.handle(event, now):
            if isinstance(effect, Note):
                fact: Any = effect.fact
                disks[agent.name].apply(fact, now)
        assert disks[agent.name] == agent.memory

    drive(source, m.Measured(dict.fromkeys(source.memory.tasks, (6, 6 * GIB))), 10.0)
    name = next(iter(source.negotiations))
    number = source.negotiations[name].number
    drive(source, m.GetCandidateNodesResponse("broker", number, (m.Candidate("b", 1.0),)), 11.0)
    load = m.NodeLoad(TOTAL, (1, GIB), (0, 0), 1)
    drive(source, m.TaskMigrationAcceptanceResponse("b", number, load), 11.0)
    migration = ("a", source.negotiations[name].number)
    wanted = source.memory.tasks[name].task
    request = m.TaskMigrationProcessRequest("a", migration, wanted, (6, 6 * GIB), 1.0)
    drive(target, request, 12.0)
    confirmation = m.TaskMigrationProcessConfirmationResponse("b", migration)
    events: list[tuple[NegotiatingNode, Message]] = [
        (source, confirmation),
        (source, m.MigrationFinished(migration)),
        (target, m.TakeOver("a", migration)),
        (source, m.TakenOver("b", migration)),
        (target, m.Released("a", migration)),
        (target, m.TaskFinished(name)),
    ]
    for now, (agent, event) in enumerate(events, 13):
        drive(agent, event, float(now))
    assert not target.memory.tasks and not target.memory.taken and len(source.memory.tasks) == 1


def test_an_agent_that_starts_says_first_what_is_to_run() -> None:
    """It may have crashed after the note that a task is stopped and before the host heard of it."""
    source = node("a", task("x", 4), task("y", 4))
    overload(source)
    name = next(iter(source.negotiations))
    request = asks_for_room(source, source.memory.tasks[name].task, 11.0, "b")
    source.handle(m.TaskMigrationProcessConfirmationResponse("b", request.migration), 12.0)
    source.handle(m.MigrationFinished(request.migration), 60.0)
    (host, keep), *_ = tell(restart(source), Wake(), 70.0)
    assert host is None and isinstance(keep, m.KeepRunning)
    assert [each.name for each in keep.tasks] == [other for other in "xy" if other != name]


def test_numbers_are_used_once_crashes_included() -> None:
    agent = entry()
    used = set()
    for life in range(3):
        for k in range(3):
            [(_, question)] = [
                said
                for said in tell(agent, m.SubmitTask(task(f"t{life}{k}")), 1.0)
                if isinstance(said[1], m.GetCandidateNodesRequest)
                and said[1].task.name == f"t{life}{k}"
            ]
            assert isinstance(question, m.GetCandidateNodesRequest)
            assert question.number not in used
            used.add(question.number)
        agent = restart(agent, life + 5)


# Who is believed.


def test_only_an_authority_may_declare_a_node_gone() -> None:
    """A source that believed anybody would run a task that its target runs too."""
    agent, _ = handed_over(node("b"))
    for liar in ("b", "c", "broker", "entry"):
        assert tell(agent, m.NodeGone(liar, "b"), 10.0) == []
        assert agent.memory.tasks["t"].state is TaskState.STOPPED
    assert agent.counts["disbelieved"] == 4
    tell(agent, m.NodeGone(MEMBERSHIP, "b"), 11.0)
    assert agent.memory.tasks["t"].state is TaskState.WAITING


def test_an_answer_counts_only_from_the_target() -> None:
    agent, order = handed_over(node("b"))
    for answer in (m.NotTaken("c", order.migration), m.TakenOver("c", order.migration)):
        tell(agent, answer, 10.0)
        assert agent.memory.tasks["t"].state is TaskState.STOPPED


def test_a_target_takes_orders_from_the_source_alone() -> None:
    target = node("b")
    _, order = handed_over(target)
    assert tell(target, m.TakeOver("c", order.migration), 2.0) == []
    assert tell(target, m.MigrationCancelled("c", order.migration), 2.0) == []
    assert kinds(tell(target, order, 3.0)) == [m.RunTask, m.TakenOver]
    tell(target, m.Released("c", order.migration), 4.0)
    assert order.migration in target.memory.taken


# Clocks.


def test_a_clock_set_back_does_not_delay_a_hand_over() -> None:
    agent, order = handed_over(node("b"))
    assert tell(agent, Wake(), -3600.0) == []
    assert agent.due == pytest.approx(-3600.0 + 5.0)
    assert tell(agent, Wake(), -3595.0) == [("b", order)]
