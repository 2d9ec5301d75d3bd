"""A broker rates a node the same in bulk and message by message, on any node and task."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from murmuration.base.jit import compiled
from murmuration.placement.allocation_scores import BASES, SCORES, weight
from murmuration.schedulers.negotiation import bulk
from murmuration.schedulers.negotiation.candidates import UNSUITED, rate, suits
from murmuration.schedulers.negotiation.rules import accepts

Rows = NDArray[np.int64]


@compiled
def view_value(c: Any, kind: int, request: Any, use: Any, production: bool) -> Any:
    """What a bulk broker makes of node 0 once it has reported."""
    bulk.see(c, bulk.REPORTED, 0)
    return bulk.value_in_view(c, bulk.REPORTED, kind, 0, request, use, production)


@compiled
def answer_weight(c: Any, kind: int, request: Any, use: Any, production: bool) -> Any:
    """The weight of node 0 after it was asked; 0 if it does not accept."""
    bulk.see(c, bulk.REPORTED, 0)
    c.candidates[0] = 0
    return c.values[0] if bulk.ask(c, kind, 1, request, use, production) == 1 else 0.0


def cell(total: Rows, used: Rows, guaranteed: Rows) -> bulk.Cell:
    """The arrays that rating one node touches; the others are empty."""
    empty = np.zeros(0)
    resources = len(total)
    rows = {
        "total": total[None, :],
        "free": (total - used)[None, :],
        "unreserved": (total - guaranteed)[None, :],
        "guaranteed": guaranteed[None, :],
        "views": np.zeros((2, 1, resources)),
        "unguaranteed_views": np.zeros((2, 1, resources), np.int64),
        "scores": np.zeros((2, 1, BASES)),
        "inverse": np.zeros((1, resources)),
        "idle": np.zeros(1, np.bool_),
        "loads": np.zeros(resources),
        "asked": np.stack([(total - used)[None, :], (total - guaranteed)[None, :]]),
        "candidates": np.zeros(1, np.int32),
        "values": np.zeros(1),
    }
    return bulk.Cell(*(rows.get(name, empty) for name in bulk.Cell._fields))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Rows, ...]:
    """A node (total, used, guaranteed) and a task (request, use), from empty to overloaded."""
    resources = draw(st.integers(1, 3))

    def amounts(low: int, high: int) -> Rows:
        values = st.lists(st.integers(low, high), min_size=resources, max_size=resources)
        return np.array(draw(values), np.int64)

    total = amounts(0, 1000)
    total[0] = max(int(total[0]), 1)
    used = (total * draw(st.sampled_from([0.0, 0.2, 0.6, 0.8, 1.1]))).astype(np.int64)
    return total, used, amounts(0, 1000), amounts(0, 600), amounts(0, 600)


@settings(max_examples=300, deadline=None)
@given(cases(), st.integers(0, len(SCORES) - 1), st.booleans())
def test_a_bulk_broker_rates_as_one_that_was_sent_a_report(
    case: tuple[Rows, ...], kind: int, production: bool
) -> None:
    total, used, guaranteed, request, use = case
    value = view_value(cell(total, used, guaranteed), kind, request, use, production)
    # In bulk a node is idle if nothing is used; a report says how many tasks run.
    tasks = int(used.any())
    room = (np.zeros(len(total)), np.zeros(len(total)))
    expected = rate(kind, total, used, tasks, use, request, *room)
    if not suits(total, guaranteed, request, production):
        expected = 0.0
    found = weight(value, kind) if value > UNSUITED else 0.0
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@settings(max_examples=300, deadline=None)
@given(cases(), st.integers(0, len(SCORES) - 1), st.booleans())
def test_a_bulk_candidate_is_rated_again_as_one_that_answered(
    case: tuple[Rows, ...], kind: int, production: bool
) -> None:
    total, used, guaranteed, request, use = case
    rated = answer_weight(cell(total, used, guaranteed), kind, request, use, production)
    room = (np.zeros(len(total)), np.zeros(len(total)))
    expected = max(rate(kind, total, used, int(used.any()), use, request, *room), 1e-6)
    if not accepts(total, total - used, total - guaranteed, use, request, production):
        expected = 0.0
    assert rated == pytest.approx(expected, rel=1e-9, abs=1e-9)
