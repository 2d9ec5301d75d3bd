"""What a plan means for nodes: which become empty, and why the others cannot."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from murmuration.assignment.problem import Problem, new_broken, sum_requests
from murmuration.assignment.reasons import why_unplaced
from murmuration.base.arrays import Amounts, Flags, Indices

#: Nodes for which the reason is looked for.
EXPLAINED_MAX = 50
#: Nothing is known against it, and that is no promise: disruption budgets and the order of moves
#: were not looked at.
UNTRIED = "nothing that was looked at is in the way, but the search ended without it"


class Kept(NamedTuple):
    """A node that stays in use, how many tasks would have to leave it, and what is in the way."""

    node: str
    tasks: int
    reason: str


def list_emptied(problem: Problem, node_of: Indices) -> list[str]:
    """The nodes that have tasks before a plan and none after it; who finds no other node than one
    that goes is still there."""
    nodes = range(len(problem.nodes))
    before = _in_use(problem.present, len(nodes))
    after = _in_use(problem.with_leaving(node_of), len(nodes))
    return [problem.nodes[n] for n in nodes if before[n] and not after[n]]


def _in_use(node_of: Indices, nodes: int) -> Flags:
    return np.bincount(node_of[node_of >= 0], minlength=nodes) > 0


def why_kept(problem: Problem, node_of: Indices) -> list[Kept]:
    """Why each node that is in use cannot be emptied into the others, those with the fewest tasks
    first: a ranking of nodes to drain. Of many nodes only the first are explained."""
    counts = np.bincount(node_of[node_of >= 0], minlength=len(problem.nodes))
    order = [n for n in np.argsort(counts, kind="stable").tolist() if counts[n]]
    return [
        Kept(problem.nodes[n], int(counts[n]), _why_not_empty(problem, node_of, n))
        for n in order[:EXPLAINED_MAX]
    ]


def _why_not_empty(problem: Problem, node_of: Indices, node: int) -> str:
    """The first task of a node, the largest first, that no other node in use would take."""
    tasks = np.flatnonzero(node_of == node)
    movable = problem.movable
    fixed = [int(t) for t in tasks if not movable[t]]
    if fixed:
        return f"{problem.tasks[fixed[0]]} may not be moved: {_why_fixed(problem, fixed[0])}"
    size = (problem.request[tasks] / np.maximum(problem.total.mean(axis=0), 1)).max(axis=1)
    others = _in_use(node_of, len(problem.nodes))
    others[node] = False
    placed, free = node_of.copy(), problem.total - sum_requests(problem, node_of)
    for t in tasks[np.argsort(-size, kind="stable")].tolist():
        target = _node_for(problem, placed, t, others, free)
        if target < 0:
            placed[t] = -1
            return f"{problem.tasks[t]}: {why_unplaced(problem, placed, t, others)}"
        placed[t] = target
        free[target] -= problem.request[t]
    return UNTRIED


def _why_fixed(problem: Problem, task: int) -> str:
    reasons = problem.source.pin_reasons if problem.source is not None else ()
    if not problem.pinned[task]:
        return "its disruption budget allows no disruption now"
    return (reasons[task] if reasons else "") or "it is pinned"


def _node_for(problem: Problem, node_of: Indices, task: int, among: Flags, free: Amounts) -> int:
    """The fullest of these nodes that takes a task; −1 if none does."""
    request = problem.request[task]
    room = ((request <= free) | (request == 0)).all(axis=1)
    nodes = np.flatnonzero(room & problem.may_use(task) & among)
    for n in nodes[np.argsort(free[nodes, 0], kind="stable")].tolist():
        after = node_of.copy()
        after[task] = n
        if not new_broken(problem, np.array([task]), after, node_of):
            return int(n)
    return -1
