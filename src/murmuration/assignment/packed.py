"""A problem as the arrays that compiled searches work on.

Tasks are put in the order of their groups, so that the replicas of a service lie side by side;
`placement` and `restored` translate. Rules become counters by domain, of which a task knows the few
it takes part in.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmuration.assignment.objectives import priority_weight
from murmuration.assignment.problem import (
    APART,
    SPREAD,
    TOGETHER,
    Flags,
    Floats,
    Integers,
    Problem,
    Rule,
)

Placement = NDArray[np.int32]
#: Groups of more tasks than this get a counter for every node; smaller ones are counted by looking
#: at their tasks.
SMALL_GROUP = 8
KINDS = {APART: 0, TOGETHER: 1, SPREAD: 2}
HOLDER, TARGET = 1, 2
#: Rules over no more tasks than this, by more domains, have no counters.
FEW_TASKS = 64


class Packed(NamedTuple):
    """The problem, read-only."""

    total: Integers
    inverse: Floats
    both: Floats
    request: Integers
    start: Integers
    allowed: Flags
    class_of: Integers
    group: Integers
    first: Integers
    big: Integers
    big_groups: Integers
    pairs: NDArray[np.uint32]
    zone_of: Integers
    price: Floats
    idle: Floats
    span: Floats
    priority: Floats
    megabytes: Floats
    movable: Integers
    power_off: bool
    rule_first: Integers
    rule_list: Integers
    rule_role: Integers
    rule_kind: Integers
    rule_most: Integers
    rule_key: Integers
    rule_at: Integers
    rule_domains: Integers
    rule_tasks_first: Integers
    rule_tasks: Integers
    rule_tasks_role: Integers
    domain_of: Integers


class Work(NamedTuple):
    """A problem packed, and the way back."""

    problem: Problem
    packed: Packed
    order: Integers

    def placement(self, node_of: Integers) -> Placement:
        return node_of[self.order].astype(np.int32)

    def restored(self, placement: Placement) -> Integers:
        node_of = np.empty(len(self.order), dtype=np.int64)
        node_of[self.order] = placement
        return node_of


def pack(problem: Problem, power_off: bool = False) -> Work:
    """The arrays of a problem, tasks by group."""
    group = np.unique(problem.group, return_inverse=True)[1].reshape(-1)
    order = np.argsort(group, kind="stable")
    sorted_group = np.ascontiguousarray(group[order])
    sizes = np.bincount(sorted_group) if len(order) else np.zeros(0, dtype=np.int64)
    big = np.full(len(sizes), -1)
    big[sizes > SMALL_GROUP] = np.arange((sizes > SMALL_GROUP).sum())
    with np.errstate(divide="ignore"):
        inverse = np.where(problem.total > 0, 1.0 / problem.total, 0.0)
    allowed = np.ascontiguousarray(problem.allowed)
    packed = Packed(
        total=np.ascontiguousarray(problem.total),
        inverse=np.ascontiguousarray(inverse),
        both=np.asarray((problem.total[:, :2] > 0).all(axis=1), dtype=np.float64),
        request=np.ascontiguousarray(problem.request[order]),
        start=problem.node_of[order],
        allowed=allowed,
        class_of=problem.class_of[order],
        group=sorted_group,
        first=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        big=big,
        big_groups=np.flatnonzero(big >= 0),
        pairs=_pairs(sizes),
        zone_of=problem.zone_of,
        price=problem.price.astype(np.float64),
        idle=problem.idle_watts.astype(np.float64),
        span=(problem.peak_watts - problem.idle_watts).astype(np.float64),
        priority=priority_weight(problem)[order],
        megabytes=problem.megabytes[order].astype(np.float64),
        movable=np.flatnonzero(problem.movable[order]).astype(np.int64),
        power_off=power_off,
        **_rules(problem, order),
    )
    return Work(problem, packed, order)


def _pairs(sizes: Integers) -> NDArray[np.uint32]:
    """Every two tasks of one small group."""
    first = np.cumsum(sizes) - sizes
    found = [np.zeros((0, 2), dtype=np.int64)]
    for size in range(2, SMALL_GROUP + 1):
        begin = first[sizes == size]
        found += [np.stack([begin + i, begin + j], axis=1) for j in range(size) for i in range(j)]
    return np.concatenate(found).astype(np.uint32)


def _rules(problem: Problem, order: Integers) -> dict[str, Integers]:
    """Which rules each task takes part in, which tasks each rule, and where each rule's counters
    begin."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    of_task: list[list[tuple[int, int]]] = [[] for _ in range(len(order))]
    of_rule: list[list[tuple[int, int]]] = []
    for index, rule in enumerate(problem.rules):
        roles: dict[int, int] = {}
        for tasks, role in ((rule.holders, HOLDER), (rule.targets, TARGET)):
            for task in place[tasks].tolist():
                roles[task] = roles.get(task, 0) | role
        of_rule.append(list(roles.items()))
        for task, role in roles.items():
            of_task[task].append((index, role))
    keys = {rule.domain_of.tobytes(): rule.domain_of for rule in problem.rules}
    numbers = {mark: k for k, mark in enumerate(keys)}
    sizes = np.array([_counters(rule) for rule in problem.rules], dtype=np.int64)
    first, listed, role_of = _listed(of_task)
    tasks_first, tasks, tasks_role = _listed(of_rule)
    return {
        "rule_first": first,
        "rule_list": listed,
        "rule_role": role_of,
        "rule_tasks_first": tasks_first,
        "rule_tasks": tasks,
        "rule_tasks_role": tasks_role,
        "rule_kind": np.array([KINDS[rule.kind] for rule in problem.rules], dtype=np.int64),
        "rule_most": np.array([rule.most for rule in problem.rules], dtype=np.int64),
        "rule_key": np.array(
            [numbers[rule.domain_of.tobytes()] for rule in problem.rules], dtype=np.int64
        ),
        "rule_at": np.where(sizes > 0, np.cumsum(sizes) - sizes, -1),
        "rule_domains": np.array([rule.domains for rule in problem.rules], dtype=np.int64),
        "domain_of": np.array(list(keys.values()), dtype=np.int64).reshape(
            len(keys), len(problem.total)
        ),
    }


def _counters(rule: Rule) -> int:
    """One per domain; none where it takes less to look at the few tasks of the rule."""
    few = len(rule.holders) + len(rule.targets) <= FEW_TASKS < rule.domains
    return 0 if few and rule.kind != SPREAD else rule.domains


def _listed(rows: list[list[tuple[int, int]]]) -> tuple[Integers, Integers, Integers]:
    """Lists of pairs as where each begins, and the pairs one after the other."""
    counts = np.array([len(row) for row in rows], dtype=np.int64)
    pairs = np.array([pair for row in rows for pair in row], dtype=np.int64).reshape(-1, 2)
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return first, np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
