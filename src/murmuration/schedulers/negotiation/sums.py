"""What the tasks of a node use and request, updated as they come and go."""

from __future__ import annotations

import numpy as np

from murmuration.schedulers.negotiation.messages import MobileTask, NodeLoad, Vector
from murmuration.schedulers.negotiation.rules import UNMEASURED


class Sums:
    """What some tasks use, and what those of production request."""

    def __init__(self, resources: int) -> None:
        self.used, self.guaranteed = np.zeros(resources, np.int64), np.zeros(resources, np.int64)
        self.tasks = 0

    def add(self, task: MobileTask, use: Vector, sign: int = 1) -> None:
        for r, amount in enumerate(task.request):
            self.used[r] += sign * use[r]
            if task.production:
                self.guaranteed[r] += sign * amount
        self.tasks += sign

    def same(self, other: Sums) -> bool:
        pairs = ((self.used, other.used), (self.guaranteed, other.guaranteed))
        return self.tasks == other.tasks and all((a == b).all() for a, b in pairs)

    def load(self, total: Vector) -> NodeLoad:
        used, guaranteed = tuple(self.used.tolist()), tuple(self.guaranteed.tolist())
        return NodeLoad(total, used, guaranteed, self.tasks)


def assumed_use(task: MobileTask) -> Vector:
    """What a task counts as using before it was measured."""
    return tuple(int(amount * UNMEASURED) for amount in task.request)
