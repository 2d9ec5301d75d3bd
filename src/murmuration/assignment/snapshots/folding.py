"""Fewer tasks: what belongs to a node is taken from what the node can give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from murmuration.assignment.problem import APART, Problem, Rule, sum_requests
from murmuration.base.arrays import Flags, Indices


def fold_bound_tasks(problem: Problem) -> Problem:
    """A problem without the tasks that belong to their nodes, such as a daemon set's: their
    requests are subtracted from what the nodes have.

    A node on which nothing else runs then counts as empty, and a search has fewer tasks to carry.
    Where a rule keeps others away from such a task, the others may no longer use the nodes it keeps
    them from. A task that others want beside them, or that a spread counts, stays in the problem.
    """
    if problem.source is None:
        return problem
    folded = np.array(problem.source.bound_to_node, dtype=np.bool_) & (problem.node_of >= 0)
    for rule in problem.rules:
        if rule.kind != APART or rule.limit:
            folded[rule.targets] = False
    if not folded.any():
        return problem
    narrowed = _keep_away(problem, folded)
    taken = sum_requests(problem, np.where(folded, problem.node_of, -1))
    return replace(narrowed, total=np.maximum(problem.total - taken, 0)).subset(~folded)


def _keep_away(problem: Problem, folded: Flags) -> Problem:
    """Take from tasks the nodes on which a rule would set them beside a folded one."""
    barred: dict[int, list[bytes]] = {}
    masks: dict[bytes, Flags] = {}
    for rule in problem.rules:
        if rule.kind != APART:
            continue
        for there, others in ((rule.holders, rule.targets), (rule.targets, rule.holders)):
            mask = _domains_with(rule, there[folded[there]], problem.node_of)
            if not mask.any():
                continue
            key = mask.tobytes()
            masks[key] = mask
            for task in others[~folded[others]].tolist():
                barred.setdefault(task, []).append(key)
    return _narrow(problem, barred, masks)


def _domains_with(rule: Rule, tasks: Indices, node_of: Indices) -> Flags:
    """The nodes in domains where one of these tasks lies."""
    domains = rule.domain_of[node_of[tasks]]
    inside = domains[domains >= 0]
    return np.asarray(np.isin(rule.domain_of, inside))


def _narrow(problem: Problem, barred: dict[int, list[bytes]], masks: dict[bytes, Flags]) -> Problem:
    """The same problem with a class of its own for tasks that may use fewer nodes."""
    classes: dict[tuple[int, tuple[bytes, ...]], int] = {}
    rows, class_of = [*problem.allowed], problem.class_of.copy()
    for task, keys in barred.items():
        mark = (int(problem.class_of[task]), tuple(sorted(set(keys))))
        if mark not in classes:
            classes[mark] = len(rows)
            row = problem.allowed[mark[0]].copy()
            for key in mark[1]:
                row &= ~masks[key]
            rows.append(row)
        class_of[task] = classes[mark]
    return replace(problem, allowed=np.array(rows), class_of=class_of)
