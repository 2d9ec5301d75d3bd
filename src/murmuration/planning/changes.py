"""What if: the same cluster without some of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from murmuration.assignment.problem import Integers, Problem
from murmuration.assignment.snapshots.builder import Snapshot
from murmuration.assignment.snapshots.folding import subset
from murmuration.base.errors import InputError, unknown


class Removed(NamedTuple):
    """A cluster without some nodes: whose tasks need a new node, and who is stranded there and
    why."""

    problem: Problem
    displaced: dict[int, str]
    stranded: dict[str, str]


def without(problem: Problem, names: Sequence[str]) -> Removed:
    """The tasks of removed nodes have no node any more; what runs on every node goes with its
    node."""
    for name in names:
        if name not in problem.nodes:
            raise InputError(f"--remove: {unknown('node', name, problem.nodes)}")
    gone = np.array([name in names for name in problem.nodes])
    if gone.all():
        raise InputError("--remove: expected at least one node to be left")
    there = (problem.node_of >= 0) & gone[problem.node_of]
    reasons = _reasons(problem)
    stranded = {problem.tasks[t]: reasons[t] for t in np.flatnonzero(there) if reasons[t]}
    keep = np.array(
        [not (there[t] and reasons[t]) for t in range(len(problem.tasks))], dtype=np.bool_
    )
    left = subset(problem, keep)
    moved = there[keep]
    displaced = {int(t): problem.nodes[left.node_of[t]] for t in np.flatnonzero(moved)}
    node_of = np.where(moved, -1, left.node_of)
    allowed = left.allowed & ~gone
    total = np.where(gone[:, None], 0, left.total)
    pinned = left.pinned & ~moved
    return Removed(
        replace(left, node_of=node_of, allowed=allowed, total=total, pinned=pinned),
        displaced,
        stranded,
    )


def _reasons(problem: Problem) -> list[str]:
    """Why a task cannot be moved, by task; empty if it can."""
    movable = problem.movable
    told = (
        [task.pinned for task in problem.details.tasks]
        if isinstance(problem.details, Snapshot)
        else []
    )
    words = []
    for t in range(len(problem.tasks)):
        if movable[t]:
            words.append("")
        elif problem.pinned[t]:
            words.append(told[t] if told and told[t] else "it is pinned")
        else:
            words.append("its disruption budget allows no disruption now")
    return words


def with_task(problem: Problem, request: Integers) -> Problem:
    """The same problem with one task more, a service of its own that has no node yet."""
    one = {
        "request": request[None].astype(np.int64),
        "node_of": [-1],
        "class_of": [0],
        "pinned": [False],
        "group": [problem.group.max(initial=-1) + 1],
        "budget_of": [-1],
        "priority": [0],
        "megabytes": [request[1] / 1e6],
    }
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(problem, name), np.asarray(more)])
        for name, more in one.items()
    }
    return replace(problem, tasks=(*problem.tasks, "new"), **columns)
