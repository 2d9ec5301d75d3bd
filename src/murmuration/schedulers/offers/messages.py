"""The protocol "offers": the messages between master, frameworks and node agents (Table 5.1).

The unions at the end say who may hear what. An amount is a tuple of exact integers, one per
resource in the order of the table's columns. A task's `payload` belongs to its framework: the
master carries it to the node and never reads it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

import msgspec

from murmuration.schedulers.agent import Message, Wake

Vector = tuple[int, ...]
#: The name under which the master is known.
MASTER = "master"


class OffersMessage(Message, frozen=True):
    """A message of this protocol."""

    protocol: ClassVar[str] = "offers"


class FromNode(OffersMessage, frozen=True):
    """A message in which a node speaks."""

    protocol: ClassVar[str] = "offers"
    speaker: ClassVar[str] = "node"


class FrameworkAction(OffersMessage, frozen=True):
    """A message in which a framework speaks: one of the scheduler actions."""

    protocol: ClassVar[str] = "offers"
    speaker: ClassVar[str] = "framework"


class Status(StrEnum):
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    KILLED = "killed"
    REVOKED = "revoked"
    LOST = "lost"


class Filters(msgspec.Struct, frozen=True):
    """What a framework would always reject (5.2.5): nodes that are not listed, nodes with less than
    this free."""

    nodes: frozenset[str] | None = None
    at_least: Vector = ()


class Task(msgspec.Struct, frozen=True):
    """A task to launch on an offered node. A `short` one may use what is reserved, and is killed at
    the limit (4.8)."""

    task: str
    node: str
    request: Vector
    short: bool = False
    payload: object = None


class Slice(msgspec.Struct, frozen=True):
    """What is offered of one node: `amount` in all, of which tasks without a time limit may use
    `unlimited`."""

    node: str
    amount: Vector
    unlimited: Vector


# To the master, from node agents.


class NodeJoined(FromNode, frozen=True):
    """A node agent connects. What it already runs rebuilds the state of a new master (5.2.6):
    (framework, task)."""

    node: str
    total: Vector
    running: tuple[tuple[str, Task], ...] = ()
    #: Whether it takes new tasks (see `SetOpen`).
    open: bool = True


class NodeLeft(FromNode, frozen=True):
    node: str


class SetOpen(OffersMessage, frozen=True):
    """Whether a node takes new tasks. One that does not is neither offered nor committed to; its
    tasks go on."""

    node: str
    open: bool


class TaskReport(OffersMessage, frozen=True):
    """The executor's sendStatus."""

    framework: str
    task: str
    status: Status
    reason: str = ""


# To the master, from frameworks: the scheduler actions.


class Register(FrameworkAction, frozen=True):
    """A framework and what the organisation grants it. It gets no offers before it says that it
    needs them."""

    framework: str
    weight: float = 1.0
    guaranteed: float = 0.0


class Unregister(FrameworkAction, frozen=True):
    framework: str


class ReplyToOffer(FrameworkAction, frozen=True):
    """The tasks to launch. What they leave is refused: not offered again for `refuse_s`, unless
    more is free then."""

    framework: str
    offer: int
    tasks: tuple[Task, ...] = ()
    refuse_s: float = 5.0


class SyncTable(FrameworkAction, frozen=True):
    """A scheduler of shared state (6.1) asks for its private copy of the table."""

    framework: str


class CommitTasks(FrameworkAction, frozen=True):
    """A transaction on that copy: the tasks of one job, and the sequence number of each one's row
    when it was read."""

    framework: str
    transaction: int
    tasks: tuple[Task, ...]
    seen: tuple[int, ...]
    machine: bool = False
    atomic: bool = False


class SetNeedsOffers(FrameworkAction, frozen=True):
    """Whether the framework would use more. True also forgets what it has refused."""

    framework: str
    needs: bool


class SetFilters(FrameworkAction, frozen=True):
    framework: str
    filters: Filters


class GetGuaranteedShare(FrameworkAction, frozen=True):
    framework: str


class KillTask(FrameworkAction, frozen=True):
    framework: str
    task: str


class Reconcile(FrameworkAction, frozen=True):
    """A framework that was away asks about the tasks it believes to be alive. It hears of those
    that are not; said again until nothing is in doubt, because a new master may not know yet."""

    framework: str
    tasks: tuple[str, ...]


class FrameworkGone(OffersMessage, frozen=True):
    """The connection of a framework broke, or another takes its place: what was offered to it goes
    back. Its tasks go on."""

    framework: str


# From the master to frameworks: the scheduler callbacks.


class ResourceOffer(OffersMessage, frozen=True):
    """Free resources on some nodes. `limit_s` is how long a short task may run, if anything is
    reserved for those."""

    framework: str
    offer: int
    slices: tuple[Slice, ...]
    limit_s: float | None = None


class TableRow(msgspec.Struct, frozen=True):
    node: str
    total: Vector
    free: Vector
    sequence: int


class Table(OffersMessage, frozen=True):
    """The rows a scheduler of shared state may write: nodes that are open, and what is neither held
    nor on offer."""

    framework: str
    rows: tuple[TableRow, ...]


class Committed(OffersMessage, frozen=True):
    """What became of a transaction: its tasks by name."""

    framework: str
    transaction: int
    accepted: tuple[str, ...]
    refused: tuple[str, ...]


class OfferRescinded(OffersMessage, frozen=True):
    framework: str
    offer: int


class StatusUpdate(OffersMessage, frozen=True):
    framework: str
    task: str
    status: Status
    reason: str = ""


class NodeLost(OffersMessage, frozen=True):
    framework: str
    node: str


class GuaranteedShare(OffersMessage, frozen=True):
    """What the framework may hold without losing tasks."""

    framework: str
    amount: Vector


# From the master to node agents.


class LaunchTask(OffersMessage, frozen=True):
    framework: str
    task: Task


class ResizeTask(OffersMessage, frozen=True):
    """The job manager, which shares the master's process, says that a task holds another amount."""

    framework: str
    task: str
    request: Vector


class TaskResized(OffersMessage, frozen=True):
    """The node of a task hears that it holds less, or all it asked for again."""

    framework: str
    node: str
    task: str


class StopTask(OffersMessage, frozen=True):
    framework: str
    node: str
    task: str


# Between an agent and whatever drives it.


class Submit(OffersMessage, frozen=True):
    """A job for a framework."""

    framework: str
    job: object


class JobFinished(OffersMessage, frozen=True):
    """An act: tell whoever submitted the job."""

    framework: str
    job: str


ToMaster = (
    NodeJoined
    | NodeLeft
    | TaskReport
    | Register
    | Unregister
    | ReplyToOffer
    | SetNeedsOffers
    | SetFilters
    | GetGuaranteedShare
    | KillTask
    | Reconcile
    | FrameworkGone
    | Wake
    | SetOpen
    | SyncTable
    | CommitTasks
)
Callback = (
    ResourceOffer | OfferRescinded | StatusUpdate | NodeLost | GuaranteedShare | Table | Committed
)
ToNode = LaunchTask | StopTask
FromMaster = Callback | ToNode
ToFramework = Callback | Submit | Wake
FromFramework = (
    Register
    | Unregister
    | ReplyToOffer
    | SetNeedsOffers
    | SetFilters
    | GetGuaranteedShare
    | KillTask
    | Reconcile
    | SyncTable
    | CommitTasks
)
