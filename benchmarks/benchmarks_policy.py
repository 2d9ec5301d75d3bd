"""A plain Python policy for the slow path: the first nodes with room, from a random start, in NumPy."""

from __future__ import annotations

import numpy as np


class FirstRoom:
    """As many tasks as there are rows with room, one on each."""

    def decide(self, view, job, rng):  # type: ignore[no-untyped-def]
        rows = np.flatnonzero(view.feasible(job.request))
        count = min(job.tasks, len(rows))
        nodes = np.full(job.tasks, -1)
        if count:
            start = int(rng.random() * len(rows))
            nodes[:count] = rows[(start + np.arange(count)) % len(rows)]
        return nodes
