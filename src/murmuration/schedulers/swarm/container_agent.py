"""The process inside a container that drives it from node to node (Algorithm A1 of the paper).

It reads the pheromone of its host, draws against it, and asks the host to find a destination and to
move it there. All of this happens on one host, so it is a call and not a message; the host's agent
(`node_agent.py`) speaks with other nodes for it. Nothing of it must survive a crash: a container
that moves, or whose host starts again, begins at the top of its loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from murmuration.schedulers.swarm.messages import SwarmContainer
from murmuration.schedulers.swarm.pheromone import leave_probability


class Stage(Enum):
    """How far a container is on its way out."""

    STAYING = "decides every step"
    SEARCHING = "its host asks along the ring"
    QUEUED = "has a destination, waits for its turn"
    SENDING = "is being copied"
    STOPPED = "waits for its target to take it over"


#: Containers at these stages count as having left (Q of eq. 18).
LEAVING = (Stage.QUEUED, Stage.SENDING, Stage.STOPPED)


@dataclass(slots=True)
class ContainerAgent:
    """One container on its host."""

    container: SwarmContainer
    #: When it decides next.
    wakes_at: float
    stage: Stage = Stage.STAYING

    def decides_to_leave(
        self, pheromone: float, size: float, largest: float, weighted: bool, draw: float
    ) -> bool:
        """One turn of its loop: `draw` is uniform in [0, 1)."""
        assert self.stage is Stage.STAYING
        return draw < leave_probability(pheromone, size, largest, weighted)
