"""Framework schedulers as state machines over the master's messages: what to run on what they are offered.

`ElasticFramework` (Hadoop, Spark) takes any slot as soon as it is offered and shares fairly between its own jobs, waiting a
while for nodes that have a task's data (delay scheduling, 5.2.2). `GangFramework` (MPI, Torque) hoards slots until it has
all that a job needs (4.5, 5.4.2). Both answer `handle` with messages and name the time they want to be woken in `due`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from murmuration.schedulers.offers.ledger import fits
from murmuration.schedulers.offers.messages import (
    FromFramework, GetGuaranteedShare, GuaranteedShare, JobFinished, KillTask, NodeLost, OfferRescinded, ReplyToOffer,
    ResourceOffer, SetNeedsOffers, Slice, Status, StatusUpdate, Submit, Task, ToFramework, Vector, Wake,
)  # fmt: skip

#: A refusal that ends when the wait for data does may end a rounding error early.
TIME_ERROR_S = 1e-9
REFUSE_S = 5.0


class Framework(Protocol):
    """What a driver needs of a framework scheduler."""

    name: str

    @property
    def due(self) -> float: ...

    def handle(self, message: ToFramework, now: float) -> list[FromFramework]: ...


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A task before it has a node. `nodes` have its data; any node is as good as another if there are none."""

    request: Vector
    payload: object = None
    nodes: frozenset[str] = frozenset()
    short: bool = False


@dataclass(frozen=True)
class Job:
    """A bag of tasks, or several: a stage begins when the one before it has ended (reduces after maps, iterations)."""

    name: str
    stages: tuple[tuple[TaskSpec, ...], ...]


@dataclass(frozen=True)
class GangJob:
    """Tasks that start together and all run for `duration_s`."""

    name: str
    tasks: int
    request: Vector
    duration_s: float


class _OpenJob:
    """A job of an elastic framework that has not ended."""

    def __init__(self, job: Job) -> None:
        self.name = job.name
        self.stages = deque(job.stages)
        self.running = 0
        #: Since when it has passed over slots on nodes without its data; None if it has not.
        self.waits_since: float | None = None
        self.pending: deque[TaskSpec] = deque()
        self.local: dict[str, deque[TaskSpec]] = {}
        self._taken: set[int] = set()
        self.next_stage()

    def next_stage(self) -> bool:
        """Begin the next stage; False if there is none."""
        if not self.stages:
            return False
        for spec in self.stages.popleft():
            self.add(spec)
        return bool(self.pending) or self.next_stage()

    def add(self, spec: TaskSpec) -> None:
        self._taken.discard(id(spec))
        self.pending.append(spec)
        for node in spec.nodes:
            self.local.setdefault(node, deque()).append(spec)

    def take_local(self, node: str) -> TaskSpec | None:
        """The next task whose data is on this node, or that needs none."""
        queue = self.local.get(node)
        spec = self._next(queue) if queue else None
        if spec is None and (head := self.peek()) is not None and not head.nodes:
            spec = head
        return spec
