"""Disruption budgets: how many pods of a service may be down at once."""

from __future__ import annotations

import math
from collections import Counter
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
        covered = [self._find_covered(thing) for thing in self.things]
        counts = Counter(id(task) for mine in covered for task in mine)
        for thing, mine in zip(self.things, covered, strict=True):
            where = _describe(thing)
            allowed, is_kept = self._count_allowed(thing, mine, where), None
            for task in filter(_has_begun, mine):
                if is_kept is None and not is_ready(task):
                    is_kept = self._is_kept(thing, mine, where)
                hold_to(task, thing, len(budgets), bool(is_kept), counts[id(task)] > 1)
            budgets.append(allowed)
            held = sum(
                bool(task.node) and not task.pinned and task.budget == len(budgets) - 1
                for task in mine
            )
            if allowed == 0 and held:
                notes.append(f"{held} pods stay where they are: {where} allows no disruption now")
        return budgets, notes

    def _find_covered(self, thing: Object) -> list[TaskEntry]:
        selector = selector_of(thing)
        if selector is None:
            return []
        chosen = self.index.select(selector, [namespace_of(thing)], _describe(thing))
        return [self.tasks[k] for k in chosen.tolist()]

    def _count_allowed(self, thing: Object, mine: Sequence[TaskEntry], where: str) -> int:
        """What the disruption controller reports, and not more than the pods that are ready allow;
        none if it has not seen the latest version of the budget."""
        reported = reported_allowance(thing)
        if reported is not None:
            return reported
        return max(_count_healthy(mine) - self._count_desired(thing, mine, where), 0)

    def _is_kept(self, thing: Object, mine: Sequence[TaskEntry], where: str) -> bool:
        """Whether as many pods are ready as the budget wants, and it wants any."""
        status = thing.get("status") or {}
        wanted, healthy = status.get("desiredHealthy"), status.get("currentHealthy")
        if not (isinstance(wanted, int) and isinstance(healthy, int)):
            wanted, healthy = self._count_desired(thing, mine, where), _count_healthy(mine)
        return healthy >= wanted > 0

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


def _describe(thing: Object) -> str:
    return f"PodDisruptionBudget {name_of(thing)}"


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


def hold_to(
    task: TaskEntry, thing: Object, number: int, is_kept: bool = False, is_shared: bool = False
) -> None:
    """Let a task count against a budget that covers it; `is_kept` says that as many are ready as
    the budget wants, `is_shared` that another budget covers the task as well."""
    policy = (thing.get("spec") or {}).get("unhealthyPodEvictionPolicy")
    if is_shared:
        # The eviction API refuses a pod that two budgets select, however lenient they are.
        task.pinned = task.pinned or "two disruption budgets select it"
    # Pods that are not ready may go while the others are enough, or always if the budget says so.
    lenient = is_kept or policy == "AlwaysAllow"
    if not lenient or is_ready(task):
        task.budget = number


def _has_begun(task: TaskEntry) -> bool:
    """The eviction API asks no budget about a pod that has not begun."""
    return (task.source.get("status") or {}).get("phase") != "Pending"


def is_ready(task: TaskEntry) -> bool:
    """Whether a pod counts as healthy; one whose conditions are not told is believed if it runs."""
    status = task.source.get("status") or {}
    told = [c for c in status.get("conditions") or () if c.get("type") == "Ready"]
    if not told:
        return status.get("phase") == "Running" and bool(task.node)
    return all(condition.get("status") == "True" for condition in told)


def _count_healthy(tasks: Sequence[TaskEntry]) -> int:
    return sum(is_ready(task) and not _is_leaving(task) for task in tasks)


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
