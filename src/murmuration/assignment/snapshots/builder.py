"""From named nodes and tasks to the arrays of a problem: what every snapshot reader ends with."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from murmuration.assignment.details import Exclusion, SnapshotDetails
from murmuration.assignment.objectives import power_of
from murmuration.assignment.preferences import Preferences
from murmuration.assignment.problem import Problem, Rule
from murmuration.assignment.snapshots import catalogue
from murmuration.base.arrays import Amounts, Flags, Floats, Integers
from murmuration.base.errors import InputError
from murmuration.base.resources import (
    AMOUNT_MAX,
    MICRO,
    Resources,
    fitting_unit,
    parse_quantity,
)


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
    #: Whether it is made again elsewhere if its node fails.
    remade: bool = True
    #: Seconds from its start until it was ready; NaN if that is not known.
    ready_s: float = math.nan
    namespace: str = ""


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
    #: Why a node is closed to tasks that want something.
    why_excluded: Exclusion | None = None
    #: What tasks would rather have.
    preferences: Preferences | None = None


def problem_from(snapshot: Snapshot) -> Problem:
    """The arrays of a snapshot."""
    nodes, tasks = snapshot.nodes, snapshot.tasks
    if not nodes:
        raise InputError("the cluster is empty: the snapshot has no nodes")
    where = {node.name: index for index, node in enumerate(nodes)}
    resources = resources_of(nodes, tasks)
    total = amounts_table(
        resources, [(f"node {node.name}", node.amounts) for node in nodes], math.floor
    )
    request = amounts_table(
        resources, [(f"pod {task.name}", task.amounts) for task in tasks], math.ceil
    )
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
        units=resources.given_units,
        preferences=snapshot.preferences,
        source=_source(snapshot),
    )


def _source(snapshot: Snapshot) -> SnapshotDetails:
    nodes, tasks = snapshot.nodes, snapshot.tasks
    return SnapshotDetails(
        snapshot.format,
        services=tuple(task.service for task in tasks),
        pin_reasons=tuple(task.pinned for task in tasks),
        bound_to_node=tuple(task.bound_to_node for task in tasks),
        absent=snapshot.absent,
        ignores_cordons=snapshot.ignores_cordons,
        labels=tuple({**task.labels, "namespace": task.namespace} for task in tasks),
        wants=tuple(task.wants for task in tasks),
        remade=tuple(task.remade for task in tasks),
        ready_s=tuple(task.ready_s for task in tasks),
        node_labels=tuple({"zone": node.zone, **node.labels} for node in nodes),
        why_excluded=snapshot.why_excluded,
    )


def _ints(values: Iterable[int]) -> Integers:
    return np.array(list(values), dtype=np.int64)


def _other_resources(tasks: Sequence[TaskEntry]) -> list[str]:
    """Resources beyond CPU and memory that a task asks for."""
    asked = {name for task in tasks for name, amount in task.amounts.items() if amount}
    return sorted(asked - {"cpu", "memory"})


def resources_of(nodes: Sequence[NodeEntry], tasks: Sequence[TaskEntry]) -> Resources:
    """The columns, each in a unit that fits what the nodes have of it."""
    names = ("cpu", "memory", *_other_resources(tasks))
    largest = [
        max(
            (
                parse_quantity(node.amounts.get(name, 0.0), f"node {node.name}: {name}")
                for node in nodes
            ),
            default=0.0,
        )
        for name in names
    ]
    # Power, price and megabytes are reckoned from CPU and memory in their usual units.
    other = [fitting_unit(name, most) for name, most in zip(names[2:], largest[2:], strict=True)]
    return Resources(names, (float(MICRO), 1.0, *other))


def amounts_table(
    resources: Resources,
    rows: Sequence[tuple[str, Mapping[str, str | float]]],
    towards: Callable[[float], int],
) -> Amounts:
    """One row each; what is more than any node could have is as much as a column can hold. What a
    column cannot tell apart is rounded so that no more is promised than there is."""
    table = np.zeros((len(rows), len(resources)), dtype=np.int64)
    units = [resources.unit(name) for name in resources.names]
    for k, (where, amounts) in enumerate(rows):
        for r, name in enumerate(resources.names):
            if name in amounts:
                value = parse_quantity(amounts[name], f"{where}: {name}") * units[r]
                nearest = round(value)
                close = abs(value - nearest) <= 1e-9 * max(value, 1.0)
                table[k, r] = min(nearest if close else towards(value), AMOUNT_MAX)
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
