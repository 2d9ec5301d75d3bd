"""Ticks lie inside their axis, in order, and there are neither too few nor too many."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from murmuration.reports.scales import (
    TICKS_MAX,
    Scale,
    linear_domain,
    linear_ticks,
    log_domain,
    log_ticks,
    minor_ticks,
)

ANY = st.floats(allow_nan=False, allow_infinity=False)
POSITIVE = st.floats(min_value=1e-280, max_value=1e280)


def check_ticks(ticks: list[float], low: float, high: float) -> None:
    assert 2 <= len(ticks) <= TICKS_MAX
    assert all(low <= tick <= high for tick in ticks)
    assert all(left < right for left, right in pairwise(ticks))


@given(ANY, ANY, st.integers(2, 10))
def test_linear_ticks(low: float, high: float, target: int) -> None:
    assume(low < high)
    check_ticks(linear_ticks(low, high, target), low, high)


@given(POSITIVE, st.floats(min_value=1.02, max_value=1e12), st.integers(2, 10))
def test_log_ticks(low: float, ratio: float, target: int) -> None:
    high = low * ratio
    assume(high < 1e280)
    check_ticks(log_ticks(low, high, target), low, high)
    assert all(low <= tick <= high for tick in minor_ticks(low, high))


def test_ticks_are_round() -> None:
    assert linear_ticks(0, 0.5, 5) == [0, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert linear_ticks(0, 7, 8) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert log_ticks(0.01, 100) == [0.01, 0.1, 1, 10, 100]
    assert log_ticks(1, 10) == [1, 2, 5, 10]


@given(st.lists(ANY, max_size=5), st.booleans(), st.booleans())
def test_linear_domain_holds_every_value(
    values: list[float], from_zero: bool, rounded: bool
) -> None:
    low, high = linear_domain(values, from_zero, rounded)
    assert low < high or not math.isfinite(high - low)
    slack = max(abs(low), abs(high)) * 1e-8
    assert all(low - slack <= value <= high + slack for value in values)


@given(st.lists(st.one_of(POSITIVE, st.just(0.0), st.floats(-10, 0)), max_size=5), st.booleans())
def test_log_domain_is_positive(values: list[float], rounded: bool) -> None:
    low, high = log_domain(values, rounded)
    assert 0 < low < high
    assert all(low * (1 - 1e-8) <= value <= high * (1 + 1e-8) for value in values if value > 0)


@given(ANY, st.booleans())
def test_every_value_lands_on_the_axis(value: float, log: bool) -> None:
    scale = Scale(0.01, 100, log, 300, 20)
    assert 20 <= scale.at(value) <= 300


@pytest.mark.parametrize(
    ("value", "pixel"), [(0.01, 0), (1, 50), (100, 100), (0, 0), (-5, 0), (1e9, 100)]
)
def test_log_scale(value: float, pixel: float) -> None:
    assert Scale(0.01, 100, True, 0, 100).at(value) == pytest.approx(pixel)
