"""The order of nodes by fullness, and the fingers over it."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from murmuration.schedulers.swarm import levels

LEVELS = 8
START = st.lists(st.integers(0, LEVELS - 1), min_size=1, max_size=40)
MOVES = st.lists(st.tuples(st.integers(0, 39), st.booleans()), max_size=60)


def arranged(start: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    level, order, place = (
        np.array(start),
        np.zeros(len(start), np.int64),
        np.zeros(len(start), np.int64),
    )
    first = np.zeros(LEVELS + 1, np.int64)
    levels.arrange(level, order, place, first)
    return level, order, place, first


def check(level: np.ndarray, order: np.ndarray, place: np.ndarray, first: np.ndarray) -> None:
    assert sorted(order) == list(range(len(level)))
    assert (order[place] == np.arange(len(level))).all()
    assert (np.diff(level[order]) >= 0).all()
    for k in range(LEVELS + 1):
        assert first[k] == (level < k).sum()


@given(start=START, moves=MOVES)
def test_nodes_stay_in_order(start: list[int], moves: list[tuple[int, bool]]) -> None:
    level, order, place, first = arranged(start)
    check(level, order, place, first)
    expected = list(start)
    for number, up in moves:
        node = number % len(start)
        if up and level[node] < LEVELS - 1:
            levels.step_up(level, order, place, first, node)
            expected[node] += 1
        elif not up and level[node] > 0:
            levels.step_down(level, order, place, first, node)
            expected[node] -= 1
        assert level.tolist() == expected
    check(level, order, place, first)


@given(nodes=st.integers(2, 100_000), a=st.integers(0, 99_999), b=st.integers(0, 99_999))
def test_fingers_reach_any_place_in_log_n_messages(nodes: int, a: int, b: int) -> None:
    start, target = a % nodes, b % nodes
    hops = levels.finger_hops(start, target, nodes)
    assert hops <= math.ceil(math.log2(nodes))
    # Walk: the longest finger that does not overshoot, until there.
    at, walked = start, 0
    while at != target:
        at = (at + 2 ** int(math.log2((target - at) % nodes))) % nodes
        walked += 1
    assert walked == hops
