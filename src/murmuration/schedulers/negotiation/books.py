"""The books of one agent: which tasks it owns, and what a crash must not take away.

They are to be written down before any message leaves that was made after a change. A task is
*waiting* (an entry agent owns it), *running*, or *stopped*: the source has stopped it and waits to
hear from the target of its migration.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from murmuration.schedulers.negotiation.messages import Level, Migration, Task, Vector
from murmuration.schedulers.negotiation.rules import UNMEASURED


class Status(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    STOPPED = "stopped"


@dataclass(slots=True)
class Held:
    """A task an agent owns."""

    task: Task
    use: Vector
    status: Status
    measured: bool = False
    #: A task that came by force is not given away again before this time.
    stays_until: float = 0.0
    #: Of a stopped task: the migration that is to be answered, and by whom.
    migration: Migration | None = None
    target: str = ""
    #: Of a task that came by a migration whose source has not forgotten it yet.
    came_by: Migration | None = None


class Sums:
    """What some tasks use, and what those of production request, kept up to date."""

    def __init__(self, resources: int) -> None:
        self.used, self.guaranteed = np.zeros(resources, np.int64), np.zeros(resources, np.int64)
        self.tasks = 0

    def add(self, task: Task, use: Vector, sign: int = 1) -> None:
        for r, amount in enumerate(task.request):
            self.used[r] += sign * use[r]
            if task.production:
                self.guaranteed[r] += sign * amount
        self.tasks += sign

    def change_use(self, old: Vector, new: Vector) -> None:
        for r in range(len(old)):
            self.used[r] += new[r] - old[r]

    def same(self, other: Sums) -> bool:
        pairs = ((self.used, other.used), (self.guaranteed, other.guaranteed))
        return self.tasks == other.tasks and all((a == b).all() for a, b in pairs)


@dataclass
class Books:
    """Everything an agent must still know after a crash."""

    tasks: dict[str, Held] = field(default_factory=dict)
    #: Migrations towards this node that it took over, until their sources have forgotten the task.
    taken: dict[Migration, str] = field(default_factory=dict)
    #: The highest number of a migration seen from each source: an older one is never begun again.
    highest: dict[str, int] = field(default_factory=dict)
    #: The next number for a migration or a question of this agent.
    next_number: int = 1

    def number(self) -> int:
        self.next_number += 1
        return self.next_number - 1

    def sums(self, resources: int) -> Sums:
        """The sums of all tasks, added up anew."""
        sums = Sums(resources)
        for held in self.tasks.values():
            sums.add(held.task, held.use)
        return sums


def assumed_use(task: Task) -> Vector:
    """What a task counts as using before it was measured."""
    return tuple(int(amount * UNMEASURED) for amount in task.request)


def level_of(total: Vector, sums: Sums) -> Level:
    return Level(total, tuple(sums.used.tolist()), tuple(sums.guaranteed.tolist()), sums.tasks)
