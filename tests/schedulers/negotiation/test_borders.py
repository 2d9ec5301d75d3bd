"""Rules of agents at their borders, each against a law that says nothing of how it is computed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from murmuration.placement.allocation_scores import sias
from murmuration.schedulers.negotiation.rules import accepts, fits_at_all, is_overloaded
from murmuration.schedulers.negotiation.selection import Tasks, begin, relieve, work

Rows = NDArray[np.int64]
BANDS = {"PA": (0.0, 0.69), "TA": (0.7, 0.9)}


def amounts(*values: int) -> Rows:
    return np.array(values, dtype=np.int64)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(BANDS)), st.data())
def test_of_nodes_alike_in_their_fullest_resource_the_more_even_scores_higher(
    band: str, data: st.DataObject
) -> None:
    """Section 5.1: even nodes are better. Raising the emptier resource makes a node more even (and
    fuller, which costs less than evenness gains)."""
    low, high = BANDS[band]
    top = data.draw(st.floats(low + 0.1, high))
    first, second = sorted(data.draw(st.lists(st.floats(low, top), min_size=2, max_size=2)))
    assume(second - first > 1e-3)
    middle = data.draw(st.floats(second, top))
    if band == "PA":
        assert sias(np.array([top, middle, second])) > sias(np.array([top, middle, first]))
    # Of three resources the one in between says nothing of evenness.
    assert sias(np.array([top, middle, first])) == pytest.approx(
        sias(np.array([top, first, first]))
    )


@settings(max_examples=100, deadline=None)
@given(st.floats(0.71, 0.9), st.floats(0.0, 0.69), st.floats(0.0, 0.69))
def test_disproportional_nodes_too(top: float, one: float, other: float) -> None:
    assume(abs(one - other) > 1e-3)
    more_even, less_even = max(one, other), min(one, other)
    assert sias(np.array([top, more_even])) > sias(np.array([top, less_even]))


def test_a_node_accepts_exactly_what_fits_it() -> None:
    """Section 4.2.2, at the border of each of the three conditions and for both resources: what the
    task uses fits what is not used; what it requests fits the node; and for production what it
    requests fits what is not guaranteed."""
    total = amounts(100, 100)
    for free, unguaranteed, use, request in itertools.product(
        (9, 10, 11), (19, 20, 21), (10,), (20,)
    ):
        for r, production in itertools.product((0, 1), (False, True)):
            frees, unguaranteeds = amounts(100, 100), amounts(100, 100)
            uses, requests = amounts(0, 0), amounts(0, 0)
            frees[r], unguaranteeds[r], uses[r], requests[r] = free, unguaranteed, use, request
            expected = free >= 10 and (not production or unguaranteed >= 20)
            answer = accepts(total, frees, unguaranteeds, uses, requests, production)
            assert answer == expected, (free, unguaranteed, r, production)


@pytest.mark.parametrize("production", [False, True])
@pytest.mark.parametrize("r", [0, 1])
def test_a_node_accepts_no_task_larger_than_itself(r: int, production: bool) -> None:
    """However little the task uses, it may use its request one day; a stale or forced offer is no
    reason to take what can never fit."""
    total, use = amounts(100, 100), amounts(1, 1)
    for request, fits in ((99, True), (100, True), (101, False)):
        requests = amounts(1, 1)
        requests[r] = request
        # More is unguaranteed than the node has, so that this condition alone decides.
        plenty = amounts(1000, 1000)
        assert accepts(total, total, plenty, use, requests, production) is fits
        assert fits_at_all(total, requests) is fits


@pytest.mark.parametrize("r", [0, 1])
def test_a_node_is_overloaded_by_what_is_used_or_promised_of_any_resource(r: int) -> None:
    total = amounts(100, 100)
    for used, guaranteed in itertools.product((99, 100, 101), repeat=2):
        useds, guaranteeds = amounts(0, 0), amounts(0, 0)
        useds[r], guaranteeds[r] = used, guaranteed
        expected = used > 100 or guaranteed > 100
        assert is_overloaded(total, useds, guaranteeds) is expected


@st.composite
def promised_too_much(draw: st.DrawFn) -> tuple[Rows, Tasks]:
    """A node whose tasks use little, and whose production tasks are promised more than it has."""
    count = draw(st.integers(2, 20))

    def column(low: int, high: int) -> Rows:
        return np.array(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)))

    request = np.stack([column(10, 60), column(10, 60)], axis=1)
    production = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    guaranteed = request[production].sum(axis=0)
    assume(production.any() and (guaranteed > 20).any())
    total = np.maximum(guaranteed - draw(st.integers(1, 15)), 1).astype(np.int64)
    cost = column(1, 1000).astype(np.float64)
    use = np.ones_like(request) * (total.min() // (4 * count))
    return total, Tasks(use, request, production, cost, np.ones(count, np.bool_))


@settings(max_examples=200, deadline=None)
@given(promised_too_much())
def test_relief_of_promises_gives_away_promises_alone(case: tuple[Rows, Tasks]) -> None:
    """What is guaranteed to production is above the node, what is used is not (goal IV): giving
    away any other task relieves nothing."""
    total, tasks = case
    room = work(len(tasks.cost), 2)
    used, guaranteed = tasks.use.sum(axis=0), tasks.request[tasks.production].sum(axis=0)
    count = begin(total, used, guaranteed, tasks, np.zeros(len(tasks.cost), np.bool_), room)
    assert count == len(tasks.cost), "giving all away would be enough"
    cost = relieve(total, tasks, room, count)
    given_away = room.tried[: len(tasks.cost)]
    assert cost == pytest.approx(tasks.cost[given_away].sum())
    assert given_away.any() and not (given_away & ~tasks.production).any()
