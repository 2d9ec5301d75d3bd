"""The evaluator: the challenge's published initial costs, a cost worked out by hand, and every rule
broken once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planning.reassignment.instances import (
    DATA,
    Array,
    drawn,
    integers,
    needs_data,
    small,
)

from murmuration.planning.reassignment.cost import Cost, cost, lower_bound, violations
from murmuration.planning.reassignment.model import Model, read_assignment, read_model

INITIAL = integers([0, 1, 0, 2])


@needs_data
@pytest.mark.parametrize(
    ("name", "total"), [("a1_1", 49_528_750), ("a1_4", 632_499_600), ("a2_4", 3_223_516_130)]
)
def test_published_initial_costs(name: str, total: int) -> None:
    model = read_model(DATA / f"model_{name}.txt")
    initial = read_assignment(DATA / f"assignment_{name}.txt", model)
    assert cost(model, initial, initial).total == total
    assert violations(model, initial, initial) == []


@needs_data
@pytest.mark.parametrize(
    ("name", "bound"), [("a1_1", 44_306_390), ("a1_4", 242_387_530), ("a2_4", 1_680_222_380)]
)
def test_published_lower_bounds(name: str, bound: int) -> None:
    assert lower_bound(read_model(DATA / f"model_{name}.txt")) == bound


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 6), st.integers(1, 20))
def test_no_assignment_costs_less_than_the_bound(seed: int, nodes: int, tasks: int) -> None:
    """Whatever the assignment, allowed or not."""
    model, initial = drawn(seed, nodes, tasks, services=4, resources=3)
    rng = np.random.Generator(np.random.PCG64(seed))
    for _ in range(20):
        anything = rng.integers(0, nodes, tasks)
        assert lower_bound(model) <= cost(model, initial, anything).total


def test_a_cost_by_hand() -> None:
    """Tasks 1 and 3 change places.

    Use is (7, 5), (1, 2), (2, 4). Load: 10 × (7 − 6) on node 0, nothing else. Free is (3, 5), (9,
    8), (8, 6): lacking max(0, 3 − 5) + (9 − 8) + (8 − 6) = 3, times 5. Moves: 2 + 4 once; one per
    service; 3 + 3 between the nodes.
    """
    found = cost(small(), INITIAL, integers([0, 2, 0, 1]))
    assert found == Cost(load=10, balance=15, task_moves=6, service_moves=10, node_moves=600)
    assert found.total == 641


def test_the_initial_assignment_moves_nothing() -> None:
    assert cost(small(), INITIAL, INITIAL)[2:] == (0, 0, 0)
    assert violations(small(), INITIAL, INITIAL) == []


LOW = integers([[10, 4], [10, 10], [10, 10]])
ANYWHERE = integers([0, 0, 0])

BROKEN = [
    (
        "capacity",
        small(capacity=integers([[6, 10], [10, 10], [10, 10]])),
        INITIAL,
        "node 0 holds 7 of resource 0",
    ),
    (
        "transient",
        small(capacity=LOW, spread=ANYWHERE),
        integers([1, 2, 1, 2]),
        "node 0 holds 5 of resource 1",
    ),
    ("conflict", small(spread=ANYWHERE), integers([0, 0, 0, 2]), "service 0 has 2 tasks on node 0"),
    ("spread", small(), integers([1, 2, 1, 2]), "service 0 is in 1 locations, fewer than 2"),
    (
        "dependency",
        small(),
        integers([0, 1, 2, 2]),
        "service 1 in neighbourhood 1 needs service 0, which is not there",
    ),
]


@pytest.mark.parametrize(("rule", "model", "assignment", "sentence"), BROKEN)
def test_each_rule_broken_alone(rule: str, model: Model, assignment: Array, sentence: str) -> None:
    (found,) = violations(model, INITIAL, assignment)
    assert found.startswith(sentence)


def test_what_is_not_transient_leaves_at_once() -> None:
    model = small(capacity=LOW, spread=ANYWHERE, transient=np.zeros(2, dtype=np.int64))
    assert violations(model, INITIAL, integers([1, 2, 1, 2])) == []
