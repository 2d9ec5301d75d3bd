"""Small random clusters for the tests of planning."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from murmuration.assignment.problem import (
    APART,
    SPREAD,
    TOGETHER,
    Problem,
    Rule,
    problem_of,
    violations,
)
from murmuration.base.arrays import Integers


def random_problem(
    seed: int, nodes: int = 6, tasks: int = 14, rules: bool = True, placed: float = 0.7
) -> Problem:
    """Nodes of mixed sizes, services of some replicas, constraints, rules, pins and budgets, all
    drawn from a seed."""
    rng = np.random.default_rng(seed)
    total = rng.integers(4, 20, (nodes, 3)) * 10
    group = np.sort(rng.integers(0, max(tasks // 2, 1), tasks))
    request = rng.integers(0, 60, (tasks, 3))[group]
    allowed = rng.random((3, nodes)) < 0.8
    allowed[0] = True
    node_of = np.where(rng.random(tasks) < placed, rng.integers(0, nodes, tasks), -1)
    budgets = rng.integers(0, 3, 2)
    problem = problem_of(
        total,
        request,
        node_of,
        group,
        allowed=allowed,
        class_of=rng.integers(0, 3, tasks),
        pinned=(rng.random(tasks) < 0.1) & (node_of >= 0),
        budget_of=rng.integers(-1, 2, tasks),
        budget=budgets,
        rules=tuple(_rule(rng, nodes, tasks) for _ in range(4)) if rules else (),
        priority=rng.integers(0, 3, tasks),
        zone_of=np.arange(nodes) % 3,
        price=rng.random(nodes),
        idle_watts=rng.random(nodes) * 100,
        peak_watts=100 + rng.random(nodes) * 100,
        resources=("cpu", "memory", "gpu"),
    )
    return problem


def _rule(rng: np.random.Generator, nodes: int, tasks: int) -> Rule:
    kind = str(rng.choice([APART, TOGETHER, SPREAD]))
    holders = np.flatnonzero(rng.random(tasks) < 0.3)
    targets = holders if rng.random() < 0.5 else np.flatnonzero(rng.random(tasks) < 0.3)
    domain_of = rng.integers(-1, 3, nodes) if rng.random() < 0.5 else np.arange(nodes)
    least = 1 if kind == SPREAD else 0
    return Rule(kind, kind, holders, targets, domain_of, int(rng.integers(least, 3)))


def settled(problem: Problem) -> Integers:
    """The placement without the tasks that break something, so that what is left is allowed."""
    node_of = problem.node_of.copy()
    while found := [v for v in violations(problem, node_of) if v.kind != "pinned"]:
        first = found[0]
        if first.kind == "capacity":
            node_of[np.flatnonzero(node_of == first.subject)[0]] = -1
        elif first.kind == "constraint":
            node_of[first.subject] = -1
        else:
            rule = problem.rules[first.subject]
            members = np.union1d(rule.holders, rule.targets)
            node_of[members[node_of[members] >= 0][0]] = -1
    return node_of


SEEDS = st.integers(0, 10**6)
