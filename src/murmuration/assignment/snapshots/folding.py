"""Fewer tasks: what belongs to a node is taken from what the node can give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from murmuration.assignment.problem import Problem, used


def fold_bound_tasks(problem: Problem) -> Problem:
    """A problem without the tasks that belong to their nodes, such as a daemon set's: their
    requests are subtracted from what the nodes have.

    A node on which nothing else runs then counts as empty, and a search has fewer tasks to carry. A
    task that takes part in a rule stays, so that the rule holds.
    """
    if problem.source is None:
        return problem
    folded = np.array(problem.source.bound_to_node, dtype=np.bool_) & (problem.node_of >= 0)
    for rule in problem.rules:
        folded[rule.members] = False
    if not folded.any():
        return problem
    taken = used(problem, np.where(folded, problem.node_of, -1))
    return replace(problem, total=np.maximum(problem.total - taken, 0)).subset(~folded)
