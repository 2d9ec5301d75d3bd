"""One cycle of equal nodes: sums of binomial terms, against SciPy and against nodes that decide for
themselves."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from murmuration.autoscaling import analysis
from murmuration.experiments.papers.depas.cycle import close, share_inside, simulate_loads

TARGET = 0.7


# SciPy overflows below about 1e-300, which no load leads to.
PROBABILITIES = st.sampled_from([0.0, 1.0]) | st.floats(1e-12, 1.0 - 1e-12)


@given(n=st.integers(1, 3000), share=st.floats(0.0, 1.0), p=PROBABILITIES)
def test_a_binomial_term(n: int, share: float, p: float) -> None:
    k = round(share * n)
    assert analysis.binomial_term(n, k, p) == pytest.approx(
        float(binom.pmf(k, n, p)), rel=1e-8, abs=1e-12
    )


def by_scipy(n: int, load: float, band: float) -> float:
    """The same probability as one difference of distribution functions."""
    least, most = n * load / (TARGET + band), n * load / (TARGET - band)
    wish = (load - TARGET) / TARGET
    if wish < 0:
        low, high, p = n - most, n - least, -wish
    else:
        whole = math.floor(wish)
        low, high, p = least - n * (1 + whole), most - n * (1 + whole), wish - whole
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    return float(binom.cdf(last, n, p) - binom.cdf(first - 1, n, p))


@settings(max_examples=200)
@given(n=st.integers(1, 800), load=st.floats(0.01, 5.0), band=st.floats(0.01, 0.3))
def test_the_probability_to_end_inside_the_band(n: int, load: float, band: float) -> None:
    found = analysis.probability_inside(n, load, TARGET, band)
    if not analysis.acts(load, TARGET, band):
        assert found == 1.0
    else:
        assert found == pytest.approx(by_scipy(n, load, band), abs=1e-7)


def test_by_hand() -> None:
    """Two nodes at half the load: each leaves with ½. One left is right, two are at 0.35, none at
    infinity."""
    assert analysis.probability_inside(2, 0.35, TARGET, 0.1) == pytest.approx(0.5)
    assert analysis.smallest_band(2, 0.35, TARGET, 0.5) == pytest.approx(0.0)
    assert analysis.smallest_band(2, 0.35, TARGET, 0.7) == pytest.approx(0.35)


@settings(max_examples=60)
@given(n=st.integers(1, 300), load=st.floats(0.05, 4.0), probability=st.floats(0.05, 0.999))
def test_the_smallest_band_is_enough_and_no_smaller_one_is(
    n: int, load: float, probability: float
) -> None:
    band = analysis.smallest_band(n, load, TARGET, probability)
    if band < abs(load - TARGET) - 1e-9:
        assert analysis.probability_inside(n, load, TARGET, band) >= probability - 1e-9
    smaller = band - 1e-6
    if smaller > 0.0:
        assert analysis.probability_inside(n, load, TARGET, smaller) < probability + 1e-9


@pytest.mark.parametrize(("nodes", "load"), [(30, 0.35), (100, 0.35), (40, 1.05), (60, 1.75)])
def test_nodes_that_decide_for_themselves_agree(nodes: int, load: float) -> None:
    cycles = 1500
    loads = simulate_loads(nodes, load, cycles, seed=5)
    assert close(
        share_inside(loads, 0.1), analysis.probability_inside(nodes, load, TARGET, 0.1), cycles
    )
    band = analysis.smallest_band(nodes, load, TARGET, 0.9)
    assert share_inside(loads, band) >= 0.9 - 3.3 * math.sqrt(0.09 / cycles)
