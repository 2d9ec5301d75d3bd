"""The DEPAS node: its formulas worked by hand, and what it does on average (Theorems 3 and 4)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration.autoscaling import baselines, depas
from murmuration.autoscaling.types import RULES, NodeType, cheapest, largest, offers, smallest
from murmuration.base.random import generator


@pytest.mark.parametrize(
    ("load", "capacity", "new", "formula", "indicator"),
    [
        (0.35, 1, 5, depas.HETEROGENEOUS, -0.5),  # (0.7 − 0.35) / 0.7, whatever the capacities
        (0.35, 5, 1, depas.HETEROGENEOUS, -0.5),
        (1.05, 1, 1, depas.HETEROGENEOUS, 0.5),
        (1.05, 1, 5, depas.HETEROGENEOUS, 0.1),  # 0.5 · 1/5
        (1.05, 5, 1, depas.HETEROGENEOUS, 2.5),  # 0.5 · 5/1
        (1.05, 5, 1, depas.HOMOGENEOUS, 0.5),
        (0.7, 1, 1, depas.HETEROGENEOUS, 0.0),
        (0.79, 1, 1, depas.HETEROGENEOUS, 0.0),
    ],
)
def test_the_indicator_by_hand(
    load: float, capacity: float, new: float, formula: int, indicator: float
) -> None:
    assert depas.indicator(load, 0.7, 0.1, capacity, new, formula) == pytest.approx(indicator)


def test_a_node_acts_when_the_draw_is_below_the_probability() -> None:
    """Algorithm 1 prints `p < random()`; with that a node at half the load would leave with 0.5 for
    the wrong half."""
    assert depas.decide(0.14, 0.7, 0.1, 1, 1, draw=0.79) == depas.LEAVE  # p = 0.8
    assert depas.decide(0.14, 0.7, 0.1, 1, 1, draw=0.81) == 0
    assert (
        depas.decide(1.05, 0.7, 0.1, 5, 1, draw=0.49) == 3
    )  # 2.5: two, and one more with probability 0.5
    assert depas.decide(1.05, 0.7, 0.1, 5, 1, draw=0.51) == 2


def test_the_edges_of_the_band_act() -> None:
    assert depas.indicator(0.75, 0.5, 0.25, 1, 1, depas.HETEROGENEOUS) == 0.5
    assert depas.indicator(0.25, 0.5, 0.25, 1, 1, depas.HETEROGENEOUS) == -0.5


@given(
    load=st.floats(0.0, 20.0),
    capacities=st.lists(st.integers(1, 9), min_size=1, max_size=30),
    new=st.integers(1, 9),
)
def test_the_expected_capacity_is_the_optimal_one(
    load: float, capacities: list[int], new: int
) -> None:
    """Theorems 1 to 4: what all nodes together expect to add or remove brings the load to the
    target."""
    target, band, total = 0.7, 0.1, sum(capacities)
    if target - band < load < target + band:
        return
    wishes = [depas.indicator(load, target, band, c, new, depas.HETEROGENEOUS) for c in capacities]
    change = sum(
        wish * (c if wish < 0 else new) for wish, c in zip(wishes, capacities, strict=True)
    )
    assert change == pytest.approx(total * load / target - total)


@pytest.mark.parametrize(
    ("load", "capacity", "new"), [(0.42, 1, 1), (1.4, 5, 1), (2.0, 1, 5), (0.91, 5, 5)]
)
def test_the_number_that_act_has_the_mean_the_formula_says(
    load: float, capacity: int, new: int
) -> None:
    draws = generator(7, "act").random(40_000).tolist()
    acts = [depas.decide(load, 0.7, 0.1, capacity, new, draw) for draw in draws]
    wish = depas.indicator(load, 0.7, 0.1, capacity, new, depas.HETEROGENEOUS)
    fraction = abs(wish) - math.floor(abs(wish))
    error = math.sqrt(fraction * (1 - fraction) / len(draws))
    assert abs(sum(acts) / len(acts) - wish) <= 4 * error + 1e-12


def test_the_older_formula_is_wrong_where_new_nodes_are_larger() -> None:
    """Equation 5: equation 4 adds five times too much when every node of capacity 1 adds nodes of
    capacity 5."""
    old = depas.indicator(1.4, 0.7, 0.1, 1, 5, depas.HOMOGENEOUS) * 5
    new = depas.indicator(1.4, 0.7, 0.1, 1, 5, depas.HETEROGENEOUS) * 5
    assert old == pytest.approx(5.0)
    assert new == pytest.approx(1.0)


SMALL = NodeType("small", 1, 1.0)
LARGE = NodeType("large", 8, 6.0)
SPOT = NodeType("spot", 4, 1.0, from_s=100.0, until_s=200.0)


def test_the_cheapest_per_unit_of_capacity_is_added() -> None:
    assert cheapest([SMALL, LARGE], 0.0) is LARGE
    assert (largest([SMALL, LARGE], 0.0), smallest([SMALL, LARGE], 0.0)) == (LARGE, SMALL)
    assert cheapest([NodeType("b", 2, 2.0), SMALL], 0.0) is SMALL, "of equals the smaller"
    assert offers([SMALL, LARGE, SPOT], RULES["cheapest"]) == [(0.0, 1), (100.0, 2), (200.0, 1)]


def test_a_rule_must_choose_what_is_on_offer() -> None:
    with pytest.raises(LookupError, match="no type is on offer at second 0"):
        offers([SPOT], cheapest)
    with pytest.raises(LookupError, match="'spot' at second 0, which is not on offer"):
        offers([SMALL, SPOT], lambda types, time_s: SPOT)


def test_a_threshold_scaler_goes_up_at_once_and_down_slowly() -> None:
    assert baselines.proportional(12, 10, 1.4, 0.7, 0.1) == pytest.approx(20.0)
    assert baselines.proportional(12, 10, 0.75, 0.7, 0.1) == 12, (
        "inside the band what starts is counted"
    )
    assert baselines.stabilise(10, 20, [10, 20]) == 20
    assert baselines.stabilise(10, 4, [9, 6, 4]) == 9
    assert baselines.stabilise(10, 4, [20, 6, 4]) == 10, "never more than there is on the way down"
    assert baselines.perfect(70, 0.7) == pytest.approx(100)
