"""Emulated hosts for negotiation: which task really runs where, what it uses, how long a transfer
takes, and when a task ends.

This is the ground truth that checkers compare the agents' memories with. A host outlives a crash of
its agent: tasks run on, and one that ends meanwhile is reported when the agent is back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.schedulers.agent import Message
from murmuration.schedulers.negotiation.messages import (
    HaltTask,
    KeepRunning,
    Measured,
    MigrationFinished,
    MobileTask,
    RunTask,
    StartTransfer,
    SuspendTasks,
    TaskFinished,
    Vector,
)
from murmuration.simulation.messages.drive import BrokenError, VirtualDriver


@dataclass(frozen=True)
class Arrival:
    """A task: when it comes, how long it runs, and what share of its request it uses, point by
    point.

    `shares` has one row per `step_s`, entered at `offset_s` when the task starts; it is gone round
    if `cyclic`, otherwise the last row stays. With `node` the task already runs there at time 0.
    """

    task: MobileTask
    at_s: float
    duration_s: float = math.inf
    shares: NDArray[Any] | None = None
    step_s: float = 60.0
    offset_s: float = 0.0
    cyclic: bool = False
    node: str | None = None

    def use(self, age_s: float) -> Vector:
        if self.shares is None:
            return self.task.request
        point = int((self.offset_s + age_s) / self.step_s)
        points = self._uses
        row = points[point % len(points) if self.cyclic else min(point, len(points) - 1)]
        return tuple(row.tolist())

    @cached_property
    def _uses(self) -> NDArray[np.int64]:
        """What is used at each point: asked for once a minute, so worked out once."""
        assert self.shares is not None
        amounts: NDArray[np.int64] = (np.array(self.task.request) * self.shares).astype(np.int64)
        return amounts


class Hosts:
    """All hosts of a cluster."""

    def __init__(
        self,
        nodes: Sequence[str],
        arrivals: Mapping[str, Arrival],
        driver: VirtualDriver,
        mb_per_s: float,
    ) -> None:
        self.arrivals, self.driver, self._mb_per_s = arrivals, driver, mb_per_s
        #: What runs where, and since when; what has ended, and on which host that is known; what
        #: was lost with its node.
        self.runs: dict[str, str] = {}
        self.started: dict[str, float] = {}
        self.ended: set[str] = set()
        self.finished: dict[str, set[str]] = {name: set() for name in nodes}
        self.lost: set[str] = set()
        #: Tasks that are suspended, since when, and for how long they were; they end that much
        #: later.
        self.suspended: dict[str, float] = {}
        self.delayed: dict[str, float] = {}
        self.measuring = True
        #: Nodes that are down for good.
        self.gone: set[str] = set()
        #: Raised by every act that changes what runs, for the checkers.
        self.changes = 0
        self._on_node: dict[str, dict[str, None]] = {name: {} for name in nodes}

    def tasks_on(self, node: str) -> list[str]:
        return list(self._on_node[node])

    # What agents want done.

    def act(self, node: str, act: Message) -> None:
        self.changes += 1
        match act:
            case RunTask(task):
                self.run_task(node, task)
            case HaltTask(task):
                self._hand_over(node, task)
            case KeepRunning(tasks):
                self._keep_running(node, tasks)
            case SuspendTasks(tasks):
                self._suspend(node, tasks)
            case StartTransfer(migration, _, _, megabytes):
                done = MigrationFinished(migration)
                ends = self.driver.now + megabytes / self._mb_per_s
                self.driver.at(ends, self.driver.tell, node, done)
            case _:
                raise BrokenError(f"{node} cannot do {act}")

    def run_task(self, node: str, task: MobileTask) -> None:
        name, now = task.name, self.driver.now
        if name in self.runs:
            raise BrokenError(f"{name} would run on {self.runs[name]} and on {node}")
        self._resume(name)
        self.runs[name] = node
        self._on_node[node][name] = None
        if name in self.lost:
            self.lost.remove(name)
            ends = self.started[name] + self.arrivals[name].duration_s
            if ends < math.inf:
                self.driver.at(max(ends, now), self._end_task, name)
        if name not in self.started:
            self.started[name] = now
            lasts = self.arrivals[name].duration_s
            if lasts < math.inf:
                self.driver.at(now + lasts, self._end_task, name)

    def _hand_over(self, node: str, task: str) -> None:
        """Halt a task for good; one that ended meanwhile ends again at its target."""
        if self.runs.get(task) == node:
            self._halt(task)
        elif task in self.finished[node]:
            self.finished[node].remove(task)
            self.ended.remove(task)
            self.driver.at(self.driver.now + 1.0, self._end_task, task)

    def _halt(self, task: str) -> None:
        self._resume(task)
        del self._on_node[self.runs.pop(task)][task]

    def _keep_running(self, node: str, tasks: Sequence[MobileTask]) -> None:
        """An agent has started: halt what it does not know, run what it lacks, and say again what
        has ended."""
        wanted = {task.name for task in tasks}
        for name in self.tasks_on(node):
            if name not in wanted:
                self._halt(name)
        for task in tasks:
            if task.name in self.finished[node]:
                self.driver.at(self.driver.now, self.driver.tell, node, TaskFinished(task.name))
            elif self.runs.get(task.name) != node:
                self.run_task(node, task)

    def _suspend(self, node: str, tasks: Sequence[str]) -> None:
        for task in self.tasks_on(node):
            if task not in tasks:
                self._resume(task)
        for task in tasks:
            self.suspended.setdefault(task, self.driver.now)

    def _resume(self, task: str) -> None:
        if task in self.suspended:
            paused = self.driver.now - self.suspended.pop(task)
            self.delayed[task] = self.delayed.get(task, 0.0) + paused

    # What happens by itself.

    def _end_task(self, name: str) -> None:
        """A task ends where it runs; while it is stopped or suspended it ends a little later."""
        node, now = self.runs.get(name), self.driver.now
        if name in self.lost:
            return
        if node is None or name in self.suspended:
            self.driver.at(now + 1.0, self._end_task, name)
        elif name in self.delayed:
            self.driver.at(now + self.delayed.pop(name), self._end_task, name)
        else:
            self._halt(name)
            self.ended.add(name)
            self.finished[node].add(name)
            self.driver.tell(node, TaskFinished(name))

    def measure(self, node: str, period_s: float) -> None:
        """Tell the agent what its tasks use, now and after every period while the node is there."""
        if node in self.gone:
            return
        self.driver.at(self.driver.now + period_s, self.measure, node, period_s)
        if self.measuring and self.driver.is_up(node):
            now = self.driver.now
            use = {
                task: self.arrivals[task].use(now - self.started[task])
                for task in self._on_node[node]
                if task not in self.suspended
            }
            self.driver.tell(node, Measured(use))

    def lose_node(self, node: str, owned: set[str], taken: set[str]) -> None:
        """A node is down for good. What it owned is lost, unless its source has not heard of the
        hand-over: then it goes on there."""
        self.gone.add(node)
        for task in self.tasks_on(node):
            self.suspended.pop(task, None)
            self._halt(task)
        # What had ended here may go on at its source too, and end again: the news of its end went
        # down with the node.
        again = self.ended & taken
        self.lost |= owned | again
        self.ended -= again
