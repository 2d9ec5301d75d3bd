"""Brokers: what they know, for how long, and whom they recommend."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from murmuration.base.random import generator
from murmuration.placement.allocation_scores import SCORES, SRAS, sras
from murmuration.schedulers.agent import Message, Send, Wake
from murmuration.schedulers.negotiation import messages as m
from murmuration.schedulers.negotiation.broker import Broker
from murmuration.schedulers.negotiation.candidates import FORCED, SUITABLE, draw, rate_nodes
from murmuration.schedulers.negotiation.memory import NegotiationMemory
from murmuration.schedulers.negotiation.node_agent import NegotiatingNode
from murmuration.schedulers.negotiation.settings import NegotiationSettings

TOTAL = (100, 100)


#: The party whose word brokers take that a node is gone.
MEMBERSHIP = "membership"


def report(
    node: str, used: int = 20, number: int = 1, guaranteed: int = 0, **attributes: Any
) -> m.NodeReport:
    load = m.NodeLoad(TOTAL, (used, used), (guaranteed, guaranteed), 1)
    return m.NodeReport(node, number, load, attributes)


def broker(
    *reports: m.NodeReport, name: str = "b0", others: tuple[str, ...] = (), **more: Any
) -> Broker:
    """A broker that hears these reports at time 0."""
    settings = NegotiationSettings(**more)
    made = Broker(name, others, 2, settings, generator(1, name), authorities=[MEMBERSHIP])
    for each in reports:
        made.handle(each, 0.0)
    return made


def send(made: Broker, event: Message, now: float) -> list[tuple[str, Message]]:
    """What a broker sends, and to whom."""
    return [(e.to, e.message) for e in made.handle(event, now) if isinstance(e, Send)]


def ask(
    made: Broker, now: float = 1.0, cpu: int = 10, new: bool = False, **more: Any
) -> tuple[m.Candidate, ...]:
    production, constraints = more.pop("production", False), more.pop("constraints", ())
    wanted = m.MobileTask("t", (cpu, cpu), production, constraints)
    question = m.GetCandidateNodesRequest("a", 1, wanted, (cpu, cpu), new, **more)
    [(_, answer)] = send(made, question, now)
    assert isinstance(answer, m.GetCandidateNodesResponse)
    return answer.candidates


def test_fifteen_nodes_are_recommended_and_never_the_one_that_asks() -> None:
    found = ask(broker(report("a"), *(report(f"n{k}") for k in range(40))))
    assert len({c.node for c in found}) == 15 and "a" not in {c.node for c in found}
    assert not any(c.forced for c in found)


def test_an_entry_is_dropped_after_three_minutes_and_the_newest_report_counts() -> None:
    made = broker(report("old"))
    made.handle(report("new", number=2), 100.0)
    made.handle(report("new", used=99, number=1), 101.0)
    assert {c.node for c in ask(made, 179.0)} == {"old", "new"}
    assert {c.node for c in ask(made, 181.0)} == {"new"}
    assert not next(c for c in ask(made, 181.0) if c.node == "new").forced, (
        "the older report came later"
    )
    made.handle(Wake(), 200.0)
    assert set(made.table.rows) == {"new"}


def test_a_node_is_gone_when_an_authority_says_so() -> None:
    made = broker(report("n"))
    made.handle(m.NodeGone("b1", "n"), 1.0)
    assert {c.node for c in ask(made)} == {"n"}
    made.handle(m.NodeGone(MEMBERSHIP, "n"), 2.0)
    assert ask(made, 3.0) == ()


def report_of(name: str, clock: float) -> m.NodeReport:
    """The first report of a real node agent whose clock shows this."""
    agent = NegotiatingNode(
        name, ["b0"], TOTAL, NegotiationSettings(), generator(1, name), NegotiationMemory()
    )
    [made] = [
        effect.message
        for effect in agent.handle(Wake(), clock)
        if isinstance(effect, Send) and isinstance(effect.message, m.NodeReport)
    ]
    return made


@pytest.mark.parametrize("difference", [-3600.0, 3600.0])
def test_a_node_is_recommended_and_expires_whatever_its_clock_shows(difference: float) -> None:
    """One whose clock lags by an hour is recommended; one an hour ahead that falls silent is not,
    after three minutes; the same for what another broker passes on."""
    now = 100_000.0
    first, second = (
        Broker(name, ("b0", "b1"), 2, NegotiationSettings(), generator(1, name))
        for name in ("b0", "b1")
    )
    first.handle(report_of("n", now + difference), now)
    assert {c.node for c in ask(first, now + 1.0)} == {"n"}
    # The other broker's clock differs too.
    [(_, exchange)] = send(first, Wake(), now + 100.0)
    second.handle(exchange, 5.0)
    assert {c.node for c in ask(second, 84.0)} == {"n"}
    assert ask(second, 86.0) == (), "what was passed on is as old as it was"
    assert {c.node for c in ask(first, now + 179.0)} == {"n"}
    assert ask(first, now + 181.0) == ()


def test_a_broker_whose_clock_is_set_back_still_forgets() -> None:
    made = broker(report("n"))
    ask(made, 100.0)
    assert {c.node for c in ask(made, -3500.0)} == {"n"}
    assert ask(made, -3419.0) == (), "100 s before the clock was set, 81 s after"


def test_forced_candidates_fill_up_when_too_few_fit() -> None:
    made = broker(
        *(report(f"free{k}") for k in range(3)), *(report(f"full{k}", used=95) for k in range(20))
    )
    found = ask(made)
    assert [c.forced for c in found] == [False] * 3 + [True] * 12
    assert {c.node[:4] for c in found if c.forced} == {"full"}
    assert ask(made, cpu=101) == (), "no node could hold it even if it were empty"


def test_goal_four_and_constraints_are_heeded() -> None:
    made = broker(
        report("promised", guaranteed=95), report("there", zone="x"), report("elsewhere", zone="y")
    )
    assert {c.node for c in ask(made, production=True) if not c.forced} == {"there", "elsewhere"}
    assert {c.node for c in ask(made, constraints=("zone = x",))} == {"there"}


@pytest.mark.parametrize(("new", "limit"), [(True, 200), (False, 2000)])
def test_only_so_many_suitable_nodes_are_scored(new: bool, limit: int) -> None:
    scored = []

    def rate(**arguments: Any) -> int:
        scored.append(rate_nodes(**arguments))
        return scored[-1]

    made = Broker("b", (), 2, NegotiationSettings(), generator(1, "b"), rate)
    for k in range(2100):
        made.handle(report(f"n{k}"), 0.0)
    ask(made, new=new)
    assert scored == [limit]


def test_brokers_exchange_what_they_know() -> None:
    first = broker(report("n0"), others=("b0", "b1"))
    first.handle(report("n1", number=2), 50.0)
    second = broker(report("n1", used=50, number=1), name="b1", others=("b0", "b1"))
    [(to, exchange)] = send(first, Wake(), 60.0)
    assert to == "b1"
    second.handle(exchange, 60.0)
    assert {c.node for c in ask(second, 61.0)} == {"n0", "n1"}
    assert second.table.amounts[1, second.table.rows["n1"]].tolist() == [20, 20]
    assert ask(second, 185.0, cpu=1)[0].node == "n1", "what was passed on is as old as it was"


def test_nodes_that_do_not_answer_are_left_out_for_a_while_and_others_are_told() -> None:
    first, second = (
        broker(report("n0"), report("n1"), name=name, others=("b0", "b1")) for name in ("b0", "b1")
    )
    assert {c.node for c in ask(first, unanswering=(("n0", 99.0),))} == {"n1"}
    [(_, exchange)] = send(first, Wake(), 60.0)
    # 40 s are left; the other broker counts them by its own clock.
    second.handle(exchange, 70.0)
    assert {c.node for c in ask(second, 109.0)} == {"n1"}
    assert {c.node for c in ask(second, 111.0)} == {"n0", "n1"}


def test_underused_nodes_are_always_scored_if_that_is_wanted() -> None:
    """Among 400 nodes and 10 scored an idle one is nearly always missed, unless such nodes come
    first."""
    found = {}
    for underused in (0, 5):
        made = broker(
            *(report(f"n{k}", used=60) for k in range(400)),
            report("idle", used=0),
            underused=underused,
            scored_new=10,
            initial="sias",
        )
        found[underused] = sum("idle" in {c.node for c in ask(made, new=True)} for _ in range(40))
    assert found[5] == 40 and found[0] < 10


def test_a_draw_without_repetition_follows_the_weights() -> None:
    """The first of the drawn is each with its share of the weights; the second with its share of
    what is left."""
    rng, weights = generator(1, "draw"), np.array([1.0, 2.0, 5.0, 0.0])
    pairs = Counter(tuple(draw(weights, 2, rng).tolist()) for _ in range(20_000))
    for (a, b), count in pairs.items():
        expected = weights[a] / 8 * weights[b] / (8 - weights[a])
        assert count / 20_000 == pytest.approx(expected, abs=0.012)
    assert all(3 not in pair for pair in pairs)
    assert sorted(draw(weights, 9, rng).tolist()) == [0, 1, 2, 3]
    firsts = Counter(int(draw(np.zeros(4), 1, rng)[0]) for _ in range(2_000))
    assert set(firsts) == {0, 1, 2, 3}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 110), st.integers(0, 110)), min_size=1, max_size=12),
    st.integers(1, 110),
)
def test_a_rating_is_the_score_with_the_task(loads: list[tuple[int, int]], cpu: int) -> None:
    n = len(loads)
    total, used = np.full((n, 2), 100), np.array(loads)
    weights, fit, room = np.zeros(n), np.zeros(n, np.int64), (np.zeros(2), np.zeros(2))
    use = np.array([cpu, cpu // 2])
    rate_nodes(
        SCORES.index("sras"),
        total,
        used,
        np.zeros((n, 2), np.int64),
        np.ones(n, np.int64),
        np.ones(n, np.bool_),
        np.arange(n),
        use,
        use,
        False,
        n,
        weights,
        fit,
        *room,
    )
    assert SCORES[SRAS] == "sras"
    for k in range(n):
        assert weights[k] == (sras((used[k] + use) / 100) if cpu <= 100 else 0.0)
        if cpu <= 100:
            assert fit[k] == (SUITABLE if weights[k] > 0 else FORCED)
