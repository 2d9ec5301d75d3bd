"""The table a scheduler decides on: one row per node, and for each pod the rows it may use.

It is built from all objects once, and kept up: pods are counted as they come and go, and a node
that comes, changes or goes concerns its own row alone. What it has no column for, or a new set of
namespaces, rebuilds it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from murmuration.assignment.snapshots.builder import (
    NodeEntry,
    TaskEntry,
    amounts_table,
    resources_of,
)
from murmuration.base.arrays import Amounts, Flags, Floats, resize
from murmuration.base.resources import AMOUNT_MAX
from murmuration.kubernetes.claims.volumes import Volumes
from murmuration.kubernetes.labels import Namespaces
from murmuration.kubernetes.objects import Object
from murmuration.kubernetes.rules import PREFERRED
from murmuration.kubernetes.scheduling.between import Between, Reason
from murmuration.kubernetes.scheduling.held import HeldThings
from murmuration.kubernetes.scheduling.preempting.levels import Levels
from murmuration.kubernetes.snapshot import REQUIRED, Reader
from murmuration.placement.view import View

#: Masks that are kept at once: pods of daemon sets each have one of their own.
MASKS_MAX = 4096


class LiveTable:
    """Rows of nodes, and what lies on them."""

    def __init__(self, reader: Reader, namespaces: Namespaces, tasks: Sequence[TaskEntry]) -> None:
        self.reader = reader
        nodes = self.reader.nodes
        self.names = tuple(node.name for node in nodes)
        self.attributes = tuple(node.labels for node in nodes)
        self.resources = resources_of(nodes, tasks)
        given = [(f"node {node.name}", node.amounts) for node in nodes]
        self.total = amounts_table(self.resources, given, math.floor)
        self.free = self.total.copy()
        self.between = Between(self.reader.node_masks, namespaces)
        self.held = HeldThings(self.reader.node_masks, self.reader.volumes)
        #: What pods hold by priority; made when somebody asks for it.
        self.levels: Levels | None = None
        self._requests: dict[tuple[tuple[str, str | float], ...], Amounts] = {}
        self._open: dict[Hashable, Flags] = {}
        self._penalties: dict[bytes, Floats | None] = {}

    @property
    def rows(self) -> Mapping[str, int]:
        return self.reader.node_masks.row_of

    # Nodes.

    def put_node(self, thing: Object, node: NodeEntry) -> bool:
        """A node that nothing is counted on is new, or has changed. False if a column is too
        narrow for what it has."""
        row = amounts_table(self.resources, [(f"node {node.name}", node.amounts)], math.floor)
        if (row >= AMOUNT_MAX).any():
            return False
        new = node.name not in self.rows
        self.reader.node_masks.put(thing, node)
        if new:
            self._resize(None)
        at = self.rows[node.name]
        self.total[at] = self.free[at] = row[0]
        self._on_node(new, None)
        return True

    def delete_node(self, name: str) -> None:
        """A node that nothing is counted on is gone."""
        row = self.rows[name]
        self.reader.node_masks.delete(name)
        self._resize(row)
        self._on_node(True, row)

    def _resize(self, gone: int | None) -> None:
        self.total, self.free = resize(self.total, gone), resize(self.free, gone)
        if self.levels is not None:
            self.levels.resize(gone)

    def _on_node(self, resized: bool, gone: int | None) -> None:
        nodes = self.reader.nodes
        self.names = tuple(node.name for node in nodes)
        self.attributes = tuple(node.labels for node in nodes)
        self.between.on_node(resized, gone)
        self._open.clear()
        self._penalties.clear()

    def put_volumes(self, volumes: Volumes) -> None:
        """Claims, volumes or classes have changed; no pod that has any is counted."""
        self.reader = replace(self.reader, volumes=volumes)
        self.held.volumes = volumes

    # Pods.

    def knows(self, amounts: Mapping[str, str | float]) -> bool:
        """Whether there is a column for all that a pod asks for."""
        return all(name in self.resources.names for name, amount in amounts.items() if amount)

    def request(self, task: TaskEntry) -> Amounts:
        """What a pod asks for as a row of the table."""
        key = tuple(task.amounts.items())
        if key not in self._requests:
            named = [(f"pod {task.name}", task.amounts)]
            self._requests[key] = amounts_table(self.resources, named, math.ceil)[0]
        return self._requests[key]

    def place(self, task: TaskEntry, row: int, sign: int, leaving: bool) -> None:
        """A pod lies on a row now (+1), or does no more (−1)."""
        request = self.request(task)
        self.free[row] -= sign * request
        if self.levels is not None and not leaving:
            self.levels.place(task.priority, row, request, sign)
        self.between.place(task, row, sign, leaving)
        self.held.place(task, row, sign)

    def view(self, task: TaskEntry, now: float) -> View:
        """The rows as a policy sees them. A node that holds too much of something has none of it
        left: who asks for none of it does not mind."""
        return View(
            self.resources,
            self.names,
            self.attributes,
            self.total,
            np.maximum(self.free, 0),
            self.allowed(task),
            now,
        )

    def allowed(self, task: TaskEntry) -> Flags:
        """The rows a pod may use, room aside."""
        mask = self.open_to(task)
        for _, open_rows in self.changing_reasons(task):
            mask = mask & open_rows
        return mask

    def open_to(self, task: TaskEntry) -> Flags:
        """The rows that labels, taints and volumes leave open; pods that ask alike share them."""
        if task.wants not in self._open:
            if len(self._open) >= MASKS_MAX:
                self._open.clear()
            mask = self.reader.node_masks.everywhere.copy()
            for _, open_rows in self.lasting_reasons(task):
                mask &= open_rows
            self._open[task.wants] = mask
        return self._open[task.wants]

    def lasting_reasons(self, task: TaskEntry) -> Iterator[Reason]:
        """What rules nodes out whatever lies on them."""
        masks = self.reader.node_masks
        if task.wants == "pinned":
            return
        selector, required, tolerations, volumes, _ = msgspec.json.decode(str(task.wants))
        where = f"pod {task.name}"
        spec = {"nodeSelector": selector, "affinity": {"nodeAffinity": {REQUIRED: required}}}
        yield "it does not say yet what it has", masks.given
        yield "its node selector or affinity", masks.affinity(spec, where)
        yield "a taint it does not tolerate", masks.tolerated(tolerations)
        for each in volumes:
            yield "its volume cannot be reached", masks.required(each, where)

    def changing_reasons(self, task: TaskEntry) -> Iterator[Reason]:
        """What rules nodes out because of the pods on them."""
        yield from self.held.reasons(task)
        yield from self.between.reasons(task)

    def penalty(self, task: TaskEntry) -> Floats | None:
        """What a pod pays on each row for what it would rather have and does not get there: the
        plan's objective `preferences` counts the same. None if all rows are alike to it."""
        between = self.between.penalty(task)
        nodes = self._node_penalty(task)
        if between is None or nodes is None:
            return nodes if between is None else between
        return between + nodes

    def _node_penalty(self, task: TaskEntry) -> Floats | None:
        """Preferred node affinity and taints that ask to stay away; pods that say the same share
        it."""
        spec = task.source.get("spec") or {}
        wishes = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(PREFERRED)
        key = msgspec.json.encode([wishes or [], spec.get("tolerations") or []])
        if key not in self._penalties:
            paid = self.reader.node_masks.penalty(spec, f"pod {task.name}: node affinity")
            self._penalties[key] = paid if paid.any() else None
        return self._penalties[key]

    def is_simple(self, task: TaskEntry) -> bool:
        """Whether nothing but room changes where a pod may go."""
        return not self.between.concerns(task) and not self.held.holds_anything(task)
