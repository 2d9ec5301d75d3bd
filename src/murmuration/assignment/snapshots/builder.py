"""From named nodes and tasks to the arrays of a problem: what every snapshot reader ends with."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from murmuration.assignment.objectives import power_of
from murmuration.assignment.problem import Problem, Rule, Source
from murmuration.assignment.snapshots import catalogue
from murmuration.base.arrays import Amounts, Flags, Floats, Integers
from murmuration.base.errors import InputError
from murmuration.base.resources import Resources


@dataclass
class NodeEntry:
    """A node: what it can give, in natural units, and where it is."""

    name: str
    amounts: Mapping[str, str | float]
    labels: Mapping[str, str] = field(default_factory=dict)
    zone: str = ""
    price: float | None = None
    watts: tuple[float, float] | None = None
    kind: str = ""


@dataclass
class TaskEntry:
    """A task: what it asks for, where it is, and what binds it."""

    name: str
    amounts: Mapping[str, str | float]
    #: The service it is a replica of.
    service: str
    #: The node it is on; empty for none.
    node: str = ""
    #: The key of `Snapshot.masks`: which nodes it may use. Tasks that ask for the same share it.
    wants: Hashable = None
    #: Why it may not be moved; empty if it may.
    pinned: str = ""
    priority: int = 0
    #: The disruption budget it counts against, −1 for none.
    budget: int = -1
    labels: Mapping[str, str] = field(default_factory=dict)
    #: The object it was read from, for rules that look deeper; readers that need none leave it.
    source: Mapping[str, Any] = field(default_factory=dict)
    #: Whether it belongs to its node and goes with it.
    bound_to_node: bool = False


@dataclass
class Snapshot:
    """Nodes, tasks, and the rules and budgets over them; `masks` says which nodes are open to the
    tasks with each `wants`."""

    nodes: list[NodeEntry]
    tasks: list[TaskEntry]
    masks: Mapping[Hashable, Flags]
    rules: Sequence[Rule] = ()
    budgets: Sequence[int] = ()
    notes: Sequence[str] = ()
    format: str = ""
    #: Names of tasks and nodes that are planned with but not in the cluster yet.
    absent: frozenset[str] = frozenset()
    #: Names of tasks that a closed node does not keep out.
    ignores_cordons: frozenset[str] = frozenset()


def problem_from(snapshot: Snapshot) -> Problem:
    """The arrays of a snapshot."""
    nodes, tasks = snapshot.nodes, snapshot.tasks
    if not nodes:
        raise InputError("the cluster is empty: the snapshot has no nodes")
    where = {node.name: index for index, node in enumerate(nodes)}
    resources = Resources(("cpu", "memory", *_other_resources(tasks)))
    total = _amounts(resources, [(f"node {node.name}", node.amounts) for node in nodes])
    request = _amounts(resources, [(f"pod {task.name}", task.amounts) for task in tasks])
    classes: dict[Hashable, int] = {}
    class_of = [classes.setdefault(task.wants, len(classes)) for task in tasks]
    everywhere = np.ones(len(nodes), dtype=np.bool_)
    allowed = np.array([snapshot.masks.get(wants, everywhere) for wants in classes] or [everywhere])
    services = {
        name: index for index, name in enumerate(dict.fromkeys(task.service for task in tasks))
    }
    zones = {name: index for index, name in enumerate(dict.fromkeys(node.zone for node in nodes))}
    idle, peak = _watts(nodes, total)
    return Problem(
        resources=resources.names,
        nodes=tuple(where),
        tasks=tuple(task.name for task in tasks),
        total=total,
        request=request,
        node_of=_ints(where.get(task.node, -1) for task in tasks),
        allowed=allowed,
        class_of=_ints(class_of),
        group=_ints(services[task.service] for task in tasks),
        pinned=np.array([bool(task.pinned) for task in tasks], dtype=np.bool_),
        budget_of=_ints(task.budget for task in tasks),
        budget=_ints(snapshot.budgets),
        rules=tuple(snapshot.rules),
        priority=_ints(task.priority for task in tasks),
        megabytes=request[:, 1] / 1e6,
        zone_of=_ints(zones[node.zone] for node in nodes),
        price=_prices(nodes, total),
        idle_watts=idle,
        peak_watts=peak,
        notes=tuple(snapshot.notes),
        source=Source(
            snapshot.format,
            services=tuple(task.service for task in tasks),
            pin_reasons=tuple(task.pinned for task in tasks),
            bound_to_node=tuple(task.bound_to_node for task in tasks),
            absent=snapshot.absent,
            ignores_cordons=snapshot.ignores_cordons,
        ),
    )


def _ints(values: Iterable[int]) -> Integers:
    return np.array(list(values), dtype=np.int64)


def _other_resources(tasks: Sequence[TaskEntry]) -> list[str]:
    """Resources beyond CPU and memory that a task asks for."""
    asked = {name for task in tasks for name, amount in task.amounts.items() if amount}
    return sorted(asked - {"cpu", "memory"})


def _amounts(
    resources: Resources, rows: Sequence[tuple[str, Mapping[str, str | float]]]
) -> Amounts:
    table = np.zeros((len(rows), len(resources)), dtype=np.int64)
    for k, (where, amounts) in enumerate(rows):
        for r, name in enumerate(resources.names):
            if name in amounts:
                table[k, r] = resources.exact(name, amounts[name], f"{where}: {name}")
    return table


def _watts(nodes: Sequence[NodeEntry], total: Amounts) -> tuple[Floats, Floats]:
    idle, peak = power_of(total[:, 0] / 1e6, total[:, 1] / 1e6)
    for k, node in enumerate(nodes):
        if node.watts is not None:
            idle[k], peak[k] = node.watts
    return idle, peak


def _prices(nodes: Sequence[NodeEntry], total: Amounts) -> Floats:
    known = catalogue.types()
    prices = []
    for node, (cpu, memory) in zip(nodes, total[:, :2].tolist(), strict=True):
        if node.price is not None:
            prices.append(node.price)
        elif node.kind in known:
            prices.append(known[node.kind].price)
        else:
            prices.append(catalogue.price_of(cpu / 1e6, memory / catalogue.GIB))
    return np.array(prices)
