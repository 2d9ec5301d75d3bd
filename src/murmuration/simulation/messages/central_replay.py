"""The live master in virtual time without a network: replaying a cluster's log, and rehearsing a
scenario.

The master decides by the events it is told and their times alone. So a log of events gives the
facts of the log again, and a scenario whose tasks take as long as they are told to gives the
decisions a live cluster of emulated nodes makes.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from murmuration.schedulers.agent import Wake
from murmuration.schedulers.central.master import LiveMaster, Settings
from murmuration.schedulers.central.messages import (
    AgentJoined,
    Ended,
    Launch,
    Recover,
    RunEnded,
    RunStarted,
    Send,
    SubmitJob,
    TaskPlaced,
)
from murmuration.schedulers.offers.messages import Callback, Status
from murmuration.workload.job_spec import JobSpec
from murmuration.workload.jobs import JobList
from murmuration.workload.nodes import NodeTable


@dataclass
class Replay:
    """What came of a replay: how much of the log came out again, and the first thing that did
    not."""

    events: int = 0
    decisions: int = 0
    facts: int = 0
    same: int = 0
    #: The number in the log, what is there, and what came out instead.
    difference: tuple[int, Any, Any] | None = None

    @property
    def agrees(self) -> bool:
        return self.same == self.facts and self.difference is None


@dataclass
class _Replayer:
    make: Callable[[Any], LiveMaster]
    result: Replay = field(default_factory=Replay)
    master: LiveMaster | None = None
    #: Facts that came out and are not met in the log yet.
    out: list[Any] = field(default_factory=list)

    def event(self, number: int, at_s: float, event: Any) -> None:
        if self.master is None:
            return
        if self.out and not isinstance(event, Recover):
            # Before a new master starts, the old one may have died with facts it had not written.
            self._differ(number, None, self.out[0])
        self.result.events += 1
        said = self.master.handle(event, at_s)
        self.out = [message for message in said if not isinstance(message, Send | Callback)]

    def fact(self, number: int, fact: Any) -> None:
        if self.master is None:
            return
        self.result.facts += 1
        self.result.decisions += isinstance(fact, TaskPlaced)
        came = self.out.pop(0) if self.out else None
        if came == fact:
            self.result.same += 1
        else:
            self._differ(number, fact, came)

    def _differ(self, number: int, there: Any, came: Any) -> None:
        if self.result.difference is None:
            self.result.difference = (number, there, came)


def replay(log: Iterable[tuple[int, float, str, Any]], make: Callable[[Any], LiveMaster]) -> Replay:
    """Feed the events of a log to a master like the one that wrote it, and compare what comes out.

    A log whose beginning was dropped is taken up where the next master started.
    """
    replayer = _Replayer(make)
    for number, at_s, side, value in log:
        if side == "options":
            replayer.master, replayer.out = make(value), []
        elif side == "event":
            replayer.event(number, at_s, value)
        else:
            replayer.fact(number, value)
    return replayer.result


def joins(nodes: NodeTable) -> list[AgentJoined]:
    """The nodes of a scenario as their agents would join."""
    names = nodes.resources.names
    return [
        AgentJoined(name, name, 1, dict(zip(names, map(int, total), strict=True)), dict(attributes))
        for name, total, attributes in zip(nodes.names, nodes.total, nodes.attributes, strict=True)
    ]


def submissions(jobs: JobList, speed: float = 1.0) -> list[tuple[float, SubmitJob]]:
    """The jobs of a scenario as clients would submit them: when, and what."""
    found = []
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
            user=jobs.workloads[jobs.workload[row]],
            constraints=[str(test) for test in jobs.constraint_sets[jobs.constraint[row]]],
        )
        found.append(
            (
                float(jobs.submit_s[row]) / speed,
                SubmitJob(spec, float(jobs.duration_s[row]) / speed),
            )
        )
    return found


@dataclass
class Rehearsal:
    """The decisions in order, and how many tasks had ended when each job was submitted."""

    placed: list[TaskPlaced] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)


def rehearse(
    settings: Settings, seed: int, nodes: NodeTable, jobs: list[tuple[float, SubmitJob]]
) -> Rehearsal:
    """A live master on these nodes and jobs, if nothing took any time but the tasks."""
    master, result, ends = LiveMaster(settings, seed), Rehearsal(), 0
    heap: list[tuple[float, int, Any]] = []
    for at, told in [(0.0, Recover(0, seed)), *((0.0, join) for join in joins(nodes)), *jobs]:
        heapq.heappush(heap, (at, len(heap), told))
    sequence = len(heap)
    while heap or master.due < math.inf:
        woken = not heap or master.due < heap[0][0]
        now, event = (master.due, Wake()) if woken else heapq.heappop(heap)[::2]
        ends += isinstance(event, RunEnded)
        if isinstance(event, SubmitJob):
            result.ended.append(ends)
        said = master.handle(event, now)
        result.placed += [message for message in said if isinstance(message, TaskPlaced)]
        for at, later in _launched(said, now):
            sequence += 1
            heapq.heappush(heap, (at, sequence, later))
    return result


def _launched(said: list[Any], now: float) -> list[tuple[float, Any]]:
    """What emulated executors tell of the runs that were just ordered, and when."""
    told: list[tuple[float, Any]] = []
    for message in said:
        if isinstance(message, Send) and isinstance(message.message, Launch):
            launch, node = message.message, message.node
            ended = RunEnded(node, Ended(launch.framework, launch.run, Status.FINISHED, 0))
            told += [(now, RunStarted(node, launch.framework, launch.run))]
            told += [(now + (launch.order.duration_s or 0.0), ended)]
    return told
