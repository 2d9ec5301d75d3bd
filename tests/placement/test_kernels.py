"""Kernels, plain policies and a brute-force reference choose the same nodes from the same seed,
task by task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from murmuration.base.jit import FirstClass
from murmuration.base.random import load, state
from murmuration.base.resources import Resources
from murmuration.placement.kernels import as_placement, as_score, first_fit, place_ranked
from murmuration.placement.plain import FirstFit, RankedPolicy
from murmuration.placement.ranking import make_index
from murmuration.placement.room import JobRoom, make_changes
from murmuration.placement.scores import SCORES, best_fit
from murmuration.placement.view import JobView, Policy, View

Score = Callable[..., Any]
#: A log without room: every decision scans all rows.
NO_CHANGES = make_changes(0, False)
RELAXED = settings(max_examples=60, deadline=None)


@dataclass(frozen=True)
class Case:
    """Rows, which of them may be used (none named: all), and a job."""

    total: NDArray[np.int64]
    free: NDArray[np.int64]
    allowed: NDArray[np.bool_]
    request: NDArray[np.int64]
    tasks: int
    seed: int

    def usable(self) -> NDArray[np.bool_]:
        return self.allowed if len(self.allowed) else np.ones(len(self.total), dtype=np.bool_)

    def view(self) -> View:
        names = tuple(str(i) for i in range(len(self.total)))
        extra = tuple(f"extra-{r}" for r in range(len(self.request) - 2))
        resources = Resources(("cpu", "memory", *extra))
        return View(
            resources, names, tuple({} for _ in names), self.total, self.free, self.usable()
        )

    def job(self) -> JobView:
        return JobView("job", "batch", self.tasks, self.request, 1.0)

    def rng(self) -> np.random.Generator:
        bits = np.random.SFC64(0)
        load(bits, state(self.seed, "test"))
        return np.random.Generator(bits)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Small clusters: some rows full or missing a resource, masks, up to three resources, often too
    many tasks.

    Some have a hundred full rows more, so that most draws miss."""
    n, resources = draw(st.integers(1, 12)), draw(st.integers(2, 3))
    full = np.zeros((draw(st.sampled_from([0, 100])), resources), dtype=np.int64)
    rows = np.roll(np.arange(n + len(full)), draw(st.integers(0, n)))
    total = np.concatenate([draw(_matrix(n, resources, st.integers(0, 12))), full + 6])[rows]
    used = np.concatenate([draw(_matrix(n, resources, st.integers(0, 12))), full + 6])[rows]
    some = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    allowed = np.concatenate([some, full[:, 0] == 0])[rows] if draw(st.booleans()) else np.empty(0)
    request = draw(st.lists(st.integers(0, 3), min_size=resources, max_size=resources))
    return Case(
        total,
        np.maximum(total - used, 0),
        np.array(allowed, dtype=np.bool_),
        np.array(request, dtype=np.int64),
        draw(st.integers(1, 25)),
        draw(st.integers(0, 2**32)),
    )


def _matrix(
    rows: int, columns: int, values: st.SearchStrategy[int]
) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(
        st.lists(values, min_size=columns, max_size=columns), min_size=rows, max_size=rows
    )


@cache
def kernel(name: str) -> tuple[FirstClass, FirstClass]:
    """What the loops call for a placement of this name."""
    place = as_placement(first_fit if name == "first-fit" else place_ranked)
    return place, as_score(SCORES.get(name, best_fit))


def compiled(case: Case, name: str) -> list[int]:
    """The kernel's choice, −1 for a task without a node. It deducts what it placed, no more and no
    less."""
    place, score = kernel(name)
    free, nodes = case.free.copy(), np.full(case.tasks, -1, dtype=np.int32)
    rng = state(case.seed, "test")
    room = JobRoom(case.total, free, case.allowed, NO_CHANGES, -1)
    index = make_index(0, len(case.request))
    placed = place.compiled(room, case.request, case.tasks, rng, nodes, score, index)
    after = case.free.copy()
    np.subtract.at(after, nodes[:placed], case.request)
    assert (free == after).all() and (free >= 0).all()
    assert (nodes[:placed] >= 0).all() and (nodes[placed:] == -1).all()
    return [int(node) for node in nodes]


def plain(case: Case, policy: Policy) -> list[int]:
    before = case.free.copy()
    nodes = policy.decide(case.view(), case.job(), case.rng())
    assert (case.free == before).all(), "a policy does not change what it is shown"
    return [int(node) for node in nodes]


def brute_force(case: Case, score: Score) -> list[int]:
    """Each task in turn: score every node afresh, take the best with room; ties by the order from a
    random start."""
    free, n, nodes = case.free.copy(), len(case.total), []
    start = int(case.rng().random() * n)
    for _ in range(case.tasks):
        scores = score(case.total, free, case.request)
        room = [i for i in range(n) if case.usable()[i] and (free[i] >= case.request).all()]
        best = max(room, key=lambda i: (scores[i], -((i - start) % n)), default=-1)
        nodes.append(best)
        free[best] -= case.request if best >= 0 else 0
    return nodes


def random_first_fit(case: Case) -> list[int]:
    """Draw from all rows; after 32 misses in a row, draw from the rows with room, the last one
    filling each gap."""
    free, rng, nodes = case.free.copy(), case.rng(), [-1] * case.tasks
    rows, misses = list(range(len(case.total))), 0
    for task in range(case.tasks):
        while True:
            if misses == 32 and len(rows) == len(case.total):
                rows = [i for i in rows if case.usable()[i] and (free[i] >= case.request).all()]
            if not rows:
                return nodes
            at = int(rng.random() * len(rows))
            if case.usable()[rows[at]] and (free[rows[at]] >= case.request).all():
                break
            misses += 1
        nodes[task] = rows[at]
        free[rows[at]] -= case.request
        misses = 0 if misses < 32 else misses
        if misses >= 32 and (free[rows[at]] < case.request).any():
            rows[at] = rows[-1]
            rows.pop()
    return nodes


@pytest.mark.parametrize("name", SCORES)
@RELAXED
@given(case=cases())
def test_rankings(name: str, case: Case) -> None:
    expected = brute_force(case, SCORES[name])
    assert plain(case, RankedPolicy(SCORES[name])) == expected
    assert compiled(case, name) == expected


@settings(max_examples=200, deadline=None)
@given(case=cases())
def test_first_fit(case: Case) -> None:
    chosen = compiled(case, "first-fit")
    assert plain(case, FirstFit()) == chosen
    assert random_first_fit(case) == chosen


@RELAXED
@given(case=cases(), name=st.sampled_from(["first-fit", *SCORES]))
def test_nothing_is_left_out_while_there_is_room(case: Case, name: str) -> None:
    """A task stays without a node only when no allowed row could take one more."""
    chosen = compiled(case, name)
    free = case.free.copy()
    for node in chosen:
        if node >= 0:
            assert case.usable()[node]
            free[node] -= case.request
    if -1 in chosen:
        assert not (case.usable() & (free >= case.request).all(axis=1)).any()


def cluster(
    *rows: tuple[int, int], free: list[tuple[int, int]] | None = None, tasks: int = 1, seed: int = 1
) -> Case:
    total = np.array(rows, dtype=np.int64)
    left = total.copy() if free is None else np.array(free, dtype=np.int64)
    return Case(total, left, np.empty(0, dtype=np.bool_), np.array([1, 1]), tasks, seed)


def test_best_fit_fills_the_fullest_node_first_and_worst_fit_the_emptiest() -> None:
    case = cluster((4, 4), (4, 4), (4, 4), free=[(2, 2), (4, 4), (1, 1)], tasks=4)
    assert compiled(case, "best-fit") == [2, 0, 0, 1]
    assert compiled(case, "worst-fit")[:2] == [1, 1]


def test_a_mask_hides_the_best_node() -> None:
    case = cluster((4, 4), (4, 4), free=[(1, 1), (4, 4)], tasks=2)
    hidden = Case(
        case.total, case.free, np.array([False, True]), case.request, case.tasks, case.seed
    )
    assert compiled(hidden, "best-fit") == plain(hidden, RankedPolicy(best_fit)) == [1, 1]


def test_ties_are_broken_by_the_seed() -> None:
    """Equal nodes, one task: every node comes up first under some seed, and each placement spreads
    its starts."""
    firsts = {compiled(cluster(*[(4, 4)] * 5, seed=seed), "worst-fit")[0] for seed in range(60)}
    assert firsts == set(range(5))


def test_a_user_may_bring_a_score() -> None:
    """Any function over rows: here the node with the highest number."""

    def last(total: Any, free: Any, request: Any) -> Any:
        scores = np.zeros(total.shape[0])
        for i in range(total.shape[0]):
            scores[i] = total[i, 0]
        return scores

    case = cluster((3, 9), (5, 9), (4, 9), tasks=3)
    place, nodes = kernel("best-fit")[0], np.full(3, -1, dtype=np.int32)
    rng = state(case.seed, "test")
    room, own = (
        JobRoom(case.total, case.free.copy(), case.allowed, NO_CHANGES, -1),
        as_score(last, False),
    )
    place.compiled(room, case.request, 3, rng, nodes, own, make_index(0, 2))
    assert nodes.tolist() == plain(case, RankedPolicy(last)) == [1, 1, 1]
