"""Who gets the next offer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from murmuration.base.random import generator
from murmuration.schedulers.offers.allocators import (
    ALLOCATORS,
    drf,
    drf_of_shares,
    find_revocable,
    find_shares,
    keep_entitled,
    lottery,
    priority,
)

NOBODY = np.zeros((2, 2), dtype=np.int64)
TOTAL = np.array([100, 100])


def test_drf_gives_the_worked_example_of_its_paper() -> None:
    """9 CPU and 18 GB; A's tasks take <1 CPU, 4 GB>, B's <3 CPU, 1 GB>: three of A and two of B
    equalise the shares."""
    total, requests = np.array([9, 18]), np.array([[1, 4], [3, 1]])
    allocated, wants = NOBODY.copy(), np.array([True, True])
    while wants.any():
        chosen = drf(allocated, NOBODY, total, np.ones(2), wants, 0.0)
        if (allocated.sum(axis=0) + requests[chosen] <= total).all():
            allocated[chosen] += requests[chosen]
        else:
            wants[chosen] = False
    assert allocated.tolist() == [[3, 12], [6, 2]]


def test_drf_counts_offers_and_weights() -> None:
    allocated, offered = np.array([[10, 0], [20, 0]]), np.array([[15, 0], [0, 0]])
    wants = np.array([True, True])
    assert drf(allocated, NOBODY, TOTAL, np.ones(2), wants, 0.0) == 0
    assert drf(allocated, offered, TOTAL, np.ones(2), wants, 0.0) == 1
    assert drf(allocated, offered, TOTAL, np.array([2.0, 1.0]), wants, 0.0) == 0


def test_priority_takes_the_heaviest_that_wants() -> None:
    weight = np.array([1.0, 3.0, 2.0])
    held = np.zeros((3, 1))
    assert priority(held, held, np.ones(1), weight, np.array([True, True, True]), 0.0) == 1
    assert priority(held, held, np.ones(1), weight, np.array([True, False, True]), 0.0) == 2


def test_lottery_respects_weights() -> None:
    """Chi-square of 6,000 draws against weights 1:2:3; the fourth framework holds tickets but wants
    nothing."""
    weight, wants = np.array([1.0, 2.0, 3.0, 9.0]), np.array([True, True, True, False])
    held, rng = np.zeros((4, 1)), generator(7, "lottery")
    drawn = [
        lottery(held, held, np.ones(1), weight, wants, float(rng.random())) for _ in range(6000)
    ]
    counts = np.bincount(drawn, minlength=4)
    assert counts[3] == 0
    assert stats.chisquare(counts[:3], [1000, 2000, 3000]).pvalue > 0.01


@pytest.mark.parametrize("name", ALLOCATORS)
@settings(deadline=None)
@given(data=st.data(), frameworks=st.integers(1, 6), draw=st.floats(0.0, 1.0, exclude_max=True))
def test_only_a_framework_that_wants_is_chosen(
    name: str, data: st.DataObject, frameworks: int, draw: float
) -> None:
    def rows(low: int, high: int) -> np.ndarray:
        values = data.draw(
            st.lists(st.integers(low, high), min_size=2 * frameworks, max_size=2 * frameworks)
        )
        return np.array(values).reshape(frameworks, 2)

    wants = np.array(data.draw(st.lists(st.booleans(), min_size=frameworks, max_size=frameworks)))
    weight = np.array(
        data.draw(st.lists(st.floats(0.1, 10.0), min_size=frameworks, max_size=frameworks))
    )
    chosen = ALLOCATORS[name](rows(0, 50), rows(0, 50), TOTAL, weight, wants, draw)
    assert wants[chosen] if wants.any() else chosen == -1


def test_those_below_their_guarantee_come_first() -> None:
    allocated, guaranteed = np.array([[10, 0], [30, 0]]), np.array([0.2, 0.2])
    wants = np.array([True, True])
    assert keep_entitled(allocated, TOTAL, guaranteed, wants)
    assert wants.tolist() == [True, False]
    wants = np.array([False, True])
    assert not keep_entitled(allocated, TOTAL, guaranteed, wants)
    assert wants.tolist() == [False, True]


def test_only_a_framework_above_its_guarantee_can_lose_tasks() -> None:
    guaranteed = np.array([0.2, 0.2])
    assert find_revocable(np.array([[20, 0], [10, 20]]), TOTAL, guaranteed) == -1
    assert find_revocable(np.array([[20, 21], [25, 0]]), TOTAL, guaranteed) == 1


@settings(deadline=None)
@given(data=st.data(), frameworks=st.integers(1, 12))
def test_many_frameworks_are_compared_as_few_are(data: st.DataObject, frameworks: int) -> None:
    def rows() -> np.ndarray:
        values = st.lists(st.integers(0, 50), min_size=2 * frameworks, max_size=2 * frameworks)
        return np.array(data.draw(values), dtype=np.int64).reshape(frameworks, 2)

    wants = np.array(data.draw(st.lists(st.booleans(), min_size=frameworks, max_size=frameworks)))
    weight = np.array(
        data.draw(st.lists(st.integers(1, 5), min_size=frameworks, max_size=frameworks)), float
    )
    total = np.array(data.draw(st.lists(st.sampled_from([0, 7, 100]), min_size=2, max_size=2)))
    allocated, offered = rows(), rows()
    shares = find_shares(allocated + offered, total)
    chosen = drf(allocated, offered, total, weight, wants, 0.0)
    level = np.zeros(frameworks, np.int64)
    assert drf_of_shares(shares, weight, wants, level) == chosen


@settings(deadline=None)
@given(turns=st.integers(1, 60), frameworks=st.integers(1, 6))
def test_frameworks_with_equal_shares_take_turns(turns: int, frameworks: int) -> None:
    """With room for one task at a time, all shares are zero at every offer."""
    offers = np.zeros(frameworks, np.int64)
    for _ in range(turns):
        chosen = drf_of_shares(np.zeros(frameworks), np.ones(frameworks), offers >= 0, offers)
        offers[chosen] += 1
    assert offers.max() - offers.min() <= 1
