"""The index of rankings against a plain scan: whatever changes between decisions, both choose the
same rows in the same order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from murmuration.base.random import state
from murmuration.placement import ranking
from murmuration.placement.kernels import as_placement, as_score, place_ranked
from murmuration.placement.python_score import PythonScore
from murmuration.placement.ranking import make_index
from murmuration.placement.room import JobRoom, make_changes
from murmuration.placement.scores import SCORES

PLACE = as_placement(place_ranked)
Request = NDArray[np.int64]


def plain_score(total: Any, free: Any, request: Any) -> Any:
    """Few values, so that ties abound; some rows are as bad as can be."""
    left = (free[:, 0] - request[0]) // 4 * 1.0
    left[free[:, 1] == 5] = -np.inf
    return left


def compiled_score(name: str) -> Any:
    if name == "plain":
        return PythonScore(plain_score).first_class
    return as_score(SCORES[name])


@dataclass
class Table:
    """A table, its log, and the index under test."""

    total: NDArray[np.int64]
    free: NDArray[np.int64]
    changes: NDArray[np.int64]
    index: ranking.RankIndex

    def log(self, node: int) -> None:
        """As `log_change`, in Python."""
        self.changes[1 + self.changes[0] % (len(self.changes) - 1)] = node
        self.changes[0] += 1


def scan(
    table: Table, usable: Any, request: Request, tasks: int, seed: int, score: Any
) -> list[int]:
    """Score all rows for each task; take the best with room, ties from a random start on."""
    free, n = table.free.copy(), len(table.total)
    bits = np.random.SFC64(0)
    bits.state = {
        "bit_generator": "SFC64",
        "state": {"state": state(seed, "test")},
        "has_uint32": 0,
        "uinteger": 0,
    }
    start = int(np.random.Generator(bits).random() * n)
    order = np.roll(np.arange(n), -start)
    nodes: list[int] = []
    for _ in range(tasks):
        fitting = order[(usable & (free >= request).all(axis=1))[order]]
        if len(fitting) == 0:
            break
        scores = np.asarray(score(table.total, free, request))[fitting]
        nodes.append(int(fitting[np.argmax(scores)]))
        free[nodes[-1]] -= request
    return nodes


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Decisions for a handful of requests, and what happens between them: tasks end, rows are
    resized, many rows change at once."""
    decision = st.tuples(
        st.just("place"), st.integers(0, 4), st.integers(-1, 1), st.integers(1, 30)
    )
    end = st.tuples(st.just("end"), st.integers(0, 10**6))
    resize = st.tuples(st.just("resize"), st.integers(0, 10**6), st.integers(0, 16))
    flood = st.tuples(st.just("flood"), st.integers(0, 10**6))
    return draw(st.lists(st.one_of(decision, decision, end, resize, flood), max_size=40))


@pytest.mark.parametrize("name", ["best-fit", "least-allocated", "balanced", "plain"])
@settings(max_examples=60, deadline=None)
@given(
    rows=st.sampled_from([1, 2, 15, 16, 17, 40, 300]),
    happens=steps(),
    seed=st.integers(0, 1000),
)
def test_the_index_chooses_as_a_scan_does(
    name: str, rows: int, happens: list[tuple[Any, ...]], seed: int
) -> None:
    draw = np.random.default_rng(seed)
    total = draw.choice([8, 12, 16], (rows, 2)).astype(np.int64)
    table = Table(total, total.copy(), make_changes(rows, True), make_index(rows, 2))
    requests = draw.integers(0, 5, (5, 2))
    masks = draw.random((2, rows)) < 0.7
    score = compiled_score(name)
    plain = plain_score if name == "plain" else SCORES[name]
    running: list[tuple[int, Request]] = []
    for step in happens:
        if step[0] == "place":
            _, which, mask, tasks = step
            request, usable = requests[which], masks[mask] if mask >= 0 else np.ones(rows, np.bool_)
            expected = scan(table, usable, request, tasks, seed, plain)
            nodes, allowed = np.full(tasks, -1, np.int32), usable if mask >= 0 else usable[:0]
            room = JobRoom(table.total, table.free, allowed, table.changes, mask)
            rng = state(seed, "test")
            placed = PLACE.compiled(room, request, tasks, rng, nodes, score, table.index)
            assert nodes[:placed].tolist() == expected
            running += [(node, request) for node in expected]
        elif step[0] == "end" and running:
            node, request = running.pop(step[1] % len(running))
            table.free[node] += request
            table.log(node)
        elif step[0] == "resize":
            node = step[1] % rows
            table.free[node] += step[2] - table.total[node]
            table.total[node] = step[2]
            table.log(node)
        elif step[0] == "flood":
            # More changes than the log holds: nothing the index has kept may be trusted.
            for k in range(len(table.changes) + step[1] % 7):
                table.log(k % rows)
            table.free[step[1] % rows] = table.total[step[1] % rows]


def test_more_kinds_of_requests_than_there_are_trees() -> None:
    """The tree used longest ago is given up, and comes back right."""
    total = np.full((50, 2), 1000, np.int64)
    table = Table(total, total.copy(), make_changes(50, True), make_index(50, 2))
    score, usable = as_score(SCORES["best-fit"]), np.ones(50, np.bool_)
    for turn in range(3 * ranking.SHAPES_MAX):
        request = np.array([1 + turn % (ranking.SHAPES_MAX + 5), 3])
        expected = scan(table, usable, request, 2, turn, SCORES["best-fit"])
        nodes = np.full(2, -1, np.int32)
        room = JobRoom(table.total, table.free, usable[:0], table.changes, -1)
        PLACE.compiled(room, request, 2, state(turn, "test"), nodes, score, table.index)
        assert nodes.tolist() == expected


def test_a_plain_score_is_asked_only_for_what_is_not_known() -> None:
    """A hundred equal decisions on rows of one size: every state of a row is scored a few times at
    most, not once per decision and row."""
    asked: list[int] = []

    def counting(total: Any, free: Any, request: Any) -> Any:
        asked.append(len(total))
        return -free[:, 0] * 1.0

    score = PythonScore(counting)
    total = np.full((200, 2), 10, np.int64)
    table = Table(total, total.copy(), make_changes(200, True), make_index(200, 2))
    request = np.array([1, 1])
    for turn in range(100):
        nodes = np.full(10, -1, np.int32)
        room = JobRoom(table.total, table.free, np.empty(0, np.bool_), table.changes, -1)
        rng = state(turn, "test")
        PLACE.compiled(room, request, 10, rng, nodes, score.first_class, table.index)
    assert score.take_error() is None
    assert asked[0] == 200 and sum(asked[1:]) <= 40
