"""What if: the same cluster without some of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from murmuration.assignment.problem import TOGETHER, Problem, Rule
from murmuration.base.arrays import Amounts, Flags, Indices
from murmuration.base.errors import InputError
from murmuration.planning.selectors import select_nodes


class Removed(NamedTuple):
    """A cluster without some nodes: the tasks that need a new node with the name of the old one,
    those that cannot leave theirs with the reason, and the nodes."""

    problem: Problem
    displaced: dict[int, str]
    stranded: dict[str, str]
    nodes: list[str]


def remove_nodes(problem: Problem, texts: Sequence[str], failed: bool = False) -> Removed:
    """Take nodes, given by names or selectors, out of a cluster: their tasks have no node any more,
    and those that cannot be moved are stranded.

    Nodes that have `failed` ask nobody: who may not be moved is made again elsewhere by what made
    it, and stranded are those nothing makes again.
    """
    names = {name for text in texts for name in select_nodes(problem, text, "--remove")}
    gone = np.array([name in names for name in problem.nodes])
    if gone.all():
        raise InputError("--remove: expected at least one node to be left")
    affected = (problem.node_of >= 0) & gone[problem.node_of]
    reasons = why_lost(problem) if failed else why_fixed(problem)
    goes_with = _goes_with_node(problem)
    stranded = {
        problem.tasks[t]: reasons[t]
        for t in np.flatnonzero(affected & ~goes_with).tolist()
        if reasons[t]
    }
    fixed = affected & np.array([bool(reason) for reason in reasons], dtype=np.bool_)
    # Whoever is stranded is still there and counts for rules until somebody ends it. What belongs
    # to its node, or was on one that failed, is gone.
    keep = ~(fixed & (goes_with | failed)) & ~(goes_with & _waits_for(problem, gone))
    rest = problem.subset(keep)
    moving = (affected & ~fixed)[keep]
    displaced = {int(t): problem.nodes[rest.node_of[t]] for t in np.flatnonzero(moving)}
    # The nodes stay in the arrays, so that numbers and names keep their meaning, and the tasks on
    # them are there until they have left; but nobody may come.
    leaves = np.where(moving, rest.node_of, -1)
    changed = replace(
        rest,
        node_of=np.where(moving, -1, rest.node_of),
        leaves=leaves,
        allowed=rest.allowed & ~gone,
        pinned=rest.pinned & ~moving,
        rules=tuple(_leave_alone(rule, gone, leaves) for rule in rest.rules),
    )
    return Removed(changed, displaced, stranded, sorted(names))


def _leave_alone(rule: Rule, gone: Flags, left: Indices) -> Rule:
    """Company on a node that some of it leave is company no longer, and holds nobody back: all have
    to leave, one after the other, and each finds company where it comes to. Kubernetes asks for
    affinity only where a pod is placed, too. `left` is the node each task leaves, −1 if it stays.
    To a spread that counts open nodes alone, a node that goes is closed."""
    if rule.kind == TOGETHER:
        lonely = np.isin(np.arange(len(gone)), left[rule.members])
        return replace(rule, domain_of=np.where(lonely, -1, rule.domain_of))
    return rule.without_nodes(gone) if rule.only_open else rule


def _waits_for(problem: Problem, nodes: Flags) -> Flags:
    """Tasks without a node that these nodes could take and no other: a daemon's pod that is not
    there yet is meant for one node."""
    usable = problem.allowed
    only_here = np.asarray(usable.any(axis=1) & ~(usable & ~nodes).any(axis=1))
    waits: Flags = (problem.node_of < 0) & only_here[problem.class_of]
    return waits


def _goes_with_node(problem: Problem) -> Flags:
    """Tasks that belong to their nodes and end with them."""
    if problem.source is None:
        return np.zeros(len(problem.tasks), dtype=np.bool_)
    return np.array(problem.source.bound_to_node, dtype=np.bool_)


def why_fixed(problem: Problem) -> list[str]:
    """Why a task cannot be moved, by task; empty if it can."""
    movable = problem.movable
    pin_reasons = problem.source.pin_reasons if problem.source is not None else ()
    reasons = []
    for t in range(len(problem.tasks)):
        if movable[t]:
            reasons.append("")
        elif problem.pinned[t]:
            reasons.append((pin_reasons[t] if pin_reasons else "") or "it is pinned")
        else:
            reasons.append("its disruption budget allows no disruption now")
    return reasons


def why_lost(problem: Problem) -> list[str]:
    """Why nothing makes a task again if its node fails, by task; empty if something does."""
    source = problem.source
    if source is None or not source.remade:
        return ["it is pinned" if pinned else "" for pinned in problem.pinned.tolist()]
    return [
        "" if remade else reason or "nothing would make it again"
        for remade, reason in zip(source.remade, source.pin_reasons, strict=True)
    ]


def add_task(problem: Problem, request: Amounts) -> Problem:
    """The same problem with one task more, the only one of its service, that has no node yet."""
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
    return replace(problem, tasks=(*problem.tasks, "new"), source=None, **columns)
