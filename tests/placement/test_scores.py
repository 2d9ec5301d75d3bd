"""Scores against published arithmetic: the cases, with their workings, are those of Kubernetes' own
tests."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration.base.resources import AMOUNT_MAX
from murmuration.placement.scores import (
    SCORES,
    balanced,
    best_fit,
    least_allocated,
    most_allocated,
    worst_fit,
)

Pair = tuple[int, int]
SMALL, MEDIUM, LARGE = (4000, 10_000), (6000, 10_000), (10_000, 20_000)
POD = (3000, 5000)


def score(name: str, node: Pair, taken: Pair, request: Pair) -> float:
    """One node, with this much of it taken by others."""
    total = np.array([node], dtype=np.int64)
    free = total - np.array([taken], dtype=np.int64)
    return float(SCORES[name](total, free, np.array(request, dtype=np.int64))[0])


@pytest.mark.parametrize(
    ("node", "taken", "request_", "expected"),
    [
        (SMALL, (0, 0), (0, 0), 100),  # (100 + 100) / 2
        (
            SMALL,
            (0, 0),
            POD,
            37,
        ),  # ((4000 − 3000) × 100 / 4000 = 25, (10000 − 5000) × 100 / 10000 = 50) / 2
        (MEDIUM, (0, 0), POD, 50),  # (50 + 50) / 2
        (LARGE, (6000, 0), (0, 0), 70),  # (40 + 100) / 2
        (LARGE, (6000, 5000), (0, 0), 57),  # (40 + 75) / 2
        (LARGE, (3000, 5000), POD, 45),  # (40 + 50) / 2
        ((10_000, 50_000), (3000, 5000), POD, 60),  # (40 + 80) / 2
        (SMALL, (3000, 5000), (3000, 0), 25),  # more than there is: (0 + 50) / 2
        ((0, 0), (3000, 5000), (0, 0), 0),  # a node without resources
        ((4000, 0), (0, 0), (3000, 0), 25),  # a resource it lacks is left out: 25 / 1
    ],
)
def test_least_allocated(node: Pair, taken: Pair, request_: Pair, expected: int) -> None:
    assert score("least-allocated", node, taken, request_) == expected


@pytest.mark.parametrize(
    ("node", "taken", "request_", "expected"),
    [
        (SMALL, (0, 0), (0, 0), 0),
        (SMALL, (0, 0), POD, 62),  # (3000 × 100 / 4000 = 75, 5000 × 100 / 10000 = 50) / 2
        (MEDIUM, (0, 0), POD, 50),  # (50 + 50) / 2
        (LARGE, (6000, 0), (0, 0), 30),  # (60 + 0) / 2
        (LARGE, (6000, 5000), (0, 0), 42),  # (60 + 25) / 2
        (LARGE, (3000, 5000), POD, 55),  # (60 + 50) / 2
        ((5000, 10_000), (0, 0), (5000, 9000), 95),  # all of it: (100 + 90) / 2
        ((10_000, 9000), (0, 0), (5000, 9000), 75),  # (50 + 100) / 2
        (
            (250, 1000),
            (200, 400),
            (100, 200),
            80,
        ),  # more than there is counts as all: (100 + 60) / 2
        ((0, 10_000), (0, 0), (0, 5000), 50),  # a resource it lacks is left out: 50 / 1
    ],
)
def test_most_allocated(node: Pair, taken: Pair, request_: Pair, expected: int) -> None:
    assert score("most-allocated", node, taken, request_) == expected


@pytest.mark.parametrize(
    ("node", "taken", "request_", "expected"),
    [
        (SMALL, (0, 0), POD, 87),  # 1 − |0.75 − 0.5| / 2 = 0.875
        (MEDIUM, (0, 0), POD, 100),  # 1 − |0.5 − 0.5| / 2
        (LARGE, (3000, 0), POD, 82),  # 1 − |0.6 − 0.25| / 2 = 0.825
        (LARGE, (3000, 5000), POD, 95),  # 1 − |0.6 − 0.5| / 2
        ((10_000, 50_000), (3000, 5000), POD, 80),  # 1 − |0.6 − 0.2| / 2
        (MEDIUM, (3000, 0), (3000, 0), 50),  # 1 − |1 − 0| / 2
        (MEDIUM, (3000, 5000), (3000, 0), 75),  # 1 − |1 − 0.5| / 2
        ((3500, 40_000), (0, 0), POD, 63),  # 1 − |0.857 − 0.125| / 2 = 0.634
        ((4000, 0), (0, 0), (3000, 0), 100),  # one resource alone does not deviate
    ],
)
def test_balanced(node: Pair, taken: Pair, request_: Pair, expected: int) -> None:
    assert score("balanced", node, taken, request_) == expected


AMOUNT = st.integers(0, AMOUNT_MAX)


@given(st.lists(st.tuples(AMOUNT, AMOUNT, AMOUNT), min_size=2, max_size=3), st.data())
def test_largest_amounts_do_not_overflow(
    columns: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    """In exact whole numbers, for any amounts a table may hold, on a node with room."""
    total = np.array([[max(column) for column in columns]], dtype=np.int64)
    free = np.array([[sorted(column)[1] for column in columns]], dtype=np.int64)
    request = np.array([min(column) for column in columns], dtype=np.int64)
    had = [r for r in range(2) if total[0, r]]
    left = [int(free[0, r] - request[r]) for r in range(2)]
    size = [int(total[0, r]) for r in range(2)]
    least = sum(left[r] * 100 // size[r] for r in had) // max(len(had), 1)
    most = sum((size[r] - left[r]) * 100 // size[r] for r in had) // max(len(had), 1)
    assert least_allocated(total, free, request)[0] == least
    assert most_allocated(total, free, request)[0] == most
    assert 50 <= balanced(total, free, request)[0] <= 100


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=2, max_size=4))
def test_best_and_worst_fit_are_the_free_shares_left(columns: list[tuple[int, int]]) -> None:
    total = np.array([[a + b for a, b in columns]], dtype=np.int64)
    free = np.array([[a for a, _ in columns]], dtype=np.int64)
    request = np.array([a // 2 for a, _ in columns], dtype=np.int64)
    share = sum(Fraction(a - a // 2, a + b) for a, b in columns if a + b)
    assert worst_fit(total, free, request)[0] == pytest.approx(float(share))
    assert best_fit(total, free, request)[0] == -worst_fit(total, free, request)[0]
