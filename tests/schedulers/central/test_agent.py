"""The node agent: what it starts, ends and tells, with and without a master."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from murmuration.schedulers.agent import Connected, Disconnected, Do, Message, Note, Send, Wake
from murmuration.schedulers.central.leases import Leases
from murmuration.schedulers.central.messages import (
    JOBS,
    AgentJoined,
    AgentLeaves,
    Ended,
    EndRecorded,
    HangUp,
    Heartbeat,
    HeartbeatSeen,
    Launch,
    Order,
    Refused,
    RunEnded,
    Running,
    RunStarted,
    Stop,
    Welcome,
)
from murmuration.schedulers.central.node_agent import (
    CentralNodeAgent,
    Exited,
    Found,
    GiveUp,
    Kill,
    Leased,
    Leave,
    RunForgotten,
    RunOver,
    RunStopping,
    Start,
    Started,
)
from murmuration.schedulers.offers.messages import Status

REQUEST = (1, 1)


def told(agent: CentralNodeAgent, event: Message, now: float) -> list[Message]:
    """What an agent answers: messages to its master, acts and facts, in order."""
    answers: list[Message] = []
    for effect in agent.handle(event, now):
        match effect:
            case Send(to, message):
                assert to == "master"
                answers.append(message)
            case Do(act):
                answers.append(act)
            case Note(fact):
                answers.append(fact)
    return answers


def launch(run: str = "a.0.1", session: int = 1, **order: Any) -> Launch:
    return Launch(session, JOBS, run, REQUEST, Order(("true",), **order))


def connected(timeout_s: float = 60.0) -> CentralNodeAgent:
    agent = CentralNodeAgent("n", "id", {"cpu": 1})
    (joined,) = told(agent, Connected("master", 1), 0.0)
    assert isinstance(joined, AgentJoined)
    assert told(agent, Welcome(1, timeout_s, timeout_s / 12), 0.0) == [Leased(timeout_s)]
    return agent


def running(timeout_s: float = 60.0) -> CentralNodeAgent:
    agent = connected(timeout_s)
    told(agent, launch(), 0.0)
    assert told(agent, Started("a.0.1"), 0.0) == [RunStarted("n", JOBS, "a.0.1", 1)]
    return agent


def test_a_run_is_started_once_however_often_it_is_ordered() -> None:
    agent = connected()
    assert told(agent, launch(), 0.0) == [Start(launch(), math.inf, 60.0)]
    assert told(agent, launch(), 0.0) == []
    told(agent, Started("a.0.1"), 0.0)
    assert told(agent, launch(), 1.0) == []
    told(agent, Exited("a.0.1", 0), 2.0)
    assert told(agent, launch(), 3.0) == [], "its end is not recorded yet"


def test_an_order_of_an_old_connection_is_not_for_now() -> None:
    agent = connected()
    told(agent, Disconnected("master", 1), 1.0)
    told(agent, Connected("master", 2), 2.0)
    assert told(agent, launch(session=1), 3.0) == []
    assert told(agent, launch(session=2), 3.0) == [], "and none before it is welcome"
    told(agent, Welcome(2, 60.0, 5.0), 3.0)
    assert told(agent, launch(session=2), 3.0) == [Start(launch(session=2), math.inf, 62.0)]


@pytest.mark.parametrize(
    ("exited", "ended"),
    [
        (Exited("a.0.1", 0), Ended(JOBS, "a.0.1", Status.FINISHED, 0)),
        (Exited("a.0.1", 3), Ended(JOBS, "a.0.1", Status.FAILED, 3)),
        (
            Exited("a.0.1", None, 9, "out of memory"),
            Ended(JOBS, "a.0.1", Status.FAILED, None, 9, "out of memory"),
        ),
        (
            Exited("a.0.1", None, None, "no trace"),
            Ended(JOBS, "a.0.1", Status.LOST, reason="no trace"),
        ),
    ],
)
def test_an_end_is_told_until_it_is_recorded(exited: Exited, ended: Ended) -> None:
    agent = running()
    assert told(agent, exited, 1.0) == [RunOver(ended), RunEnded("n", ended, 1)]
    told(agent, Disconnected("master", 1), 2.0)
    (joined,) = told(agent, Connected("master", 2), 3.0)
    assert isinstance(joined, AgentJoined) and joined.ended == (ended,) and joined.running == ()
    told(agent, Welcome(2, 60.0, 5.0), 3.0)
    assert told(agent, EndRecorded(2, JOBS, "a.0.1"), 3.0) == [RunForgotten("a.0.1")]
    assert agent.runs == {}


def test_a_command_that_cannot_start_has_failed_and_was_not_lost() -> None:
    agent = connected()
    told(agent, launch(), 0.0)
    _, message = told(agent, Exited("a.0.1", reason="no such file", started=False), 0.0)
    assert message == RunEnded("n", Ended(JOBS, "a.0.1", Status.FAILED, reason="no such file"), 1)


def test_a_stop_is_a_kill_and_its_reason_is_kept() -> None:
    agent = running()
    assert told(agent, Stop(1, JOBS, "a.0.1", "killed"), 1.0) == [
        RunStopping("a.0.1", Status.KILLED, "killed"),
        Kill("a.0.1", "killed"),
    ]
    assert told(agent, Stop(1, JOBS, "a.0.1", "killed"), 1.0) == []
    _, message = told(agent, Exited("a.0.1", None, 15), 2.0)
    assert message == RunEnded("n", Ended(JOBS, "a.0.1", Status.KILLED, None, 15, "killed"), 1)


def test_a_stop_of_an_old_connection_is_not_for_now() -> None:
    """What still holds of it, the master says again when the agent has joined."""
    agent = running()
    told(agent, Disconnected("master", 1), 1.0)
    told(agent, Connected("master", 2), 2.0)
    told(agent, Welcome(2, 60.0, 5.0), 2.0)
    assert told(agent, Stop(1, JOBS, "a.0.1", "killed"), 3.0) == []
    assert Kill("a.0.1", "killed") in told(agent, Stop(2, JOBS, "a.0.1", "killed"), 3.0)


def test_a_stop_while_it_starts_kills_it_as_soon_as_it_runs() -> None:
    agent = connected()
    told(agent, launch(), 0.0)
    noted = RunStopping("a.0.1", Status.KILLED, "killed")
    assert told(agent, Stop(1, JOBS, "a.0.1", "killed"), 0.0) == [noted]
    assert told(agent, Started("a.0.1"), 1.0) == [
        RunStarted("n", JOBS, "a.0.1", 1),
        Kill("a.0.1", "killed"),
    ]


def test_a_time_limit_is_kept_without_a_master_too() -> None:
    agent = connected()
    start = Start(launch(time_limit_s=4.0), 5.0, 60.0)
    assert told(agent, launch(time_limit_s=4.0), 1.0) == [start]
    told(agent, Started("a.0.1"), 1.0)
    told(agent, Disconnected("master", 1), 2.0)
    assert agent.due == 5.0
    noted, kill = told(agent, Wake(), 5.0)
    assert noted == RunStopping("a.0.1", Status.FAILED, "its time limit was reached")
    assert kill == Kill("a.0.1", "its time limit was reached")
    told(agent, Exited("a.0.1", None, 15), 5.1)
    ended = agent.runs["a.0.1"].ended
    assert ended is not None and ended.status is Status.FAILED and "time limit" in ended.reason


def test_heartbeats_renew_the_lease_from_when_they_were_sent() -> None:
    agent = running(timeout_s=12.0)
    (beat,) = told(agent, Wake(), 1.0)
    assert beat == Heartbeat("n", 1, 1)
    assert told(agent, HeartbeatSeen(1, 1), 7.0) == [Heartbeat("n", 1, 2), Leased(13.0)][::-1]
    assert agent.lease_s == 13.0
    assert told(agent, HeartbeatSeen(1, 1), 7.5) == [], "an answer counts once"
    assert told(agent, HeartbeatSeen(0, 2), 7.5) == [], "and only on its own connection"


def test_without_a_master_the_tasks_end_when_the_lease_does() -> None:
    agent = running(timeout_s=12.0)
    told(agent, Disconnected("master", 1), 3.0)
    assert agent.due == 12.0
    noted, kill = told(agent, Wake(), 12.0)
    assert noted == RunStopping("a.0.1", Status.LOST, "no master for 12 s")
    assert kill == Kill("a.0.1", "no master for 12 s", now=True)
    told(agent, Exited("a.0.1", None, 9), 12.1)
    (joined,) = told(agent, Connected("master", 2), 20.0)
    assert isinstance(joined, AgentJoined)
    assert [end.status for end in joined.ended] == [Status.LOST]


def test_an_order_read_after_the_lease_has_ended_is_not_carried_out() -> None:
    """A suspended agent goes on and finds orders from before; the master has given up on it."""
    agent = connected(timeout_s=12.0)
    beat, over, message = told(agent, launch(), 12.0)
    assert beat == Heartbeat("n", 1, 1) and isinstance(over, RunOver)
    assert isinstance(message, RunEnded) and message.ended.status is Status.LOST
    assert told(agent, HeartbeatSeen(1, 1), 12.1) == [Leased(24.0)]
    again = launch("a.0.2")
    assert told(agent, again, 12.2) == [Start(again, math.inf, 24.0)]


def test_an_agent_that_starts_again_finds_its_tasks() -> None:
    agent = CentralNodeAgent("n", "id", {"cpu": 1}, agent_timeout_s=30.0)
    agent.find(
        [Found(JOBS, "a.0.1", REQUEST, 7.0)], [Ended(JOBS, "b.0.1", Status.FINISHED, 0)], 5.0
    )
    assert agent.due == 7.0
    (joined,) = told(agent, Connected("master", 9), 5.0)
    assert isinstance(joined, AgentJoined)
    assert joined.running == (Running(JOBS, "a.0.1", REQUEST),) and [
        end.run for end in joined.ended
    ] == ["b.0.1"]
    noted, kill = told(agent, Wake(), 7.0)
    assert noted == RunStopping("a.0.1", Status.FAILED, "its time limit was reached")
    assert kill == Kill("a.0.1", "its time limit was reached")


def test_what_is_found_runs_under_the_lease_of_the_agent_before() -> None:
    """However often an agent starts without a master, the lease ends when the first one's did."""
    for starts_s in (5.0, 9.0, 12.0):
        agent = CentralNodeAgent("n", "id", {"cpu": 1}, agent_timeout_s=30.0)
        found = [Found(JOBS, "a.0.1", REQUEST)]
        agent.find(found, [], starts_s, leased_until_s=10.0)
        noted, kill = told(agent, Wake(), max(starts_s, 10.0))
        assert noted == RunStopping("a.0.1", Status.LOST, "no master for 30 s")
        assert kill == Kill("a.0.1", "no master for 30 s", now=True)


def test_an_agent_that_leaves_ends_its_tasks_and_takes_no_more() -> None:
    agent = running()
    assert told(agent, Leave(), 1.0) == [
        AgentLeaves("n", 1),
        RunStopping("a.0.1", Status.LOST, "its node agent was stopped"),
        Kill("a.0.1", "its node agent was stopped"),
    ]
    assert agent.busy
    _, message = told(agent, launch("b.0.1"), 1.0)
    assert isinstance(message, RunEnded) and message.ended.status is Status.LOST
    told(agent, Exited("a.0.1", None, 15), 2.0)
    assert not agent.busy


def test_a_refused_agent_gives_up() -> None:
    agent = CentralNodeAgent("n", "id", {"cpu": 1})
    told(agent, Connected("master", 1), 0.0)
    assert told(agent, Refused(0, "old"), 0.0) == []
    assert told(agent, Refused(1, "the name is taken"), 0.0) == [GiveUp("the name is taken")]


# Leases, the master's side.


def joined(node: str = "n", identity: str = "id", session: int = 1) -> AgentJoined:
    return AgentJoined(node, identity, session, {"cpu": 1})


def test_a_name_belongs_to_one_agent_until_its_lease_ends() -> None:
    leases = Leases(60.0, 10.0)
    assert isinstance(leases.join(joined(), 0.0), Welcome)
    refused = leases.join(joined(identity="other"), 1.0)
    assert isinstance(refused, Refused) and "connected already" in refused.reason
    assert leases.disconnect("n", 1)
    refused = leases.join(joined(identity="other"), 30.0)
    assert isinstance(refused, Refused) and "40 s" in refused.reason
    assert not leases.expire(69.9) and list(leases.expire(70.0)) == ["n"]
    assert isinstance(leases.join(joined(identity="other"), 71.0), Welcome)


def test_a_heartbeat_of_an_old_connection_renews_nothing() -> None:
    leases = Leases(60.0, 10.0)
    leases.join(joined(session=1), 0.0)
    leases.join(joined(session=2), 1.0)
    assert leases.hear(Heartbeat("n", 1, 1), 50.0) is None
    assert leases.hear(Heartbeat("n", 2, 1), 50.0) == HeartbeatSeen(2, 1)
    assert not leases.disconnect("n", 1), "the old connection breaks late"
    assert not leases.expire(119.0) and list(leases.expire(120.0)) == ["n"]


def test_a_new_master_gives_the_nodes_of_its_store_a_lease() -> None:
    leases = Leases(60.0, 10.0)
    leases.expect(["n", "m", "n"], 100.0)
    assert isinstance(leases.join(joined(identity="whoever"), 120.0), Welcome)
    assert list(leases.expire(170.0)) == ["m"]


# What becomes of a run: every phase against everything that can happen to it.

RUN = "a.0.1"
HAPPENINGS: dict[str, Message] = {
    "started": Started(RUN),
    "stop": Stop(1, JOBS, RUN, "killed"),
    "exited": Exited(RUN, 0),
    "ordered again": launch(),
}
TABLE = {
    ("starting", "started"): "running",
    ("starting", "stop"): "starting",
    ("starting", "exited"): "ended",
    ("running", "stop"): "stopping",
    ("running", "exited"): "ended",
    ("stopping", "exited"): "ended",
}
WAYS: dict[str, list[Message]] = {
    "starting": [launch()],
    "running": [launch(), Started(RUN)],
    "stopping": [launch(), Started(RUN), Stop(1, JOBS, RUN, "killed")],
    "ended": [launch(), Started(RUN), Exited(RUN, 0)],
}


@pytest.mark.parametrize("happening", HAPPENINGS)
@pytest.mark.parametrize("phase", WAYS)
def test_the_phases_of_a_run(phase: str, happening: str) -> None:
    """The table of the module: what is not in it changes nothing and causes nothing."""
    agent = connected()
    for event in WAYS[phase]:
        told(agent, event, 0.0)
    assert agent.runs[RUN].phase == phase
    caused = told(agent, HAPPENINGS[happening], 1.0)
    assert agent.runs[RUN].phase == TABLE.get((phase, happening), phase)
    if (phase, happening) not in TABLE:
        assert caused == []


@pytest.mark.parametrize("asked", [Status.KILLED, Status.LOST])
def test_the_next_agent_stops_again_what_was_to_stop_and_knows_why(asked: Status) -> None:
    """The note was written and the agent killed: the run may never have heard of it."""
    agent = CentralNodeAgent("n", "id", {"cpu": 1}, agent_timeout_s=30.0)
    stop = RunStopping("a.0.1", asked, "because")
    agent.find([Found(JOBS, "a.0.1", REQUEST)], [], 5.0, {"a.0.1": stop})
    assert agent.due == 5.0
    assert told(agent, Wake(), 5.0) == [Kill("a.0.1", "because")]
    (noted,) = told(agent, Exited("a.0.1", 9), 6.0)
    assert noted == RunOver(Ended(JOBS, "a.0.1", asked, 9, None, "because"))


def test_what_stops_with_patience_has_none_left_when_the_lease_ends() -> None:
    agent = running(timeout_s=12.0)
    told(agent, Stop(1, JOBS, "a.0.1", "killed"), 11.0)
    told(agent, Disconnected("master", 1), 11.0)
    assert told(agent, Wake(), 12.0) == [Kill("a.0.1", "killed", now=True)]


def test_what_the_node_could_not_start_is_lost_and_says_so() -> None:
    agent = connected()
    told(agent, launch(), 0.0)
    exited = Exited("a.0.1", reason="no space left", started=False, node_fault=True)
    over, _ = told(agent, exited, 1.0)
    ended = Ended(JOBS, "a.0.1", Status.LOST, reason="no space left", node_fault=True)
    assert over == RunOver(ended)


def test_a_master_of_an_earlier_term_is_not_obeyed() -> None:
    """Whatever it says, and though the session is right."""
    agent = running()
    ends_s = agent.lease_s
    assert told(agent, HeartbeatSeen(1, 99, term=4), 1.0) == []
    for old in (
        HeartbeatSeen(1, 1, term=3),
        msgspec.structs.replace(launch("b.0.1"), term=3),
        Stop(1, JOBS, "a.0.1", "killed", term=3),
        Refused(1, "the name is taken", term=3),
        Welcome(1, 600.0, 50.0, term=3),
    ):
        assert [m for m in told(agent, old, 2.0) if not isinstance(m, Heartbeat)] == []
    assert agent.lease_s == ends_s and list(agent.runs) == ["a.0.1"]
    assert told(agent, Stop(1, JOBS, "a.0.1", "killed", term=4), 3.0) != []


def test_a_silent_connection_is_given_up() -> None:
    """A master that is suspended keeps its connections; heartbeats go unanswered."""
    agent, beats = connected(60.0), 0
    acts: list[Message] = []
    while not acts and agent.due < 60.0:
        now = agent.due
        answers = told(agent, Wake(), now)
        beats += sum(isinstance(answer, Heartbeat) for answer in answers)
        acts = [answer for answer in answers if isinstance(answer, HangUp)]
    assert acts == [HangUp("n", 1)] and 3 <= beats <= 4 and now == 20.0
    # Said once; the process tells of the break, and dials again.
    assert not any(isinstance(a, HangUp) for a in told(agent, Wake(), 25.0))
    told(agent, Disconnected("master", 1), 25.5)
    (joined,) = told(agent, Connected("master", 2), 26.0)
    assert isinstance(joined, AgentJoined)
    # One that never welcomes is given up, too.
    assert any(a == HangUp("n", 2) for a in told(agent, Wake(), 46.0))


def test_a_connection_with_answers_stays() -> None:
    agent = connected(60.0)
    for _ in range(30):
        now = agent.due
        for answer in told(agent, Wake(), now):
            assert not isinstance(answer, HangUp)
            if isinstance(answer, Heartbeat):
                told(agent, HeartbeatSeen(1, answer.serial), now + 0.1)
