"""Fewer tasks: some left out, and what belongs to a node taken from what it can give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from murmuration.assignment.problem import Flags, Problem, used
from murmuration.assignment.snapshots.builder import Snapshot


def folded(problem: Problem) -> Problem:
    """A problem without the tasks that belong to their nodes, such as a daemon set's: they take
    from what nodes give.

    A node on which nothing else runs then counts as empty. A task a rule speaks of stays, so that
    the rule holds.
    """
    if not isinstance(problem.details, Snapshot):
        return problem
    fixed = np.array(
        [task.of_node and bool(task.node) for task in problem.details.tasks], dtype=np.bool_
    )
    for rule in problem.rules:
        fixed[rule.holders] = fixed[rule.targets] = False
    if not fixed.any():
        return problem
    taken = used(problem, np.where(fixed, problem.node_of, -1))
    return subset(replace(problem, total=np.maximum(problem.total - taken, 0)), ~fixed)


def subset(problem: Problem, keep: Flags) -> Problem:
    """The same problem with some of its tasks."""
    place = np.cumsum(keep) - 1
    rules = []
    for rule in problem.rules:
        holders, targets = (
            place[rule.holders[keep[rule.holders]]],
            place[rule.targets[keep[rule.targets]]],
        )
        if len(holders) and len(targets):
            rules.append(replace(rule, holders=holders, targets=targets))
    details = problem.details
    if isinstance(details, Snapshot):
        details = replace(
            details, tasks=[task for task, kept in zip(details.tasks, keep, strict=True) if kept]
        )
    columns = {
        name: getattr(problem, name)[keep]
        for name in (
            "request",
            "node_of",
            "class_of",
            "group",
            "pinned",
            "budget_of",
            "priority",
            "megabytes",
        )
    }
    tasks = tuple(name for name, kept in zip(problem.tasks, keep, strict=True) if kept)
    return replace(problem, tasks=tasks, rules=tuple(rules), details=details, **columns)
