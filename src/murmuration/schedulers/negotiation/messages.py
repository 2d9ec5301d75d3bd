"""The messages of negotiation: the eight of the paper's Table 1, hand-over, reports, and what a
host and its agent tell each other.

Amounts are tuples of exact integers, one per resource. A migration is known by its source and a
number that the source never uses twice, so that every message about it may arrive late, twice, or
never. No message carries a point in time, for clocks of two hosts differ: it says how *old*
something is or how long it still holds, and the receiver counts from its own clock.

The unions at the end say who may hear what.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from murmuration.schedulers.agent import Message, Wake

Vector = tuple[int, ...]
#: The source, and its number for this migration.
Migration = tuple[str, int]
#: What an agent may know of a node besides its size, for constraints.
Attributes = dict[str, str | float]


class MobileTask(msgspec.Struct, frozen=True):
    """What is known of a task everywhere: its request, whether it is production, which nodes it may
    use, and what a host needs to run it. The payload travels with the task and is read by hosts
    alone."""

    name: str
    request: Vector
    production: bool = False
    constraints: tuple[str, ...] = ()
    payload: msgspec.Raw = msgspec.Raw(b"null")


class NodeLoad(msgspec.Struct, frozen=True):
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


class NodeView(msgspec.Struct, frozen=True):
    """A report as a broker passes it on: how old it is, and its number, which says which of two
    reports of a node is newer."""

    node: str
    number: int
    age_s: float
    load: NodeLoad
    attributes: Attributes = {}


class Spoken(Message, frozen=True):
    """A message between two parties. The driver has made sure that the sender is who it says."""

    protocol: ClassVar[str] = "negotiation"
    speaker: ClassVar[str] = "sender"
    sender: str


class Local(Message, frozen=True):
    """What passes between a host and its agent, or is kept on its disk."""

    protocol: ClassVar[str] = "negotiation"


# Table 1.


class GetCandidateNodesRequest(Spoken, frozen=True):
    """To a broker: where could this task go? `unanswering` are nodes not to be recommended, and for
    how many seconds yet."""

    number: int
    task: MobileTask
    use: Vector
    new: bool
    unanswering: tuple[tuple[str, float], ...] = ()


class GetCandidateNodesResponse(Spoken, frozen=True):
    number: int
    candidates: tuple[Candidate, ...]


class TaskMigrationRequest(Spoken, frozen=True):
    """To a candidate: would you take this task?"""

    number: int
    task: MobileTask
    use: Vector


class TaskMigrationAcceptanceResponse(Spoken, frozen=True):
    """Yes, as things are. Nothing is allocated; the load is newer than the broker's."""

    number: int
    load: NodeLoad


class TaskMigrationRejectionResponse(Spoken, frozen=True):
    number: int


class TaskMigrationProcessRequest(Spoken, frozen=True):
    """To the chosen candidate: reserve room. `forced` leaves out the check of what is in use."""

    migration: Migration
    task: MobileTask
    use: Vector
    megabytes: float
    forced: bool = False


class TaskMigrationProcessConfirmationResponse(Spoken, frozen=True):
    """Room is reserved; the transfer may begin."""

    migration: Migration


class TaskMigrationProcessErrorResponse(Spoken, frozen=True):
    """There is no room any more, or this migration is over."""

    migration: Migration


# Hand-over: who owns the task when the transfer is done.


class TakeOver(Spoken, frozen=True):
    """The source has stopped the task; from now on the target runs it. Repeated until answered."""

    migration: Migration


class TakenOver(Spoken, frozen=True):
    """The target owns the task. Repeated until the source has forgotten it."""

    migration: Migration


class NotTaken(Spoken, frozen=True):
    """The target holds nothing of this migration, and never will: the source goes on."""

    migration: Migration


class Released(Spoken, frozen=True):
    """The source has forgotten the task, so that the target may too, or may move it on."""

    migration: Migration


class MigrationCancelled(Spoken, frozen=True):
    """The source gave this migration up; room reserved for it can be used again."""

    migration: Migration


# Reports.


class NodeReport(Spoken, frozen=True):
    """A node's state now, to its broker. Numbers of later reports are higher."""

    number: int
    load: NodeLoad
    attributes: Attributes = msgspec.field(default_factory=dict)


class BrokerExchange(Spoken, frozen=True):
    """Some of what a broker knows, to another one; nodes that do not answer, and for how many
    seconds yet they are not to be recommended."""

    views: tuple[NodeView, ...]
    unanswering: tuple[tuple[str, float], ...] = ()


class NodeGone(Spoken, frozen=True):
    """A node is down for good and what it ran is stopped. A node that comes back has a new name.

    A source that believes it runs a task again that it had handed over to that node. So it may be
    said only by a party that has made sure that nothing of that node runs any more (that has
    *fenced* it), and an agent believes it only from the parties it was given as its authorities.
    """

    node: str


# What a host tells its agent.


class SubmitTask(Local, frozen=True):
    """A new task, to an entry agent."""

    task: MobileTask


class Measured(Local, frozen=True):
    """What the host's tasks use now."""

    use: dict[str, Vector]


class TaskFinished(Local, frozen=True):
    """A task of this host has ended. The host repeats it if it is asked to run the task again."""

    task: str


class MigrationFinished(Local, frozen=True):
    """The transfer is done, or has failed."""

    migration: Migration
    ok: bool = True


# What an agent wants done on its host.


class KeepRunning(Local, frozen=True):
    """Exactly these tasks are to run here: what an agent that starts says first, for it may have
    crashed between a note and the act that follows from it."""

    tasks: tuple[MobileTask, ...]


class RunTask(Local, frozen=True):
    task: MobileTask


class HaltTask(Local, frozen=True):
    """Stop a task that is handed over to another node, if it runs. Has it ended a moment ago, its
    end is void: the target goes on from what was transferred, and the task ends there again."""

    task: str


class SuspendTasks(Local, frozen=True):
    """Of the host's tasks these are suspended, and all others run."""

    tasks: tuple[str, ...]


class StartTransfer(Local, frozen=True):
    migration: Migration
    task: str
    target: str
    megabytes: float


#: What every agent that gives tasks away may hear.
ToGiver = (
    GetCandidateNodesResponse
    | TaskMigrationAcceptanceResponse
    | TaskMigrationRejectionResponse
    | TaskMigrationProcessConfirmationResponse
    | TaskMigrationProcessErrorResponse
    | TakenOver
    | NotTaken
    | NodeGone
    | Wake
)
ToNode = (
    ToGiver
    | TaskMigrationRequest
    | TaskMigrationProcessRequest
    | TakeOver
    | Released
    | MigrationCancelled
    | Measured
    | TaskFinished
    | MigrationFinished
)
ToEntry = ToGiver | SubmitTask
ToBroker = NodeReport | BrokerExchange | GetCandidateNodesRequest | NodeGone | Wake
