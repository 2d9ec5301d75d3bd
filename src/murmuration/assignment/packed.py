"""A problem as the arrays that compiled searches work on.

Tasks are put in the order of their groups, so that the replicas of a service lie side by side and a
service is a stretch `first[g]` to `first[g + 1]`; `Work.placement` and `Work.restore` translate
between that *packed order* and the problem's.

**Rules become counters.** A rule asks how many targets and holders lie in a domain. Counting them
for every move that is tried would make a move cost as much as the rule has tasks; so `state` keeps
the counts, and moving a task changes those of the few rules it takes part in, of the two domains it
goes between. All counters of all rules are three flat arrays (`targets`, `alone`, `twice` in
`State`), in which rule k's begin at `rule_at[k]`, one for each domain.

A rule by node over a few tasks would need a counter per node, thousands to count a handful of
tasks: those rules have none (`rule_at` is −1) and their tasks are looked at one by one. A spread
always has counters, because it needs the emptiest of all domains.

Many rules part the nodes by the same label, so the domain of each node is stored once per distinct
partition (`domain_of`), and `rule_key[k]` says which of them rule k uses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmuration.assignment.objectives import priority_weight
from murmuration.assignment.problem import APART, SPREAD, TOGETHER, Problem, Rule
from murmuration.base.arrays import Amounts, Flags, Floats, Indices, Integers, Placement

#: Groups of more tasks than this get a counter for every node; smaller ones are counted by looking
#: at their tasks.
SMALL_GROUP = 8
#: The kinds of rules as kernels know them.
KINDS = {APART: 0, TOGETHER: 1, SPREAD: 2}
#: A task's roles in a rule: flags, because it may have both.
HOLDER, TARGET = 1, 2
#: Rules over no more tasks than this, by more domains, have no counters.
FEW_TASKS = 64


class Packed(NamedTuple):
    """The problem, read-only. Tasks are in packed order.

    A list of lists is two arrays: the entries of all lists, and where each list begins (`first`,
    `rule_first`, `rule_tasks_first`), with one more number for where the last one ends.
    """

    total: Amounts  # node × resource
    inverse: Floats  # node × resource: 1 / total, 0 where there is none
    both: Floats  # node: 1.0 if it has CPU and memory, else 0.0
    request: Amounts  # task × resource
    start: Indices  # task: the node it is on before the plan, −1 for none
    allowed: Flags  # class × node
    class_of: Indices  # task: the row of `allowed`
    group: Indices  # task: its service
    first: Indices  # service + 1: where its tasks begin
    big: Indices  # service: its row of counters in `State.big`, −1 for a small one
    big_groups: Indices  # the services that have counters
    pairs: NDArray[np.uint32]  # every two tasks of one small service
    zone_of: Indices  # node
    price: Floats  # node: per hour
    idle: Floats  # node: watts
    span: Floats  # node: watts from idle to full
    priority: Floats  # task: what it weighs if it has no node
    megabytes: Floats  # task
    movable: Indices  # the tasks a plan may place or move
    power_off: bool
    rule_first: Indices  # task + 1: where its rules begin in `rule_list`
    rule_list: Indices  # rules
    rule_role: Integers  # beside `rule_list`: what the task is in the rule
    rule_kind: Integers  # rule: one of `KINDS`
    rule_limit: Integers  # rule
    rule_key: Indices  # rule: the row of `domain_of`
    rule_at: Indices  # rule: where its counters begin, −1 if it has none
    rule_domains: Integers  # rule: how many domains it has
    rule_tasks_first: Indices  # rule + 1: where its tasks begin in `rule_tasks`
    rule_tasks: Indices  # tasks
    rule_tasks_role: Integers  # beside `rule_tasks`
    domain_of: Indices  # partition × node: the domain a node is in, −1 for none


class Work(NamedTuple):
    """A problem packed, and the way back."""

    problem: Problem
    packed: Packed
    #: For each task in packed order its place in the problem.
    order: Indices

    def placement(self, node_of: Indices) -> Placement:
        """A placement of the problem in packed order."""
        assert len(node_of) == len(self.order), "one node per task"
        return node_of[self.order].astype(np.int32)

    def restore(self, placement: Placement) -> Indices:
        """A placement in packed order as the problem has it."""
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
    _check(packed)
    return Work(problem, packed, order)


def _check(p: Packed) -> None:
    """Assert what kernels rely on: they index without looking."""
    nodes, tasks, rules = len(p.total), len(p.request), len(p.rule_kind)
    assert (np.diff(p.group) >= 0).all(), "tasks lie by group"
    assert p.first[-1] == tasks and len(p.rule_first) == tasks + 1, "every task is in one stretch"
    assert p.class_of.max(initial=-1) < len(p.allowed), "a class that is not there"
    assert ((p.start >= -1) & (p.start < nodes)).all(), "a node that is not there"
    assert len(p.rule_tasks_first) == rules + 1 and p.rule_list.max(initial=-1) < rules
    # The evaluation marks zones in an array with one place per node and one more.
    assert ((p.zone_of >= 0) & (p.zone_of <= nodes)).all(), "more zones than nodes"
    domains = p.domain_of.max(axis=1, initial=-1)
    assert (domains[p.rule_key] < p.rule_domains).all(), "a domain without a counter"


def _pairs(sizes: Integers) -> NDArray[np.uint32]:
    """Every two tasks of one small group."""
    first = np.cumsum(sizes) - sizes
    pairs = [np.zeros((0, 2), dtype=np.int64)]
    for size in range(2, SMALL_GROUP + 1):
        begin = first[sizes == size]
        pairs += [np.stack([begin + i, begin + j], axis=1) for j in range(size) for i in range(j)]
    return np.concatenate(pairs).astype(np.uint32)


def _rules(problem: Problem, order: Indices) -> dict[str, Integers]:
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
    sizes = np.array([_count_counters(rule) for rule in problem.rules], dtype=np.int64)
    first, listed, role_of = _flatten(of_task)
    tasks_first, tasks, tasks_role = _flatten(of_rule)
    return {
        "rule_first": first,
        "rule_list": listed,
        "rule_role": role_of,
        "rule_tasks_first": tasks_first,
        "rule_tasks": tasks,
        "rule_tasks_role": tasks_role,
        "rule_kind": np.array([KINDS[rule.kind] for rule in problem.rules], dtype=np.int64),
        "rule_limit": np.array([rule.limit for rule in problem.rules], dtype=np.int64),
        "rule_key": np.array(
            [numbers[rule.domain_of.tobytes()] for rule in problem.rules], dtype=np.int64
        ),
        "rule_at": np.where(sizes > 0, np.cumsum(sizes) - sizes, -1),
        "rule_domains": np.array([rule.domains for rule in problem.rules], dtype=np.int64),
        "domain_of": np.array(list(keys.values()), dtype=np.int64).reshape(
            len(keys), len(problem.total)
        ),
    }


def _count_counters(rule: Rule) -> int:
    """One per domain; none where it takes less to look at the few tasks of the rule."""
    few = len(rule.holders) + len(rule.targets) <= FEW_TASKS < rule.domains
    return 0 if few and rule.kind != SPREAD else rule.domains


def _flatten(rows: list[list[tuple[int, int]]]) -> tuple[Integers, Integers, Integers]:
    """Lists of pairs as where each begins, and the pairs one after the other."""
    counts = np.array([len(row) for row in rows], dtype=np.int64)
    pairs = np.array([pair for row in rows for pair in row], dtype=np.int64).reshape(-1, 2)
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return first, np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
