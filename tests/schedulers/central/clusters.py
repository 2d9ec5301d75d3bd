"""A live master to tell stories about: nodes that run what they are sent, and everything it says,
by kind."""

from __future__ import annotations

from typing import Any

from murmuration.base.resources import Resources
from murmuration.placement.registry import resolve
from murmuration.schedulers.agent import Wake
from murmuration.schedulers.central.jobs import JobRecord, State
from murmuration.schedulers.central.master import LiveMaster, Settings
from murmuration.schedulers.central.messages import (
    JOBS,
    AgentJoined,
    Ended,
    Launch,
    RunEnded,
    Running,
    RunStarted,
    Send,
    SubmitJob,
)
from murmuration.schedulers.offers.master import Rules
from murmuration.schedulers.offers.messages import Status
from murmuration.workload.job_spec import JobSpec

CPU, GB = 1_000_000, 10**9


def spec(name: str = "job", **fields: Any) -> JobSpec:
    resources = fields.pop("resources", {"cpu": 1, "memory": "1G"})
    return JobSpec(name=name, command=["true"], resources=resources, **fields)


class Cluster:
    """Every event is followed by the wake it asks for, and by a check of the books."""

    def __init__(
        self, nodes: int = 0, placement: str = "first-fit", by_offers: bool = False, **rules: Any
    ) -> None:
        settings = Settings(Resources(), resolve(placement), Rules(**rules), by_offers)
        self.master = LiveMaster(settings, 1)
        self.now = 0.0
        self.sessions = 0
        self.launched: dict[str, tuple[str, Launch]] = {}
        for k in range(nodes):
            self.join(f"n{k}")

    def tell(self, event: Any, now: float | None = None) -> list[Any]:
        self.now = self.now if now is None else now
        said = self.master.handle(event, self.now)
        if self.master.due <= self.now:
            said = said + self.master.handle(Wake(), self.now)
        assert self.master.due > self.now, "one wake is enough"
        self.master.books.check()
        for message in said:
            if isinstance(message, Send) and isinstance(message.message, Launch):
                assert message.message.run not in self.launched, "a run was launched twice"
                self.launched[message.message.run] = message.node, message.message
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

    def states(self, name: str = "job") -> list[State]:
        return [task.state for task in self.job(name).tasks]

    def nodes_of(self, name: str = "job") -> list[str]:
        return [task.node for task in self.job(name).tasks]


def sent(said: list[Any], kind: type) -> list[Any]:
    return [
        message.message
        for message in said
        if isinstance(message, Send) and isinstance(message.message, kind)
    ]


def facts(said: list[Any], kind: type) -> list[Any]:
    return [message for message in said if isinstance(message, kind)]
