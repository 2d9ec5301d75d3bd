"""A live master to tell stories about: nodes that run what they are sent, and everything it says,
by kind."""

from __future__ import annotations

import math
from typing import Any

from murmuration.base.resources import Resources
from murmuration.placement.registry import resolve
from murmuration.schedulers.agent import Do, Effect, Note, Send, Wake
from murmuration.schedulers.central.jobs import CentralTaskState, JobRecord
from murmuration.schedulers.central.master import CentralMaster, CentralSettings
from murmuration.schedulers.central.messages import (
    JOBS,
    AgentJoined,
    Ended,
    Launch,
    RunEnded,
    Running,
    RunStarted,
    SubmitJob,
    ToAgent,
)
from murmuration.schedulers.offers.master import Rules
from murmuration.schedulers.offers.messages import Status
from murmuration.workload.job_spec import JobSpec

CPU, GB = 1_000_000, 10**9
WAKES_MAX = 2


def spec(name: str = "job", **fields: Any) -> JobSpec:
    resources = fields.pop("resources", {"cpu": 1, "memory": "1G"})
    return JobSpec(name=name, command=["true"], resources=resources, **fields)


class Cluster:
    """Every event is followed by the wake it asks for, and by a check of the books."""

    def __init__(
        self, nodes: int = 0, placement: str = "first-fit", by_offers: bool = False, **rules: Any
    ) -> None:
        # Its agents send no heartbeats, so their leases must not end.
        settings = CentralSettings(
            Resources(), resolve(placement), Rules(**rules), by_offers, agent_timeout_s=math.inf
        )
        self.master = CentralMaster(settings, 1)
        self.now = 0.0
        self.sessions = 0
        self.launched: dict[str, tuple[str, Launch]] = {}
        for k in range(nodes):
            self.join(f"n{k}")

    def tell(self, event: Any, now: float | None = None) -> list[Any]:
        self.now = self.now if now is None else now
        said = flat(self.master.handle(event, self.now))
        for _ in range(WAKES_MAX):
            if self.master.due <= self.now:
                said = said + flat(self.master.handle(Wake(), self.now))
        assert self.master.due > self.now, "a wake is enough, or two if somebody must make way"
        self.master.resource_manager.check()
        for message in said:
            if isinstance(message, Send) and isinstance(message.message, Launch):
                assert message.message.run not in self.launched, "a run was launched twice"
                self.launched[message.message.run] = message.to, message.message
        return said

    def join(
        self,
        node: str,
        cpu: int = 2,
        memory: int = 4,
        *,
        running: tuple[Running, ...] = (),
        **more: Any,
    ) -> Any:
        self.sessions += 1
        total = {"cpu": cpu * CPU, "memory": memory * GB}
        return self.tell(AgentJoined(node, node, self.sessions, total, running=running, **more))

    def submit(self, job: JobSpec, now: float | None = None) -> list[Any]:
        return self.tell(SubmitJob(job), now)

    def start(self, run: str) -> list[Any]:
        return self.tell(RunStarted(self.launched[run][0], JOBS, run))

    def end(self, run: str, code: int = 0, now: float | None = None, **fields: Any) -> list[Any]:
        status = fields.pop("status", Status.FINISHED if code == 0 else Status.FAILED)
        return self.tell(
            RunEnded(self.launched[run][0], Ended(JOBS, run, status, code, **fields)), now
        )

    def job(self, name: str = "job") -> JobRecord:
        return self.master.jobs.jobs[name]

    def states(self, name: str = "job") -> list[CentralTaskState]:
        return [task.state for task in self.job(name).tasks]

    def nodes_of(self, name: str = "job") -> list[str]:
        return [task.node for task in self.job(name).tasks]


def flat(effects: list[Effect]) -> list[Any]:
    """Facts and acts as they are, messages to schedulers too; those to node agents as `Send`. All
    facts come first."""
    notes = [isinstance(effect, Note) for effect in effects]
    assert notes == sorted(notes, reverse=True), "a fact comes before what rests on it"
    return [_flat(effect) for effect in effects]


def _flat(effect: Effect) -> Any:
    match effect:
        case Note(fact):
            return fact
        case Do(act):
            return act
        case Send(_, message) if isinstance(message, ToAgent):
            return effect
        case Send(to, message):
            assert to == getattr(message, "framework", None)
            return message


def sent(said: list[Any], kind: type) -> list[Any]:
    return [
        message.message
        for message in said
        if isinstance(message, Send) and isinstance(message.message, kind)
    ]


def facts(said: list[Any], kind: type) -> list[Any]:
    return [message for message in said if isinstance(message, kind)]
