"""A plain Python policy for the slow path: the nodes with room in a random block of rows, in
NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np


class FirstRoom:
    """A task on each node with room from a random row on; every node is looked at only if a block
    was not enough."""

    def decide(self, view: Any, job: Any, rng: Any) -> Any:
        start = int(rng.random() * max(len(view.free) - 8 * job.tasks, 1))
        block = slice(start, start + 8 * job.tasks)
        rows = start + np.flatnonzero(
            (view.free[block] >= job.request).all(axis=1) & view.allowed[block]
        )
        if len(rows) < job.tasks:
            rows = np.flatnonzero(view.feasible(job.request))
        nodes = np.full(job.tasks, -1)
        nodes[: len(rows)] = rows[: job.tasks]
        return nodes
