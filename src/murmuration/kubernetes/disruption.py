"""Disruption budgets: how many pods of a service may be down at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from murmuration.assignment.snapshots.builder import TaskEntry
from murmuration.base.errors import InputError
from murmuration.kubernetes.objects import Object, name_of, namespace_of
from murmuration.kubernetes.selectors import selects


def apply_budgets(
    things: Sequence[Object], tasks: Sequence[TaskEntry]
) -> tuple[list[int], list[str]]:
    """How many disruptions each budget allows now, and notes about those that allow none. Sets the
    budget of the tasks each selects, and pins those that two select."""
    budgets: list[int] = []
    notes = []
    for thing in things:
        where = f"PodDisruptionBudget {name_of(thing)}"
        selector = (thing.get("spec") or {}).get("selector")
        mine = [
            task
            for task in tasks
            if namespace_of(task.source) == namespace_of(thing)
            and selects(selector, task.labels, where)
        ]
        allowed = _allowed(thing, sum(bool(task.node) for task in mine), where)
        for task in mine:
            if task.budget >= 0:
                # The eviction API refuses a pod that two budgets select.
                task.pinned = task.pinned or "two disruption budgets select it"
            task.budget = len(budgets)
        budgets.append(allowed)
        running = sum(bool(task.node) and not task.pinned for task in mine)
        if allowed == 0 and running:
            notes.append(f"{running} pods stay where they are: {where} allows no disruption now")
    return budgets, notes


def _allowed(thing: Object, running: int, where: str) -> int:
    """The number the disruption controller reports, else what the budget's limits mean for the pods
    that run."""
    reported = (thing.get("status") or {}).get("disruptionsAllowed")
    if isinstance(reported, int) and not isinstance(reported, bool):
        return max(reported, 0)
    spec = thing.get("spec") or {}
    if spec.get("maxUnavailable") is not None:
        return min(_count(spec["maxUnavailable"], running, where), running)
    if spec.get("minAvailable") is not None:
        return max(running - _count(spec["minAvailable"], running, where), 0)
    raise InputError(f"{where}: expected minAvailable or maxUnavailable")


def _count(value: Any, running: int, where: str) -> int:
    """A number, or a percentage, which Kubernetes rounds up."""
    text = str(value)
    try:
        if text.endswith("%"):
            return math.ceil(float(text[:-1]) * running / 100)
        return int(text)
    except ValueError:
        raise InputError(f"{where}: expected a number or a percentage, got {value!r}") from None
