"""Offers on the virtual driver: a master, its frameworks, and nodes that emulate tasks.

A launched task runs for as long as `lasts` says, which may be infinity: such a task runs until it
is killed. Messages take `delay_s` unless a network is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from murmuration.schedulers.agent import Agent, Do, Effect, Message, Send
from murmuration.schedulers.offers.frameworks import Framework
from murmuration.schedulers.offers.ledger import Key
from murmuration.schedulers.offers.master import Master, Rules
from murmuration.schedulers.offers.messages import (
    MASTER,
    JobFinished,
    LaunchTask,
    NodeJoined,
    NodeLeft,
    OffersMessage,
    Register,
    Status,
    StopTask,
    Submit,
    TaskReport,
    Vector,
)
from murmuration.simulation.messages.drive import Checker, Party, VirtualDriver
from murmuration.simulation.messages.network import FaultSettings, Network

Watch = Mapping[type, Callable[[Any, float], None]]
Lasts = Callable[[LaunchTask], float]


class TaskExited(OffersMessage, frozen=True):
    """Told to an emulated node: the task has run for its time."""

    launch: LaunchTask


def lasts_payload(launch: LaunchTask) -> float:
    """How long a task runs whose payload is its duration; one without runs until it is killed."""
    payload = launch.task.payload
    return payload if isinstance(payload, float) else math.inf


class EmulatedSlave:
    """The agent of one emulated node: it runs what it is sent and reports what becomes of it."""

    due = math.inf

    def __init__(self) -> None:
        self.running: dict[Key, LaunchTask] = {}

    def handle(self, event: Message, now: float) -> list[Effect]:
        match event:
            case LaunchTask(framework, task):
                self.running[framework, task.task] = event
                report = TaskReport(framework, task.task, Status.RUNNING)
                return [Send(MASTER, report), Do(event)]
            case StopTask(framework, _, name):
                return self._end(self.running.get((framework, name)), Status.KILLED)
            case TaskExited(launch):
                return self._end(launch, Status.FINISHED)
        raise AssertionError(f"a node does not understand {event}")

    def _end(self, launch: LaunchTask | None, status: Status) -> list[Effect]:
        """A task ends, unless it has already."""
        if launch is None:
            return []
        key = (launch.framework, launch.task.task)
        if self.running.get(key) is not launch:
            return []
        del self.running[key]
        return [Send(MASTER, TaskReport(*key, status))]


class SlaveParty(Party):
    """A node. Its tasks end with its agent."""

    def __init__(self, name: str, total: Vector, driver: VirtualDriver, lasts: Lasts) -> None:
        super().__init__(name)
        self.total, self._driver, self._lasts = total, driver, lasts

    def start(self, memory: None, life: int) -> EmulatedSlave:
        return EmulatedSlave()

    def do(self, act: Message) -> None:
        assert isinstance(act, LaunchTask)
        lasts = self._lasts(act)
        if lasts < math.inf:
            life, ends = self._driver.life(self.name), self._driver.now + lasts
            self._driver.at(ends, self._exit, life, act)

    def _exit(self, life: int, launch: LaunchTask) -> None:
        if self._driver.life(self.name) == life:
            self._driver.tell(self.name, TaskExited(launch))


class _Lasting(Party):
    """A party whose agent was made before; it is never crashed."""

    def __init__(self, name: str, agent: Agent, finished: Callable[[Message], None]) -> None:
        super().__init__(name)
        self._agent, self._finished = agent, finished

    def start(self, memory: None, life: int) -> Agent:
        return self._agent

    def do(self, act: Message) -> None:
        self._finished(act)


class _Watcher(Checker):
    """Calls a function for every message of a type, after it was handled."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        self.see(event, driver.now)

    def see(self, message: Message, now: float) -> None:
        if type(message) in self._watch:
            self._watch[type(message)](message, now)


class OffersCluster:
    """A master, frameworks and nodes. `watch` names functions that see every message of a type,
    and the time, after it was handled."""

    def __init__(
        self,
        master: Master,
        frameworks: Iterable[Framework],
        lasts: Lasts = lasts_payload,
        network: Network | None = None,
        watch: Watch | None = None,
        checkers: Sequence[Checker] = (),
    ) -> None:
        self.master, self._lasts, self._watcher = master, lasts, _Watcher(watch or {})
        network = network or Network(FaultSettings(delay_s=0.0), np.random.default_rng(0))
        self.driver = VirtualDriver(network, [*([self._watcher] if watch else []), *checkers])
        self.frameworks = {framework.name: framework for framework in frameworks}
        self.driver.add(_Lasting(MASTER, master, self._finish))
        for framework in self.frameworks.values():
            self.driver.add(_Lasting(framework.name, framework, self._finish))

    @property
    def now(self) -> float:
        return self.driver.now

    def run(self, until: float = math.inf) -> None:
        """Go on to a time, or until nothing is left to happen."""
        self.driver.run(until)

    def post(self, message: Message, at: float) -> None:
        """Tell somebody something at a time: a framework of a job, the master of anything else."""
        self.driver.at(at, self._tell, message)

    def _tell(self, message: Message) -> None:
        if isinstance(message, Submit):
            self.driver.tell(message.framework, message)
            return
        if isinstance(message, NodeJoined) and message.node not in self.driver.names:
            self.driver.add(SlaveParty(message.node, message.total, self.driver, self._lasts))
        elif isinstance(message, NodeLeft):
            # Nothing more is heard of its tasks.
            self.driver.crash(message.node, math.inf)
        self.driver.tell(MASTER, message)

    def _finish(self, act: Message) -> None:
        """A job has finished. Whoever waits for it acts after what is under way at this time."""
        assert isinstance(act, JobFinished)
        self.driver.at(self.driver.now, lambda: self._watcher.see(act, self.driver.now))


def assemble(
    nodes: Mapping[str, Vector],
    registrations: Iterable[Register],
    frameworks: Iterable[Framework],
    rules: Rules,
    rng: np.random.Generator,
    lasts: Lasts = lasts_payload,
    delay_s: float = 0.0,
    watch: Watch | None = None,
) -> OffersCluster:
    """A cluster whose nodes have joined and whose frameworks have registered at time 0."""
    master = Master(len(next(iter(nodes.values()))), rules, rng)
    network = Network(FaultSettings(delay_s=delay_s), rng)
    cluster = OffersCluster(master, frameworks, lasts, network, watch)
    for node, total in nodes.items():
        cluster.post(NodeJoined(node, total), 0.0)
    for registration in registrations:
        cluster.post(registration, 0.0)
    return cluster
