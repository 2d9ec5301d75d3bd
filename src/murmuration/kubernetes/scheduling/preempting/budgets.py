"""The disruption budgets of a cluster, asked for one pod at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from murmuration.assignment.snapshots.builder import TaskEntry
from murmuration.kubernetes.disruption import Budgets, hold_to, reported_allowance, selector_of
from murmuration.kubernetes.labels import LabelIndex
from murmuration.kubernetes.objects import Object, name_of, namespace_of
from murmuration.kubernetes.scheduling.between import LabelSet, label_set
from murmuration.kubernetes.selectors import selects

BUDGET = "PodDisruptionBudget"
#: What stands for the budget of a pod that has none, and of one that may not be evicted at all.
NONE, NEVER = -1, -2


class BudgetIndex:
    """Which budget covers a pod, and what that allows. Pods with the same labels are covered
    alike, so each set of labels is looked at once."""

    def __init__(
        self, kinds: Mapping[str, list[Object]], tasks: Callable[[], Sequence[TaskEntry]]
    ) -> None:
        self._kinds, self._tasks = kinds, tasks
        self._things = kinds.get(BUDGET, [])
        self._covering: dict[LabelSet, list[int]] = {}

    def of(self, task: TaskEntry) -> int:
        """The number of the budget that covers a pod, `NONE` or `NEVER`."""
        if not self._things:
            return NONE
        held = replace(task, budget=NONE, pinned="")
        covering = self._covers(label_set(task))
        for number in covering:
            hold_to(held, self._things[number], number, is_shared=len(covering) > 1)
        return NEVER if held.pinned else held.budget

    def allowed(self, number: int) -> int:
        """How many pods a budget lets go now."""
        reported = reported_allowance(self._things[number])
        if reported is not None:
            return reported
        # Nobody has counted for it: then all pods are.
        copies = [replace(task, budget=NONE, pinned="") for task in self._tasks()]
        allowed, _ = Budgets(self._kinds, copies, LabelIndex(copies)).apply()
        return allowed[number]

    def _covers(self, labels: LabelSet) -> list[int]:
        if labels not in self._covering:
            self._covering[labels] = [
                number for number, thing in enumerate(self._things) if _covers(thing, labels)
            ]
        return self._covering[labels]


def _covers(thing: Object, labels: LabelSet) -> bool:
    selector, where = selector_of(thing), f"{BUDGET} {name_of(thing)}"
    if selector is None or namespace_of(thing) != labels[0]:
        return False
    return selects(selector, dict(labels[1]), where)
