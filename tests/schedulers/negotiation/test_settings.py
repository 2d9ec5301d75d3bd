"""The settings of negotiation exist once, and no fidelity overlooks one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from murmuration.base.errors import InputError
from murmuration.base.random import generator
from murmuration.schedulers.agent import Send
from murmuration.schedulers.negotiation import messages as m
from murmuration.schedulers.negotiation.broker import Broker
from murmuration.schedulers.negotiation.bulk import SETTINGS, settings_record
from murmuration.schedulers.negotiation.settings import (
    MESSAGES_ONLY,
    NegotiationSettings,
)
from murmuration.simulation.engine import run as engine
from murmuration.simulation.messages.negotiation.from_scenario import small_cluster
from murmuration.simulation.scenarios import scenario as sc

#: Every key with a value that is not its default.
OTHER: dict[str, Any] = {
    "initial": "sias",
    "move": "sras-gain",
    "brokers": 2,
    "report_s": 30.0,
    "exchange_s": 45.0,
    "exchange_reports": 7,
    "expiry_s": 100.0,
    "scored_new": 20,
    "scored_move": 30,
    "candidates": 4,
    "portion": 5,
    "answer_s": 10.0,
    "recommendation_s": 90.0,
    "mb_per_s": 50.0,
    "retry_s": 2.0,
    "retry_max_s": 16.0,
    "hold_s": 60.0,
    "rounds": 2,
    "selection": "tabu",
    "exact_max": 6,
    "tabu": {"restarts": 3, "steps": 4, "patience": 2, "counts_restarts": True},
    "underused": 2,
    "underused_load": 0.3,
    "proactive": 0.5,
    "unanswered_max": 3,
    "unanswering_s": 120.0,
}


def scenario(keys: dict[str, Any]) -> sc.Scenario:
    tables = {
        "days": 0.01,
        "cluster": {"nodes": 4, "cpu": 4, "memory": "8G"},
        "workload": {"batch": {"arrivals_per_s": 0.01, "task_cpu": 1, "task_duration_s": 60}},
        "scheduler": {"kind": "negotiation", "negotiation": keys},
    }
    return sc.check(tables, "it")


def test_every_setting_is_tried_here() -> None:
    default = msgspec.to_builtins(NegotiationSettings())
    assert set(OTHER) == set(default)
    assert all(default[name] != OTHER[name] for name in OTHER)
    assert all(default["tabu"][name] != value for name, value in OTHER["tabu"].items())


def test_what_a_scenario_sets_is_what_agents_and_brokers_have() -> None:
    cluster = small_cluster(engine.prepare(scenario(OTHER)), 1)
    expected = msgspec.convert(OTHER, NegotiationSettings)
    assert len(cluster.brokers) == OTHER["brokers"]
    assert [agent.settings for agent in cluster.agents.values()] == [expected] * (4 + 2 + 1)


def test_the_bulk_round_reads_all_but_what_concerns_single_messages() -> None:
    """A changed setting changes the record of the kernels, one by one."""
    default = settings_record(NegotiationSettings(), 4)
    for name, value in OTHER.items():
        changed = settings_record(msgspec.convert({name: value}, NegotiationSettings), 4)
        assert (changed == default).all() == (name in MESSAGES_ONLY), name


def test_a_record_holds_the_numbers_of_the_settings() -> None:
    settings = msgspec.convert(OTHER, NegotiationSettings)
    record = settings_record(settings, 4)[0]
    for name in SETTINGS.names or ():
        value = getattr(settings, name, None)
        if isinstance(value, int | float):
            assert record[name] == value, name
    assert [record[name] for name in ("restarts", "steps", "patience", "counts_restarts")] == [
        *OTHER["tabu"].values()
    ]


def test_one_broker_serves_as_many_nodes_as_in_the_paper() -> None:
    settings = NegotiationSettings()
    assert [settings.broker_count(n) for n in (3, 12_500, 24_999, 50_000)] == [1, 1, 2, 4]
    assert NegotiationSettings(brokers=7).broker_count(3) == 7


def test_off_loading_is_as_frequent_in_both_fidelities() -> None:
    """In bulk a share of all nodes looks each report period; one node then looks every 1 ÷ share
    periods."""
    assert NegotiationSettings(proactive=0.25, report_s=30.0).offload_s == 120.0
    assert NegotiationSettings().offload_s == 0.0


@pytest.mark.parametrize(
    "keys",
    [{"rounds": 0}, {"retry_s": 0.0}, {"underused_load": 1.5}, {"tabu": {"steps": 0}}],
    ids=str,
)
def test_a_number_out_of_range_is_refused_by_name(keys: dict[str, Any]) -> None:
    [name] = keys
    with pytest.raises(InputError, match=rf"scheduler\.negotiation\.{name}.*: expected a number"):
        scenario(keys)


def test_a_setting_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"retry_longest_s.*did you mean 'retry"):
        scenario({"retry_longest_s": 3.0})


def test_a_broker_scores_nodes_below_the_load_that_counts_as_underused() -> None:
    """The limit of nodes is 1, and the node that is used a little is scored beyond it."""
    settings = NegotiationSettings(scored_new=1, candidates=9, underused=1, underused_load=0.3)
    broker = Broker("b", (), 1, settings, generator(1, "b"))
    for k, used in enumerate([60, 60, 60, 20]):
        broker.handle(m.NodeReport(f"n{k}", 1, m.NodeLoad((100,), (used,), (0,), 1)), 0.0)
    question = m.GetCandidateNodesRequest("entry", 1, m.MobileTask("t", (5,)), (5,), True)
    [effect] = broker.handle(question, 1.0)
    assert isinstance(effect, Send) and isinstance(effect.message, m.GetCandidateNodesResponse)
    assert "n3" in {c.node for c in effect.message.candidates if not c.forced}
