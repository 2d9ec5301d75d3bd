"""Architectures as data: who the schedulers are, whose rows are whose, and who gets which job."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration.base.errors import InputError
from murmuration.schedulers.architecture import (
    Timing,
    assign_jobs,
    frameworks,
    make_monolithic,
    make_partitioned,
    make_shared_state,
    partition_rows,
    partition_shares,
)

WORKLOADS = ("batch", "service", "test")
TIMING = {
    "default": Timing(0.3, 0.03),
    "batch": Timing(),
    "service": Timing(10.0, 0.0),
    "test": Timing(0.0, 1.0),
}


def tenths(parts: int) -> list[list[int]]:
    """Every way to share ten tenths, or fewer, among this many workloads."""
    if parts == 0:
        return [[]]
    return [[*rest, k] for rest in tenths(parts - 1) for k in range(1, 11 - sum(rest))]


@pytest.mark.parametrize("parts", [1, 2, 3, 4])
def test_every_share_gets_its_rows_exactly(parts: int) -> None:
    """Where a share comes to whole rows, it gets those: in each stretch of ten nodes, not only in
    the whole cluster."""
    for shares in tenths(parts):
        owners = partition_rows([share / 10 for share in shares], 30)
        for stretch in owners.reshape(3, 10):
            assert [int((stretch == owner).sum()) for owner in range(parts)] == shares


@given(st.lists(st.integers(1, 20), min_size=1, max_size=5), st.integers(0, 20), st.integers(1, 60))
def test_rows_are_spread_evenly(weights: list[int], nobody: int, nodes: int) -> None:
    """However many nodes from the first on, each workload has its share of them to within a row or
    so."""
    shares = [weight / (sum(weights) + nobody) for weight in weights]
    owners = partition_rows(shares, nodes)
    assert owners.shape == (nodes,)
    for owner, share in enumerate(shares):
        so_far = np.cumsum(owners == owner)
        assert np.abs(so_far - share * np.arange(1, nodes + 1)).max() < 1.5
    if nobody == 0:
        assert (owners >= 0).all(), "shares of all leave no node without an owner"


def test_as_many_nodes_as_workloads_is_one_each() -> None:
    assert sorted(partition_rows([1 / 3] * 3, 3).tolist()) == [0, 1, 2]


def test_workloads_without_a_share_split_what_is_left() -> None:
    assert partition_shares(WORKLOADS, {"service": 0.5}) == pytest.approx([0.25, 0.5, 0.25])
    assert partition_shares(WORKLOADS, {}) == pytest.approx([1 / 3] * 3)
    assert partition_shares(WORKLOADS, {"batch": 0.2, "service": 0.3, "test": 0.1}) == [
        0.2,
        0.3,
        0.1,
    ]


def test_a_workload_that_nothing_is_left_for_is_named() -> None:
    with pytest.raises(
        InputError, match=r"^scheduler\.partition: nothing is left for workload 'test'$"
    ):
        partition_shares(WORKLOADS, {"batch": 0.6, "service": 0.4})


def test_partitions_do_not_overlap() -> None:
    agents = make_partitioned(WORKLOADS, TIMING, {"batch": 0.5}, 40)
    assert [agent.name for agent in agents] == list(WORKLOADS)
    rows = np.array([agent.rows for agent in agents])
    assert (rows.sum(axis=0) == 1).all()
    assert rows.sum(axis=1).tolist() == [20, 10, 10]
    assert not any(agent.optimistic for agent in agents)
    assert [agent.timing for agent in agents] == [{name: TIMING[name]} for name in WORKLOADS]


def test_a_monolithic_scheduler_has_everything() -> None:
    (multi,) = make_monolithic(WORKLOADS, TIMING, single_path=False)
    (single,) = make_monolithic(WORKLOADS, TIMING, single_path=True)
    for agent in (multi, single):
        assert (agent.name, agent.workloads, agent.rows, agent.optimistic) == (
            "all",
            WORKLOADS,
            None,
            False,
        )
    assert multi.timing == {name: TIMING[name] for name in WORKLOADS}
    assert single.timing == dict.fromkeys(WORKLOADS, TIMING["default"])


def test_shared_state_has_any_number_of_schedulers() -> None:
    agents = make_shared_state(WORKLOADS, TIMING, {"batch": 3}, machine=True, atomic=False)
    assert [agent.name for agent in agents] == ["batch-0", "batch-1", "batch-2", "service", "test"]
    assert all(
        agent.optimistic and agent.machine and not agent.atomic and agent.rows is None
        for agent in agents
    )


@pytest.mark.parametrize("optimistic", [True, False])
def test_each_workload_is_a_framework(optimistic: bool) -> None:
    agents = frameworks(WORKLOADS, TIMING, optimistic)
    assert [agent.workloads for agent in agents] == [(name,) for name in WORKLOADS]
    assert {agent.optimistic for agent in agents} == {optimistic}


@given(st.lists(st.integers(0, 2), max_size=40), st.integers(1, 4), st.integers(1, 3))
def test_jobs_go_to_a_scheduler_of_their_workload_in_turn(
    jobs: list[int], batch: int, service: int
) -> None:
    agents = make_shared_state(
        WORKLOADS, TIMING, {"batch": batch, "service": service}, machine=False, atomic=False
    )
    owner = assign_jobs(agents, WORKLOADS, np.array(jobs, dtype=np.int64)).tolist()
    assert all(
        WORKLOADS[job] in agents[agent].workloads for job, agent in zip(jobs, owner, strict=True)
    )
    for workload, first, count in ((0, 0, batch), (1, batch, service), (2, batch + service, 1)):
        turns = [agent for job, agent in zip(jobs, owner, strict=True) if job == workload]
        assert turns[:1] in ([], [first])
        assert all(
            (after - first) == (before - first + 1) % count for before, after in pairwise(turns)
        )


def test_one_scheduler_serves_all_workloads() -> None:
    agents = make_monolithic(WORKLOADS, TIMING, single_path=False)
    assert assign_jobs(agents, WORKLOADS, np.array([2, 0, 1, 0])).tolist() == [0, 0, 0, 0]
