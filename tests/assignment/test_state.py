"""Incremental evaluation: a move changes what a full evaluation says, and is allowed when the
oracle agrees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from tests.assignment.problems import SEEDS, random_problem, settled

from murmuration.assignment.evaluate import evaluate_one
from murmuration.assignment.moves import shift
from murmuration.assignment.objectives import COUNT
from murmuration.assignment.packed import Packed, pack
from murmuration.assignment.problem import new_violations
from murmuration.assignment.state import (
    PlacementState,
    change,
    legal,
    load,
    new_state,
    swap_change,
    takes,
)
from murmuration.base.jit import loop_kernel


@loop_kernel
def changes(p: Packed, s: PlacementState, w: Any, task: int, node: int) -> float:
    return change(p, s, w, task, node)


@loop_kernel
def swaps(p: Packed, s: PlacementState, w: Any, task: int, other: int) -> float:
    return swap_change(p, s, w, task, other)


@loop_kernel
def would_take(p: Packed, s: PlacementState, t: int, n: int) -> bool:
    return takes(p, s, t, n)


@loop_kernel
def allows(p: Packed, s: PlacementState, task: int, node: int) -> bool:
    return legal(p, s, task, node)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_a_move_changes_what_a_full_evaluation_says(seed: int) -> None:
    problem = random_problem(seed, tasks=30)
    work = pack(problem, power_off=bool(seed % 2))
    rng = np.random.default_rng(seed)
    state, weights = new_state(work.packed), rng.random(COUNT)
    load(work.packed, state, work.placement(problem.node_of))
    for _ in range(15):
        task, node = int(rng.integers(30)), int(rng.integers(len(problem.nodes)))
        if state.x[task] == node:
            continue
        before = evaluate_one(work.packed, state.x) @ weights
        told = changes(work.packed, state, weights, task, node)
        shift(work.packed, state, task, node)
        np.testing.assert_allclose(
            told, evaluate_one(work.packed, state.x) @ weights - before, atol=1e-6
        )


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_a_swap_changes_what_a_full_evaluation_says(seed: int) -> None:
    problem = random_problem(seed, tasks=30, placed=1.0)
    work = pack(problem)
    rng = np.random.default_rng(seed)
    state, weights = new_state(work.packed), rng.random(COUNT)
    load(work.packed, state, work.placement(problem.node_of))
    for _ in range(15):
        task, other = (int(t) for t in rng.integers(30, size=2))
        a, b = int(state.x[task]), int(state.x[other])
        if a == b or work.packed.group[task] == work.packed.group[other]:
            continue
        before = evaluate_one(work.packed, state.x) @ weights
        told = swaps(work.packed, state, weights, task, other)
        shift(work.packed, state, task, b)
        shift(work.packed, state, other, a)
        np.testing.assert_allclose(
            told, evaluate_one(work.packed, state.x) @ weights - before, atol=1e-6
        )


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_a_move_is_allowed_when_the_oracle_finds_nothing_broken(seed: int) -> None:
    """From an allowed placement every single move: the kernel's answer and that of the plain rules
    are the same."""
    problem = random_problem(seed, nodes=5, tasks=10)
    node_of = settled(problem)
    problem = replace(problem, node_of=node_of)
    work = pack(problem)
    state = new_state(work.packed)
    load(work.packed, state, work.placement(node_of))
    place = np.argsort(work.order)
    for task in range(10):
        for node in range(5):
            if node_of[task] == node:
                continue
            after = node_of.copy()
            after[task] = node
            broken = [v for v in new_violations(problem, after, node_of) if v.kind != "pinned"]
            fits = not broken
            told = bool(allows(work.packed, state, int(place[task]), node))
            if node_of[task] < 0:
                # Who has no node is asked about its own rules alone, in the end.
                taken = bool(would_take(work.packed, state, int(place[task]), node))
                assert taken >= told
                told = taken
            assert told == fits, (task, node, broken)


def test_what_is_broken_already_may_stay_but_not_grow() -> None:
    problem = random_problem(3, tasks=20)
    assert new_violations(problem, problem.node_of) == []
