"""The loop that drives a master and its frameworks through virtual time, message by message. It
decides nothing.

Events are a heap of (time, sequence, message). Messages between agents take `delay_s`; a launched
task runs for as long as `lasts` says, which may be infinity: such a task runs until it is killed.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from murmuration.schedulers.offers.frameworks import Framework
from murmuration.schedulers.offers.ledger import Key
from murmuration.schedulers.offers.master import Master, Rules
from murmuration.schedulers.offers.messages import (
    Callback,
    JobFinished,
    LaunchTask,
    NodeJoined,
    NodeLeft,
    Register,
    Status,
    StopTask,
    Submit,
    TaskReport,
    ToMaster,
    Vector,
    Wake,
)

Handler = Callable[[Any], None]
Watch = Mapping[type, Callable[[Any, float], None]]


@dataclass(frozen=True, slots=True)
class _Due:
    """An agent asked to be woken; None is the master."""

    agent: str | None


@dataclass(frozen=True, slots=True)
class _TaskEnds:
    launch: LaunchTask


def lasts_payload(launch: LaunchTask) -> float:
    """How long a task runs whose payload is its duration; one without runs until it is killed."""
    payload = launch.task.payload
    return payload if isinstance(payload, float) else math.inf


class MessageLoop:
    """Delivers messages in order of time, runs tasks, wakes agents when they are due.

    `watch` names functions that see every message of a type, and the time, after it was delivered.
    """

    def __init__(
        self,
        master: Master,
        frameworks: Iterable[Framework],
        lasts: Callable[[LaunchTask], float] = lasts_payload,
        delay_s: float = 0.0,
        watch: Watch | None = None,
    ) -> None:
        self.now = 0.0
        self.master = master
        self.frameworks = {framework.name: framework for framework in frameworks}
        self._lasts = lasts
        self._delay_s = delay_s
        self._watch = watch or {}
        self._events: list[tuple[float, int, Any]] = []
        self._sequence = 0
        #: When each agent will next be woken.
        self._wakes: dict[str | None, float] = {}
        self._running: dict[Key, LaunchTask] = {}
        self._deliver: dict[type, Handler] = {
            **dict.fromkeys(get_args(ToMaster), self._to_master),
            **dict.fromkeys((*get_args(Callback), Submit), self._to_framework),
            LaunchTask: self._launch,
            StopTask: lambda stop: self._end(
                self._running.get((stop.framework, stop.task)), Status.KILLED
            ),
            NodeLeft: self._lose,
            JobFinished: lambda finished: None,
            _TaskEnds: lambda ends: self._end(ends.launch, Status.FINISHED),
            _Due: self._wake,
        }

    def post(self, message: Any, at: float) -> None:
        """Deliver a message at a time."""
        self._sequence += 1
        heapq.heappush(self._events, (at, self._sequence, message))

    def run(self, until: float = math.inf) -> None:
        """Let everything happen that happens up to the horizon, or until nothing is left to
        happen."""
        while self._events and self._events[0][0] <= until:
            self.now, _, message = heapq.heappop(self._events)
            kind = type(message)
            self._deliver[kind](message)
            if kind in self._watch:
                self._watch[kind](message, self.now)
        if until < math.inf:
            self.now = until

    def _to_master(self, message: Any) -> None:
        self._tell(None, self.master, message)

    def _to_framework(self, message: Any) -> None:
        self._tell(message.framework, self.frameworks[message.framework], message)

    def _tell(self, name: str | None, agent: Any, message: Any) -> None:
        """Hand a message to an agent, send what it answers, and note when it wants to be woken."""
        arrives = self.now + self._delay_s
        for answer in agent.handle(message, self.now):
            self.post(answer, self.now if type(answer) is JobFinished else arrives)
        due = agent.due
        if due < self._wakes.get(name, math.inf):
            self._wakes[name] = due
            self.post(_Due(name), due)

    def _wake(self, due: _Due) -> None:
        # A wake that was since brought forward finds nothing here, or a later time.
        if self._wakes.get(due.agent, math.inf) <= self.now:
            del self._wakes[due.agent]
            self._tell(
                due.agent, self.master if due.agent is None else self.frameworks[due.agent], Wake()
            )

    def _launch(self, launch: LaunchTask) -> None:
        self._running[launch.framework, launch.task.task] = launch
        self.post(
            TaskReport(launch.framework, launch.task.task, Status.RUNNING), self.now + self._delay_s
        )
        lasts = self._lasts(launch)
        if lasts < math.inf:
            self.post(_TaskEnds(launch), self.now + lasts)

    def _end(self, launch: LaunchTask | None, status: Status) -> None:
        """A task ends, unless it has already."""
        if launch is None:
            return
        key = (launch.framework, launch.task.task)
        if self._running.get(key) is launch:
            del self._running[key]
            self.post(TaskReport(*key, status), self.now + self._delay_s)

    def _lose(self, left: NodeLeft) -> None:
        """A node is gone, and nothing more is heard of its tasks."""
        self._running = {
            key: launch for key, launch in self._running.items() if launch.task.node != left.node
        }
        self._to_master(left)


def assemble(
    nodes: Mapping[str, Vector],
    registrations: Iterable[Register],
    frameworks: Iterable[Framework],
    rules: Rules,
    rng: np.random.Generator,
    lasts: Callable[[LaunchTask], float] = lasts_payload,
    delay_s: float = 0.0,
    watch: Watch | None = None,
) -> MessageLoop:
    """A loop whose nodes have joined and whose frameworks have registered at time 0."""
    master = Master(len(next(iter(nodes.values()))), rules, rng)
    loop = MessageLoop(master, frameworks, lasts, delay_s, watch)
    for node, total in nodes.items():
        loop.post(NodeJoined(node, total), 0.0)
    for registration in registrations:
        loop.post(registration, 0.0)
    return loop
