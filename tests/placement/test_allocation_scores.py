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
    SCORES,
    SIAS,
    SIAS_GAIN,
    SRAS,
    SRAS_BANDS,
    SRAS_BANDS_GAIN,
    SRAS_BEST,
    SRAS_GAIN,
    base_score,
    compare_scores,
    sias,
    sras,
    sras_bands,
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
    again = {kind: sras_bands(made) for kind, made in found.items()}
    assert IDLE_SCORE > first[PA] > first[TA] > first.get(DA, 0.5) > 0
    assert 3.0 >= again[TA] > again[PA] > again.get(DA, 0.5) > 0
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
        bands.setdefault(kind_of(made), []).append((sias(made), sras_bands(made)))
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
    assert abs(sras_bands(a) - sras_bands(b)) <= STEEPEST * apart + 1e-8


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), st.data())
def test_re_allocation_is_best_at_ninety_percent_of_everything(
    resources: int, data: st.DataObject
) -> None:
    assert sras(np.full(resources, 0.9)) == pytest.approx(SRAS_BEST)
    assert sras_bands(np.full(resources, 0.9)) == pytest.approx(3.0)
    for score in (sras, sras_bands):
        assert score(data.draw(loads(TA, resources))) < score(np.full(resources, 0.9))


#: What two lists of recommendations in the paper (6.2 and 6.4) print of their candidates: CPU and
#: memory left, and fitness. The nodes are of the most common size, 0.5 by 0.4995.
LISTS = (
    (
        (0.1143434, 0.166688, 3.9457163),
        (0.07058018, 0.209634, 3.9058075),
        (0.106583, 0.270975, 2.8282483),
        (0.19000626, 0.198011, 2.7914548),
        (0.1694482, 0.24327, 2.5833377),
        (0.22213, 0.236556, 2.2368281),
        (0.301817824, 0.170832, 2.0398197),
        (0.2909429, 0.202316, 1.9539382),
        (0.2623356, 0.28497, 1.7019617),
        (0.16753535, 0.380945, 1.6134377),
        (0.339132, 0.216851, 1.5794144),
        (0.3457631, 0.292668, 1.2671428),
        (0.3385137, 0.302696, 1.2639029),
        (0.31797631, 0.355406, 1.1607778),
        (0.3466404, 0.33758, 1.1171429),
    ),
    (
        (0.1891418, 0.177533, 2.4667438),
        (0.30761843, 0.1759794, 1.6432461),
        (0.3748082, 0.1112931, 1.4744541),
        (0.41262, 0.1051633, 1.2614144),
        (0.409068, 0.1390167, 1.1926447),
        (0.36326578, 0.272445, 1.0357914),
        (0.4451295, 0.1572113, 0.9733133),
        (0.39667, 0.2720053, 0.9183162),
        (0.43991461, 0.2276939, 0.8579714),
        (0.43967027, 0.2803267, 0.7617587),
        (0.422448, 0.3210886, 0.7361511),
        (0.4173642, 0.347725, 0.6988085),
        (0.4393896, 0.3416696, 0.6563989),
        (0.38130881, 0.0624228, 1.5961205),
        (0.41058248, 0.1324943, 1.2014078),
    ),
)


@pytest.mark.parametrize("listed", LISTS)
def test_re_allocation_scores_as_the_log_of_the_paper_does(
    listed: tuple[tuple[float, float, float], ...],
) -> None:
    """Weights of a draw are relative, so each list has a factor of its own; beyond it no candidate
    is off by more than 7 %, and the list's order is kept but for ties."""
    left, fitness = np.array(listed)[:, :2], np.array(listed)[:, 2]
    here = np.array([sras(1.0 - row / [0.5, 0.4995]) for row in left])
    off = np.log(here / fitness)
    assert np.abs(off - off.mean()).max() < 0.07 and off.std() < 0.03
    # Bands rank a node that is filled unevenly below every even one; the log does not.
    banded = np.array([sras_bands(1.0 - row / [0.5, 0.4995]) for row in left])
    assert np.log(banded / fitness).std() > 5 * off.std()


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 4), st.data())
def test_re_allocation_prefers_fuller_nodes(resources: int, data: st.DataObject) -> None:
    """One resource more, the others as they are; whatever 70 % means to others."""
    values = st.lists(st.floats(0.0, 0.9), min_size=resources, max_size=resources)
    before = np.array(data.draw(values))
    after, r = before.copy(), data.draw(st.integers(0, resources - 1))
    after[r] = data.draw(st.floats(before[r], 0.9))
    assert sras(before) <= sras(after) * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0.0, 1.2), min_size=1, max_size=4))
def test_order_and_missing_resources_do_not_matter(values: list[float]) -> None:
    made = np.array(values)
    mixed = np.insert(made[::-1], 1, -1.0)
    assert sias(mixed) == pytest.approx(sias(made), abs=1e-12)
    assert sras(mixed) == pytest.approx(sras(made), abs=1e-12)
    assert sras_bands(mixed) == pytest.approx(sras_bands(made), abs=1e-12)


@pytest.mark.parametrize("base", ["sias", "sras", "sras-bands"])
def test_a_draw_weighs_scores_and_gains_as_it_says(base: str) -> None:
    plain, gain, linear = (SCORES.index(f"{base}{form}") for form in ("", "-gain", "-gain-linear"))
    assert weight(2.5, plain) == 2.5 * weight(1.0, plain)
    # By the exponential, half a band more is drawn four to five times as often, at any level.
    for level in (-1.5, 0.0, 2.0):
        assert 4.0 < weight(level + 0.5, gain) / weight(level, gain) < 5.0
    # In proportion, who gains twice as much; who loses only where nobody gains.
    assert weight(0.2, linear) == 2.0 * weight(0.1, linear)
    assert weight(-0.4, linear) == weight(-2.0, linear) < 0.1 * weight(0.05, linear)


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
    assert node_score(SRAS_BANDS, after, before, False) == sras_bands(after)
    assert node_score(SRAS_BANDS_GAIN, after, before, False) == sras_bands(after) - sras_bands(
        before
    )
    for kind in range(len(SCORES)):
        assert weight(node_score(kind, after, before, False), kind) >= 0
        assert -SRAS_BEST <= node_score(kind, after, before, False) <= SRAS_BEST


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
