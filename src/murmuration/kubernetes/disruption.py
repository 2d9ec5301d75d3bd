"""Disruption budgets: how many pods of a service may be down at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from murmuration.assignment.snapshots.builder import TaskEntry
from murmuration.base.errors import InputError
from murmuration.kubernetes.labels import LabelIndex
from murmuration.kubernetes.objects import Object, controller_of, name_of, namespace_of


class Budgets:
    """The budgets of a snapshot, and what their status does not say reckoned as the disruption
    controller does."""

    def __init__(
        self, kinds: Mapping[str, list[Object]], tasks: Sequence[TaskEntry], index: LabelIndex
    ) -> None:
        self.things = kinds.get("PodDisruptionBudget", ())
        self.tasks, self.index = tasks, index
        self.replicas = {
            (kind, name_of(thing)): (thing.get("spec") or {}).get("replicas")
            for kind in ("ReplicaSet", "StatefulSet", "ReplicationController")
            for thing in kinds.get(kind, ())
        }
        self.running: dict[tuple[str, str], int] = {}
        for task in tasks:
            owner = controller_of(task.source)
            if owner is not None and not _is_leaving(task):
                mark = _owner_mark(task, owner)
                self.running[mark] = self.running.get(mark, 0) + 1

    def apply(self) -> tuple[list[int], list[str]]:
        """How many disruptions each budget allows now, and notes about those that allow none. Sets
        the budget of the tasks each selects, and pins those that two select."""
        budgets: list[int] = []
        notes = []
        for thing in self.things:
            where = f"PodDisruptionBudget {name_of(thing)}"
            mine = self._find_covered(thing, where)
            allowed = self._count_allowed(thing, mine, where)
            for task in mine:
                hold_to(task, thing, len(budgets))
            budgets.append(allowed)
            held = sum(
                bool(task.node) and not task.pinned and task.budget == len(budgets) - 1
                for task in mine
            )
            if allowed == 0 and held:
                notes.append(f"{held} pods stay where they are: {where} allows no disruption now")
        return budgets, notes

    def _find_covered(self, thing: Object, where: str) -> list[TaskEntry]:
        selector = selector_of(thing)
        if selector is None:
            return []
        chosen = self.index.select(selector, [namespace_of(thing)], where)
        return [self.tasks[k] for k in chosen.tolist()]

    def _count_allowed(self, thing: Object, mine: Sequence[TaskEntry], where: str) -> int:
        """What the disruption controller reports, and not more than the pods that are ready allow;
        none if it has not seen the latest version of the budget."""
        reported = reported_allowance(thing)
        if reported is not None:
            return reported
        healthy = sum(is_ready(task) and not _is_leaving(task) for task in mine)
        return max(healthy - self._count_desired(thing, mine, where), 0)

    def _count_desired(self, thing: Object, mine: Sequence[TaskEntry], where: str) -> int:
        """How many must be ready: percentages and maxUnavailable are of what controllers want."""
        spec = thing.get("spec") or {}
        if spec.get("maxUnavailable") is not None:
            expected = self._count_expected(mine)
            return max(expected - _count(spec["maxUnavailable"], expected, where), 0)
        if spec.get("minAvailable") is not None:
            return _count(spec["minAvailable"], self._count_expected(mine), where)
        # Neither: the controller expects nobody, and then lets nobody go.
        return len(mine)

    def _count_expected(self, mine: Sequence[TaskEntry]) -> int:
        """How many replicas the controllers of these pods want; as many as there are where the
        snapshot does not have the controller."""
        owners = set()
        for task in mine:
            owner = controller_of(task.source)
            if owner is not None:
                owners.add(_owner_mark(task, owner))
        total = 0
        for mark in owners:
            told = self.replicas.get(mark)
            total += told if isinstance(told, int) else self.running.get(mark, 0)
        return total


def selector_of(thing: Object) -> Object | None:
    """The selector of a budget; None for one that covers nobody."""
    selector: Object | None = (thing.get("spec") or {}).get("selector")
    if str(thing.get("apiVersion")).endswith("v1beta1") and not selector:
        return None  # There an empty selector was none.
    return selector


def reported_allowance(thing: Object) -> int | None:
    """How many disruptions a budget allows as the disruption controller says; None if it has not
    said so, and 0 if it has not seen the latest version of the budget."""
    status = thing.get("status") or {}
    seen = status.get("observedGeneration")
    if seen is not None and seen < thing["metadata"].get("generation", 0):
        return 0
    reported = status.get("disruptionsAllowed")
    if isinstance(reported, bool) or not isinstance(reported, int):
        return None
    return max(reported, 0)


def hold_to(task: TaskEntry, thing: Object, number: int) -> None:
    """Let a task count against a budget that covers it."""
    lenient = (thing.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
    if task.budget >= 0:
        # The eviction API refuses a pod that two budgets select.
        task.pinned = task.pinned or "two disruption budgets select it"
    # Pods that are not ready may go at any time if the budget says so.
    if not lenient or is_ready(task) or task.budget >= 0:
        task.budget = number


def is_ready(task: TaskEntry) -> bool:
    """Whether a pod counts as healthy; one whose conditions are not told is believed if it runs."""
    status = task.source.get("status") or {}
    told = [c for c in status.get("conditions") or () if c.get("type") == "Ready"]
    if not told:
        return status.get("phase") == "Running" and bool(task.node)
    return all(condition.get("status") == "True" for condition in told)


def _is_leaving(task: TaskEntry) -> bool:
    return bool(task.source["metadata"].get("deletionTimestamp"))


def _owner_mark(task: TaskEntry, owner: Object) -> tuple[str, str]:
    return str(owner.get("kind")), f"{namespace_of(task.source)}/{owner.get('name')}"


def _count(value: object, total: int, where: str) -> int:
    """A number, or a percentage, which Kubernetes rounds up."""
    text = str(value)
    try:
        if text.endswith("%"):
            return math.ceil(Fraction(text[:-1]) * total / 100)
        return int(text)
    except ValueError:
        raise InputError(f"{where}: expected a number or a percentage, got {value!r}") from None
