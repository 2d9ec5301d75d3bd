"""Ports of a node that pods take: two that want the same one lie apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from murmuration.assignment.problem import APART, Rule
from murmuration.assignment.snapshots.builder import TaskEntry
from murmuration.kubernetes.objects import Object, listed

#: What stands for every address of the node; to the scheduler `::` is one address among others.
EVERYWHERE = ("", "0.0.0.0")


def host_ports(spec: Object, where: str) -> set[tuple[str, str, int]]:
    """Address, protocol and port of containers and sidecars. Of a pod on the host's network every
    declared port is one; init containers that end hold none."""
    sidecars = [
        c for c in listed(spec, "initContainers", where) if c.get("restartPolicy") == "Always"
    ]
    ports = set()
    for container in [*listed(spec, "containers", where), *sidecars]:
        for port in listed(container, "ports", where):
            own = port.get("containerPort") if spec.get("hostNetwork") else 0
            number = int(port.get("hostPort") or own or 0)
            if number:
                address = str(port.get("hostIP") or "")
                ports.add(
                    (
                        "" if address in EVERYWHERE else address,
                        str(port.get("protocol") or "TCP"),
                        number,
                    )
                )
    return ports


def port_rules(tasks: Sequence[TaskEntry], nodes: int) -> list[Rule]:
    """One rule for each port and address; who takes a port everywhere meets all addresses."""
    users: dict[tuple[int, str], dict[str, list[int]]] = {}
    for k, task in enumerate(tasks):
        for address, protocol, number in host_ports(
            task.source.get("spec") or {}, f"pod {task.name}"
        ):
            users.setdefault((number, protocol), {}).setdefault(address, []).append(k)
    by_node = np.arange(nodes)
    rules = []
    for (number, protocol), by_address in users.items():
        everywhere = by_address.pop("", [])
        for address, mine in (by_address or {"": []}).items():
            holders = np.array(sorted({*everywhere, *mine}), dtype=np.int64)
            if len(holders) > 1:
                at = f" at {address}" if address else ""
                name = f"host port {number}{at} ({protocol})"
                rules.append(Rule(APART, name, holders, holders, by_node))
    return rules
