"""The memory of one agent: which tasks it owns, and what else a crash must not take away.

It changes only by `apply`: a fact is noted, is on disk before anything leaves that rests on it, and
the same fold gives a fresh agent the same memory. It holds no point in time and no measurement:
those are learnt again.

A task is *waiting* (an entry agent owns it), *running*, or *stopped*: its agent has stopped it and
waits for an answer from the target of its migration.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from murmuration.schedulers.negotiation.messages import Local, Migration, MobileTask

#: Numbers an agent may use after one note; those left over when it crashes are never used.
NUMBERS_PER_NOTE = 256


class TaskState(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    STOPPED = "stopped"


# Facts.


class TaskAdmitted(Local, frozen=True):
    """A task begins here: it was submitted, or it ran before there was an agent."""

    task: MobileTask


class TaskStopped(Local, frozen=True):
    """The task does not run here any more, and the target may run it."""

    task: str
    migration: Migration
    target: str


class TaskResumed(Local, frozen=True):
    """The target never had the task, or is gone: it goes on here."""

    task: str


class TaskLeft(Local, frozen=True):
    """The task belongs to its target, or has ended."""

    task: str


class TaskTaken(Local, frozen=True):
    """A task came by a migration, and is run here from now on."""

    task: MobileTask
    migration: Migration


class SourceReleased(Local, frozen=True):
    """The source of a migration has forgotten the task."""

    migration: Migration


class MigrationSeen(Local, frozen=True):
    """No migration of this source up to this number is begun again."""

    source: str
    number: int


class NumbersReserved(Local, frozen=True):
    """The agent may use numbers below this one."""

    limit: int


Fact = (
    TaskAdmitted
    | TaskStopped
    | TaskResumed
    | TaskLeft
    | TaskTaken
    | SourceReleased
    | MigrationSeen
    | NumbersReserved
)


@dataclass(slots=True)
class OwnedTask:
    """A task an agent owns."""

    task: MobileTask
    state: TaskState
    #: Of a stopped task: the migration that is to be answered, and by whom.
    migration: Migration | None = None
    target: str = ""


@dataclass
class NegotiationMemory:
    """Everything an agent must still know after a crash. `home` is what a task does here when it is
    not handed over."""

    home: TaskState = TaskState.RUNNING
    tasks: dict[str, OwnedTask] = field(default_factory=dict)
    #: Migrations towards this node that it took over, until their sources have forgotten the task.
    taken: dict[Migration, str] = field(default_factory=dict)
    #: The highest number of a migration seen from each source.
    highest: dict[str, int] = field(default_factory=dict)
    #: Numbers from here on were never used.
    unused_number: int = 1

    def apply(self, fact: Fact, now: float) -> None:
        """Change as a fact says. `now` is not needed: nothing here has a time."""
        match fact:
            case TaskAdmitted(task):
                self.tasks[task.name] = OwnedTask(task, self.home)
            case TaskStopped(name, migration, target):
                owned = self.tasks[name]
                assert owned.state is self.home, f"{name} is stopped twice"
                owned.state, owned.migration, owned.target = TaskState.STOPPED, migration, target
            case TaskResumed(name):
                owned = self.tasks[name]
                assert owned.state is TaskState.STOPPED, f"{name} is resumed, but was not stopped"
                owned.state, owned.migration, owned.target = self.home, None, ""
            case TaskLeft(name):
                del self.tasks[name]
            case TaskTaken(task, migration):
                assert task.name not in self.tasks, f"{task.name} is taken by its owner"
                self.tasks[task.name] = OwnedTask(task, TaskState.RUNNING)
                self.taken[migration] = task.name
            case SourceReleased(migration):
                del self.taken[migration]
            case MigrationSeen(source, number):
                self.highest[source] = max(number, self.highest.get(source, 0))
            case NumbersReserved(limit):
                assert limit > self.unused_number, "numbers are reserved twice"
                self.unused_number = limit

    def in_state(self, state: TaskState) -> list[OwnedTask]:
        return [owned for owned in self.tasks.values() if owned.state is state]
