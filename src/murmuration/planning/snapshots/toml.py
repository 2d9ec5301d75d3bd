"""Snapshots in TOML: nodes and services, as short as a person would write them.

[[node]]
name = "a"            # or name and count = 3: a-1, a-2, a-3
cpu = 4
memory = "16Gi"
zone = "north"        # also price, idle_watts, peak_watts and attributes = { disk = "ssd" }

[[service]]
name = "web"
cpu = 0.5
memory = "512Mi"
on = ["a", "a", ""]   # the node of each replica, "" for none; or replicas = 3 for three without one
constraints = ["disk = ssd"]
apart = "node"        # or "zone": no two replicas in one
pinned = false        # also priority, and disruptions: how many may be on the way at once
"""

from __future__ import annotations

import tomllib
from collections.abc import Hashable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from murmuration.assignment.problem import APART, Rule
from murmuration.assignment.snapshots.additions import Added, new_nodes
from murmuration.assignment.snapshots.builder import NodeEntry, Snapshot, TaskEntry
from murmuration.base.arrays import Flags
from murmuration.base.errors import InputError, unknown
from murmuration.base.resources import parse_quantity
from murmuration.cluster.constraints import as_value, node_mask, parse_constraint
from murmuration.workload.formats.source import SourceFile

Quantity = str | int | float
APART_BY = ("node", "zone")


class Node(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    cpu: Quantity
    memory: Quantity
    count: int = 0
    zone: str = ""
    price: Quantity | None = None
    idle_watts: Quantity | None = None
    peak_watts: Quantity | None = None
    attributes: dict[str, str | int | float] = {}
    resources: dict[str, Quantity] = {}


class Service(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    cpu: Quantity = 0
    memory: Quantity = 0
    resources: dict[str, Quantity] = {}
    replicas: int | None = None
    on: list[str] = []
    constraints: list[str] = []
    apart: str = ""
    pinned: bool = False
    priority: int = 0
    disruptions: int | None = None


class File(msgspec.Struct, forbid_unknown_fields=True):
    node: list[Node] = []
    service: list[Service] = []
    name: str = ""


def read_toml(source: SourceFile) -> File:
    """The tables of a file, checked."""
    try:
        return msgspec.convert(tomllib.loads(source.data.decode("utf-8-sig")), File)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{source.path}: expected TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise InputError(f"{source.path}: {error}") from None


def snapshot_of(
    file: File, path: Path, add: Sequence[Added] = (), more: Sequence[Service] = ()
) -> Snapshot:
    """The snapshot in a file, with nodes added and more services to be placed."""
    nodes = [entry for node in file.node for entry in _nodes(node)]
    nodes += [entry for entry, _ in new_nodes(add, nodes)]
    names = [node.name for node in nodes]
    if len(set(names)) < len(names):
        raise InputError(f"{path}: expected each node's name once")
    services = [*file.service, *more]
    tasks, rules, budgets = list[TaskEntry](), list[Rule](), list[int]()
    for service in services:
        where = f"{path}: service {service.name}"
        mine = _tasks(service, names, where)
        if service.disruptions is not None:
            for task in mine:
                task.budget = len(budgets)
            budgets.append(service.disruptions)
        if service.apart:
            rules.append(_apart(service, len(tasks), len(mine), nodes, where))
        tasks += mine
    if len({task.name for task in tasks}) < len(tasks):
        raise InputError(f"{path}: expected each service's name once")
    return Snapshot(nodes, tasks, _masks(services, nodes, path), rules, budgets, (), "toml")


def _masks(
    services: Sequence[Service], nodes: Sequence[NodeEntry], path: Path
) -> dict[Hashable, Flags]:
    """The nodes open to each set of constraints."""
    attributes = [
        {key: as_value(str(value)) for key, value in node.labels.items()} for node in nodes
    ]
    masks: dict[Hashable, Flags] = {}
    for service in services:
        where = f"{path}: service {service.name}"
        constraints = [parse_constraint(text, where) for text in service.constraints]
        masks[tuple(service.constraints)] = node_mask(constraints, attributes)
    return masks


def _nodes(node: Node) -> list[NodeEntry]:
    """The entries of a table: one, or `count` of them with numbered names."""
    amounts: dict[str, str | float] = {"cpu": node.cpu, "memory": node.memory, **node.resources}
    labels = {
        **{key: str(value) for key, value in node.attributes.items()},
        **({"zone": node.zone} if node.zone else {}),
    }
    price = None if node.price is None else parse_quantity(node.price, f"node {node.name}: price")
    watts = None
    if node.idle_watts is not None and node.peak_watts is not None:
        watts = (
            parse_quantity(node.idle_watts, "idle_watts"),
            parse_quantity(node.peak_watts, "peak_watts"),
        )
    names = [f"{node.name}-{k}" for k in range(1, node.count + 1)] if node.count else [node.name]
    return [NodeEntry(name, amounts, labels, node.zone, price, watts) for name in names]


def _tasks(service: Service, nodes: Sequence[str], where: str) -> list[TaskEntry]:
    places = service.on or [""] * (1 if service.replicas is None else service.replicas)
    if service.on and service.replicas not in (None, len(service.on)):
        raise InputError(f"{where}: expected as many places in 'on' as replicas")
    for place in places:
        if place and place not in nodes:
            raise InputError(f"{where}: lies on {unknown('node', place, nodes)}")
    amounts: dict[str, str | float] = {
        "cpu": service.cpu,
        "memory": service.memory,
        **service.resources,
    }
    return [
        TaskEntry(
            service.name if len(places) == 1 else f"{service.name}-{k}",
            amounts,
            service.name,
            place,
            tuple(service.constraints),
            "it is pinned" if service.pinned and place else "",
            service.priority,
        )
        for k, place in enumerate(places, 1)
    ]


def _apart(
    service: Service, first: int, count: int, nodes: Sequence[NodeEntry], where: str
) -> Rule:
    if service.apart not in APART_BY:
        raise InputError(
            f"{where}: apart: {unknown('part of the cluster', service.apart, APART_BY)}"
        )
    zones = {zone: k for k, zone in enumerate(dict.fromkeys(node.zone for node in nodes))}
    domains = (
        np.arange(len(nodes))
        if service.apart == "node"
        else np.array([zones[node.zone] for node in nodes])
    )
    members = np.arange(first, first + count)
    return Rule(APART, f"{service.name} apart by {service.apart}", members, members, domains)
