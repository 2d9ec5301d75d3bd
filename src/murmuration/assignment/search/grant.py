"""Moves that grant preferences: the task that gains most first, one after the other.

Preferences are not compiled (`objectives`), so local search does not see them. What a task would
pay on every node is a sum of a few rows: its node's penalty, and for each of its wishes a count by
domain. As in `gains`, a gain is remembered and looked at again when its task comes to the top.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

import numpy as np

from murmuration.assignment.packed import Work
from murmuration.assignment.preferences import Preferences, SoftRule
from murmuration.assignment.problem import APART, TOGETHER
from murmuration.assignment.search.gains import can_shift, make_shift
from murmuration.assignment.state import load, new_state
from murmuration.base.arrays import Floats, Indices, Placement

#: Moves at most, and nodes looked at for a task, those it likes best first.
STEPS_MAX, NODES_MAX = 2_000, 16
#: Less than this is no gain.
GAIN_MIN = 1e-9


def grant_wishes(
    work: Work, start: Placement, moves_max: float, stopped: Callable[[], bool]
) -> Iterator[Placement]:
    """Placements with one move more each, as long as somebody gains."""
    wishes = work.problem.preferences
    if wishes is None:
        return
    granting = _Granting(work, wishes, start)
    queue = [
        (-gain, t) for t in work.packed.movable.tolist() if (gain := granting.hope(t)) > GAIN_MIN
    ]
    heapq.heapify(queue)
    made = 0
    while queue and made < min(moves_max, STEPS_MAX) and not stopped():
        _, t = heapq.heappop(queue)
        node, gain = granting.best(t)
        if node < 0:
            continue
        if queue and -gain > queue[0][0] + GAIN_MIN:
            heapq.heappush(queue, (-gain, t))
            continue
        granting.move(t, node)
        made += 1
        yield granting.state.x.copy()


class _Granting:
    """A placement under way, with the counts that the wishes ask for. Tasks are in packed order."""

    def __init__(self, work: Work, wishes: Preferences, start: Placement) -> None:
        self.work, self.wishes = work, wishes
        self.state = new_state(work.packed)
        load(work.packed, self.state, start)
        node_of = work.restore(start)
        self.counts = [_count(soft, node_of) for soft in wishes.rules]
        self.of_task: dict[int, list[int]] = {}
        for k, soft in enumerate(wishes.rules):
            for task in soft.rule.members.tolist():
                self.of_task.setdefault(task, []).append(k)
        self.roles = [
            (set(soft.rule.holders.tolist()), set(soft.rule.targets.tolist()))
            for soft in wishes.rules
        ]

    def pays(self, t: int) -> Floats:
        """What a task would pay on each node, the others being where they are."""
        task, here = int(self.work.order[t]), int(self.state.x[t])
        amount: Floats = self.wishes.penalty[self.wishes.kind_of[task]].copy()
        for k in self.of_task.get(task, ()):
            soft, (holders, targets) = self.wishes.rules[k], self.roles[k]
            own = soft.rule.domain_of[here] if here >= 0 else -1
            beside, waiting = (counts.copy() for counts in self.counts[k])
            if own >= 0:
                beside[own] -= task in targets
                waiting[own] -= task in holders
            by_domain = _pays_by_domain(soft, task in holders, task in targets, beside, waiting)
            inside = soft.rule.domain_of >= 0
            amount[inside] += by_domain[soft.rule.domain_of[inside]]
        return amount

    def hope(self, t: int) -> float:
        """What a task could gain at most, whether or not a node takes it."""
        here = int(self.state.x[t])
        if here < 0:
            return 0.0
        amount = self.pays(t)
        return float(amount[here] - amount.min()) if amount[here] > GAIN_MIN else 0.0

    def best(self, t: int) -> tuple[int, float]:
        """The node that takes a task and where it pays least, and what it gains; −1 if none."""
        amount, here = self.pays(t), int(self.state.x[t])
        order = np.argsort(amount, kind="stable")
        tried = 0
        for n in order[amount[order] < amount[here] - GAIN_MIN].tolist():
            if can_shift(self.work.packed, self.state, t, n):
                return n, float(amount[here] - amount[n])
            tried += bool(self.work.packed.allowed[self.work.packed.class_of[t], n])
            if tried >= NODES_MAX:
                break
        return -1, 0.0

    def move(self, t: int, node: int) -> None:
        task, here = int(self.work.order[t]), int(self.state.x[t])
        for k in self.of_task.get(task, ()):
            domain_of = self.wishes.rules[k].rule.domain_of
            for n, change in ((here, -1), (node, 1)):
                if domain_of[n] >= 0:
                    self.counts[k][0][domain_of[n]] += change * (task in self.roles[k][1])
                    self.counts[k][1][domain_of[n]] += change * (task in self.roles[k][0])
        nothing = np.zeros((0, 1)), np.zeros(0)
        make_shift(self.work.packed, self.state, *nothing, t, node)


def _count(soft: SoftRule, node_of: Indices) -> tuple[Floats, Floats]:
    """Targets and holders in each domain."""
    counts = []
    for tasks in (soft.rule.targets, soft.rule.holders):
        nodes = node_of[tasks]
        domains = soft.rule.domain_of[nodes[nodes >= 0]]
        counted = np.bincount(domains[domains >= 0], minlength=max(soft.rule.domains, 1))
        counts.append(counted.astype(np.float64))
    return counts[0], counts[1]


def _pays_by_domain(
    soft: SoftRule, holds: bool, is_target: bool, beside: Floats, waiting: Floats
) -> Floats:
    """What a task pays for a wish in each domain, and what others pay for it there; `beside` are
    the other targets, `waiting` the other holders."""
    rule, weight = soft
    if rule.kind == APART:
        return np.asarray(weight * (beside * holds + waiting * is_target))
    if rule.kind == TOGETHER:
        lonely = (beside == 0).astype(np.float64)
        return np.asarray(weight * lonely * (float(holds) - (waiting > 0) * float(is_target)))
    after = beside + is_target
    return np.asarray(weight * np.maximum(after - beside.min() - rule.limit, 0.0))
