"""What pods hold of a node beyond amounts: host ports, and claims on volumes that only one pod or
one node may have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from murmuration.assignment.snapshots.builder import TaskEntry
from murmuration.base.arrays import Flags
from murmuration.kubernetes.claims.volumes import Volumes
from murmuration.kubernetes.nodes import NodeMasks
from murmuration.kubernetes.objects import namespace_of
from murmuration.kubernetes.ports import host_ports

ONE_POD, ONE_NODE = "ReadWriteOncePod", {"ReadWriteOnce"}
#: Address, protocol and number; an empty address stands for all of the node's.
Port = tuple[str, str, int]


class HeldThings:
    """Ports and claims by node."""

    def __init__(self, nodes: NodeMasks, volumes: Volumes) -> None:
        self._nodes, self.volumes = nodes, volumes
        self._ports: dict[tuple[str, int], dict[str, Counter[str]]] = {}
        self._claims: dict[str, Counter[str]] = {}

    def place(self, task: TaskEntry, row: int, sign: int) -> None:
        node = self._nodes.nodes[row].name
        for address, protocol, number in ports_of(task):
            users = self._ports.setdefault((protocol, number), {}).setdefault(address, Counter())
            users[node] += sign
        for name, _ in self._exclusive(task):
            self._claims.setdefault(name, Counter())[node] += sign

    def holds_anything(self, task: TaskEntry) -> bool:
        return bool(ports_of(task)) or next(self._exclusive(task), None) is not None

    def reasons(self, task: TaskEntry) -> Iterator[tuple[str, Flags]]:
        """What is taken that a pod wants, and the rows where it is not."""
        for port in sorted(ports_of(task)):
            taken = self._find_taken(port)
            if taken:
                yield f"host port {port[2]} is taken", self._mask(taken, inside=False)
        for name, modes in self._exclusive(task):
            users = {node for node, count in self._claims.get(name, {}).items() if count > 0}
            if users and ONE_POD in modes:
                yield f"claim {name} is for one pod, and in use", self._mask(set(), inside=True)
            elif users:
                yield f"claim {name} is in use on another node", self._mask(users, inside=True)

    def _find_taken(self, port: Port) -> set[str]:
        address, protocol, number = port
        by_address = self._ports.get((protocol, number), {})
        meets = by_address if not address else {a for a in ("", address) if a in by_address}
        return {node for each in meets for node, count in by_address[each].items() if count > 0}

    def _mask(self, nodes: set[str], inside: bool) -> Flags:
        mask = np.full(len(self._nodes.nodes), not inside, dtype=np.bool_)
        mask[[self._nodes.row_of[node] for node in nodes]] = inside
        return mask

    def _exclusive(self, task: TaskEntry) -> Iterator[tuple[str, set[str]]]:
        """The claims of a pod that only one pod or one node may have."""
        if not (task.source.get("spec") or {}).get("volumes"):
            return
        for name, claim in self.volumes.claims_of(task.source):
            modes = set(((claim or {}).get("spec") or {}).get("accessModes") or ())
            if claim is None:
                continue
            if ONE_POD in modes or (modes == ONE_NODE and self.volumes.is_attached(claim)):
                yield f"{namespace_of(task.source)}/{name}", modes


def ports_of(task: TaskEntry) -> set[Port]:
    return host_ports(task.source.get("spec") or {}, f"pod {task.name}")
