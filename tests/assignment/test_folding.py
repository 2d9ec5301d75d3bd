"""A problem without the tasks of its nodes allows what the whole problem allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.assignment.problems import SEEDS, random_problem

from murmuration.assignment.details import SnapshotDetails
from murmuration.assignment.problem import APART, SPREAD, TOGETHER, Problem, Rule, violations
from murmuration.assignment.snapshots.folding import fold_bound_tasks
from murmuration.base.arrays import Flags, Integers


def with_daemons(seed: int, *kinds: str) -> Problem:
    """A random problem whose placed tasks are daemons, beside rules of these kinds."""
    problem = random_problem(seed, placed=0.4)
    bound = problem.node_of >= 0
    rules = [rule for rule in problem.rules if rule.kind in kinds]
    details = SnapshotDetails(
        "test", problem.tasks, ("",) * len(bound), tuple(bool(flag) for flag in bound)
    )
    return replace(problem, rules=tuple(rules), source=details, pinned=bound)


def place_others(problem: Problem, rng: np.random.Generator) -> Integers:
    """A few of the tasks that have no node get one; daemons stay."""
    count = len(problem.tasks)
    drawn = np.where(rng.random(count) < 0.3, rng.integers(0, len(problem.nodes), count), -1)
    return np.where(problem.node_of >= 0, problem.node_of, drawn)


def is_allowed(problem: Problem, node_of: Integers) -> bool:
    return not violations(problem, node_of)


@given(SEEDS, st.integers(0, 2**32))
def test_the_same_placements_are_allowed(seed: int, draw: int) -> None:
    """Where nobody may lie beside a daemon, or no rule speaks of one, both say the same."""
    problem = with_daemons(seed, APART)
    problem = replace(problem, rules=tuple(replace(rule, limit=0) for rule in problem.rules))
    if violations(problem, problem.node_of):
        return  # daemons that are too many for their nodes are nobody's fault who comes later
    folded = fold_bound_tasks(problem)
    kept = problem.node_of < 0
    assert folded.tasks == tuple(np.array(problem.tasks)[kept])
    rng = np.random.default_rng(draw)
    for _ in range(20):
        node_of = place_others(problem, rng)
        assert is_allowed(folded, node_of[kept]) == is_allowed(problem, node_of)


@given(SEEDS, st.integers(0, 2**32))
def test_a_daemon_that_others_are_counted_beside_stays(seed: int, draw: int) -> None:
    """With other rules folding is on the safe side: what it allows is allowed."""
    problem = with_daemons(seed, APART, TOGETHER, SPREAD)
    if violations(problem, problem.node_of):
        return
    folded = fold_bound_tasks(problem)
    counted = [rule for rule in problem.rules if rule.kind != APART or rule.limit]
    needed = {problem.tasks[t] for rule in counted for t in rule.targets.tolist()}
    assert needed <= set(folded.tasks)
    kept = np.isin(np.array(problem.tasks), np.array(folded.tasks))
    rng = np.random.default_rng(draw)
    for _ in range(20):
        node_of = place_others(problem, rng)
        if is_allowed(folded, node_of[kept]):
            assert not _broken_for_movers(problem, node_of, kept)


def _broken_for_movers(problem: Problem, node_of: Integers, kept: Flags) -> list[str]:
    """What is broken, but for rules that only a folded task holds: it cannot leave its node."""
    rules = [_held_by(rule, kept) for rule in problem.rules]
    return [v.kind for v in violations(replace(problem, rules=tuple(rules)), node_of)]


def _held_by(rule: Rule, kept: Flags) -> Rule:
    return rule if rule.kind == APART else replace(rule, holders=rule.holders[kept[rule.holders]])


def test_a_daemon_takes_what_it_asks_for() -> None:
    problem = with_daemons(3)
    folded = fold_bound_tasks(problem)
    taken = np.zeros_like(problem.total)
    for t in np.flatnonzero(problem.node_of >= 0).tolist():
        taken[problem.node_of[t]] += problem.request[t]
    assert (folded.total == np.maximum(problem.total - taken, 0)).all()
