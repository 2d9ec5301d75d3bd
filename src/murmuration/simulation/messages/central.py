"""A live cluster in virtual time: the same master, leases and node agents, over a network that
fails.

Connections deliver in order and late; they break, and what was under way is lost. Masters and node
agents crash at any moment and come back with what was on their disks; processes outlive the agents
that started them, until a lease ends. Between a decision and its messages lies the write to disk,
so a crash may fall before, between or after them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from murmuration.schedulers.agent import Wake
from murmuration.schedulers.central.agent import (
    Connected,
    Disconnected,
    Exited,
    Forget,
    Found,
    GiveUp,
    Kill,
    Leased,
    NodeAgent,
    Start,
    Started,
)
from murmuration.schedulers.central.leases import Leases
from murmuration.schedulers.central.master import LiveMaster, Settings
from murmuration.schedulers.central.messages import (
    AgentJoined,
    AgentLost,
    Ended,
    FromAgent,
    Heartbeat,
    Refused,
    Send,
    SubmitJob,
)
from murmuration.schedulers.offers.messages import Status
from murmuration.simulation.messages.central_disk import Disk
from murmuration.workload.job_spec import JobSpec

WRITE_S = 0.01
TICK_S = 0.5
RECONNECT_S = 0.5


@dataclass(frozen=True)
class Network:
    """How long messages take, drawn evenly; a side notices a broken connection within
    `notice_s`."""

    delay_s: tuple[float, float] = (0.001, 0.05)
    notice_s: float = 5.0


@dataclass
class Host:
    """A node: its agent if it runs, the connection to the master if it stands, and the processes on
    it."""

    name: str
    total: dict[str, int]
    attributes: dict[str, str | float] = field(default_factory=dict)
    agent: NodeAgent | None = None
    #: The number of the connection on the agent's side, and on the master's; 0 for none.
    connection: int = 0
    seen: int = 0
    cut: bool = False
    lease_s: float = math.inf
    #: When each process ends by itself.
    processes: dict[str, float] = field(default_factory=dict)
    #: On disk: what was ordered, and how it ended, until the end is recorded.
    journal: dict[str, Start] = field(default_factory=dict)
    over: dict[str, Ended] = field(default_factory=dict)
    wake_s: float = math.inf


@dataclass(frozen=True)
class Span:
    """One run of one task: from when to when, on which node."""

    run: str
    node: str
    start_s: float
    end_s: float


class LiveWorld:
    """Everything that happens, in order of time."""

    def __init__(
        self,
        settings: Settings,
        nodes: Mapping[str, dict[str, int]],
        seed: int,
        rng: np.random.Generator,
        network: Network | None = None,
        agent_timeout_s: float = 10.0,
        margin_s: float = 2.0,
        attributes: Mapping[str, dict[str, str | float]] | None = None,
    ) -> None:
        self.now = 0.0
        self.settings, self.seed, self.rng = settings, seed, rng
        self.network = network or Network()
        self.timeout_s, self.margin_s = agent_timeout_s, margin_s
        self.disk = Disk()
        self.master: LiveMaster | None = None
        self.leases = Leases(agent_timeout_s, margin_s)
        described = attributes or {}
        self.hosts = {
            name: Host(name, total, described.get(name, {})) for name, total in nodes.items()
        }
        self.spans: list[Span] = []
        self.facts: list[tuple[float, Any]] = []
        self._began: dict[tuple[str, str], float] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = self._numbers = self._generation = 0
        self._busy_until: dict[object, float] = {}
        self._write_until = 0.0
        self.start_master()
        for host in self.hosts.values():
            self.start_agent(host)
        self.at(TICK_S, self._tick)

    # Time.

    def at(self, when: float, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (max(when, self.now), self._sequence, action))

    def run(self, until_s: float) -> None:
        while self._events and self._events[0][0] <= until_s:
            self.now, _, action = heapq.heappop(self._events)
            action()
        self.now = until_s

    def _later(self, line: object) -> float:
        """When something sent now on a line arrives: after a delay, and after what was sent
        before."""
        low, high = self.network.delay_s
        arrives = max(
            self.now + low + float(self.rng.random()) * (high - low),
            self._busy_until.get(line, 0.0),
        )
        self._busy_until[line] = arrives
        return arrives

    # The master.

    def start_master(self) -> None:
        if self.master is None:
            self._generation += 1
            self.master = LiveMaster(self.settings, self.seed)
            self.leases = Leases(self.timeout_s, self.margin_s)
            self.tell(self.disk.recover(self.seed))
            self.leases.expect((task.node for _, task in self.master.jobs.runs.values()), self.now)

    def crash_master(self) -> None:
        """Its memory is gone, and so is what it had not written or sent."""
        self.master = None
        self._generation += 1
        for host in self.hosts.values():
            self._break(host)

    def submit(self, spec: JobSpec, duration_s: float | None) -> None:
        self.tell(SubmitJob(spec, duration_s))

    def submit_surely(self, spec: JobSpec, duration_s: float | None) -> None:
        """A client that asks again until its job is on disk."""
        if spec.name not in self.disk.jobs:
            if self.master is not None and spec.name not in self.master.jobs.jobs:
                self.submit(spec, duration_s)
            self.at(self.now + 1.0, lambda: self.submit_surely(spec, duration_s))

    def tell(self, event: Any) -> None:
        """The master handles an event; facts are written, then messages are sent."""
        if self.master is None:
            return
        said = self.master.handle(event, self.now)
        if self.master.due <= self.now:
            said = said + self.master.handle(Wake(), self.now)
        # One write after the other: what is decided later is never on disk earlier.
        written = self._write_until = max(
            self._write_until, self.now + WRITE_S * float(self.rng.random())
        )
        facts = [message for message in said if not isinstance(message, Send)]
        sends = [message for message in said if isinstance(message, Send)]
        generation = self._generation
        self.at(written, lambda: self._write(facts, generation))
        self.at(written + WRITE_S * float(self.rng.random()), lambda: self._send(sends, generation))
        if self.master.due < math.inf:
            self.at(self.master.due, lambda: self._wake_master(generation))

    def _write(self, facts: list[Any], generation: int) -> None:
        if generation == self._generation:
            for fact in facts:
                self.disk.write(fact, self.now)
                self.facts.append((self.now, fact))

    def _send(self, sends: list[Send], generation: int) -> None:
        if generation == self._generation:
            for send in sends:
                host = self.hosts[send.node]
                self._to_agent(host, send.message, host.seen)

    def _wake_master(self, generation: int) -> None:
        if (
            generation == self._generation
            and self.master is not None
            and self.master.due <= self.now
        ):
            self.tell(Wake())

    def _tick(self) -> None:
        """Leases end, and wardens keep the promise of agents that are gone."""
        if self.master is not None:
            for ended in self.leases.expire(self.now):
                self.hosts[ended.node].seen = 0
                self.tell(ended)
        for host in self.hosts.values():
            if self.now >= host.lease_s:
                for run in list(host.processes):
                    self._end_process(host, run, None, None)
            if (
                host.agent is not None
                and not host.connection
                and not host.cut
                and self.master is not None
            ):
                self._connect(host)
        self.at(self.now + TICK_S, self._tick)

    # Node agents.

    def start_agent(self, host: Host) -> None:
        """An agent starts and finds what one before it has left."""
        if host.agent is not None:
            return
        host.agent = NodeAgent(
            host.name,
            host.name,
            host.total,
            attributes=host.attributes,
            agent_timeout_s=self.timeout_s,
        )
        found = [
            Found(start.launch.framework, run, start.launch.request, start.ends_s)
            for run, start in host.journal.items()
            if run in host.processes
        ]
        for run, start in host.journal.items():
            if run not in host.processes and run not in host.over:
                host.over[run] = Ended(
                    start.launch.framework, run, Status.LOST, reason="it ended without a trace"
                )
        host.agent.find(found, list(host.over.values()), self.now)
        self._set_wake(host)

    def crash_agent(self, host: Host) -> None:
        host.agent = None
        self._break(host)

    def cut(self, host: Host, on: bool) -> None:
        host.cut = on
        if on:
            self._break(host)

    def _connect(self, host: Host) -> None:
        self._numbers += 1
        host.connection = self._numbers
        self._tell_agent(host, Connected(self._numbers))

    def _break(self, host: Host) -> None:
        """The connection is gone; each side notices in its own time, and nothing more passes."""
        number, host.connection = host.connection, 0
        if host.agent is not None:
            self._tell_agent(host, Disconnected())
        if number:
            after = self.now + self.network.notice_s * float(self.rng.random())
            self.at(after, lambda: self._notice(host, number))

    def _notice(self, host: Host, number: int) -> None:
        if host.seen == number:
            host.seen = 0
            member = self.leases.members.get(host.name)
            if (
                self.master is not None
                and member is not None
                and self.leases.disconnect(host.name, number)
            ):
                self.tell(AgentLost(host.name))

    def _tell_agent(self, host: Host, event: Any) -> None:
        if host.agent is None:
            return
        for command in host.agent.handle(event, self.now):
            self._do(host, command)
        self._set_wake(host)

    def _set_wake(self, host: Host) -> None:
        due = host.agent.due if host.agent is not None else math.inf
        if due < math.inf and due != host.wake_s:
            host.wake_s = due
            self.at(due, lambda: self._wake_agent(host, due))

    def _wake_agent(self, host: Host, due: float) -> None:
        if host.agent is not None and host.wake_s == due:
            host.wake_s = math.inf
            self._tell_agent(host, Wake())

    def _do(self, host: Host, command: Any) -> None:
        match command:
            case Start():
                self._start(host, command)
            case Kill(run, _, _):
                self.at(self.now, lambda: self._end_process(host, run, None, 15))
            case Forget(run):
                host.journal.pop(run, None)
                host.over.pop(run, None)
            case Leased(until_s):
                host.lease_s = until_s
            case GiveUp(reason):
                raise AssertionError(f"{host.name} was refused: {reason}")
            case _:
                number = host.connection
                if number:
                    arrives = self._later(("up", host.name, number))
                    self.at(arrives, lambda: self._from_agent(host, number, command))

    def _start(self, host: Host, command: Start) -> None:
        run = command.launch.run
        host.journal[run] = command
        lasts = command.launch.order.duration_s
        host.processes[run] = self.now + (math.inf if lasts is None else lasts)
        self._began[host.name, run] = self.now
        if lasts is not None:
            self.at(self.now + lasts, lambda: self._end_process(host, run, 0, None))
        self._tell_agent(host, Started(run))

    def _end_process(self, host: Host, run: str, code: int | None, signal: int | None) -> None:
        """A process ends; an agent that is there is told, one that comes later finds the trace of
        an end by itself."""
        if run not in host.processes:
            return
        del host.processes[run]
        self.spans.append(Span(run, host.name, self._began[host.name, run], self.now))
        if host.agent is not None:
            self._tell_agent(host, Exited(run, code, signal))
            record = host.agent.runs.get(run)
            if record is not None and record.ended is not None:
                host.over[run] = record.ended
        elif code is not None:
            framework = host.journal[run].launch.framework
            host.over[run] = Ended(
                framework, run, Status.FINISHED if code == 0 else Status.FAILED, code
            )

    # Messages.

    def _to_agent(self, host: Host, message: Any, number: int) -> None:
        if number and number == host.connection:
            self.at(
                self._later(("down", host.name, number)),
                lambda: self._deliver(host, number, message),
            )

    def _deliver(self, host: Host, number: int, message: Any) -> None:
        if host.connection == number:
            self._tell_agent(host, message)

    def _from_agent(self, host: Host, number: int, message: FromAgent) -> None:
        if self.master is None or host.connection != number:
            return
        if isinstance(message, AgentJoined):
            answer = self.leases.join(message, self.now)
            self._to_agent(host, answer, number)
            if not isinstance(answer, Refused):
                host.seen = number
                self.tell(message)
        elif host.seen == number and isinstance(message, Heartbeat):
            seen = self.leases.hear(message, self.now)
            if seen is None:
                self._break(host)
            else:
                self._to_agent(host, seen, number)
        elif host.seen == number:
            self.tell(message)

    # What must hold.

    def overlaps(self) -> list[tuple[Span, Span]]:
        """Pairs of runs of one task that ran at the same time: there must be none."""
        alive = [
            Span(run, host.name, self._began[host.name, run], math.inf)
            for host in self.hosts.values()
            for run in host.processes
        ]
        by_task: dict[str, list[Span]] = {}
        for span in [*self.spans, *alive]:
            by_task.setdefault(span.run.rpartition(".")[0], []).append(span)
        found = []
        for spans in by_task.values():
            spans.sort(key=lambda span: span.start_s)
            found += [(a, b) for a, b in pairwise(spans) if b.start_s < a.end_s]
        return found
