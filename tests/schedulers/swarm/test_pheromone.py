"""Pheromones and destination rules against the paper's numbers, and what must hold of them for any
values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration.cluster.migration import migration_mb
from murmuration.schedulers.swarm import destinations, pheromone
from murmuration.schedulers.swarm.pheromone import BIN_PACK, LINEAR, QUADRATIC, SPREAD

AMOUNTS = st.lists(st.integers(0, 100), min_size=2, max_size=4)


def every(count: int) -> np.ndarray:
    return np.ones(count, dtype=np.int64)


def test_an_overloaded_node_expels_what_it_has_too_much() -> None:
    # Eq. 3 with n0 = 50: 60 containers, of which 10 are too many.
    assert pheromone.spread(60, 50) == pytest.approx(1 / 6)
    assert pheromone.spread(50, 50) == 0.0
    assert pheromone.spread(49, 50) == 0.0


def test_packing_runs_from_one_to_zero() -> None:
    # Eqs. 4 and 9 with n0 = 50, n_min = 1: the initial states of sections 4 and 5.
    for n, linear in (
        (1, 1.0),
        (25, 25 / 49),
        (32, 18 / 49),
        (34, 16 / 49),
        (49, 1 / 49),
        (50, 0.0),
    ):
        assert pheromone.bin_pack(n, 50, 1, LINEAR) == pytest.approx(linear)
        assert pheromone.bin_pack(n, 50, 1, QUADRATIC) == pytest.approx(linear**2)


def test_one_parameter_switches_the_strategy() -> None:
    # Eq. 23: what is overloaded spreads under either; what is not packs under one.
    assert pheromone.repulsive(0.2, 0.0, BIN_PACK) == 0.2
    assert pheromone.repulsive(0.0, 0.7, BIN_PACK) == 0.7
    assert pheromone.repulsive(0.0, 0.7, SPREAD) == 0.0


def test_larger_containers_leave_first() -> None:
    assert pheromone.weigh_by_size(0.5, 0.2, 0.4) == 0.25
    assert pheromone.weigh_by_size(0.5, 0.4, 0.4) == 0.5
    assert pheromone.weigh_by_size(0.5, 0.0, 0.0) == 0.5


def test_mates_attract() -> None:
    assert (
        pheromone.attractive(3, 4) > pheromone.attractive(1, 4) > pheromone.attractive(0, 4) == 0.0
    )


def test_dominant_and_least_dominant_resource() -> None:
    used, capacity = np.array([2, 30, 5]), np.array([4, 40, 0])
    assert pheromone.dominant(used, capacity, every(3)) == 0.75
    assert pheromone.least_dominant(used, capacity, every(3)) == 0
    assert pheromone.least_dominant(used, capacity, np.array([0, 1, 1])) == 1
    assert pheromone.least_dominant(used, capacity, np.zeros(3, dtype=np.int64)) == -1


@given(
    n=st.floats(0, 200),
    n0=st.floats(1, 100),
    n_min=st.floats(0, 50),
    form=st.sampled_from([LINEAR, QUADRATIC]),
)
def test_probabilities_are_probabilities(n: float, n0: float, n_min: float, form: int) -> None:
    packing, spreading = pheromone.bin_pack(n, n0, n_min, form), pheromone.spread(n, n0)
    for strategy in (SPREAD, BIN_PACK):
        p = pheromone.repulsive(spreading, packing, strategy)
        assert 0.0 <= p <= 1.0
        assert 0.0 <= pheromone.weigh_by_size(p, n_min, max(n_min, 1.0)) <= p


@given(a=st.floats(1, 49), b=st.floats(1, 49), form=st.sampled_from([LINEAR, QUADRATIC]))
def test_emptier_nodes_repel_more(a: float, b: float, form: int) -> None:
    low, high = min(a, b), max(a, b)
    assert pheromone.bin_pack(low, 50, 1, form) >= pheromone.bin_pack(high, 50, 1, form)


@given(used=AMOUNTS, request=AMOUNTS, overload=st.floats(0.1, 1.0), than=st.floats(0, 1))
def test_a_destination_is_never_overloaded_and_fuller_than_the_source_was(
    used: list[int], request: list[int], overload: float, than: float
) -> None:
    count = min(len(used), len(request))
    taken, asked, capacity = np.array(used[:count]), np.array(request[:count]), np.full(count, 120)
    after = (taken + asked) / capacity
    if destinations.has_room(taken, capacity, asked, overload):
        assert (after[asked > 0] <= overload + 1e-12).all()
    assert destinations.is_fuller(taken, capacity, asked, every(count), than) == bool(
        (after > than).all()
    )


def test_room_is_measured_on_what_is_asked_for() -> None:
    used, capacity = np.array([10, 100]), np.array([100, 100])
    assert destinations.has_room(used, capacity, np.array([20, 0]), 1.0)
    assert not destinations.has_room(used, capacity, np.array([20, 1]), 1.0)
    assert not destinations.has_room(used, capacity, np.array([20, 0]), 0.2)


def test_the_cost_of_a_migration() -> None:
    # Figures of a log in the MASB paper, where memory is a share of 16 GiB.
    assert migration_mb(0.02695 * 2**34) == pytest.approx(541.55, abs=0.01)
    assert migration_mb(0.01357 * 2**34) == pytest.approx(322.33, abs=0.01)
    assert math.isclose(migration_mb(0.0), 100.0)
