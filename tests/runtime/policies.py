"""A policy for a live cluster, named by its module path as in a simulation."""

from __future__ import annotations

import numpy as np

from murmuration.placement.view import JobView, View


class HighestRank:
    """Every task to the node of the highest rank that has room."""

    def decide(self, view: View, job: JobView, rng: np.random.Generator) -> list[int]:
        free, chosen = view.free.copy(), []
        ranks = [float(node.get("rank", 0)) for node in view.attributes]
        for _ in range(job.tasks):
            rows = [
                row
                for row in np.argsort(ranks)[::-1]
                if view.allowed[row] and (free[row] >= job.request).all()
            ]
            chosen.append(int(rows[0]) if rows else -1)
            if rows:
                free[rows[0]] -= job.request
        return chosen
