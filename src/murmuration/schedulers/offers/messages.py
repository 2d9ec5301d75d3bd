"""The messages between master, frameworks and node agents (Table 5.1), each a frozen value.

An amount is a tuple of exact integers, one per resource in the order of the table's columns. A
task's `payload` belongs to its framework: the master carries it to the node and never reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Vector = tuple[int, ...]


class Status(StrEnum):
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    KILLED = "killed"
    REVOKED = "revoked"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Filters:
    """What a framework would always reject (5.2.5): nodes that are not listed, nodes with less than
    this free."""

    nodes: frozenset[str] | None = None
    at_least: Vector = ()


@dataclass(frozen=True, slots=True)
class Task:
    """A task to launch on an offered node. A `short` one may use what is reserved, and is killed at
    the limit (4.8)."""

    task: str
    node: str
    request: Vector
    short: bool = False
    payload: object = None


@dataclass(frozen=True, slots=True)
class Slice:
    """What is offered of one node: `amount` in all, of which tasks without a time limit may use
    `unlimited`."""

    node: str
    amount: Vector
    unlimited: Vector


# To the master, from node agents.


@dataclass(frozen=True, slots=True)
class NodeJoined:
    """A node agent connects. What it already runs rebuilds the state of a new master (5.2.6):
    (framework, task)."""

    node: str
    total: Vector
    running: tuple[tuple[str, Task], ...] = ()


@dataclass(frozen=True, slots=True)
class NodeLeft:
    node: str


@dataclass(frozen=True, slots=True)
class SetOpen:
    """Whether a node takes new tasks. One that does not is neither offered nor committed to; its
    tasks go on."""

    node: str
    open: bool


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The executor's sendStatus."""

    framework: str
    task: str
    status: Status
    reason: str = ""


# To the master, from frameworks: the scheduler actions.


@dataclass(frozen=True, slots=True)
class Register:
    """A framework and what the organisation grants it. It gets no offers before it says that it
    needs them."""

    framework: str
    weight: float = 1.0
    guaranteed: float = 0.0


@dataclass(frozen=True, slots=True)
class Unregister:
    framework: str


@dataclass(frozen=True, slots=True)
class ReplyToOffer:
    """The tasks to launch. What they leave is refused: not offered again for `refuse_s`, unless
    more is free then."""

    framework: str
    offer: int
    tasks: tuple[Task, ...] = ()
    refuse_s: float = 5.0


@dataclass(frozen=True, slots=True)
class SyncTable:
    """A scheduler of shared state (6.1) asks for its private copy of the table."""

    framework: str


@dataclass(frozen=True, slots=True)
class CommitTasks:
    """A transaction on that copy: the tasks of one job, and the sequence number of each one's row
    when it was read."""

    framework: str
    transaction: int
    tasks: tuple[Task, ...]
    seen: tuple[int, ...]
    machine: bool = False
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class SetNeedsOffers:
    """Whether the framework would use more. True also forgets what it has refused."""

    framework: str
    needs: bool


@dataclass(frozen=True, slots=True)
class SetFilters:
    framework: str
    filters: Filters


@dataclass(frozen=True, slots=True)
class GetGuaranteedShare:
    framework: str


@dataclass(frozen=True, slots=True)
class KillTask:
    framework: str
    task: str


# From the master to frameworks: the scheduler callbacks.


@dataclass(frozen=True, slots=True)
class ResourceOffer:
    """Free resources on some nodes. `limit_s` is how long a short task may run, if anything is
    reserved for those."""

    framework: str
    offer: int
    slices: tuple[Slice, ...]
    limit_s: float | None = None


@dataclass(frozen=True, slots=True)
class TableRow:
    node: str
    total: Vector
    free: Vector
    sequence: int


@dataclass(frozen=True, slots=True)
class Table:
    """The rows a scheduler of shared state may write: nodes that are open, and what is neither held
    nor on offer."""

    framework: str
    rows: tuple[TableRow, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of a transaction: its tasks by name."""

    framework: str
    transaction: int
    accepted: tuple[str, ...]
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OfferRescinded:
    framework: str
    offer: int


@dataclass(frozen=True, slots=True)
class StatusUpdate:
    framework: str
    task: str
    status: Status
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodeLost:
    framework: str
    node: str


@dataclass(frozen=True, slots=True)
class GuaranteedShare:
    """What the framework may hold without losing tasks."""

    framework: str
    amount: Vector


# From the master to node agents.


@dataclass(frozen=True, slots=True)
class LaunchTask:
    framework: str
    task: Task


@dataclass(frozen=True, slots=True)
class StopTask:
    framework: str
    node: str
    task: str


# Between an agent and whatever drives it.


@dataclass(frozen=True, slots=True)
class Wake:
    """The time an agent named by its `due` has come."""


@dataclass(frozen=True, slots=True)
class Submit:
    framework: str
    job: object


@dataclass(frozen=True, slots=True)
class JobFinished:
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
FromFramework = ReplyToOffer | SetNeedsOffers | GetGuaranteedShare | KillTask | JobFinished
