"""Randomised first fit against the paper's own words: the same odds for every choice, whichever way
it is drawn.

Figures are exact repeats: the seeds are fixed, so a test that passes once passes always.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from murmuration.base.random import generator, state
from murmuration.base.resources import Resources
from murmuration.placement.kernels import as_placement, as_score, first_fit
from murmuration.placement.plain import FirstFit
from murmuration.placement.ranking import make_index
from murmuration.placement.room import JobRoom, make_changes
from murmuration.placement.scores import best_fit
from murmuration.placement.view import JobView, View

RUNS = 6000
ONE = np.array([1, 0], dtype=np.int64)

#: Free CPUs of each node. In the wide cluster hardly any node has room, so that most draws miss.
CLUSTERS = {
    "all have room": [3, 2, 4, 1, 2],
    "some are full": [2, 0, 1, 0, 3],
    "hardly any has room": [0] * 150 + [1, 2, 1] + [0] * 50,
}


def paper(free: list[int], tasks: int, rng: np.random.Generator) -> tuple[int, ...]:
    """3.2: pick a random node from the pool; place the next task there if it fits, else drop the
    node from the pool."""
    pool, left = list(range(len(free))), list(free)
    nodes: list[int] = []
    while pool and len(nodes) < tasks:
        at = int(rng.integers(len(pool)))
        if left[pool[at]] >= 1:
            left[pool[at]] -= 1
            nodes.append(pool[at])
        else:
            pool.pop(at)
    return tuple(nodes)


def kernel_draws(free: list[int], tasks: int) -> list[tuple[int, ...]]:
    place, score, rng = as_placement(first_fit), as_score(best_fit), state(11, "odds")
    total = np.array([[cpus, 0] for cpus in free], dtype=np.int64)
    every, nodes = np.empty(0, dtype=np.bool_), np.empty(tasks, dtype=np.int32)
    drawn, changes, index = [], make_changes(0, False), make_index(0, 2)
    for _ in range(RUNS):
        room = JobRoom(total, total.copy(), every, changes, -1)
        placed = place.compiled(room, ONE, tasks, rng, nodes, score, index)
        drawn.append(tuple(int(node) for node in nodes[:placed]))
    return drawn


def same_distribution(ours: list[tuple[int, ...]], theirs: list[tuple[int, ...]]) -> float:
    """How likely two samples of one distribution differ this much; rare outcomes are counted
    together."""
    counts = [Counter(ours), Counter(theirs)]
    common = [key for key in counts[0] | counts[1] if counts[0][key] + counts[1][key] >= 20]
    rows = [[count[key] for key in common] for count in counts]
    rest = [RUNS - sum(row) for row in rows]
    table = np.array([[*row, other] for row, other in zip(rows, rest, strict=True)])
    return float(stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue)


@pytest.mark.parametrize("name", CLUSTERS)
def test_whole_placements_have_the_odds_of_the_paper(name: str) -> None:
    """Three tasks in order, so that nodes which run full along the way are part of it."""
    free, rng = CLUSTERS[name], generator(7, "paper")
    theirs = [paper(free, 3, rng) for _ in range(RUNS)]
    assert same_distribution(kernel_draws(free, 3), theirs) > 0.001


@pytest.mark.parametrize("name", CLUSTERS)
def test_every_node_with_room_has_the_same_odds(name: str) -> None:
    free = CLUSTERS[name]
    room = [node for node, cpus in enumerate(free) if cpus]
    for drawn in (kernel_draws(free, 1), plain_draws(free)):
        counts = Counter(nodes[0] for nodes in drawn)
        assert set(counts) == set(room)
        assert stats.chisquare([counts[node] for node in room]).pvalue > 0.001


def plain_draws(free: list[int]) -> list[tuple[int, ...]]:
    total: NDArray[np.int64] = np.array([[cpus, 0] for cpus in free], dtype=np.int64)
    names = tuple(map(str, range(len(free))))
    view = View(
        Resources(),
        names,
        tuple({} for _ in names),
        total,
        total,
        np.ones(len(free), dtype=np.bool_),
    )
    job, rng = JobView("job", "batch", 1, ONE, 1.0), generator(5, "plain")
    return [tuple(int(node) for node in FirstFit().decide(view, job, rng)) for _ in range(RUNS)]


def test_the_test_can_tell_other_odds() -> None:
    """A first fit that keeps to the first node with room is found out."""
    free, rng = CLUSTERS["all have room"], generator(7, "paper")
    theirs = [paper(free, 3, rng) for _ in range(RUNS)]
    skewed = [
        (0, *nodes[1:]) if k % 10 == 0 else nodes for k, nodes in enumerate(kernel_draws(free, 3))
    ]
    assert same_distribution(skewed, theirs) < 1e-6
