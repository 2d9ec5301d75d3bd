"""Node and entry agents, told messages one by one: who answers what, who owns a task, and what
counts where."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from murmuration.base.random import generator
from murmuration.schedulers.negotiation import messages as m
from murmuration.schedulers.negotiation.books import Books, Held, Status
from murmuration.schedulers.negotiation.entry_agent import EntryAgent
from murmuration.schedulers.negotiation.node_agent import NodeAgent
from murmuration.schedulers.negotiation.settings import NegotiationSettings as Settings
from murmuration.schedulers.negotiation.source import Phase

GIB = 2**30
TOTAL = (10, 10 * GIB)


def task(
    name: str, cpu: int = 2, production: bool = False, constraints: tuple[str, ...] = ()
) -> m.Task:
    return m.Task(name, (cpu, cpu * GIB), production, constraints)


def node(
    name: str = "a", *tasks: m.Task, settings: Settings | None = None, **more: Any
) -> NodeAgent:
    """A node that runs some tasks and was woken once."""
    books = Books({t.name: Held(t, t.request, Status.RUNNING, measured=True) for t in tasks})
    agent = NodeAgent(
        name,
        ["broker"],
        TOTAL,
        settings or Settings(),
        generator(1, name),
        books,
        **more,
    )
    agent.handle(m.Wake(), 0.0)
    return agent


def entry() -> EntryAgent:
    agent = EntryAgent("entry", ["broker", "other"], 2, Settings(), generator(1, "entry"), Books())
    agent.handle(m.Wake(), 0.0)
    return agent


def kinds(outbox: m.Outbox) -> list[type]:
    return [type(message) for _, message in outbox]


def asks_for_room(
    agent: Any, wanted: m.Task, now: float, *accepting: str, forced: tuple[str, ...] = ()
) -> Any:
    """Bring a negotiation about a task from the broker's question to the request for room; returns
    that request."""
    negotiation = agent.negotiations[wanted.name]
    number = negotiation.number
    candidates = [m.Candidate(name, 1.0) for name in accepting] + [
        m.Candidate(name, 0.0, True) for name in forced
    ]
    out = agent.handle(m.GetCandidateNodesResponse("broker", number, tuple(candidates)), now)
    level = m.Level(TOTAL, (1, GIB), (0, 0), 1)
    for name in accepting:
        out = agent.handle(m.TaskMigrationAcceptanceResponse(name, number, level), now)
    [(to, request)] = out
    assert type(request) is m.TaskMigrationProcessRequest and to == negotiation.target
    return request


def overload(agent: NodeAgent, now: float = 10.0) -> m.Outbox:
    """Every task suddenly uses half as much again."""
    use = {
        name: tuple(int(x * 1.5) for x in held.task.request)
        for name, held in agent.books.tasks.items()
    }
    return agent.handle(m.Measured(use), now)


def test_every_message_survives_the_wire() -> None:
    structs = [
        kind
        for kind in vars(m).values()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    ]
    tagged = [
        kind
        for kind in structs
        if kind is not msgspec.Struct and kind.__struct_config__.tag is not None
    ]
    sent = [
        m.GetCandidateNodesRequest("a", 1, task("t"), (1, 2), True, (("b", 9.5),)),
        m.TaskMigrationProcessRequest(
            "a", ("a", 1), task("t", constraints=("zone = x",)), (1, 2), 120.5, True
        ),
        m.NodeReport(
            "a", 60.0, m.Level(TOTAL, (1, 1), (0, 0), 3), {"zone": "x", "generation": 3.0}
        ),
        m.TakenOver("b", ("a", 1)),
    ]
    union: Any = tagged[0]
    for kind in tagged[1:]:
        union = union | kind
    for message in sent:
        assert msgspec.json.decode(msgspec.json.encode(message), type=union) == message


def test_a_negotiation_from_the_first_question_to_the_last_word() -> None:
    source, target = node("a", task("x", 4), task("y", 4)), node("b")
    [(to, question)] = overload(source)
    assert to == "broker" and isinstance(question, m.GetCandidateNodesRequest)
    assert question.use == (6, 6 * GIB) and not question.new
    [(to, request)] = source.handle(
        m.GetCandidateNodesResponse("broker", question.number, (m.Candidate("b", 1.0),)), 11.0
    )
    assert to == "b"
    [(_, answer)] = target.handle(request, 11.1)
    assert type(answer) is m.TaskMigrationAcceptanceResponse and target.sums.tasks == 0, (
        "nothing is allocated yet"
    )
    [(_, process)] = source.handle(answer, 11.2)
    [(_, confirmation)] = target.handle(process, 11.3)
    assert target.sums.tasks == 1 and source.sums.tasks == 2, "counted on both nodes"
    [(_, transfer)] = source.handle(confirmation, 11.4)
    assert isinstance(transfer, m.StartTransfer) and transfer.megabytes == 100 + 6 * 1024
    stop, (_, order) = source.handle(m.MigrationFinished(transfer.migration), 60.0)
    assert stop == (None, m.StopTask(question.task.name)) and isinstance(order, m.TakeOver)
    run, (_, taken) = target.handle(order, 60.1)
    assert run == (None, m.RunTask(question.task))
    [(_, released)] = source.handle(taken, 60.2)
    assert question.task.name not in source.books.tasks and source.sums.tasks == 1
    assert target.handle(released, 60.3) == [] and not target.books.taken
    assert source.counts["migrations"] == 1 and source.counts["megabytes"] == 100 + 6 * 1024
    source.check()
    target.check()


def test_what_comes_counts_from_the_moment_room_is_set_aside() -> None:
    target = node("b", task("here", 5))
    ask = m.TaskMigrationRequest("a", 1, task("x", 4), (4, 4 * GIB))
    assert kinds(target.handle(ask, 1.0)) == [m.TaskMigrationAcceptanceResponse]
    target.handle(
        m.TaskMigrationProcessRequest("a", ("a", 2), task("z", 2), (2, 2 * GIB), 100.0), 1.0
    )
    assert kinds(target.handle(ask, 1.0)) == [m.TaskMigrationRejectionResponse]
    late = m.TaskMigrationProcessRequest("a", ("a", 3), task("x", 4), (4, 4 * GIB), 100.0)
    assert kinds(target.handle(late, 1.0)) == [m.TaskMigrationProcessErrorResponse]


def test_production_tasks_must_fit_at_their_full_requests() -> None:
    target = node("b", task("web", 7, production=True))
    target.handle(m.Measured({"web": (1, GIB)}), 1.0)
    for production, answer in (
        (True, m.TaskMigrationRejectionResponse),
        (False, m.TaskMigrationAcceptanceResponse),
    ):
        ask = m.TaskMigrationRequest("a", 1, task("x", 4, production), (1, GIB))
        assert kinds(target.handle(ask, 2.0)) == [answer]


def test_by_force_only_totals_and_constraints_count() -> None:
    target = node("b", task("here", 9), attributes={"zone": "x"})

    def answer(number: int, wanted: m.Task) -> list[type]:
        request = m.TaskMigrationProcessRequest(
            "a", ("a", number), wanted, wanted.request, 100.0, forced=True
        )
        return kinds(target.handle(request, 1.0))

    assert answer(1, task("fits", 10)) == [m.TaskMigrationProcessConfirmationResponse]
    assert answer(2, task("too big", 11)) == [m.TaskMigrationProcessErrorResponse]
    assert answer(3, task("elsewhere", 1, constraints=("zone = y",))) == [
        m.TaskMigrationProcessErrorResponse
    ]


def test_forced_candidates_are_not_asked_and_come_last() -> None:
    agent, new = entry(), task("t")
    agent.handle(m.Submit(new), 0.0)
    first = asks_for_room(agent, new, 1.0, "b", forced=("full",))
    assert not first.forced and agent.negotiations["t"].target == "b"
    [(to, second)] = agent.handle(m.TaskMigrationProcessErrorResponse("b", first.migration), 2.0)
    assert to == "full" and isinstance(second, m.TaskMigrationProcessRequest) and second.forced
    assert agent.counts["collisions"] == 1


def test_a_candidate_that_does_not_answer_is_waited_for_twenty_seconds() -> None:
    agent, new = entry(), task("t")
    agent.handle(m.Submit(new), 0.0)
    number = agent.negotiations["t"].number
    answer = m.GetCandidateNodesResponse(
        "broker", number, (m.Candidate("b", 1.0), m.Candidate("silent", 1.0))
    )
    agent.handle(answer, 1.0)
    level = m.Level(TOTAL, (0, 0), (0, 0), 0)
    assert agent.handle(m.TaskMigrationAcceptanceResponse("b", number, level), 2.0) == []
    assert agent.handle(m.Wake(), 20.9) == []
    [(to, request)] = agent.handle(m.Wake(), 21.0)
    assert to == "b" and isinstance(request, m.TaskMigrationProcessRequest)


@pytest.mark.parametrize(
    ("at", "then"), [(240.0, m.TaskMigrationProcessRequest), (242.0, m.GetCandidateNodesRequest)]
)
def test_recommendations_expire_after_four_minutes(at: float, then: type) -> None:
    agent, new = entry(), task("t")
    agent.handle(m.Submit(new), 0.0)
    first = asks_for_room(agent, new, 1.0, "b", "c")
    error = m.TaskMigrationProcessErrorResponse(agent.negotiations["t"].target, first.migration)
    assert kinds(agent.handle(error, at)) == [then]


def test_a_broker_that_is_silent_is_left_for_another() -> None:
    agent = entry()
    [(first, _)] = agent.handle(m.Submit(task("t")), 0.0)
    asked = {to for k in range(1, 12) for to, _ in agent.handle(m.Wake(), 20.0 * k)}
    assert first == "broker" and "other" in asked


def handed_over(target: NodeAgent) -> tuple[EntryAgent, Any]:
    """An entry agent that has said that the target may run task t."""
    agent, new = entry(), task("t")
    agent.handle(m.Submit(new), 0.0)
    request = asks_for_room(agent, new, 1.0, target.name)
    [(_, confirmation)] = target.handle(request, 1.0)
    [(_, order)] = agent.handle(confirmation, 1.0)
    assert isinstance(order, m.TakeOver) and agent.books.tasks["t"].status is Status.STOPPED
    return agent, order


def test_room_that_is_not_used_is_dropped_and_the_source_goes_on() -> None:
    target = node("b")
    agent, order = handed_over(target)
    target.handle(m.Wake(), 122.0)
    assert not target.coming and target.sums.tasks == 0
    [(_, answer)] = target.handle(order, 123.0)
    assert type(answer) is m.NotTaken
    agent.handle(answer, 123.0)
    assert agent.books.tasks["t"].status is Status.WAITING


def test_a_refusal_is_for_ever() -> None:
    target = node("b")
    _, order = handed_over(target)
    again = m.TaskMigrationProcessRequest("entry", order.migration, task("t"), (0, 0), 0.0)
    target.handle(m.Wake(), 122.0)
    assert kinds(target.handle(again, 123.0)) == [m.TaskMigrationProcessErrorResponse]
    assert kinds(target.handle(order, 124.0)) == [m.NotTaken]


def test_a_target_repeats_that_it_took_over_even_when_the_task_has_ended() -> None:
    target = node("b")
    _, order = handed_over(target)
    assert kinds(target.handle(order, 2.0)) == [m.RunTask, m.TakenOver]
    target.handle(m.TaskEnded("t"), 3.0)
    assert kinds(target.handle(order, 4.0)) == [m.TakenOver]
    restarted = NodeAgent("b", ["broker"], TOTAL, Settings(), generator(2, "b"), target.books)
    assert m.TakenOver in kinds(restarted.handle(m.Wake(), 5.0))
    restarted.handle(m.Released("entry", order.migration), 6.0)
    assert kinds(restarted.handle(order, 7.0)) == [m.NotTaken]


def test_a_task_does_not_move_on_before_its_source_has_let_go() -> None:
    target = node("b")
    _, order = handed_over(target)
    target.handle(order, 2.0)
    too_much = m.Measured({"t": (11, GIB)})
    assert target.handle(too_much, 3.0) == []
    target.handle(m.Released("entry", order.migration), 4.0)
    assert kinds(target.handle(too_much, 5.0)) == [m.GetCandidateNodesRequest]


def test_only_the_news_that_the_target_is_gone_frees_a_source() -> None:
    target = node("b")
    agent, order = handed_over(target)
    for now in (6.0, 20.0, 60.0, 600.0, 6000.0):
        agent.handle(m.Wake(), now)
        assert agent.books.tasks["t"].status is Status.STOPPED
        assert agent.negotiations["t"].phase is Phase.HAND_OVER
    agent.handle(m.NodeGone("b"), 6001.0)
    assert agent.books.tasks["t"].status is Status.WAITING
    # What the dead node still said is answered and changes nothing.
    assert kinds(agent.handle(m.TakenOver("b", order.migration), 6002.0)) == [m.Released]
    assert "t" in agent.books.tasks


def test_a_source_that_crashed_goes_on_handing_over() -> None:
    agent, order = handed_over(node("b"))
    restarted = EntryAgent("entry", ["broker"], 2, Settings(), generator(2, "entry"), agent.books)
    out = restarted.handle(m.Wake(), 100.0)
    assert out == [("b", order)]


def test_a_source_that_crashed_may_hear_first_that_its_target_is_gone() -> None:
    agent, _ = handed_over(node("b"))
    restarted = EntryAgent("entry", ["broker"], 2, Settings(), generator(2, "entry"), agent.books)
    restarted.handle(m.NodeGone("b"), 100.0)
    assert restarted.books.tasks["t"].status is Status.WAITING
    assert restarted.negotiations["t"].phase is Phase.BROKER


def test_a_stopped_task_is_not_given_away_twice_whatever_comes_first_after_a_crash() -> None:
    source = node("a", task("x", 4), task("y", 4))
    overload(source)
    name = next(iter(source.negotiations))
    request = asks_for_room(source, source.books.tasks[name].task, 11.0, "b")
    source.handle(m.TaskMigrationProcessConfirmationResponse("b", request.migration), 12.0)
    source.handle(m.MigrationFinished(request.migration), 60.0)
    restarted = NodeAgent("a", ["broker"], TOTAL, Settings(), generator(2, "a"), source.books)
    use: dict[str, m.Vector] = dict.fromkeys(source.books.tasks, (20, GIB))
    asked = [
        message
        for _, message in restarted.handle(m.Measured(use), 70.0)
        if hasattr(message, "task")
    ]
    assert name not in {
        message.task.name for message in asked if isinstance(message, m.GetCandidateNodesRequest)
    }
    assert restarted.negotiations[name].phase is Phase.HAND_OVER


def test_a_task_that_ends_on_its_way_is_called_off() -> None:
    source = node("a", task("x", 4), task("y", 4))
    overload(source)
    name = next(iter(source.negotiations))
    request = asks_for_room(source, source.books.tasks[name].task, 11.0, "b")
    source.handle(m.TaskMigrationProcessConfirmationResponse("b", request.migration), 12.0)
    assert source.handle(m.TaskEnded(name), 13.0) == [
        ("b", m.MigrationCancelled("a", request.migration))
    ]
    assert source.handle(m.MigrationFinished(request.migration), 20.0) == []
    source.check()


def test_tasks_that_may_no_longer_stay_leave_first_and_others_in_parallel() -> None:
    alien = task("alien", 1, constraints=("zone = y",))
    source = node("a", alien, *(task(f"t{k}", 3) for k in range(4)), attributes={"zone": "x"})
    overload(source)
    assert "alien" in source.negotiations and len(source.negotiations) > 1
    left = [held for name, held in source.books.tasks.items() if name not in source.negotiations]
    assert sum(held.use[0] for held in left) <= TOTAL[0]
    # What is already leaving is not selected again, and nothing else is needed.
    before = len(source.negotiations)
    overload(source, 20.0)
    assert len(source.negotiations) == before


def test_a_task_that_fits_nowhere_else_is_left_alone_for_a_while() -> None:
    source = node("a", task("x", 8))
    assert kinds(overload(source)) == [m.GetCandidateNodesRequest]
    source.handle(m.GetCandidateNodesResponse("broker", source.negotiations["x"].number, ()), 11.0)
    assert overload(source, 70.0) == []
    assert kinds(overload(source, 300.0)) == [m.GetCandidateNodesRequest]


@pytest.mark.parametrize("most", [0, 2])
def test_nodes_that_never_answer_are_left_out_if_that_is_wanted(most: int) -> None:
    agent = EntryAgent(
        "entry",
        ["broker"],
        2,
        Settings(unanswered_max=most, rounds=9),
        generator(1, "e"),
        Books(),
    )
    agent.handle(m.Submit(task("t")), 0.0)
    now = 0.0
    for _ in range(2):
        number = agent.negotiations["t"].number
        agent.handle(
            m.GetCandidateNodesResponse("broker", number, (m.Candidate("silent", 1.0),)), now
        )
        now += 20.0
        [(_, question)] = agent.handle(m.Wake(), now)
    assert isinstance(question, m.GetCandidateNodesRequest)
    assert [name for name, _ in question.unanswering] == (["silent"] if most else [])


def test_a_disproportional_node_offloads_if_that_is_wanted() -> None:
    lopsided = m.Task("cpu", (6, GIB))
    for share, wanted in ((0.0, False), (1.0, True)):
        agent = node("a", lopsided, task("even", 2), settings=Settings(proactive=share))
        out = agent.handle(m.Wake(), 60.0)
        assert (m.GetCandidateNodesRequest in kinds(out)) == wanted
        assert ("cpu" in agent.negotiations) == wanted


def test_the_papers_tabu_search_can_be_chosen() -> None:
    source = node("a", *(task(f"t{k}", 2) for k in range(5)), settings=Settings(selection="tabu"))
    overload(source)
    assert source.negotiations


def test_a_task_that_came_by_force_stays_while_others_make_room() -> None:
    agent = node("a", task("small", 3), task("other", 3))
    large = task("large", 9)
    agent.handle(
        m.TaskMigrationProcessRequest("b", ("b", 1), large, large.request, 100.0, forced=True), 1.0
    )
    agent.handle(m.TakeOver("b", ("b", 1)), 2.0)
    agent.handle(m.Released("b", ("b", 1)), 3.0)
    agent.handle(
        m.Measured({name: held.task.request for name, held in agent.books.tasks.items()}), 60.0
    )
    assert set(agent.negotiations) == {"small", "other"}


def still(outbox: m.Outbox) -> list[tuple[str, ...]]:
    return [
        message.tasks for to, message in outbox if isinstance(message, m.StandStill) and to is None
    ]


def test_during_a_spike_others_stand_still_before_production_is_short() -> None:
    service, batch, little = (
        task("service", 6, production=True),
        task("batch", 3),
        task("little", 1),
    )
    agent = node("a", service, batch, little)
    assert still(agent.handle(m.Measured({"service": (8, 6 * GIB)}), 60.0)) == [("batch",)]
    assert still(agent.handle(m.Measured({"service": (8, 6 * GIB)}), 61.0)) == []
    assert still(agent.handle(m.Measured({"service": (10, 6 * GIB)}), 62.0)) == [
        ("batch", "little")
    ]
    assert still(agent.handle(m.Measured({"service": (6, 6 * GIB)}), 63.0)) == [()]


def test_after_a_crash_it_is_said_again_who_stands_still() -> None:
    books = Books(
        {
            t.name: Held(t, t.request, Status.RUNNING)
            for t in (task("service", 6, True), task("batch", 3))
        }
    )
    agent = NodeAgent("a", ["broker"], TOTAL, Settings(), generator(1, "a"), books)
    assert still(agent.handle(m.Wake(), 1.0)) == [()]
    assert still(agent.handle(m.Measured({"service": (6, 6 * GIB)}), 2.0)) == []
