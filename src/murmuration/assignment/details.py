"""What a snapshot says of its nodes and tasks beyond the arrays of a problem."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from murmuration.base.arrays import Flags

#: Why a node (its number) is closed to tasks that want something.
Exclusion = Callable[[Hashable, int], str]
Entry = TypeVar("Entry")


@dataclass(frozen=True)
class SnapshotDetails:
    """For messages, for selectors, and for whoever writes the moves in the snapshot's format.

    Columns that a reader does not know are empty; the others have one entry per task, or per node.
    """

    #: The format of the snapshot: "kubernetes", "toml", "openb" or "containers".
    format: str
    #: The service a task is a replica of; in Kubernetes "namespace/kind/name" of its controller.
    services: tuple[str, ...]
    #: Why a task may not be moved; empty if it may.
    pin_reasons: tuple[str, ...]
    #: Whether a task belongs to its node and goes with it, as a daemon set's pod does.
    bound_to_node: tuple[bool, ...]
    #: Names of tasks and nodes that are planned with but not in the cluster yet.
    absent: frozenset[str] = frozenset()
    #: Names of tasks that a closed (cordoned) node does not keep out.
    ignores_cordons: frozenset[str] = frozenset()
    #: What selectors of tasks look at: labels, and the namespace.
    labels: tuple[Mapping[str, str], ...] = ()
    #: What decides which nodes a task may use.
    wants: tuple[Hashable, ...] = ()
    #: Whether a task is made again elsewhere if its node fails.
    remade: tuple[bool, ...] = ()
    #: Seconds from a task's start until it was ready; NaN where the snapshot does not tell.
    ready_s: tuple[float, ...] = ()
    #: What selectors of nodes look at, by node: labels, and the zone.
    node_labels: tuple[Mapping[str, str], ...] = ()
    why_excluded: Exclusion | None = field(default=None, compare=False)

    def subset(self, keep: Flags) -> SnapshotDetails:
        """The same for some of the tasks."""
        rows = np.flatnonzero(keep).tolist()
        return replace(
            self,
            services=_pick(self.services, rows),
            pin_reasons=_pick(self.pin_reasons, rows),
            bound_to_node=_pick(self.bound_to_node, rows),
            labels=_pick(self.labels, rows),
            wants=_pick(self.wants, rows),
            remade=_pick(self.remade, rows),
            ready_s=_pick(self.ready_s, rows),
        )


def _pick(column: tuple[Entry, ...], rows: list[int]) -> tuple[Entry, ...]:
    """Some entries of a column that is known, in their order."""
    return tuple(column[row] for row in rows) if column else ()
