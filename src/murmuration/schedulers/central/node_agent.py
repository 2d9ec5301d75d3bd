"""The node agent: it runs what the master orders, tells it what became of it, and ends everything
when it has been without a master for too long.

It is an agent of the contract (`schedulers/agent.py`); its host starts and ends processes as its
acts say. It notes how each run ended before it tells anybody, and tells it on every connection
until the master has recorded it (`EndRecorded`); only then it is forgotten. What runs is the host's
own memory: an agent that starts again is told what was found (`find`).

A run goes through four phases; what is not in the table changes nothing:

| phase | `Started` | stop: ordered, time limit, lease ended, agent leaves | `Exited` |
|---|---|---|---|
| starting | running; stopping if a stop was asked for | kept until it has started | ended |
| running | – | stopping | ended |
| stopping | – | – | ended |
| ended | – | – | – |

Two rules keep a task from running twice. The *lease*: the agent counts from when it **sent** the
last heartbeat that was answered, and ends all runs `agent_timeout_s` later; the master counts from
when it **received** it, and waits a margin longer. An order that is read after the lease has ended
is not carried out; and each `Start` says until when it may be, because a host may be suspended
between the decision and the act. The *session*: orders of an old connection are ignored, for the
master may have given up on them. The *term*: what a master says that has been replaced is ignored.

A run that is *suspended* keeps its phase, its process and its memory and does nothing (`Freeze`,
`Thaw`); its time limit and the looks at its health stand still. Stopping it wakes it first.

A run whose order has a health check is looked at (`services/health.py`). Of one that is unhealthy
the master is told, and it is stopped; that end is a failure, so the restart policy decides what
follows.

Why a run is stopped is noted (`RunStopping`) before it is: whoever sees it end, this agent or the
next, knows that the end was ordered and is no failure.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from murmuration.schedulers.agent import (
    Connected,
    Disconnected,
    Do,
    Effect,
    Message,
    Note,
    Send,
    Wake,
)
from murmuration.schedulers.central.messages import (
    AgentJoined,
    AgentLeaves,
    CentralMessage,
    Ended,
    EndRecorded,
    FromAgent,
    GoOn,
    HangUp,
    Heartbeat,
    HeartbeatSeen,
    Launch,
    Refused,
    RunEnded,
    RunHealth,
    Running,
    RunStarted,
    Stop,
    Suspend,
    ToAgent,
    Welcome,
)
from murmuration.schedulers.central.services.health import HealthSeen, HealthTable
from murmuration.schedulers.offers.messages import Status, Vector
from murmuration.workload.service_spec import HealthCheck

LEFT = "its node agent was stopped"
#: A connection on which the master has said nothing for this share of a lease is given up.
SILENCE = 1 / 3


class RunPhase(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


# What the agent is told by its driver.


class Leave(CentralMessage, frozen=True):
    """The agent is to end: all its tasks end with it, and none is begun."""


class Started(CentralMessage, frozen=True):
    """The process runs."""

    run: str


class Exited(CentralMessage, frozen=True):
    """It ended, or (`started` False) never began."""

    run: str
    code: int | None = None
    signal: int | None = None
    reason: str = ""
    started: bool = True
    #: It never began, and that is the node's fault, not the task's.
    node_fault: bool = False


class Found(msgspec.Struct, frozen=True):
    """A run of an agent that was here before."""

    framework: str
    run: str
    request: Vector
    #: When its time limit ends; infinity without one.
    ends_s: float = math.inf
    health: HealthCheck | None = None
    #: It is suspended, and so much is left of its time limit; None if it is not.
    left_s: float | None = None


# What it asks of its host.


class Start(CentralMessage, frozen=True):
    launch: Launch
    #: When its time limit ends, for whoever finds it again.
    ends_s: float
    #: When the lease ends under which it was ordered: it is not begun later.
    until_s: float = math.inf


class Kill(CentralMessage, frozen=True):
    run: str
    reason: str
    #: No patience: SIGKILL at once.
    now: bool = False


class Freeze(CentralMessage, frozen=True):
    """A run shall do nothing; `left_s` of its time limit are left, for whoever finds it again."""

    run: str
    left_s: float


class Thaw(CentralMessage, frozen=True):
    """A run that does nothing goes on; its time limit ends then."""

    run: str
    ends_s: float


class Leased(CentralMessage, frozen=True):
    """Tasks may run until then; whoever watches over them while the agent is gone should know."""

    until_s: float


class GiveUp(CentralMessage, frozen=True):
    """The master does not want this agent."""

    reason: str


# What it notes.


class RunStopping(CentralMessage, frozen=True):
    """A run is about to be told to stop; if it does not end well, this is its status and why."""

    run: str
    asked: Status
    reason: str


class RunOver(CentralMessage, frozen=True):
    """A run ended like this."""

    ended: Ended


class RunForgotten(CentralMessage, frozen=True):
    """The master has recorded the end; nobody will ask for it again."""

    run: str


class NodeMemory:
    """The ends that the master may not have recorded yet, and what runs were told to stop for."""

    def __init__(self) -> None:
        self.ended: dict[str, Ended] = {}
        self.stopping: dict[str, RunStopping] = {}

    def apply(self, fact: Any, now: float) -> None:
        match fact:
            case RunStopping(run):
                self.stopping[run] = fact
            case RunOver(ended):
                self.ended[ended.run] = ended
            case RunForgotten(run):
                self.ended.pop(run, None)
                self.stopping.pop(run, None)


@dataclass(slots=True)
class RunRecord:
    framework: str
    request: Vector
    phase: RunPhase
    #: Why it was told to stop, and the status that makes of its end.
    reason: str = ""
    asked: Status | None = None
    health: HealthCheck | None = None
    ended: Ended | None = None
    #: When its time limit ends; while it is suspended, nothing ends and so much is left.
    ends_s: float = math.inf
    left_s: float | None = None


@dataclass
class CentralNodeAgent:
    """The state machine of one node agent."""

    node: str
    identity: str
    total: dict[str, int]
    attributes: dict[str, str | float] = field(default_factory=dict)
    agent_timeout_s: float = 60.0
    runs: dict[str, RunRecord] = field(default_factory=dict)
    session: int = 0
    #: The highest term in which a master has spoken.
    term: int = 0
    connected: bool = False
    welcome: bool = False
    leaving: bool = False
    #: When the lease ends, counted from the last heartbeat that was answered; infinity when that
    #: was dealt with.
    lease_s: float = math.inf
    #: The same, and it stays: no run starts after it.
    _leased_until_s: float = -math.inf
    _heartbeat_s: float = 5.0
    _next_beat_s: float = math.inf
    #: When the connection counts as dead if nothing is heard before.
    _silent_s: float = math.inf
    _beats: dict[int, float] = field(default_factory=dict)
    _beat: int = 0
    _limits: list[tuple[float, str]] = field(default_factory=list)
    health: HealthTable = field(default_factory=HealthTable)
    #: The master it is connected to.
    _master: str = ""
    _out: list[Effect] = field(default_factory=list)

    def handle(self, event: Message, now: float) -> list[Effect]:
        """Take one event; return what it causes, in order."""
        self._out = []
        if isinstance(event, ToAgent) and not self._is_of_leader(event, now):
            return self._out
        # What is due comes first, or an end after the lease would look like a failure. Only a
        # renewal of the lease comes before: it was sent before the lease ended.
        if not isinstance(event, HeartbeatSeen | Welcome):
            self._run_timers(now)
        _ON[type(event)](self, event, now)
        self._run_timers(now)
        return self._out

    def _is_of_leader(self, event: ToAgent, now: float) -> bool:
        """Whether no later master has spoken to this agent. One that was deposed may not know it
        yet: it neither launches here, nor stops anything, nor keeps a lease alive."""
        if event.term < self.term:
            return False
        self.term = event.term
        if event.session == self.session:
            self._listen(now)
        return True

    def _listen(self, now: float) -> None:
        """The master has just spoken. One that is suspended keeps its connections and says nothing;
        another may lead by the time the lease is over."""
        self._silent_s = now + SILENCE * self.agent_timeout_s

    @property
    def due(self) -> float:
        """When it next wants a `Wake`."""
        while self._limits and not self._is_limited(*self._limits[0]):
            heapq.heappop(self._limits)
        limit = self._limits[0][0] if self._limits else math.inf
        return min(self._next_beat_s, self.lease_s, self._silent_s, limit, self.health.due)

    def find(
        self,
        runs: Iterable[Found],
        ended: Iterable[Ended],
        now: float,
        stopping: Mapping[str, RunStopping] | None = None,
        leased_until_s: float = math.inf,
    ) -> None:
        """Take up what an agent before this one left: runs that go on, ends that were not recorded
        yet, and what runs were told to stop for. Those are told once more, at once. The lease under
        which they run is the one that the other agent had."""
        for run in runs:
            record = RunRecord(run.framework, run.request, RunPhase.RUNNING)
            self.runs[run.run] = record
            record.health = run.health
            if run.health is not None and run.left_s is None:
                self.health.begin(run.run, run.health, now)
            stop = (stopping or {}).get(run.run)
            if stop is not None:
                record.asked, record.reason = stop.asked, stop.reason
            record.left_s = run.left_s
            if run.left_s is None or stop is not None:
                self._set_limit(run.run, record, run.ends_s if stop is None else now)
        for end in ended:
            self.runs[end.run] = RunRecord(end.framework, (), RunPhase.ENDED, ended=end)
        self.lease_s = min(now + self.agent_timeout_s, leased_until_s)

    @property
    def _no_master(self) -> str:
        return f"no master for {self.agent_timeout_s:g} s"

    def _set_limit(self, run: str, record: RunRecord, ends_s: float) -> None:
        record.ends_s = ends_s
        if ends_s < math.inf:
            heapq.heappush(self._limits, (ends_s, run))

    def _is_limited(self, ends_s: float, run: str) -> bool:
        """Whether a time limit still stands: a run may have ended, or been suspended since."""
        record = self.runs.get(run)
        is_active = record is not None and record.phase in (RunPhase.STARTING, RunPhase.RUNNING)
        return is_active and record is not None and record.ends_s == ends_s

    # The connection.

    def _on_connected(self, event: Connected, now: float) -> None:
        self._master = event.peer
        self.session, self.connected, self.welcome = event.session, True, False
        self._listen(now)
        self._beats.clear()
        self._beats[0] = now
        self._beat = 0
        running = tuple(
            Running(
                record.framework,
                run,
                record.request,
                self.health.is_healthy(run),
                record.phase is RunPhase.STARTING,
                record.left_s is not None,
            )
            for run, record in self.runs.items()
            if record.phase is not RunPhase.ENDED
        )
        ended = tuple(record.ended for record in self.runs.values() if record.ended is not None)
        self._send(
            AgentJoined(
                self.node, self.identity, self.session, self.total, self.attributes, running, ended
            )
        )

    def _on_disconnected(self, event: Disconnected, now: float) -> None:
        if event.session == self.session:
            self.connected = self.welcome = False
            self._next_beat_s = self._silent_s = math.inf

    def _on_welcome(self, event: Welcome, now: float) -> None:
        if event.session != self.session:
            return
        self.welcome = True
        self.agent_timeout_s, self._heartbeat_s = event.agent_timeout_s, event.heartbeat_s
        self._listen(now)
        self._renew(self._beats.pop(0, now))
        self._next_beat_s = now + self._heartbeat_s

    def _on_refused(self, event: Refused, now: float) -> None:
        if event.session == self.session:
            self._out.append(Do(GiveUp(event.reason)))

    def _on_seen(self, event: HeartbeatSeen, now: float) -> None:
        sent = self._beats.pop(event.serial, None)
        if event.session == self.session and sent is not None:
            self._renew(sent)

    def _renew(self, sent_s: float) -> None:
        """The master heard us no earlier than we spoke, so the lease counts from there."""
        self.lease_s = self._leased_until_s = sent_s + self.agent_timeout_s
        self._out.append(Do(Leased(self.lease_s)))

    # Tasks.

    def _on_launch(self, event: Launch, now: float) -> None:
        """Start a run, once: an order of an old connection, or one heard before, is not for now.

        One that is read after the lease has ended is not carried out but reported as lost. An
        agent that was suspended finds such orders when it goes on, before it hears that its
        connection has broken; by then the run may go elsewhere.
        """
        if event.session != self.session or not self.welcome or event.run in self.runs:
            return
        record = RunRecord(event.framework, event.request, RunPhase.STARTING)
        record.health = event.order.health
        self.runs[event.run] = record
        if self.leaving or now >= self._leased_until_s:
            record.reason, record.asked = LEFT if self.leaving else self._no_master, Status.LOST
            self._on_exited(Exited(event.run, started=False), now)
            return
        limit = event.order.time_limit_s
        self._set_limit(event.run, record, now + limit if limit is not None else math.inf)
        self._out.append(Do(Start(event, record.ends_s, self._leased_until_s)))

    def _on_stop(self, event: Stop, now: float) -> None:
        if event.session == self.session:
            self._stop(event.run, event.reason, Status.KILLED)

    def _on_suspend(self, event: Suspend, now: float) -> None:
        """A run keeps its place and does nothing; its time limit stands still. One that starts does
        so first."""
        record = self.runs.get(event.run)
        if event.session != self.session or record is None or record.left_s is not None:
            return
        if record.phase in (RunPhase.STARTING, RunPhase.RUNNING):
            self.health.end(event.run)
            record.left_s, record.ends_s = max(record.ends_s - now, 0.0), math.inf
            if record.phase is RunPhase.RUNNING:
                self._out.append(Do(Freeze(event.run, record.left_s)))

    def _on_go_on(self, event: GoOn, now: float) -> None:
        record = self.runs.get(event.run)
        if event.session != self.session or record is None or record.left_s is None:
            return
        ends_s, record.left_s = now + record.left_s, None
        if record.phase in (RunPhase.STARTING, RunPhase.RUNNING):
            self._set_limit(event.run, record, ends_s)
            if record.phase is RunPhase.RUNNING:
                self._out.append(Do(Thaw(event.run, ends_s)))
                self._look_after(event.run, record, now)

    def _look_after(self, run: str, record: RunRecord, now: float) -> None:
        if record.health is not None:
            self.health.begin(run, record.health, now)

    def _stop(self, run: str, reason: str, asked: Status, at_once: bool = False) -> None:
        """Note why a run ends, then end it. What it was told first counts; an end without patience
        is ordered even if one with patience is under way."""
        record = self.runs.get(run)
        if record is None or record.phase is RunPhase.ENDED:
            return
        self.health.end(run)
        if record.asked is None:
            record.reason, record.asked = reason, asked
            self._out.append(Note(RunStopping(run, asked, reason)))
        if record.phase is RunPhase.RUNNING or (at_once and record.phase is RunPhase.STOPPING):
            record.phase = RunPhase.STOPPING
            self._out.append(Do(Kill(run, record.reason, at_once)))

    def _on_leave(self, event: Leave, now: float) -> None:
        self.leaving = True
        self._send(AgentLeaves(self.node, self.session))
        for run in list(self.runs):
            self._stop(run, LEFT, Status.LOST)

    @property
    def busy(self) -> bool:
        return any(record.phase is not RunPhase.ENDED for record in self.runs.values())

    def _on_started(self, event: Started, now: float) -> None:
        record = self.runs.get(event.run)
        if record is None or record.phase is not RunPhase.STARTING:
            return
        record.phase = RunPhase.RUNNING
        self._send(RunStarted(self.node, record.framework, event.run, self.session))
        if record.asked is not None:
            # It was told to stop while it started.
            record.phase = RunPhase.STOPPING
            is_late = now >= self._leased_until_s
            self._out.append(Do(Kill(event.run, record.reason, is_late)))
        elif record.left_s is not None:
            self._out.append(Do(Freeze(event.run, record.left_s)))
        else:
            self._look_after(event.run, record, now)

    def _on_probed(self, event: HealthSeen, now: float) -> None:
        """What the host saw of a run; only a change is told."""
        healthy = self.health.answer(event, now)
        if healthy is None:
            return
        record, reason = self.runs[event.run], f"unhealthy: {event.error}" if event.error else ""
        health = RunHealth(self.node, record.framework, event.run, healthy, reason, self.session)
        self._send(health)
        if not healthy:
            self._stop(event.run, reason, Status.FAILED)

    def _on_exited(self, event: Exited, now: float) -> None:
        record = self.runs.get(event.run)
        if record is None or record.phase is RunPhase.ENDED:
            return
        self.health.end(event.run)
        record.phase = RunPhase.ENDED
        record.ended = ending(record.framework, event, record.asked, record.reason)
        self._out.append(Note(RunOver(record.ended)))
        self._send(RunEnded(self.node, record.ended, self.session))

    def _on_recorded(self, event: EndRecorded, now: float) -> None:
        record = self.runs.get(event.run)
        if record is not None and record.phase is RunPhase.ENDED:
            del self.runs[event.run]
            self._out.append(Note(RunForgotten(event.run)))

    def _send(self, message: FromAgent) -> None:
        """What is said without a connection is said again when one stands: joining tells
        everything."""
        if self.connected:
            self._out.append(Send(self._master, message))

    # Time.

    def _run_timers(self, now: float) -> None:
        while self._limits and self._limits[0][0] <= now:
            ends_s, run = heapq.heappop(self._limits)
            if self._is_limited(ends_s, run):
                self._stop(run, "its time limit was reached", Status.FAILED)
        self._out += map(Do, self.health.take_due(now))
        if now >= self._next_beat_s:
            self._beat += 1
            self._beats[self._beat] = now
            self._next_beat_s = now + self._heartbeat_s
            self._send(Heartbeat(self.node, self.session, self._beat))
        if now >= self._silent_s:
            self._silent_s = math.inf
            self._out.append(Do(HangUp(self.node, self.session)))
        if now >= self.lease_s:
            self.lease_s = math.inf
            for run in list(self.runs):
                self._stop(run, self._no_master, Status.LOST, at_once=True)

    def _on_wake(self, event: Wake, now: float) -> None:
        """Timers run after every event."""


def ending(framework: str, event: Exited, asked: Status | None, why: str) -> Ended:
    """The end of a run: what it was told to stop for counts before what it did, and what its node
    did before what the task may have done."""
    if event.code == 0 and event.signal is None:
        status, reason = Status.FINISHED, event.reason
    elif asked is not None:
        status, reason = asked, why
    else:
        unknown = event.started and event.code is None and event.signal is None
        is_lost = unknown or event.node_fault
        status, reason = Status.LOST if is_lost else Status.FAILED, event.reason
    fault = event.node_fault and status is Status.LOST
    return Ended(framework, event.run, status, event.code, event.signal, reason, fault)


_ON: dict[type, Callable[[CentralNodeAgent, Any, float], None]] = {
    Connected: CentralNodeAgent._on_connected,
    Disconnected: CentralNodeAgent._on_disconnected,
    Welcome: CentralNodeAgent._on_welcome,
    Refused: CentralNodeAgent._on_refused,
    HeartbeatSeen: CentralNodeAgent._on_seen,
    Launch: CentralNodeAgent._on_launch,
    Stop: CentralNodeAgent._on_stop,
    Suspend: CentralNodeAgent._on_suspend,
    GoOn: CentralNodeAgent._on_go_on,
    Started: CentralNodeAgent._on_started,
    Exited: CentralNodeAgent._on_exited,
    HealthSeen: CentralNodeAgent._on_probed,
    Leave: CentralNodeAgent._on_leave,
    EndRecorded: CentralNodeAgent._on_recorded,
    Wake: CentralNodeAgent._on_wake,
}
