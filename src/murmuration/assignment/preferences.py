"""What tasks would rather have: nodes they like, others beside them or not, an even spread.

A preference never keeps a task from a node; it has a weight from 1 to 100, as Kubernetes writes
them, and the objective `preferences` counts what is not met, 100 as one:

- a task on a node it would rather not use pays the weight of each preference the node does not
  meet, and 100 for each taint that asks it to stay away (`PreferNoSchedule`);
- soft anti-affinity pays for each task that lies beside its holder, soft affinity for each holder
  with nobody beside it;
- a soft spread (`ScheduleAnyway`) pays 100 for each task more in a domain than it allows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from murmuration.assignment.problem import APART, TOGETHER, Rule, domains_of
from murmuration.base.arrays import Flags, Floats, Indices

#: What counts as one.
WHOLE = 100.0


class SoftRule(NamedTuple):
    """A rule between tasks that is only a wish, and its weight."""

    rule: Rule
    weight: float


@dataclass(frozen=True)
class Preferences:
    """The wishes of all tasks."""

    #: Kind × node: what a task of the kind pays there.
    penalty: Floats
    #: The row of each task in `penalty`.
    kind_of: Indices
    rules: tuple[SoftRule, ...] = ()

    def unmet(self, node_of: Indices) -> float:
        """What a placement does not give, a weight of 100 counting as one."""
        placed = np.flatnonzero(node_of >= 0)
        nodes = float(self.penalty[self.kind_of[placed], node_of[placed]].sum())
        return (nodes + sum(_pay(soft, node_of) for soft in self.rules)) / WHOLE

    def subset(self, keep: Flags) -> Preferences:
        """The same for some of the tasks."""
        rules = [SoftRule(rule.subset(keep), weight) for rule, weight in self.rules]
        left = tuple(soft for soft in rules if len(soft.rule.holders))
        return Preferences(self.penalty, self.kind_of[keep], left)


def _pay(soft: SoftRule, node_of: Indices) -> float:
    """What one wish costs in a placement."""
    rule, weight = soft
    targets, alone, both = (Counter(domains_of(rule, tasks, node_of)) for tasks in rule.parts)
    if rule.kind == APART:
        beside = sum(count * targets[d] for d, count in alone.items())
        return weight * (beside + sum(count * (targets[d] - 1) for d, count in both.items()))
    if rule.kind == TOGETHER:
        lonely = sum(count for d, count in alone.items() if not targets[d])
        return weight * (lonely + sum(count for d, count in both.items() if targets[d] < 2))
    emptiest = min((targets[d] for d in range(rule.domains)), default=0)
    return weight * sum(max(0, count - emptiest - rule.limit) for count in targets.values())
