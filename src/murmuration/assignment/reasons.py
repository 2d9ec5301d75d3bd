"""Why a task has no node: each node's first objection, counted."""

from __future__ import annotations

from collections import Counter

import numpy as np

from murmuration.assignment.problem import Problem, find_broken, refuses_arrival, sum_requests
from murmuration.base.arrays import Amounts, Flags, Indices


def why_unplaced(problem: Problem, node_of: Indices, task: int, among: Flags | None = None) -> str:
    """One sentence: how many nodes (of all, or of those marked) refuse a task for which reason, the
    most frequent first."""
    if problem.pinned[task] and problem.source is not None and problem.source.pin_reasons[task]:
        return problem.source.pin_reasons[task]
    free = problem.total - sum_requests(problem, node_of)
    usable = problem.may_use(task)
    objections: Counter[str] = Counter()
    nodes = range(len(problem.nodes)) if among is None else np.flatnonzero(among).tolist()
    for node in nodes:
        if usable[node]:
            reason = _object_to(problem, node_of, task, node, free[node])
        else:
            reason = _why_excluded(problem, task, node)
        objections[reason] += 1
    parts = [
        f"{count} {'node' if count == 1 else 'nodes'} {reason}"
        for reason, count in objections.most_common()
    ]
    return "; ".join(parts)


def _why_excluded(problem: Problem, task: int, node: int) -> str:
    """Why a node is closed to a task: what its snapshot says, or that the question closed it."""
    source = problem.source
    if source is None or source.why_excluded is None or not source.wants:
        return "excluded by its constraints"
    return source.why_excluded(source.wants[task], node) or "that this plan leaves out"


def _object_to(problem: Problem, node_of: Indices, task: int, node: int, free: Amounts) -> str:
    """Why a node the task may use does not take it: too small, too full, or forbidden by a rule."""
    request = problem.request[task]
    short = np.flatnonzero((request > free) & (request > 0))
    if len(short):
        r = int(short[0])
        asked = problem.format(r, int(request[r]))
        if request[r] > problem.total[node, r]:
            return f"smaller than the {asked} it asks for"
        return f"without {asked} free"
    after = node_of.copy()
    after[task] = node
    for index in problem.rules_of(np.array([task])):
        rule = problem.rules[index]
        worse = sum(find_broken(rule, after).values()) > sum(find_broken(rule, node_of).values())
        if worse or refuses_arrival(rule, task, after):
            return f"forbidden by a rule ({rule.name})"
    return "that would take it, but only in another order"
