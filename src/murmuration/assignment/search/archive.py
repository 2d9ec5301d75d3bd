"""The best placements met so far: what no other dominates, and never without the best of each
objective.

NSGA-III keeps a population of fixed size and forgets good placements that have no niche; the
archive does not. It is what a plan is chosen from. Its arrays are made once, with room for a fixed
number of bytes, and thinned where the front is dense when they are full.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from murmuration.base.arrays import Floats, Indices, Placement, Placements

#: How much memory the placements of an archive may take, and how many there may be.
BYTES_MAX = 96_000_000
PLACEMENTS_MAX = 2000


@dataclass
class Archive:
    """Placements with the objectives they are compared by, all of those it lets in equally bad."""

    tasks: int
    objectives: int
    bad: float = np.inf
    values: Floats = field(init=False)
    placements: Placements = field(init=False)
    count: int = 0

    def __post_init__(self) -> None:
        room = max(50, min(PLACEMENTS_MAX, BYTES_MAX // max(4 * self.tasks, 1)))
        self.values = np.empty((room, self.objectives))
        self.placements = np.empty((room, self.tasks), dtype=np.int32)

    @property
    def front(self) -> Floats:
        return self.values[: self.count]

    def add(self, values: Floats, bad: float, placement: Placement) -> bool:
        """Keep a placement unless one that is kept is as good in everything."""
        if bad > self.bad:
            return False
        if bad < self.bad:
            self.bad, self.count = bad, 0
        front = self.front
        if (front <= values).all(axis=1).any():
            return False
        keep = np.flatnonzero(~(front >= values).all(axis=1))
        if len(keep) < self.count:
            self._keep(keep)
        if self.count == len(self.values):
            self._thin()
        self.values[self.count], self.placements[self.count] = values, placement
        self.count += 1
        return True

    def _keep(self, rows: Indices) -> None:
        self.values[: len(rows)] = self.values[rows]
        self.placements[: len(rows)] = self.placements[rows]
        self.count = len(rows)

    def _thin(self) -> None:
        """Drop the tenth that lies closest to others; the best of each objective stays, because its
        distance is infinite."""
        order = np.argsort(-crowding_distance(self.front), kind="stable")
        self._keep(np.sort(order[: self.count - max(1, self.count // 10)]))


def crowding_distance(values: Floats) -> Floats:
    """NSGA-II's crowding distance: how far apart the neighbours of each point are, summed over the
    objectives; infinite for the lowest value of each."""
    distance = np.zeros(len(values))
    for k in range(values.shape[1]):
        order = np.argsort(values[:, k], kind="stable")
        column = values[order, k]
        distance[order[0]] = np.inf
        span = column[-1] - column[0]
        if span > 0 and len(order) > 2:
            distance[order[1:-1]] += (column[2:] - column[:-2]) / span
    return distance
