"""A small cluster, message by message: overloaded nodes are relieved, and compiled functions choose
the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from murmuration.cluster.allocation_types import NAMES
from murmuration.cluster.migration import migration_mb
from murmuration.schedulers.negotiation.messages import GetCandidateNodesResponse, MobileTask
from murmuration.schedulers.negotiation.settings import NegotiationSettings
from murmuration.simulation.messages.negotiation.cluster import (
    Arrival,
    BrokenError,
    Compiled,
    NegotiatingCluster,
)

GIB = 2**30
NODES = {f"n{k}": (8_000_000, 16 * GIB) for k in range(12)}


def restless(seed: int, tasks: int = 60) -> list[Arrival]:
    """Tasks on random nodes, and some that come later, that use now less, now more."""
    rng = np.random.default_rng(seed)
    made = []
    for k in range(tasks):
        task = MobileTask(
            f"t{k}",
            (int(rng.integers(5, 25)) * 100_000, int(rng.integers(4, 24)) * GIB // 8),
            k % 5 == 0,
        )
        shares = np.clip(rng.lognormal(-0.3, 0.4, (20, 2)), 0.05, 1.6)
        initial = k < tasks // 2
        at, node = (0.0, f"n{k % 6}") if initial else (float(rng.uniform(60, 1200)), None)
        made.append(Arrival(task, at, float(rng.exponential(4000)), shares, 120.0, 0.0, True, node))
    return made


def test_an_overloaded_node_is_relieved() -> None:
    """Six tasks use a fifth of the CPU each: without one the node is super-tight, without two it is
    tight."""
    tasks = [Arrival(MobileTask(f"t{k}", (1_600_000, 3 * GIB)), 0.0, node="n0") for k in range(6)]
    cluster = NegotiatingCluster(NODES, tasks, checked=True)
    series = cluster.run(300.0)
    assert series["overloaded"][-1] == 0 and series["migrations"].sum() == 2
    assert series["megabytes"].sum() == 2 * migration_mb(3 * GIB)
    assert series["forced"].sum() == 0 and series["running"][-1] == 6
    assert sorted(NAMES) == sorted(set(series) & set(NAMES))
    assert series["ta"][-1] == 1
    assert all(sum(series[name][minute] for name in NAMES) == len(NODES) for minute in range(5))
    cluster.check_settled()


def test_new_tasks_are_spread_and_end() -> None:
    tasks = [Arrival(MobileTask(f"t{k}", (1_000_000, GIB)), 70.0 + k, 300.0) for k in range(12)]
    cluster = NegotiatingCluster(
        NODES, tasks, NegotiationSettings(initial="sias", candidates=50), checked=True
    )
    cluster.run(200.0)
    assert len(cluster.hosts.runs) == 12 and len(set(cluster.hosts.runs.values())) >= 6
    cluster.run(600.0)
    assert not cluster.hosts.runs and cluster.hosts.ended == {f"t{k}" for k in range(12)}
    cluster.check_settled()


def test_a_task_too_large_for_the_free_room_is_forced_in() -> None:
    full = [
        Arrival(MobileTask(f"t{k}", (7_900_000, 15 * GIB)), 0.0, node=f"n{k}") for k in range(12)
    ]
    cluster = NegotiatingCluster(
        NODES, [*full, Arrival(MobileTask("more", (4_000_000, 8 * GIB)), 90.0)], checked=True
    )
    cluster.run(90.0 + 60.0)
    assert "more" in cluster.hosts.runs and cluster.counts()["forced"] == 1


def test_compiled_functions_choose_the_same() -> None:
    runs = []
    for functions in (Compiled(), Compiled.make()):
        cluster = NegotiatingCluster(NODES, restless(3, 90), brokers=2, functions=functions)
        runs.append((cluster.run(1800.0), dict(cluster.hosts.runs)))
    assert runs[0][1] == runs[1][1]
    for name, values in runs[0][0].items():
        assert values.tolist() == runs[1][0][name].tolist()
    assert runs[0][0]["migrations"].sum() > 3


@pytest.mark.parametrize("seed", [1, 2])
def test_a_restless_cluster_stays_mostly_stable(seed: int) -> None:
    cluster = NegotiatingCluster(NODES, restless(seed), brokers=2, checked=True)
    series = cluster.run(3600.0)
    still = NegotiatingCluster(NODES, restless(seed), NegotiationSettings(), brokers=2)
    for agent in still.agents.values():
        # The same cluster whose agents never give anything away.
        if hasattr(agent, "_monitor"):
            agent._monitor = lambda: None
    without = still.run(3600.0)
    assert series["migrations"].sum() > 0 == without["migrations"].sum()
    assert series["overloaded"].mean() < 0.6 * without["overloaded"].mean()
    cluster.calm()
    cluster.run(4500.0)
    cluster.check_settled()


def test_a_task_that_was_suspended_ends_that_much_later() -> None:
    """One node, so that nothing can move: a service spikes for ten minutes, and a batch task waits
    for its end."""
    shares = np.concatenate([np.full((5, 2), 0.5), np.ones((10, 2)), np.full((90, 2), 0.5)])
    service = Arrival(
        MobileTask("service", (8_000_000, 8 * GIB), True), 0.0, shares=shares, node="n0"
    )
    batch = Arrival(MobileTask("batch", (2_000_000, GIB)), 0.0, duration_s=1800.0, node="n0")
    cluster = NegotiatingCluster({"n0": (8_000_000, 16 * GIB)}, [service, batch], checked=True)
    cluster.run(1800.0 + 8 * 60.0)
    assert "batch" in cluster.hosts.runs and cluster.counts()["suspended"] == 1
    cluster.run(1800.0 + 12 * 60.0)
    assert "batch" in cluster.hosts.ended


def lopsided(**options: Any) -> dict[str, float]:
    """Half the nodes run tasks that need much CPU, the other half much memory."""
    tasks = []
    for k in range(36):
        request = (2_200_000, GIB) if k % 12 < 6 else (500_000, 22 * GIB // 5)
        tasks.append(Arrival(MobileTask(f"t{k}", request), 0.0, node=f"n{k % 12}"))
    series = NegotiatingCluster(NODES, tasks, NegotiationSettings(**options), checked=True).run(
        3600.0
    )
    return {name: float(values[-1]) for name, values in series.items()} | {
        "moved": float(series["migrations"].sum())
    }


def test_proactive_off_loading_evens_nodes_out_for_a_few_migrations() -> None:
    still, moving = lopsided(), lopsided(proactive=60.0 / 300.0)
    assert still["da"] == 12 and still["moved"] == 0
    assert moving["da"] <= 4 and moving["pa"] + moving["ta"] >= 8
    assert 0 < moving["moved"] <= 36


@pytest.mark.parametrize("difference", [-3600.0, 3600.0])
def test_clocks_that_differ_change_nothing(difference: float) -> None:
    """Every other party's clock differs by an hour; messages, moves and figures are the same."""
    names = [*NODES, "entry", "broker-0", "broker-1"]
    series = []
    for clocks in ({}, dict.fromkeys(names[::2], difference)):
        cluster = NegotiatingCluster(
            NODES, restless(4), brokers=2, clocks=clocks, checked=True, monitor_s=45.0
        )
        series.append(cluster.run(1800.0))
    assert series[0]["migrations"].sum() > 0
    for name, values in series[0].items():
        assert values.tolist() == series[1][name].tolist(), name


def test_nobody_is_sent_what_it_may_not_hear() -> None:
    tasks = [Arrival(MobileTask("t", (1_000_000, GIB)), 10.0)]
    cluster = NegotiatingCluster(NODES, tasks)
    cluster.driver.run(1.0)
    question = GetCandidateNodesResponse("n0", 1, ())
    cluster.driver._deliver("n0", "entry", question, 0)
    with pytest.raises(BrokenError, match=r"n0 sends broker-0 a negotiation\.GetCandidateNodes"):
        cluster.driver._deliver("n0", "broker-0", question, 0)
