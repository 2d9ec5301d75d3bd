"""Allocation types at their boundaries (Sliwko and Getov, sections 5 and 7.5): 70 %, 90 % and 100 %
of a resource."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration.cluster.allocation_types import NAMES, allocation_type, count_types

TOTAL = 10_000_000


def kind(*percent: float, guaranteed: float = 0.0, total: int = TOTAL) -> str:
    """The type of a node whose resources are used to these percentages."""
    totals = np.full(len(percent), total, dtype=np.int64)
    free = totals - np.array([round(p * total / 100) for p in percent], dtype=np.int64)
    promised = np.full(len(percent), round(guaranteed * total / 100), dtype=np.int64)
    return NAMES[allocation_type(totals, free, promised, not any(percent))]


@pytest.mark.parametrize(
    ("percent", "name"),
    [
        ((0, 0), "idle"),
        ((1, 1), "pa"),
        ((69.9999, 69.9999), "pa"),
        ((70, 69.9999), "da"),
        ((70, 70), "ta"),
        ((89.9999, 70), "ta"),
        ((89.9999, 10), "da"),
        ((91, 10), "sta"),
        ((90, 10), "da"),
        ((90, 70), "ta"),
        ((91, 70), "sta"),
        ((100, 100), "sta"),
        ((100, 0.1), "sta"),
        ((100.0001, 50), "overloaded"),
        ((100.0001, 100), "overloaded"),
        ((80, 80, 80), "ta"),
        ((80, 80, 60), "da"),
        ((80, 91, 60), "sta"),
        ((10, 20, 30), "pa"),
    ],
)
def test_boundaries(percent: tuple[float, ...], name: str) -> None:
    assert kind(*percent) == name


def test_production_tasks_must_get_what_they_required() -> None:
    """Goal IV: what they require may not exceed the node, even if it is not used."""
    assert kind(50, 50, guaranteed=100) == "pa"
    assert kind(50, 50, guaranteed=100.0001) == "overloaded"


def test_a_resource_the_node_does_not_have_says_nothing() -> None:
    """A node without GPUs is as tight as its CPU and memory; with a task on GPUs it cannot have, it
    is overloaded."""
    total, nobody = np.array([TOTAL, TOTAL, 0]), np.zeros(3, dtype=np.int64)
    for used, name in ((0.8, "ta"), (0.5, "pa"), (0.95, "sta")):
        free = np.array([round((1 - used) * TOTAL)] * 2 + [0])
        assert NAMES[allocation_type(total, free, nobody, False)] == name
    assert (
        NAMES[allocation_type(total, np.array([TOTAL, TOTAL, -1]), nobody, False)] == "overloaded"
    )


@given(st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 130)), min_size=1, max_size=4))
def test_whole_percentages_fall_on_the_right_side(resources: list[tuple[int, int]]) -> None:
    """The published definitions in exact fractions; totals are multiples of a hundred, so that per
    cents are whole."""
    total = np.array([100 * t for t, _ in resources])
    used = np.array([t * p for t, p in resources])
    shares = [Fraction(p, 100) for _, p in resources]
    if any(share > 1 for share in shares):
        expected = "overloaded"
    elif any(share > Fraction(9, 10) for share in shares):
        expected = "sta"
    elif all(share >= Fraction(7, 10) for share in shares):
        expected = "ta"
    else:
        expected = "pa" if all(share < Fraction(7, 10) for share in shares) else "da"
    assert NAMES[allocation_type(total, total - used, np.zeros_like(total), False)] == expected


def test_counting_nodes_of_each_type() -> None:
    total = np.full((4, 2), 100)
    free = np.array([[100, 100], [20, 20], [25, 15], [5, 50]])
    counts = count_types(total, free, np.zeros_like(total), np.array([True, False, False, False]))
    assert counts == {"idle": 1, "sta": 1, "ta": 2, "pa": 0, "da": 0, "overloaded": 0}
