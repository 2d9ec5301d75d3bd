"""Service selection against brute force, and against the paper's own example of 18 services."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from murmuration.base.random import state
from murmuration.placement.allocation_scores import SRAS_BEST, sras
from murmuration.schedulers.negotiation import selection
from murmuration.schedulers.negotiation.rules import is_overloaded
from murmuration.schedulers.negotiation.selection import (
    EXACT_MAX,
    SCORE_MIN,
    Tasks,
    select,
    tabu,
    work,
)
from murmuration.simulation.architectures.negotiation.kernels import run_select, run_tabu

Array = NDArray[Any]
UNIT = 10**10

#: The log of 6.1: production, required CPU and memory, used CPU and memory, megabytes, selected.
PAPER = """
6250257820-2156  - 0.0625000 0.1592000 0.0062500 0.0159200 2708.33 -
2902878580-2584  P 0.0062480 0.0014570 0.0093380 0.0269500 541.55 -
331416465-22     P 0.1875000 0.0894800 0.0550500 0.0206900 438.98 -
4857080139-282   P 0.0625000 0.0477300 0.0002184 0.0310400 608.56 -
4857081234-132   P 0.0625000 0.0477300 0.0002184 0.0135700 322.33 *
4857082814-371   P 0.0625000 0.0477300 0.0002174 0.0135700 322.33 *
5351216030-28    - 0.0312500 0.0159000 0.0005217 0.0019320 131.65 -
5852047245-0     P 0.0343600 0.0104200 0.0025140 0.0019300 131.62 -
6114773114-1295  - 0.0125000 0.0077670 0.0002022 0.0019190 131.44 -
6217659576-9     P 0.0125000 0.0039750 0.0201100 0.0057370 194.00 -
6221861800-10453 - 0.0125000 0.0159000 0.0002031 0.0019280 131.59 -
6221861800-3053  - 0.0125000 0.0159000 0.0002069 0.0019300 131.62 -
6221861800-4253  - 0.1562000 0.1399000 0.0002041 0.0019300 131.62 -
6221861800-9435  - 0.0125000 0.0159000 0.0002031 0.0019320 131.65 -
6225099547-1718  P 0.0306400 0.0131700 0.0002079 0.0038800 163.57 *
6238340468-1853  P 0.0625000 0.0396100 0.0175800 0.0116000 290.05 -
6238842108-115   P 0.0312500 0.0279500 0.0319800 0.0057370 194.00 -
6238844615-173   P 0.0312500 0.0279500 0.0234100 0.0051800 184.87 -
"""


class Node:
    """An overloaded node: its totals, what is used and guaranteed, and its tasks."""

    def __init__(self, total: Array, tasks: Tasks, extra: int = 0) -> None:
        self.total, self.tasks = total, tasks
        self.used = tasks.use.sum(axis=0) + extra
        self.guaranteed = tasks.request[tasks.production].sum(axis=0)
        self.chosen = np.zeros(len(tasks.cost), np.bool_)
        self.room = work(len(tasks.cost), len(total))

    def select(self, exact_max: int = EXACT_MAX, compiled: bool = True) -> float:
        function: Any = run_select if compiled else select
        return float(
            function(
                self.total,
                self.used,
                self.guaranteed,
                self.tasks,
                self.chosen,
                self.room,
                exact_max,
            )
        )

    def tabu(self, seed: int, count_restarts: bool, compiled: bool = True) -> float:
        function: Any = run_tabu if compiled else tabu
        limits = (selection.TABU_RESTARTS, selection.TABU_STEPS, selection.TABU_PATIENCE)
        visited = np.zeros(limits[0] * (limits[1] + 1), np.int64)
        with np.errstate(over="ignore"):
            return float(
                function(
                    self.total,
                    self.used,
                    self.guaranteed,
                    self.tasks,
                    self.chosen,
                    self.room,
                    state(seed, "tabu"),
                    *limits,
                    count_restarts,
                    visited,
                )
            )

    def fitness(self, chosen: Array) -> float:
        """Equation 1, straight."""
        used = self.used - self.tasks.use[chosen].sum(axis=0)
        guaranteed = self.guaranteed - self.tasks.request[chosen & self.tasks.production].sum(
            axis=0
        )
        if is_overloaded(self.total, used, guaranteed):
            return 0.0
        return max(sras(used / self.total), SCORE_MIN) / float(self.tasks.cost[chosen].sum())

    def best(self) -> float:
        """Brute force over every set of movable tasks, all at once."""
        movable = np.flatnonzero(self.tasks.movable)
        sets = (np.arange(1, 1 << len(movable))[:, None] >> np.arange(len(movable))) & 1
        used = self.used - sets @ self.tasks.use[movable]
        promised = self.tasks.request * self.tasks.production[:, None]
        guaranteed = self.guaranteed - sets @ promised[movable]
        stable = np.flatnonzero(((used <= self.total) & (guaranteed <= self.total)).all(axis=1))
        costs = sets[stable] @ self.tasks.cost[movable]
        # In the order of the most each set could reach, so that few scores are computed one by one.
        best = 0.0
        for n in np.argsort(costs):
            if SRAS_BEST / costs[n] <= best:
                break
            best = max(best, max(sras(used[stable[n]] / self.total), SCORE_MIN) / costs[n])
        return best


def paper_node() -> tuple[Node, Array]:
    rows = [line.split() for line in PAPER.strip().splitlines()]
    amounts = np.array([[round(float(x) * UNIT) for x in row[2:6]] for row in rows])
    production = np.array([row[1] == "P" for row in rows])
    cost = 100 + 16384 * np.where(amounts[:, 3] == 159200000, amounts[:, 1], amounts[:, 3]) / UNIT
    np.testing.assert_allclose(cost, [float(row[6]) for row in rows], atol=0.006)
    tasks = Tasks(
        amounts[:, 2:].copy(), amounts[:, :2].copy(), production, cost, np.ones(len(rows), np.bool_)
    )
    return Node(np.array([UNIT // 2, 2493 * UNIT // 10000]), tasks), np.array(
        [row[7] == "*" for row in rows]
    )


def random_node(rng: np.random.Generator, count: int, resources: int = 2) -> Node:
    """Tasks of mixed sizes that use 2–20 % more than there is, or are guaranteed up to 15 %
    more."""
    total = rng.integers(500_000, 1_000_000, resources)
    production = rng.random(count) < 0.5
    production[0] = True
    request = rng.lognormal(0, 1, (count, resources))
    use = request * rng.uniform(0.1, 1.1, (count, resources))
    use = (use * rng.uniform(1.02, 1.2) / (use.sum(axis=0) / total).max()).astype(np.int64)
    share = (request[production].sum(axis=0) / total).max()
    request = (request / share * rng.uniform(0.7, 1.15)).astype(np.int64)
    return Node(
        total, Tasks(use, request, production, 100 + use[:, -1] / 61, rng.random(count) < 0.95)
    )


def test_the_papers_example_is_bettered_and_the_optimum_found() -> None:
    node, marked = paper_node()
    np.testing.assert_allclose(node.used / UNIT, [0.1686352, 0.167375], atol=1e-9)
    np.testing.assert_allclose(node.guaranteed / UNIT, [0.583748, 0.357202], atol=1e-9)
    # What the log says of the set it marks.
    assert node.tasks.cost[marked].sum() == pytest.approx(808.23, abs=0.005)
    left = node.guaranteed - node.tasks.request[marked & node.tasks.production].sum(axis=0)
    np.testing.assert_allclose(left / UNIT, [0.428108, 0.248572], atol=1e-9)
    assert node.fitness(marked) > 0
    best = node.best()
    assert node.select() >= node.fitness(marked)
    assert node.select(exact_max=18) == pytest.approx(best, rel=1e-12)
    assert node.fitness(node.chosen) == pytest.approx(best, rel=1e-12)
    assert node.select() >= 0.95 * best


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 11), st.integers(1, 4))
def test_up_to_the_limit_the_best_of_all_sets_is_chosen(
    seed: int, count: int, resources: int
) -> None:
    node = random_node(np.random.default_rng(seed), count, resources)
    best = node.best()
    assert node.select() == pytest.approx(best, rel=1e-9)
    assert not (node.chosen & ~node.tasks.movable).any()
    assert (node.fitness(node.chosen) if node.chosen.any() else 0.0) == pytest.approx(
        best, rel=1e-9
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 8), st.booleans())
def test_compiled_and_plain_choose_the_same(seed: int, count: int, count_restarts: bool) -> None:
    node = random_node(np.random.default_rng(seed), count)
    runs: list[Callable[[bool], float]] = [
        lambda compiled: node.select(EXACT_MAX, compiled),
        lambda compiled: node.select(0, compiled),
        lambda compiled: node.tabu(1, count_restarts, compiled),
    ]
    for run in runs:
        values, chosen = [], []
        for compiled in (True, False):
            values.append(run(compiled))
            chosen.append(node.chosen.copy())
        assert values[0] == values[1]
        assert (chosen[0] == chosen[1]).all()


def test_above_the_limit_the_gap_stays_below_five_percent() -> None:
    rng = np.random.default_rng(5)
    gaps = []
    for count in (17, 18, 19, 20) * 10:
        node = random_node(rng, count)
        best = node.select(exact_max=count)
        if best > 0:
            gaps.append(1 - node.select() / best)
            assert gaps[-1] >= -1e-9
            assert node.fitness(node.chosen) > 0
    assert np.mean(gaps) < 0.05


def test_tabu_returns_stable_sets_and_never_beats_the_optimum() -> None:
    rng = np.random.default_rng(6)
    found = {False: 0.0, True: 0.0}
    for seed in range(40):
        node = random_node(rng, 12)
        best = node.best()
        for count_restarts in found:
            value = node.tabu(seed, count_restarts)
            assert value <= best * (1 + 1e-12)
            assert (value == 0.0) == (not node.chosen.any())
            if value > 0:
                assert value == pytest.approx(node.fitness(node.chosen), rel=1e-12)
                found[count_restarts] += value / best
    # More restarts before it gives up find more.
    assert found[True] > found[False] > 0


def test_a_node_that_no_set_makes_stable_selects_nothing() -> None:
    node, _ = paper_node()
    node.tasks.movable[:] = False
    assert node.select() == 0.0 and not node.chosen.any()
    node.tasks.movable[0] = True
    assert node.select() == 0.0 and not node.chosen.any()
    assert node.tabu(1, True) == 0.0 and not node.chosen.any()


def test_a_super_tight_remainder_is_better_than_an_overloaded_node() -> None:
    use = np.array([[95], [4], [3]])
    tasks = Tasks(
        use,
        use,
        np.zeros(3, np.bool_),
        np.array([900.0, 300.0, 200.0]),
        np.array([False, True, True]),
    )
    node = Node(np.array([100]), tasks)
    assert 0.0 < node.select() < 1e-9
    # One is enough, and the cheaper one does.
    assert node.chosen.tolist() == [False, False, True]
