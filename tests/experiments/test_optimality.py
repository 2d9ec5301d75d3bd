"""The proof that nothing is better than Kubernetes' placement, against every placement there is."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from murmuration.assignment import objectives as of
from murmuration.assignment.packed import pack
from murmuration.assignment.problem import Problem, problem_of
from murmuration.assignment.search.construct import construct
from murmuration.experiments.papers.kapellmeister.instances import FAMILIES, instance
from murmuration.experiments.papers.kapellmeister.optimality import (
    applies,
    prove_pareto_optimal,
    spread,
)

pytest.importorskip("ortools")
THREE = [of.CROWDING, of.POWER, of.IMBALANCE]


def small_cluster(seed: int) -> Problem:
    """Five containers of one CPU on four nodes, memory at random below what goes with a CPU."""
    rng = np.random.default_rng(seed)
    sizes = np.array([(2, 8), (2, 8), (4, 16), (8, 32)])
    total = sizes * np.array([1_000_000, 1_000_000_000])
    memory = rng.integers(1, 20, 5) * 200_000_000
    request = np.stack([np.full(5, 1_000_000), memory], axis=1)
    idle, peak = of.power_of(sizes[:, 0], sizes[:, 1] * 1000)
    return problem_of(total, request, group=np.arange(5), idle_watts=idle, peak_watts=peak)


def list_values(problem: Problem) -> dict[tuple[int, ...], np.ndarray]:
    """The three objectives of every placement that fits."""
    values = {}
    for place in product(range(4), repeat=5):
        node_of = np.array(place)
        if (of.shares(problem, node_of) <= 1.0).all():
            values[place] = of.values(problem, node_of)[THREE]
    return values


@pytest.mark.parametrize("seed", range(3))
def test_a_proof_is_never_wrong_and_often_found(seed: int) -> None:
    problem = small_cluster(seed)
    values = list_values(problem)
    table = np.array(list(values.values()))
    rng = np.random.default_rng(seed)
    proved = optimal = 0
    for k in rng.permutation(len(values))[:60].tolist() + _undominated(table)[:20]:
        node_of, here = np.array(list(values)[k]), table[k]
        dominated = ((table <= here + 1e-9).all(axis=1) & (table < here - 1e-9).any(axis=1)).any()
        verdict = prove_pareto_optimal(problem, node_of)
        assert verdict is None or not dominated
        proved, optimal = proved + (verdict is True), optimal + (not dominated)
    assert 0 < proved <= optimal


def _undominated(table: np.ndarray) -> list[int]:
    return [
        k
        for k, here in enumerate(table)
        if not ((table <= here + 1e-9).all(axis=1) & (table < here - 1e-9).any(axis=1)).any()
    ]


def test_the_papers_cluster_m4() -> None:
    """Kubernetes' own placement there cannot be improved, and one with two tasks exchanged for a
    worse can."""
    problem = instance(FAMILIES["M4"], 1)
    work = pack(problem)
    node_of = work.restore(construct(work, "kubernetes"))
    assert applies(problem) and prove_pareto_optimal(problem, node_of) is True
    crowded = node_of.copy()
    crowded[:2] = np.flatnonzero(np.bincount(node_of, minlength=len(problem.total)))[-1]
    assert prove_pareto_optimal(problem, crowded) is None


@pytest.mark.parametrize("name", ["A1", "M5a"])
def test_it_is_not_claimed_where_the_argument_does_not_hold(name: str) -> None:
    assert not applies(instance(FAMILIES[name], 1))


@pytest.mark.parametrize(("tasks", "nodes"), [(0, 3), (5, 3), (6, 3), (7, 2)])
def test_an_even_spread_is_the_least_crowded(tasks: int, nodes: int) -> None:
    counts = [c for c in product(range(tasks + 1), repeat=nodes) if sum(c) == tasks]
    assert spread(tasks, nodes) == min(sum(k * (k + 1) // 2 for k in c) for c in counts)
