"""The ranking of the allocation scores holds everywhere, for any number of resources."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from murmuration.cluster.allocation_types import DA, OVERLOADED, PA, STA, TA, allocation_type
from murmuration.placement.allocation_scores import (
    IDLE_SCORE,
    SIAS,
    SIAS_GAIN,
    SRAS,
    SRAS_BEST,
    SRAS_GAIN,
    base_score,
    compare_scores,
    sias,
    sras,
    weight,
)

Loads = NDArray[np.float64]
TOTAL = 10**12
#: No score changes faster than this inside a region: seven and a half per whole load, where a node
#: is tight.
STEEPEST = 7.6

low = st.floats(0.0, 0.6999)
tight = st.floats(0.7001, 0.8999)
very_tight = st.floats(0.9001, 1.0)
over = st.floats(1.0001, 3.0)


def kind_of(loads: Loads) -> int:
    """The allocation type as the rest of the program sees it, from whole amounts."""
    total = np.full(len(loads), TOTAL)
    return allocation_type(
        total, total - np.rint(loads * TOTAL).astype(np.int64), np.zeros_like(total), False
    )


@st.composite
def loads(draw: st.DrawFn, kind: int, resources: int) -> Loads:
    """Loads of a given allocation type; a type that needs two resources takes at least two."""
    of = {PA: low, TA: tight}.get(kind, st.one_of(low, tight))
    values = draw(st.lists(of, min_size=resources, max_size=resources))
    if kind == DA:
        assume(resources > 1)
        values[:2] = [draw(low), draw(tight)]
    if kind == STA:
        values[0] = draw(very_tight)
    if kind == OVERLOADED:
        values[0] = draw(over)
    return np.array(draw(st.permutations(values)))


@pytest.mark.parametrize("resources", [1, 2, 3, 4])
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_the_ranking_holds_everywhere(resources: int, data: st.DataObject) -> None:
    kinds = [kind for kind in (PA, TA, DA, STA, OVERLOADED) if kind != DA or resources > 1]
    found = {kind: data.draw(loads(kind, resources)) for kind in kinds}
    for kind, made in found.items():
        assert kind_of(made) == kind
    first = {kind: sias(made) for kind, made in found.items()}
    again = {kind: sras(made) for kind, made in found.items()}
    assert IDLE_SCORE > first[PA] > first[TA] > first.get(DA, 0.5) > 0
    assert SRAS_BEST >= again[TA] > again[PA] > again.get(DA, 0.5) > 0
    for kind in (STA, OVERLOADED):
        assert first[kind] == again[kind] == 0.0


@pytest.mark.parametrize("resources", [1, 2, 3, 4])
def test_the_ranking_holds_on_a_grid(resources: int) -> None:
    """Every combination of loads in steps, the borders of the regions included: each type has a
    band of its own."""
    steps = [0.0, 0.35, 0.69999999, 0.7, 0.8, 0.89999999, 0.90000001, 1.0, 1.1]
    bands: dict[int, list[tuple[float, float]]] = {}
    for combination in itertools.product(steps, repeat=resources):
        made = np.array(combination)
        bands.setdefault(kind_of(made), []).append((sias(made), sras(made)))
    ends = {kind: (np.min(pairs, axis=0), np.max(pairs, axis=0)) for kind, pairs in bands.items()}
    lowest = ends.get(DA, (np.full(2, 0.5), np.full(2, 0.5)))
    assert ends[PA][0][0] > ends[TA][1][0] and ends[TA][0][0] > lowest[1][0] and lowest[0][0] > 0
    assert ends[TA][0][1] > ends[PA][1][1] and ends[PA][0][1] > lowest[1][1] and lowest[0][1] > 0
    assert (np.array(ends[STA]) == 0).all() and (np.array(ends[OVERLOADED]) == 0).all()


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([PA, TA, DA]), st.integers(1, 4), st.data())
def test_scores_are_continuous_inside_a_region(
    kind: int, resources: int, data: st.DataObject
) -> None:
    """Two nodes of one type differ in score by no more than in load, times a constant."""
    a, b = data.draw(loads(kind, resources)), data.draw(loads(kind, resources))
    apart = float(np.abs(a - b).max())
    assert abs(sias(a) - sias(b)) <= STEEPEST * apart + 1e-9
    assert abs(sras(a) - sras(b)) <= STEEPEST * apart + 1e-8


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), st.data())
def test_re_allocation_is_best_at_ninety_percent_of_everything(
    resources: int, data: st.DataObject
) -> None:
    assert sras(np.full(resources, 0.9)) == pytest.approx(SRAS_BEST)
    assert sras(data.draw(loads(TA, resources))) < sras(np.full(resources, 0.9))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0.0, 1.2), min_size=1, max_size=4))
def test_order_and_missing_resources_do_not_matter(values: list[float]) -> None:
    made = np.array(values)
    mixed = np.insert(made[::-1], 1, -1.0)
    assert sias(mixed) == pytest.approx(sias(made), abs=1e-12)
    assert sras(mixed) == pytest.approx(sras(made), abs=1e-12)


def node_score(kind: int, after: Loads, before: Loads, idle: bool) -> float:
    without = 0.0 if idle else base_score(kind, before)
    return compare_scores(kind, base_score(kind, after), without, idle)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.floats(0.0, 1.1), st.floats(0.0, 1.0)), min_size=1, max_size=4))
def test_a_gain_is_what_the_task_changes(pairs: list[tuple[float, float]]) -> None:
    before = np.array([load for load, _ in pairs])
    after = before + [more for _, more in pairs]
    assert node_score(SIAS, after, before, False) == sias(after)
    assert node_score(SRAS, after, before, False) == sras(after)
    assert node_score(SIAS_GAIN, after, before, False) == sias(after) - sias(before)
    assert node_score(SRAS_GAIN, after, before, False) == sras(after) - sras(before)
    for kind in (SIAS, SIAS_GAIN, SRAS, SRAS_GAIN):
        assert weight(node_score(kind, after, before, False), kind) >= 0
        assert -3.0 <= node_score(kind, after, before, False) <= IDLE_SCORE


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.0, 0.89), min_size=1, max_size=4))
def test_an_idle_node_comes_first_for_a_new_task_and_has_nothing_to_lose(
    values: list[float],
) -> None:
    after, before = np.array(values), np.zeros(len(values))
    assert node_score(SIAS, after, before, True) == IDLE_SCORE
    assert node_score(SIAS_GAIN, after, before, True) == sias(after)
    assert (
        node_score(SRAS, after, before, True)
        == node_score(SRAS_GAIN, after, before, True)
        == sras(after)
    )
    assert node_score(SIAS, after, before, True) > sias(after)
