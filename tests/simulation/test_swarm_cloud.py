"""The fast simulator of the paper's cloud against a plain one, and what must hold of every run."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from murmuration.base.errors import InputError
from murmuration.base.random import generator, state
from murmuration.schedulers.swarm.pheromone import LINEAR, QUADRATIC
from murmuration.schedulers.swarm.search import CHORD, RING
from murmuration.simulation.architectures.swarm import cloud as cloud
from murmuration.simulation.architectures.swarm import small as small


@numba.njit  # type: ignore[untyped-decorator]
def searched(
    level: Any, tree: Any, order: Any, place: Any, first: Any, n0: int, source: int
) -> tuple[bool, int, int, int]:
    """Whether a suitable node exists, the ones both searches find, and the messages of the
    second."""
    nodes = level.shape[0]
    cloud.arrange(level, order, place, first)
    size = tree.shape[0] // 2
    for i in range(nodes):
        tree[size + i] = level[i] if level[i] < n0 else 0
    for at in range(size - 1, 0, -1):
        tree[at] = max(tree[2 * at], tree[2 * at + 1])
    if not cloud.suitable_exists(order, level, first, n0, source):
        return False, -1, -1, 0
    found = cloud.chord_search(order, first, n0, source)
    hops = cloud.finger_hops(place[source], place[found], nodes)
    return True, cloud.ring_search(tree, nodes, source, level[source]), found, hops


def plain(start: list[int], n0: int, form: int, rng: np.random.Generator) -> tuple[int, int, int]:
    """Section 5 read aloud: steps, migrations and messages until every node is empty or full."""
    n, nodes = list(start), len(start)
    queues: list[deque[int]] = [deque() for _ in start]
    coming = [0] * nodes
    steps = migrations = messages = 0

    def level(i: int) -> int:
        return n[i] - len(queues[i]) + coming[i]

    while any(queues) or any(n[i] not in (0, n0) for i in range(nodes)):
        for i in range(nodes):
            p = ((n0 - level(i)) / (n0 - 1)) ** (1 if form == LINEAR else 2)
            for _ in range(n[i] - len(queues[i])):
                if rng.random() < p:
                    for away in range(1, nodes):
                        j = (i + away) % nodes
                        messages += 1
                        if level(i) < level(j) + 1 <= n0:
                            queues[i].append(j)
                            coming[j] += 1
                            migrations += 1
                            break
        for i in range(nodes):
            if queues[i]:
                j = queues[i].popleft()
                n[i], n[j], coming[j] = n[i] - 1, n[j] + 1, coming[j] - 1
        steps += 1
    return steps, migrations, messages


@pytest.mark.parametrize(
    ("filling", "form"), [(9, QUADRATIC), (5, QUADRATIC), (1, QUADRATIC), (5, LINEAR)]
)
def test_same_distribution_as_the_plain_simulator(filling: int, form: int) -> None:
    nodes, n0, runs = 20, 10, 400
    fast = cloud.run_to_equilibrium(np.full(nodes, filling), n0, state(1, "fast"), runs, form)
    rng = generator(2, "plain")
    slow = np.array([plain([filling] * nodes, n0, form, rng) for _ in range(runs)])
    for mine, other in zip((fast.steps, fast.migrations, fast.messages), slow.T, strict=True):
        error = math.sqrt((mine.var() + other.var()) / runs)
        assert abs(mine.mean() - other.mean()) < 4 * error + 1e-9


def final(
    start: list[int], n0: int, seed: int, form: int, search: int
) -> tuple[cloud.Cloud, np.ndarray]:
    arrays = cloud.make_cloud(len(start), sum(start), n0, form)
    out = np.zeros((1, 4), np.int64)
    cloud.run_many(
        arrays, np.array(start), n0, search, np.zeros(3, np.int64), state(seed, "final"), out
    )
    return arrays, out[0]


@settings(deadline=None, max_examples=300)
@given(
    n0=st.integers(2, 12),
    fillings=st.lists(st.integers(0, 12), min_size=2, max_size=30),
    seed=st.integers(0, 999),
    form=st.sampled_from([QUADRATIC, LINEAR]),
    search=st.sampled_from([RING, CHORD]),
)
def test_every_cloud_comes_to_rest_with_all_its_containers(
    n0: int, fillings: list[int], seed: int, form: int, search: int
) -> None:
    start = [min(n, n0) for n in fillings]
    arrays, (steps, migrations, messages, longest) = final(start, n0, seed, form, search)
    levels = arrays.level
    assert steps < cloud.STEPS_MAX
    assert levels.sum() == sum(start) and (levels == arrays.here).all()
    # Full nodes, empty nodes, and at most one with the remainder: the fewest nodes that hold them
    # all.
    assert sorted(levels)[::-1][: math.ceil(sum(start) / n0)] == sorted(levels[levels > 0])[::-1]
    assert ((levels > 0) & (levels < n0)).sum() <= 1
    assert migrations == 0 or messages >= migrations
    assert messages <= migrations * len(start) * n0 * 50 and longest <= messages


@settings(deadline=None)
@given(start=st.lists(st.integers(0, 10), min_size=2, max_size=40), source=st.integers(0, 39))
def test_both_searches_find_a_suitable_node_or_neither_does(start: list[int], source: int) -> None:
    n0, nodes = 10, len(start)
    i = source % nodes
    start[i] = min(max(start[i], 1), n0 - 1)
    suitable = [j for j in range(nodes) if j != i and start[i] <= start[j] < n0]
    c = cloud.make_cloud(nodes, sum(start), n0, QUADRATIC)
    exists, ring, chord, hops = searched(
        np.array(start, np.int32), c.tree, c.order, c.place, c.first, n0, i
    )
    assert exists == bool(suitable)
    if suitable:
        assert ring == min(suitable, key=lambda j: (j - i) % nodes)
        assert chord in suitable and start[chord] == max(start[j] for j in suitable)
        assert hops <= math.ceil(math.log2(nodes))


def test_messages_of_a_structured_search_grow_with_log_n() -> None:
    for nodes in (64, 256, 1024):
        found = cloud.run_to_equilibrium(np.full(nodes, 25), 50, state(1, "chord"), 5, search=CHORD)
        assert (found.messages / found.migrations).max() <= math.log2(nodes)
        ring = cloud.run_to_equilibrium(np.full(nodes, 25), 50, state(1, "ring"), 5, search=RING)
        assert (ring.messages / ring.migrations).min() > nodes / 40


def test_the_papers_thousand_nodes() -> None:
    for filling, paper in ((49, 82.0), (25, 108.0), (1, 42.0)):
        found = cloud.run_to_equilibrium(np.full(1000, filling), 50, state(5, str(filling)), 60)
        assert found.steps.mean() == pytest.approx(paper, rel=0.08)
        assert 1.5 < found.migrations.mean() / cloud.fewest_migrations(1000, filling, 50) < 2.4


def test_the_same_seed_gives_the_same_runs() -> None:
    first, again = (
        cloud.run_to_equilibrium(np.full(60, 25), 50, state(3, "same"), 20) for _ in range(2)
    )
    assert all((a == b).all() for a, b in zip(first, again, strict=True))


def test_three_nodes_with_both_rules_agree_with_the_fast_simulator() -> None:
    start = np.array([32, 34, 34])
    rng = state(1, "three")
    slow = np.array([small.track(start, 50, small.FULLER, rng, 1000)[0] for _ in range(400)])
    fast = cloud.run_to_equilibrium(start, 50, state(2, "three"), 400).steps
    assert abs(slow.mean() - fast.mean()) < 4 * math.sqrt((slow.var() + fast.var()) / 400)
    assert fast.max() <= 40


def test_random_destinations_keep_every_container() -> None:
    for rule in (small.ANY, small.ROOM):
        steps, migrations, seen = small.track(
            np.array([32, 34, 34]), 50, rule, state(4, str(rule)), 20_000
        )
        assert 0 < steps == len(seen) and migrations >= 32
        assert (seen.sum(axis=1) == 100).all() and sorted(seen[-1]) == [0, 50, 50]
        if rule == small.ROOM:
            assert seen.max() <= 100


def test_a_cloud_that_cannot_be() -> None:
    with pytest.raises(InputError, match="at least 2 containers"):
        cloud.run_to_equilibrium(np.array([0, 0]), 1, state(1, "bad"))
    for start in ([5], [5, 11], [-1, 3]):
        with pytest.raises(InputError, match="at least two nodes with 0 to 10 containers"):
            cloud.run_to_equilibrium(np.array(start), 10, state(1, "bad"))
