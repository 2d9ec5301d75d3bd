"""Node and entry agents, told messages one by one: who answers what, who owns a task, and what
counts where."""

from __future__ import annotations

import msgspec
import pytest
from tests.schedulers.negotiation.builders import (
    GIB,
    MEMBERSHIP,
    TOTAL,
    Said,
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

from murmuration.schedulers.agent import REGISTRY, Message, Wake
from murmuration.schedulers.negotiation import messages as m
from murmuration.schedulers.negotiation.memory import (
    TaskAdmitted,
    TaskState,
)
from murmuration.schedulers.negotiation.phases import NegotiationPhase
from murmuration.schedulers.negotiation.settings import NegotiationSettings as Settings


def test_every_message_survives_the_wire() -> None:
    payload = msgspec.Raw(b'{"command":["sleep","1"]}')
    sent: list[Message] = [
        m.GetCandidateNodesRequest("a", 1, task("t"), (1, 2), True, (("b", 9.5),)),
        m.TaskMigrationProcessRequest(
            "a", ("a", 1), task("t", constraints=("zone = x",)), (1, 2), 120.5, True
        ),
        m.NodeReport("a", 7, m.NodeLoad(TOTAL, (1, 1), (0, 0), 3), {"zone": "x", "age": 3.0}),
        m.TakenOver("b", ("a", 1)),
        m.NodeGone(MEMBERSHIP, "b"),
        TaskAdmitted(m.MobileTask("t", (1, 2), payload=payload)),
    ]
    for message in sent:
        wire = msgspec.json.encode(message)
        again = msgspec.json.decode(wire, type=REGISTRY[message.key])
        assert msgspec.json.encode(again) == wire and type(again) is type(message)


def test_a_payload_travels_with_its_task_to_the_host_that_runs_it() -> None:
    payload = msgspec.Raw(b'{"command":["sleep","1"]}')
    moving = m.MobileTask("t", (1, GIB), payload=payload)
    target = node("b")
    request = m.TaskMigrationProcessRequest("a", ("a", 1), moving, (1, GIB), 1.0)
    wire = msgspec.json.encode(request)
    tell(target, msgspec.json.decode(wire, type=m.TaskMigrationProcessRequest), 1.0)
    [(host, run), _] = tell(target, m.TakeOver("a", ("a", 1)), 2.0)
    assert host is None and isinstance(run, m.RunTask)
    assert msgspec.json.decode(bytes(run.task.payload)) == {"command": ["sleep", "1"]}


def test_a_negotiation_from_the_first_question_to_the_last_word() -> None:
    source, target = node("a", task("x", 4), task("y", 4)), node("b")
    [(to, question)] = overload(source)
    assert to == "broker" and isinstance(question, m.GetCandidateNodesRequest)
    assert question.use == (6, 6 * GIB) and not question.new
    [(to, request)] = tell(
        source,
        m.GetCandidateNodesResponse("broker", question.number, (m.Candidate("b", 1.0),)),
        11.0,
    )
    assert to == "b"
    [(_, answer)] = tell(target, request, 11.1)
    assert type(answer) is m.TaskMigrationAcceptanceResponse and target.sums.tasks == 0, (
        "nothing is allocated yet"
    )
    [(_, process)] = tell(source, answer, 11.2)
    [(_, confirmation)] = tell(target, process, 11.3)
    assert target.sums.tasks == 1 and source.sums.tasks == 2, "counted on both nodes"
    [(_, transfer)] = tell(source, confirmation, 11.4)
    assert isinstance(transfer, m.StartTransfer) and transfer.megabytes == 100 + 6 * 1024
    stop, (_, order) = tell(source, m.MigrationFinished(transfer.migration), 60.0)
    assert stop == (None, m.HaltTask(question.task.name)) and isinstance(order, m.TakeOver)
    run, (_, taken) = tell(target, order, 60.1)
    assert run == (None, m.RunTask(question.task))
    [(_, released)] = tell(source, taken, 60.2)
    assert question.task.name not in source.memory.tasks and source.sums.tasks == 1
    assert tell(target, released, 60.3) == [] and not target.memory.taken
    assert source.counts["migrations"] == 1 and source.counts["megabytes"] == 100 + 6 * 1024
    source.check()
    target.check()


def test_what_comes_counts_from_the_moment_room_is_set_aside() -> None:
    target = node("b", task("here", 5))
    ask = m.TaskMigrationRequest("a", 1, task("x", 4), (4, 4 * GIB))
    assert kinds(tell(target, ask, 1.0)) == [m.TaskMigrationAcceptanceResponse]
    tell(
        target, m.TaskMigrationProcessRequest("a", ("a", 2), task("z", 2), (2, 2 * GIB), 100.0), 1.0
    )
    assert kinds(tell(target, ask, 1.0)) == [m.TaskMigrationRejectionResponse]
    late = m.TaskMigrationProcessRequest("a", ("a", 3), task("x", 4), (4, 4 * GIB), 100.0)
    assert kinds(tell(target, late, 1.0)) == [m.TaskMigrationProcessErrorResponse]


def test_production_tasks_must_fit_at_their_full_requests() -> None:
    target = node("b", task("web", 7, production=True))
    tell(target, m.Measured({"web": (1, GIB)}), 1.0)
    for production, answer in (
        (True, m.TaskMigrationRejectionResponse),
        (False, m.TaskMigrationAcceptanceResponse),
    ):
        ask = m.TaskMigrationRequest("a", 1, task("x", 4, production), (1, GIB))
        assert kinds(tell(target, ask, 2.0)) == [answer]


def test_by_force_only_totals_and_constraints_count() -> None:
    target = node("b", task("here", 9), attributes={"zone": "x"})

    def answer(number: int, wanted: m.MobileTask) -> list[type]:
        request = m.TaskMigrationProcessRequest(
            "a", ("a", number), wanted, wanted.request, 100.0, forced=True
        )
        return kinds(tell(target, request, 1.0))

    assert answer(1, task("fits", 10)) == [m.TaskMigrationProcessConfirmationResponse]
    assert answer(2, task("too big", 11)) == [m.TaskMigrationProcessErrorResponse]
    assert answer(3, task("elsewhere", 1, constraints=("zone = y",))) == [
        m.TaskMigrationProcessErrorResponse
    ]


def test_forced_candidates_are_not_asked_and_come_last() -> None:
    agent, new = entry(), task("t")
    tell(agent, m.SubmitTask(new), 0.0)
    first = asks_for_room(agent, new, 1.0, "b", forced=("full",))
    assert not first.forced and agent.negotiations["t"].target == "b"
    [(to, second)] = tell(agent, m.TaskMigrationProcessErrorResponse("b", first.migration), 2.0)
    assert to == "full" and isinstance(second, m.TaskMigrationProcessRequest) and second.forced
    assert agent.counts["collisions"] == 1


def test_a_candidate_that_does_not_answer_is_waited_for_twenty_seconds() -> None:
    agent, new = entry(), task("t")
    tell(agent, m.SubmitTask(new), 0.0)
    number = agent.negotiations["t"].number
    answer = m.GetCandidateNodesResponse(
        "broker", number, (m.Candidate("b", 1.0), m.Candidate("silent", 1.0))
    )
    tell(agent, answer, 1.0)
    load = m.NodeLoad(TOTAL, (0, 0), (0, 0), 0)
    assert tell(agent, m.TaskMigrationAcceptanceResponse("b", number, load), 2.0) == []
    assert tell(agent, Wake(), 20.9) == []
    [(to, request)] = tell(agent, Wake(), 21.0)
    assert to == "b" and isinstance(request, m.TaskMigrationProcessRequest)


@pytest.mark.parametrize(
    ("at", "then"), [(240.0, m.TaskMigrationProcessRequest), (242.0, m.GetCandidateNodesRequest)]
)
def test_recommendations_expire_after_four_minutes(at: float, then: type) -> None:
    agent, new = entry(), task("t")
    tell(agent, m.SubmitTask(new), 0.0)
    first = asks_for_room(agent, new, 1.0, "b", "c")
    error = m.TaskMigrationProcessErrorResponse(agent.negotiations["t"].target, first.migration)
    assert kinds(tell(agent, error, at)) == [then]


def test_a_broker_that_is_silent_is_left_for_another() -> None:
    agent = entry()
    [(first, _)] = tell(agent, m.SubmitTask(task("t")), 0.0)
    asked = {to for k in range(1, 12) for to, _ in tell(agent, Wake(), 20.0 * k)}
    assert first == "broker" and "other" in asked


def test_room_that_is_not_used_is_dropped_and_the_source_goes_on() -> None:
    target = node("b")
    agent, order = handed_over(target)
    tell(target, Wake(), 122.0)
    assert not target.reserved and target.sums.tasks == 0
    [(_, answer)] = tell(target, order, 123.0)
    assert type(answer) is m.NotTaken
    tell(agent, answer, 123.0)
    assert agent.memory.tasks["t"].state is TaskState.WAITING


def test_a_refusal_is_for_ever() -> None:
    target = node("b")
    _, order = handed_over(target)
    again = m.TaskMigrationProcessRequest("entry", order.migration, task("t"), (0, 0), 0.0)
    tell(target, Wake(), 122.0)
    assert kinds(tell(target, again, 123.0)) == [m.TaskMigrationProcessErrorResponse]
    assert kinds(tell(target, order, 124.0)) == [m.NotTaken]


def test_a_target_repeats_that_it_took_over_even_when_the_task_has_ended() -> None:
    target = node("b")
    _, order = handed_over(target)
    assert kinds(tell(target, order, 2.0)) == [m.RunTask, m.TakenOver]
    tell(target, m.TaskFinished("t"), 3.0)
    assert kinds(tell(target, order, 4.0)) == [m.TakenOver]
    restarted = restart(target)
    assert m.TakenOver in kinds(tell(restarted, Wake(), 5.0))
    tell(restarted, m.Released("entry", order.migration), 6.0)
    assert kinds(tell(restarted, order, 7.0)) == [m.NotTaken]


def test_a_task_does_not_move_on_before_its_source_has_let_go() -> None:
    target = node("b")
    _, order = handed_over(target)
    tell(target, order, 2.0)
    too_much = m.Measured({"t": (11, GIB)})
    assert tell(target, too_much, 3.0) == []
    tell(target, m.Released("entry", order.migration), 4.0)
    assert kinds(tell(target, too_much, 5.0)) == [m.GetCandidateNodesRequest]


def test_only_the_news_that_the_target_is_gone_frees_a_source() -> None:
    target = node("b")
    agent, order = handed_over(target)
    for now in (6.0, 20.0, 60.0, 600.0, 6000.0):
        tell(agent, Wake(), now)
        assert agent.memory.tasks["t"].state is TaskState.STOPPED
        assert agent.negotiations["t"].phase is NegotiationPhase.HAND_OVER
    tell(agent, m.NodeGone(MEMBERSHIP, "b"), 6001.0)
    assert agent.memory.tasks["t"].state is TaskState.WAITING
    # What the dead node still said is answered and changes nothing.
    assert kinds(tell(agent, m.TakenOver("b", order.migration), 6002.0)) == [m.Released]
    assert "t" in agent.memory.tasks


def test_a_source_that_crashed_goes_on_handing_over() -> None:
    agent, order = handed_over(node("b"))
    restarted = restart(agent)
    out = tell(restarted, Wake(), 100.0)
    assert out == [("b", order)]


def test_a_source_that_crashed_may_hear_first_that_its_target_is_gone() -> None:
    agent, _ = handed_over(node("b"))
    restarted = restart(agent)
    tell(restarted, m.NodeGone(MEMBERSHIP, "b"), 100.0)
    assert restarted.memory.tasks["t"].state is TaskState.WAITING
    assert restarted.negotiations["t"].phase is NegotiationPhase.BROKER


def test_a_stopped_task_is_not_given_away_twice_whatever_comes_first_after_a_crash() -> None:
    source = node("a", task("x", 4), task("y", 4))
    overload(source)
    name = next(iter(source.negotiations))
    request = asks_for_room(source, source.memory.tasks[name].task, 11.0, "b")
    tell(source, m.TaskMigrationProcessConfirmationResponse("b", request.migration), 12.0)
    tell(source, m.MigrationFinished(request.migration), 60.0)
    restarted = restart(source)
    use: dict[str, m.Vector] = dict.fromkeys(source.memory.tasks, (20, GIB))
    asked = [
        message for _, message in tell(restarted, m.Measured(use), 70.0) if hasattr(message, "task")
    ]
    assert name not in {
        message.task.name for message in asked if isinstance(message, m.GetCandidateNodesRequest)
    }
    assert restarted.negotiations[name].phase is NegotiationPhase.HAND_OVER


def test_a_task_that_ends_on_its_way_is_called_off() -> None:
    source = node("a", task("x", 4), task("y", 4))
    overload(source)
    name = next(iter(source.negotiations))
    request = asks_for_room(source, source.memory.tasks[name].task, 11.0, "b")
    tell(source, m.TaskMigrationProcessConfirmationResponse("b", request.migration), 12.0)
    assert tell(source, m.TaskFinished(name), 13.0) == [
        ("b", m.MigrationCancelled("a", request.migration))
    ]
    assert tell(source, m.MigrationFinished(request.migration), 20.0) == []
    source.check()


def test_tasks_that_may_no_longer_stay_leave_first_and_others_in_parallel() -> None:
    alien = task("alien", 1, constraints=("zone = y",))
    source = node("a", alien, *(task(f"t{k}", 3) for k in range(4)), attributes={"zone": "x"})
    overload(source)
    assert "alien" in source.negotiations and len(source.negotiations) > 1
    left = [name for name in source.memory.tasks if name not in source.negotiations]
    assert sum(source.use[name][0] for name in left) <= TOTAL[0]
    # What is already leaving is not selected again, and nothing else is needed.
    before = len(source.negotiations)
    overload(source, 20.0)
    assert len(source.negotiations) == before


def test_a_task_that_fits_nowhere_else_is_left_alone_for_a_while() -> None:
    source = node("a", task("x", 8))
    assert kinds(overload(source)) == [m.GetCandidateNodesRequest]
    tell(source, m.GetCandidateNodesResponse("broker", source.negotiations["x"].number, ()), 11.0)
    assert overload(source, 70.0) == []
    assert kinds(overload(source, 300.0)) == [m.GetCandidateNodesRequest]


@pytest.mark.parametrize("most", [0, 2])
def test_nodes_that_never_answer_are_left_out_if_that_is_wanted(most: int) -> None:
    agent = entry(Settings(unanswered_max=most, rounds=9))
    tell(agent, m.SubmitTask(task("t")), 0.0)
    now = 0.0
    for _ in range(2):
        number = agent.negotiations["t"].number
        tell(
            agent, m.GetCandidateNodesResponse("broker", number, (m.Candidate("silent", 1.0),)), now
        )
        now += 20.0
        [(_, question)] = tell(agent, Wake(), now)
    assert isinstance(question, m.GetCandidateNodesRequest)
    assert [name for name, _ in question.unanswering] == (["silent"] if most else [])


def test_a_disproportional_node_offloads_if_that_is_wanted() -> None:
    lopsided = m.MobileTask("cpu", (6, GIB))
    for share, wanted in ((0.0, False), (1.0, True)):
        agent = node("a", lopsided, task("even", 2), settings=Settings(proactive=share))
        out = tell(agent, Wake(), 60.0)
        assert (m.GetCandidateNodesRequest in kinds(out)) == wanted
        assert ("cpu" in agent.negotiations) == wanted


def test_the_papers_tabu_search_can_be_chosen() -> None:
    source = node("a", *(task(f"t{k}", 2) for k in range(5)), settings=Settings(selection="tabu"))
    overload(source)
    assert source.negotiations


def test_a_task_that_came_by_force_stays_while_others_make_room() -> None:
    agent = node("a", task("small", 3), task("other", 3))
    large = task("large", 9)
    tell(
        agent,
        m.TaskMigrationProcessRequest("b", ("b", 1), large, large.request, 100.0, forced=True),
        1.0,
    )
    tell(agent, m.TakeOver("b", ("b", 1)), 2.0)
    tell(agent, m.Released("b", ("b", 1)), 3.0)
    tell(
        agent,
        m.Measured({name: held.task.request for name, held in agent.memory.tasks.items()}),
        60.0,
    )
    assert set(agent.negotiations) == {"small", "other"}


def suspended(said: Said) -> list[tuple[str, ...]]:
    return [act.tasks for to, act in said if isinstance(act, m.SuspendTasks) and to is None]


def test_during_a_spike_others_are_suspended_before_production_is_short() -> None:
    service, batch, little = (
        task("service", 6, production=True),
        task("batch", 3),
        task("little", 1),
    )
    agent = node("a", service, batch, little)
    assert suspended(tell(agent, m.Measured({"service": (8, 6 * GIB)}), 60.0)) == [("batch",)]
    assert suspended(tell(agent, m.Measured({"service": (8, 6 * GIB)}), 61.0)) == []
    assert suspended(tell(agent, m.Measured({"service": (10, 6 * GIB)}), 62.0)) == [
        ("batch", "little")
    ]
    assert suspended(tell(agent, m.Measured({"service": (6, 6 * GIB)}), 63.0)) == [()]


def test_after_a_crash_it_is_said_again_who_is_suspended() -> None:
    """Once the node has measured again: it does not remember what its tasks use."""
    agent = restart(node("a", task("service", 6, True), task("batch", 3)))
    assert suspended(tell(agent, Wake(), 1.0)) == []
    assert suspended(tell(agent, m.Measured({"service": (6, 6 * GIB)}), 2.0)) == [()]
    assert suspended(tell(agent, m.Measured({"service": (6, 6 * GIB)}), 3.0)) == []
