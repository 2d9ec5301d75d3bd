"""What a node of a swarm holds, and what follows from it: its pheromone, and whom it takes.

Three sums say it all: what is *here*, what of that is *leaving* (Q of eq. 18: queued, being sent or
stopped for a hand-over) and what is *coming* (R: room reserved). Pheromones and destination rules
see n − Q + R, so that a decision counts at once; what is really there, n + R, may never exceed the
node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmuration.schedulers.swarm import pheromone
from murmuration.schedulers.swarm.destinations import SPREADING, may_take
from murmuration.schedulers.swarm.messages import Amounts
from murmuration.schedulers.swarm.settings import SwarmSettings

Row = NDArray[np.int64]


class Scent(NamedTuple):
    """What the node's pheromone is made of, at one moment."""

    pheromone: float
    #: Whether tasks leave it to pack the cluster; otherwise only for overload.
    packing: bool
    fullness: float
    #: The least dominant resource, −1 if none counts.
    resource: int

    @property
    def fuller_than(self) -> float:
        """What a destination must exceed."""
        return self.fullness if self.packing else SPREADING


class Host:
    """The sums of one node."""

    def __init__(self, total: Amounts, counted: Sequence[bool], settings: SwarmSettings) -> None:
        self.total: Row = np.array(total, np.int64)
        self.settings, self.strategy = settings, settings.strategy
        self.counted: Row = np.array(counted, np.int64)
        self.here: Row = np.zeros_like(self.total)
        self.leaving: Row = np.zeros_like(self.total)
        self.coming: Row = np.zeros_like(self.total)

    @property
    def used(self) -> Row:
        """n − Q + R."""
        return self.here - self.leaving + self.coming

    def scent(self, staying: Iterable[Amounts]) -> Scent:
        """Eq. 23, from the containers that stay or come: the smallest of them sets where packing is
        most urgent."""
        used, rules = self.used, self.settings
        resource = pheromone.least_dominant(used, self.total, self.counted)
        full = pheromone.fullness(used, self.total, resource)
        dominant = pheromone.dominant(used, self.total, self.counted)
        over = pheromone.spread(dominant, rules.overload)
        packing = over == 0.0 and self.strategy == pheromone.BIN_PACK
        smallest = 1.0
        if packing:
            smallest = min((self.size(r, resource, True) for r in staying), default=1.0)
        pack = pheromone.bin_pack(full, rules.underload, smallest, rules.form)
        return Scent(pheromone.repulsive(over, pack, self.strategy), packing, full, resource)

    def size(self, request: Amounts, resource: int, packing: bool) -> float:
        """The size of a container on this node."""
        row = np.array(request, np.int64)
        return pheromone.container_size(row, self.total, self.counted, resource, packing)

    def takes(self, request: Amounts, fuller_than: float) -> bool:
        """Whether the node takes this container: there is room for it now, beside all that is
        leaving, and the destination rules allow it."""
        row = np.array(request, np.int64)
        if (self.here + self.coming + row > self.total).any():
            return False
        return may_take(
            self.used, self.total, row, self.counted, self.settings.overload, fuller_than
        )

    def fullness(self) -> float:
        """The smallest share taken of a resource, with all that is queued."""
        used = self.used
        return pheromone.fullness(
            used, self.total, pheromone.least_dominant(used, self.total, self.counted)
        )
