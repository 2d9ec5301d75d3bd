"""A DEPAS node, message by message: what each event causes, in order."""

from __future__ import annotations

import pytest

from murmuration.autoscaling.agents import worker as worker_module
from murmuration.autoscaling.agents.entry_point import EntryPoint
from murmuration.autoscaling.agents.messages import (
    AddNode,
    AskIntroduction,
    ExchangeDeclined,
    ExchangeLinks,
    HandRequest,
    Introduced,
    JoinWalk,
    KindOffered,
    LeaveRefused,
    LeaveSystem,
    Link,
    LinkGiven,
    LinksExchanged,
    NodeDeparted,
    NodeLeaves,
    NodeStays,
    Probe,
    ProbeAnswer,
    ProcessRequest,
    ReplyToClient,
    RequestFinished,
    RequestIssued,
    RequestProcessed,
    RequestTaken,
    ShutDown,
)
from murmuration.autoscaling.agents.settings import DepasSettings
from murmuration.autoscaling.agents.worker import Worker, WorkerMemory
from murmuration.base.random import state
from murmuration.schedulers.agent import Do, Note, Send, Wake

SMALL = KindOffered("small", 1)
RULES = DepasSettings(degree=3, probes=0, hops_max=2, queue_max=1.0)
LEAVES = [
    Note(NodeLeaves()),
    Do(LeaveSystem()),
    Send("entry", NodeDeparted("a")),
    Do(ShutDown()),
]


def make(
    *neighbours: Link, capacity: int = 1, leaves: bool = False, rules: DepasSettings = RULES
) -> Worker:
    """A node at second 0 that gossips with nobody before it is told to."""
    links = neighbours if len(neighbours) != 1 else (*neighbours, *neighbours)
    memory = WorkerMemory(leaves)
    return Worker("a", capacity, SMALL, "entry", rules, state(1, "a"), memory, links)


def started(*neighbours: Link, capacity: int = 1, rules: DepasSettings = RULES) -> Worker:
    agent = make(*neighbours, capacity=capacity, rules=rules)
    agent.handle(Wake(), 0.0)
    return agent


def decision(agent: Worker) -> list[object]:
    """What the decision at the end of the first cycle causes, apart from gossip."""
    agent.outlet.begin(60.0)
    agent._decide()
    return list(agent.outlet.effects)


def test_an_idle_node_leaves() -> None:
    """Load 0: equation 2 gives probability 1."""
    agent = started()
    assert decision(agent) == LEAVES
    assert agent.memory.leaves


def test_a_busy_node_adds_by_equation_3() -> None:
    """Load 1.4 on a node of capacity 2, twice the target: (1.4 − 0.7)/0.7 · 2/1 = 2 nodes."""
    agent = started(capacity=2)
    agent.work = 2.8
    added = AddNode("small", Link("a", 2, 2.8))
    assert decision(agent) == [Do(added), Do(added)]


def test_a_node_inside_the_band_does_nothing() -> None:
    agent = started()
    agent.work = 0.75
    assert decision(agent) == []


@pytest.mark.parametrize(("draw", "goes"), [(0.0, True), (0.49, True), (0.51, False)])
def test_a_node_leaves_when_the_draw_is_below_p(
    draw: float, goes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half the target load: p = 1/2. Algorithm 1 prints the comparison the wrong way round."""
    agent = started()
    agent.work = 0.35
    monkeypatch.setattr(worker_module, "draw_share", lambda rng: draw)
    assert decision(agent) == (LEAVES if goes else [])


def test_neighbours_count_by_capacity() -> None:
    """Equation 1: an idle node beside one of capacity 9 with load 0.7: the system's is 0.63."""
    agent = started(Link("b", 9, 6.3))
    assert decision(agent) == []


def test_a_node_that_left_takes_no_requests_even_after_a_crash() -> None:
    agent = started()
    decision(agent)
    request = HandRequest("entry", "entry", 1, 0, 0.0)
    assert agent.handle(request, 61.0) == [Send("entry", NodeDeparted("a"))]
    reborn = make(leaves=True)
    assert reborn.handle(Wake(), 100.0) == LEAVES[1:]
    assert reborn.handle(request, 101.0) == [Send("entry", NodeDeparted("a"))]
    assert reborn.handle(Probe("b"), 101.0) == [Send("b", NodeDeparted("a"))]


def test_a_node_that_leaves_finishes_what_it_has() -> None:
    agent = started()
    agent.handle(HandRequest("entry", "entry", 1, 0, 0.0), 1.0)
    assert decision(agent) == LEAVES[:-1]
    assert agent.handle(RequestProcessed(1), 62.0) == [
        Send("entry", RequestFinished("a", 1, True)),
        Do(ShutDown()),
    ]


def test_the_last_few_stay() -> None:
    agent = started()
    decision(agent)
    assert agent.handle(LeaveRefused(), 60.0) == [Note(NodeStays())]
    assert agent.handle(Probe("b"), 61.0) == [Send("b", ProbeAnswer("a", 0.0))]


def test_a_request_is_started_queued_passed_on_and_rejected() -> None:
    """Capacity 1 and one place in the queue; then a neighbour, as long as hops are left."""
    agent = started(Link("b", 1))
    taken = [Send("entry", RequestTaken("a", k)) for k in range(5)]
    hands = [HandRequest("entry", "entry", k, 0, 0.25) for k in range(4)]
    assert agent.handle(hands[1], 1.0) == [taken[1], Do(ProcessRequest(1))]
    assert agent.handle(hands[2], 1.0) == [taken[2]]
    assert agent.handle(hands[3], 1.0) == [
        taken[3],
        Send("b", HandRequest("a", "entry", 3, 1, 0.25)),
    ]
    last = HandRequest("entry", "entry", 4, 2, 0.25)
    assert agent.handle(last, 1.0) == [
        taken[4],
        Send("entry", RequestFinished("a", 4, False)),
    ]
    assert agent.handle(RequestProcessed(1), 2.0) == [
        Send("entry", RequestFinished("a", 1, True)),
        Do(ProcessRequest(2)),
    ]
    assert agent.counted == 2


def test_a_copy_of_a_request_is_processed_once() -> None:
    agent = started()
    request = HandRequest("entry", "entry", 1, 0, 0.0)
    agent.handle(request, 1.0)
    assert agent.handle(request, 1.1) == [Send("entry", RequestTaken("a", 1))]
    agent.handle(RequestProcessed(1), 2.0)
    assert agent.handle(request, 2.1) == [Send("entry", RequestTaken("a", 1))]


def test_a_request_that_nobody_acknowledges_goes_on() -> None:
    agent = started(Link("b", 1))
    for k in range(1, 4):
        agent.handle(HandRequest("entry", "entry", k, 0, 0.0), 0.0)
    resent = [
        effect
        for effect in agent.handle(Wake(), 0.5)
        if isinstance(effect, Send) and isinstance(effect.message, HandRequest)
    ]
    assert resent == [Send("b", HandRequest("a", "entry", 3, 2, 0.5))]
    agent.handle(RequestTaken("b", 3), 0.6)
    assert not len(agent.handings)


def test_a_newcomer_takes_the_place_of_a_link_and_gets_it() -> None:
    links = [Link("b", 1), Link("c", 1), Link("d", 1)]
    agent = started(*links)
    effects = agent.handle(JoinWalk(Link("e", 1), 0), 1.0)
    assert len(effects) == 1 and isinstance(effects[0], Send) and effects[0].to == "e"
    assert isinstance(effects[0].message, LinkGiven)
    given = effects[0].message.link.node
    assert {n.node for n in agent.membership.neighbours} == {"b", "c", "d", "e"} - {given}


def test_an_exchange_is_answered_once_and_the_answer_repeated() -> None:
    """Links are swapped: afterwards each node is known to as many as before."""
    agent = started(Link("c", 1), Link("d", 1), Link("e", 1))
    question = ExchangeLinks("b", 1, Link("b", 1), (Link("f", 1), Link("g", 1)))
    answer = agent.handle(question, 1.0)
    assert agent.handle(question, 1.5) == answer
    assert len(answer) == 1 and isinstance(answer[0], Send)
    message = answer[0].message
    assert isinstance(message, LinksExchanged) and message.number == 1
    after = [link.node for link in message.links] + [n.node for n in agent.membership.neighbours]
    assert sorted(after) == ["b", "c", "d", "e", "f", "g"]


def test_a_node_that_waits_for_an_exchange_declines_others() -> None:
    agent = started(Link("c", 1), Link("d", 1))
    agent.outlet.begin(1.0)
    agent.membership.gossip()
    question = ExchangeLinks("b", 1, Link("b", 1), (Link("f", 1),))
    assert agent.handle(question, 1.1) == [Send("b", ExchangeDeclined("a", 1))]


def test_the_entry_point_answers_each_request_once() -> None:
    entry = EntryPoint("entry", RULES, state(1, "entry"), (Link("a", 1),))
    hand = HandRequest("entry", "entry", 1, 0, 0.0)
    assert entry.handle(RequestIssued(1), 0.0) == [Send("a", hand)]
    assert entry.handle(RequestTaken("a", 1), 0.1) == []
    assert entry.handle(RequestFinished("a", 1, True), 1.0) == [Do(ReplyToClient(1, True))]
    assert entry.handle(RequestFinished("a", 1, True), 1.1) == []
    assert entry.handle(RequestFinished("b", 1, False), 1.2) == []


def test_the_entry_point_sends_a_request_of_a_node_that_left_to_another() -> None:
    workers = (Link("a", 1000), Link("b", 1))
    entry = EntryPoint("entry", RULES, state(1, "entry"), workers)
    entry.handle(RequestIssued(1), 0.0)
    assert entry.handle(NodeDeparted("a"), 0.1) == [
        Send("b", HandRequest("entry", "entry", 1, 0, 0.1))
    ]


def test_the_entry_point_introduces_those_who_ask() -> None:
    entry = EntryPoint("entry", RULES, state(1, "entry"))
    assert entry.handle(AskIntroduction("a", Link("a", 1)), 0.0) == []
    assert entry.handle(AskIntroduction("b", Link("b", 2)), 1.0) == [
        Send("b", Introduced(Link("a", 1)))
    ]
    assert entry.handle(RequestIssued(1), 2.0)[0] in (
        Send("a", HandRequest("entry", "entry", 1, 0, 0.0)),
        Send("b", HandRequest("entry", "entry", 1, 0, 0.0)),
    )


def test_loads_heard_during_an_exchange_are_kept() -> None:
    """The answer to an exchange carries links as they were when it was asked for."""
    agent = started(Link("b", 1, 0.2, 5), Link("c", 1, 0.2, 1))
    agent.outlet.begin(1.0)
    agent.membership.gossip()
    agent.handle(ProbeAnswer("c", 0.9), 1.1)
    agent.handle(LinksExchanged("b", 1, (Link("c", 1, 0.2, 2), Link("d", 1, 0.4))), 1.2)
    known = {n.node: n.work for n in agent.membership.neighbours}
    assert known == {"c": 0.9, "d": 0.4}
