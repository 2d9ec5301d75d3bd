"""Why a task has no node: each node's first objection, counted."""

from __future__ import annotations

from collections import Counter

import numpy as np

from murmuration.assignment.problem import Integers, Problem, broken, used
from murmuration.base.resources import format_amount


def why_unplaced(problem: Problem, node_of: Integers, task: int) -> str:
    """One sentence: how many nodes refuse a task for which reason, the most frequent first."""
    free = problem.total - used(problem, node_of)
    request = problem.request[task]
    usable = problem.may_use(task)
    found: Counter[str] = Counter()
    for node in range(len(problem.nodes)):
        found[
            _objection(problem, node_of, task, node, free[node], request, bool(usable[node]))
        ] += 1
    parts = [
        f"{count} {'node' if count == 1 else 'nodes'} {reason}"
        for reason, count in found.most_common()
    ]
    return "; ".join(parts)


def _objection(
    problem: Problem,
    node_of: Integers,
    task: int,
    node: int,
    free: Integers,
    request: Integers,
    usable: bool,
) -> str:
    if not usable:
        return "its constraints, a taint or a cordon exclude"
    short = np.flatnonzero((request > free) & (request > 0))
    if len(short):
        r = int(short[0])
        name = problem.resources[r]
        if request[r] > problem.total[node, r]:
            return f"smaller than the {format_amount(name, int(request[r]))} it asks for"
        return f"without {format_amount(name, int(request[r]))} free"
    there = node_of.copy()
    there[task] = node
    for index in problem.rules_of(np.array([task])):
        rule = problem.rules[index]
        if sum(broken(rule, there).values()) > sum(broken(rule, node_of).values()):
            return f"forbidden by a rule ({rule.name})"
    return "that would take it, but only in another order"
