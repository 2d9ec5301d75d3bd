"""A plain Python policy for the slow path: random nodes with room, a task on each, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np


class RandomRoom:
    """Draw a few nodes for each task and keep those with room; look at every node only if that was not enough."""

    def decide(self, view: Any, job: Any, rng: Any) -> Any:
        drawn = rng.integers(0, len(view.free), 4 * job.tasks)
        rows = np.unique(drawn[view.allowed[drawn] & (view.free[drawn] >= job.request).all(axis=1)])
        if len(rows) < job.tasks:
            rows = np.flatnonzero(view.feasible(job.request))
        chosen = rng.permutation(rows)[: job.tasks]
        return np.concatenate([chosen, np.full(job.tasks - len(chosen), -1)])
