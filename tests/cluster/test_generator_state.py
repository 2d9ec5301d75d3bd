"""The generator kernels draw from: NumPy's SFC64 to the last bit, from a state that can be put down
and taken up."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from murmuration.base.jit import compiled
from murmuration.base.random import generator, load, next_double, save, state

draw = compiled(next_double)
SEEDS = st.integers(0, 2**64)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(1, 200))
def test_the_kernel_draws_what_numpy_draws(seed: int, count: int) -> None:
    bits = np.random.SFC64(seed)
    words = np.array(bits.state["state"]["state"], dtype=np.uint64)
    expected = np.random.Generator(bits).random(count)
    assert [draw(words) for _ in range(count)] == expected.tolist()


def test_a_long_stream_is_uniform_and_the_same() -> None:
    words = state(1, "long")
    ours = np.array([draw(words) for _ in range(20_000)])
    assert (ours == generator(1, "long").random(20_000)).all()
    assert ours.min() >= 0.0 and ours.max() < 1.0


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(0, 20), st.integers(0, 20))
def test_a_policy_goes_on_where_a_kernel_stopped_and_back(
    seed: int, first: int, second: int
) -> None:
    """Kernel, then NumPy, then kernel again: one stream."""
    expected = generator(seed, "x").random(first + second + 1).tolist()
    words, bits = state(seed, "x"), np.random.SFC64(0)
    drawn = [draw(words) for _ in range(first)]
    load(bits, words)
    drawn += np.random.Generator(bits).random(second).tolist()
    save(bits, words)
    assert [*drawn, draw(words)] == expected


def test_loading_does_not_share_the_state() -> None:
    words, bits = state(3, "x"), np.random.SFC64(0)
    before = words.copy()
    load(bits, words)
    np.random.Generator(bits).random(5)
    assert (words == before).all()
    save(bits, words)
    again = np.random.SFC64(1)
    load(again, words)
    assert np.random.Generator(again).random() == np.random.Generator(bits).random()


def test_parts_of_a_run_have_streams_of_their_own() -> None:
    """By the whole path of names and the seed, so that no part changes what another one draws."""
    paths = [(), ("a",), ("b",), ("a", "b"), ("b", "a"), ("ab",)]
    firsts = {generator(seed, *path).random() for seed in (1, 2) for path in paths}
    assert len(firsts) == 2 * len(paths)
    assert generator(1, "a").random() == generator(1, "a").random()
