"""The central master in virtual time without faults: rehearsing a scenario.

The master decides by the events it is told and their times alone. So a scenario whose tasks take as
long as they are told to gives the decisions a live cluster of emulated nodes makes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from murmuration.schedulers.agent import Effect, Message, Send
from murmuration.schedulers.central.master import CentralMaster, CentralSettings
from murmuration.schedulers.central.memory import MasterMemory
from murmuration.schedulers.central.messages import (
    AgentJoined,
    Ended,
    GoOn,
    JobSubmitted,
    Launch,
    Recover,
    RunEnded,
    RunStarted,
    Stop,
    SubmitJob,
    Suspend,
    TaskEnded,
    TaskPlaced,
    TaskWentOn,
)
from murmuration.schedulers.offers.messages import MASTER, Status
from murmuration.simulation.messages.drive import Disk, Party, VirtualDriver
from murmuration.simulation.messages.network import FaultSettings, Network
from murmuration.workload.job_spec import JobSpec
from murmuration.workload.jobs import JobList
from murmuration.workload.nodes import NodeTable


def joins(nodes: NodeTable) -> list[AgentJoined]:
    """The nodes of a scenario as their agents would join."""
    names = nodes.resources.names
    return [
        AgentJoined(name, name, 1, dict(zip(names, map(int, total), strict=True)), dict(attributes))
        for name, total, attributes in zip(nodes.names, nodes.total, nodes.attributes, strict=True)
    ]


def submissions(jobs: JobList, speed: float = 1.0) -> list[tuple[float, SubmitJob]]:
    """The jobs of a scenario as clients would submit them: when, and what."""
    submitted = []
    for row in range(len(jobs)):
        request = {
            name: int(amount) / jobs.resources.unit(name)
            for name, amount in zip(jobs.resources.names, jobs.request[row], strict=True)
        }
        spec = JobSpec(
            name=str(jobs.job_id[row]),
            command=["emulated"],
            count=int(jobs.tasks[row]),
            resources=dict(request),
            priority=int(jobs.priority[row]),
            gang=bool(jobs.gang[row]),
            user=_owner(jobs, row),
            time_limit_s=_limit_s(jobs, row, speed),
            constraints=[str(test) for test in jobs.constraint_sets[jobs.constraint[row]]],
        )
        submitted.append(
            (
                float(jobs.submit_s[row]) / speed,
                SubmitJob(spec, float(jobs.duration_s[row]) / speed),
            )
        )
    return submitted


def _owner(jobs: JobList, row: int) -> str:
    """Who submitted a job: its workload, where no user is known."""
    user = int(jobs.user[row])
    return jobs.users[user] if user >= 0 else jobs.workloads[jobs.workload[row]]


def _limit_s(jobs: JobList, row: int, speed: float) -> float | None:
    """The run time a job asked for. One that ran longer was not killed, and is not here."""
    asked = float(jobs.requested_s[row])
    return max(asked, float(jobs.duration_s[row])) / speed if asked > 0.0 else None


@dataclass
class RehearsedDecisions:
    """The decisions in order, and how many tasks had ended when each job was submitted."""

    placed: list[TaskPlaced] = field(default_factory=list)
    #: When each was made.
    placed_s: list[float] = field(default_factory=list)
    #: Suspended runs that went on, and when.
    resumed: list[tuple[TaskWentOn, float]] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)


def rehearse(
    settings: CentralSettings, seed: int, nodes: NodeTable, jobs: list[tuple[float, SubmitJob]]
) -> RehearsedDecisions:
    """A master on these nodes and jobs, if nothing took any time but the tasks."""
    settings = replace(settings, agent_timeout_s=math.inf)
    driver = VirtualDriver(Network(FaultSettings(delay_s=0.0), np.random.default_rng(0)))
    rehearsal = RehearsedDecisions()
    driver.add(_Rehearsed(rehearsal, settings, seed))
    for join in joins(nodes):
        driver.add(_EmulatedNode(driver, join.node))
        driver.at(0.0, driver.tell, MASTER, join)
    for at_s, submission in jobs:
        driver.at(at_s, driver.tell, MASTER, submission)
    driver.run()
    return rehearsal


class _Rehearsed(Party):
    """A master whose disk only counts."""

    def __init__(self, rehearsal: RehearsedDecisions, settings: CentralSettings, seed: int) -> None:
        super().__init__(MASTER, _Recording(rehearsal))
        self._settings, self._seed = settings, seed

    def start(self, memory: Any, life: int) -> CentralMaster:
        return CentralMaster(self._settings, self._seed)

    def first_events(self) -> list[Message]:
        return [Recover(0, self._seed)]


class _Recording(Disk):
    """Keeps the decisions, and how many tasks had ended at each submission."""

    def __init__(self, rehearsal: RehearsedDecisions) -> None:
        super().__init__(MasterMemory())
        self._rehearsal, self._ends = rehearsal, 0

    def write(self, facts: Sequence[tuple[Message, float]]) -> None:
        for fact, at_s in facts:
            if isinstance(fact, TaskPlaced):
                self._rehearsal.placed.append(fact)
                self._rehearsal.placed_s.append(at_s)
            elif isinstance(fact, TaskWentOn):
                self._rehearsal.resumed.append((fact, at_s))
            elif isinstance(fact, JobSubmitted):
                self._rehearsal.ended.append(self._ends)
            self._ends += isinstance(fact, TaskEnded)


class _EmulatedNode(Party):
    """A node whose tasks run for exactly as long as they are told to, end at once when they are
    told to stop, and stand still while they are suspended."""

    due = math.inf

    def __init__(self, driver: VirtualDriver, name: str) -> None:
        super().__init__(name)
        self._driver = driver
        #: When each run ends, and what is left of those that are suspended.
        self._ends: dict[str, float] = {}
        self._left: dict[str, float] = {}

    def start(self, memory: None, life: int) -> _EmulatedNode:
        return self

    def handle(self, event: Message, now: float) -> list[Effect]:
        match event:
            case Stop(session, framework, run, reason):
                self._ends.pop(run, None)
                ended = Ended(framework, run, Status.KILLED, reason=reason)
                return [Send(MASTER, RunEnded(self.name, ended, session))]
            case Suspend(run=run):
                self._left[run] = self._ends.pop(run) - now
            case GoOn(session, framework, run):
                self._end_later(session, framework, run, now + self._left.pop(run))
            case Launch(session, framework, run, _, order):
                self._end_later(session, framework, run, now + (order.duration_s or 0.0))
                return [Send(MASTER, RunStarted(self.name, framework, run, session))]
        return []

    def _end_later(self, session: int, framework: str, run: str, end_s: float) -> None:
        self._ends[run] = end_s
        ended = RunEnded(self.name, Ended(framework, run, Status.FINISHED, 0), session)
        self._driver.at(end_s, self._end, run, end_s, ended)

    def _end(self, run: str, end_s: float, ended: RunEnded) -> None:
        """It ends, unless it was suspended since."""
        if self._ends.get(run) == end_s:
            self._driver.tell(MASTER, ended)
