"""The messages of negotiation: the eight of the paper's Table 1, hand-over, reports, and what a
node tells its agent.

Amounts are tuples of exact integers, one per resource. A migration is known by its source and a
number that the source never uses twice, so that every message about it may arrive late, twice, or
never.
"""

from __future__ import annotations

import msgspec

Vector = tuple[int, ...]
#: The source, and its number for this migration.
Migration = tuple[str, int]


class Task(msgspec.Struct, frozen=True):
    """What is known of a task everywhere: its request, whether it is production, and which nodes it
    may use."""

    name: str
    request: Vector
    production: bool = False
    constraints: tuple[str, ...] = ()


class Level(msgspec.Struct, frozen=True):
    """How full a node is: what is used, and what production tasks request."""

    total: Vector
    used: Vector
    guaranteed: Vector
    tasks: int


class Candidate(msgspec.Struct, frozen=True):
    """A node that may take the task, with its rating; a forced one has no room but could hold it
    (6.6)."""

    node: str
    weight: float
    forced: bool = False


# Table 1.


class GetCandidateNodesRequest(msgspec.Struct, frozen=True, tag=True):
    """To a broker: where could this task go? `unanswering` are nodes not to be recommended, and
    until when."""

    sender: str
    number: int
    task: Task
    use: Vector
    new: bool
    unanswering: tuple[tuple[str, float], ...] = ()


class GetCandidateNodesResponse(msgspec.Struct, frozen=True, tag=True):
    sender: str
    number: int
    candidates: tuple[Candidate, ...]


class TaskMigrationRequest(msgspec.Struct, frozen=True, tag=True):
    """To a candidate: would you take this task?"""

    sender: str
    number: int
    task: Task
    use: Vector


class TaskMigrationAcceptanceResponse(msgspec.Struct, frozen=True, tag=True):
    """Yes, as things are. Nothing is allocated; the level is newer than the broker's."""

    sender: str
    number: int
    level: Level


class TaskMigrationRejectionResponse(msgspec.Struct, frozen=True, tag=True):
    sender: str
    number: int


class TaskMigrationProcessRequest(msgspec.Struct, frozen=True, tag=True):
    """To the chosen candidate: make room. `forced` leaves out the check of what is in use."""

    sender: str
    migration: Migration
    task: Task
    use: Vector
    megabytes: float
    forced: bool = False


class TaskMigrationProcessConfirmationResponse(msgspec.Struct, frozen=True, tag=True):
    """Room is set aside; the transfer may begin."""

    sender: str
    migration: Migration


class TaskMigrationProcessErrorResponse(msgspec.Struct, frozen=True, tag=True):
    """There is no room any more, or this migration is over."""

    sender: str
    migration: Migration


# Hand-over: who owns the task when the transfer is done.


class TakeOver(msgspec.Struct, frozen=True, tag=True):
    """The source has stopped the task; from now on the target runs it. Repeated until answered."""

    sender: str
    migration: Migration


class TakenOver(msgspec.Struct, frozen=True, tag=True):
    """The target owns the task. Repeated until the source has forgotten it."""

    sender: str
    migration: Migration


class NotTaken(msgspec.Struct, frozen=True, tag=True):
    """The target holds nothing of this migration, and never will: the source goes on."""

    sender: str
    migration: Migration


class Released(msgspec.Struct, frozen=True, tag=True):
    """The source has forgotten the task, so that the target may too, or may move it on."""

    sender: str
    migration: Migration


class MigrationCancelled(msgspec.Struct, frozen=True, tag=True):
    """The source gave this migration up; room set aside for it can be used again."""

    sender: str
    migration: Migration


# Reports.


class NodeReport(msgspec.Struct, frozen=True, tag=True):
    """A node's state at a time, to its broker."""

    node: str
    at: float
    level: Level
    attributes: dict[str, str | float] = {}


class BrokerExchange(msgspec.Struct, frozen=True, tag=True):
    """Some of what a broker knows, to another one."""

    sender: str
    reports: tuple[NodeReport, ...]
    unanswering: tuple[tuple[str, float], ...] = ()


# What the node tells its agent, and the other way round.


class Submit(msgspec.Struct, frozen=True, tag=True):
    """A new task, to an entry agent."""

    task: Task


class Measured(msgspec.Struct, frozen=True, tag=True):
    """What the node's tasks use now."""

    use: dict[str, Vector]


class TaskEnded(msgspec.Struct, frozen=True, tag=True):
    task: str


class MigrationFinished(msgspec.Struct, frozen=True, tag=True):
    """The transfer is done, or has failed."""

    migration: Migration
    ok: bool = True


class NodeGone(msgspec.Struct, frozen=True, tag=True):
    """A node is down for good and what it ran is stopped. A node that comes back has a new name."""

    node: str


class Wake(msgspec.Struct, frozen=True, tag=True):
    """The time the agent asked to be woken at has come."""


class StartTransfer(msgspec.Struct, frozen=True, tag=True):
    migration: Migration
    task: str
    target: str
    megabytes: float


class RunTask(msgspec.Struct, frozen=True, tag=True):
    task: Task


class StopTask(msgspec.Struct, frozen=True, tag=True):
    task: str


class StandStill(msgspec.Struct, frozen=True, tag=True):
    """Of the node's tasks these stand still, and all others run."""

    tasks: tuple[str, ...]


#: To whom, and what; None is the agent's own node.
Outbox = list[tuple[str | None, msgspec.Struct]]
