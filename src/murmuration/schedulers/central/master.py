"""The central master: the ledger and offers of `schedulers/offers/master.py`, the leases of node
agents, and the job manager as the first client of the ledger.

It is an agent of the contract (`schedulers/agent.py`). The job manager commits transactions on all
open rows (monolithic, shared state) or takes offers like any framework (offers); schedulers from
outside do either. What it decides depends on nothing but the events it was told, so the log of a
cluster gives the same decisions again in virtual time.

**Facts first.** All notes of one answer come before everything else in it: a task is started, and
an agent may forget how it ended, only when that is on disk. Whether a placement becomes a fact is
decided by the ledger: the job manager *proposes* runs, and those that a transaction or an offer
accepts are noted as placed (`TaskPlaced`); the others wait on, as if nothing had been said.

**Unwell nodes.** A run that never began through a fault of its node (a full disk, no descriptors, a
port that somebody else holds) is lost, not failed, and goes elsewhere. Its node is marked and gets
no tasks for a while, longer each time until one starts there.

**Two agents in one.** The ledger (`Master`) is an agent of its own that does not know who its
frameworks are; the job manager is one of them, in the same process. What the ledger says to it goes
through no network but is handled at once, in the order in which it was said (`_tell_ledger`), so
between a proposal and its answer nothing else can happen. What the ledger says to others leaves
with the rest of the answer. The price is that one event may go round between the two several times;
the gain is that a scheduler from outside competes with the job manager by the same rules.

**Decisions are batched.** An event that makes room or brings work only marks that something changed
(`_changed`); the placing itself waits for the `Wake` that a driver gives after all events that were
ready. A thousand ends that arrive together are one round of placing instead of a thousand.

**Leases.** Answers to joins and heartbeats rest on no note and are sent at once, whatever the disk
does. A master that starts again gives every node of its memory a whole lease. Heartbeats are not
in the log: they change nothing but the time at which a lease ends, and the log has that end.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from murmuration.schedulers.agent import Disconnected, Do, Effect, Message, Note, Send, Wake
from murmuration.schedulers.central.access import ACCESS_EVENTS
from murmuration.schedulers.central.jobs import MOVABLE, MOVED_OFF, CentralTaskState
from murmuration.schedulers.central.messages import (
    JOBS,
    AgentJoined,
    AgentLeaves,
    AgentLost,
    Drain,
    Ended,
    EndRecorded,
    Fact,
    GoOn,
    HangUp,
    Heartbeat,
    KillJob,
    Launch,
    LeaseEnded,
    MoveTask,
    NodeDraining,
    NodeIsLost,
    NodeIsUp,
    NodeTriedAgain,
    NodeUnreachable,
    NodeUnwell,
    Order,
    Recover,
    Refused,
    RollBackJob,
    RunEnded,
    RunHealth,
    Running,
    RunStarted,
    ScaleJob,
    SetQuota,
    Stop,
    SubmitJob,
    Suspend,
    ToAgent,
)
from murmuration.schedulers.central.queue import suspension
from murmuration.schedulers.central.state import CentralSettings as CentralSettings
from murmuration.schedulers.central.state import MasterState, NodeRecord
from murmuration.schedulers.offers.messages import (
    Committed,
    FrameworkGone,
    KillTask,
    LaunchTask,
    NodeJoined,
    NodeLeft,
    ReplyToOffer,
    ResourceOffer,
    SetNeedsOffers,
    SetOpen,
    Status,
    StatusUpdate,
    StopTask,
    Task,
    TaskReport,
    TaskResized,
    Unregister,
    Vector,
)

#: A task whose placement was refused is not tried again before.
RETRY_S = 1.0
#: A node that could not start a task gets no more for so long, and twice as long each time after
#: that until one starts.
UNWELL_S, UNWELL_MAX_S = 5.0, 300.0


class CentralMaster(MasterState):
    """The state machine. `handle` is told one event; `due` says when it next wants a `Wake`."""

    def __init__(self, settings: CentralSettings, seed: int) -> None:
        super().__init__(settings, seed)
        #: When the queue was last looked at.
        self._looked_s = 0.0
        self._notes: list[Effect] = []
        self._effects: list[Effect] = []

    def handle(self, event: Message, now: float) -> list[Effect]:
        """Take one event; return what it causes, facts first."""
        # Whether it is time to place is asked only if there is something to place, or to be woken
        # for.
        is_asked = type(event) is Wake or bool(self.jobs.queue)
        is_wanted = self._changed or (is_asked and self._next_try_s <= now)
        self._now, self._notes, self._effects = now, [], []
        if type(event) is Wake:
            self._wake(is_wanted)
        elif type(event) in _ON:
            _ON[type(event)](self, event)
        else:
            self._tell_ledger(event)
        if self.jobs.rolling:
            self._end_runs(self.changes.advance(now))
        is_room = type(event) in _MAKES_ROOM or self.changes.makes_room
        self.changes.makes_room = False
        # What is placed waits for the next `Wake`, so that events that come together are decided on
        # together.
        # A back-off that is over by now is asked for again: the times that are past are dropped
        # when `due` is read, and the wake for this one may still be on its way.
        is_missed = is_wanted and type(event) is not Wake
        self._changed |= (is_room or is_missed) and bool(self.jobs.queue)
        self._changed |= self.dependencies.settle(
            lambda job, reason: self.jobs.give_up(job, reason, self._now)
        )
        self._note_jobs()
        assert not self._proposed, "a proposal was neither accepted nor refused"
        return [*self._notes, *self._effects]

    @property
    def due(self) -> float:
        """When it next wants a `Wake`: at once if something changed for tasks that wait."""
        return self._now if self._changed else min(self._next_try_s, self.leases.due)

    @property
    def _next_try_s(self) -> float:
        """When a back-off ends, a node has rested, a reservation begins or ends, or something is
        due in the ledger."""
        rested_s = min(self.resting.values(), default=math.inf)
        change_s = self.queue.next_change_s(self._looked_s) if self.jobs.queue else math.inf
        return min(
            self.jobs.due(self._now),
            self.resource_manager.due,
            rested_s,
            change_s,
            self.changes.due,
        )

    def _note(self, fact: Fact) -> None:
        self._notes.append(Note(fact))

    def _note_jobs(self) -> None:
        for fact in self.jobs.take_facts():
            self._note(fact)

    # Jobs.

    def _on_submit(self, event: SubmitJob) -> None:
        """A name belongs to its job until that has ended; a client that asks twice has one job."""
        known = self.jobs.jobs.get(event.spec.name)
        if known is not None and not known.status:
            if known.can_become(event.spec):
                self._end_runs(self.changes.update(known, event.spec, self._now))
            return
        request, constraints = self.check(event.spec)
        self.dependencies.add(self.jobs.submit(event, request, constraints, self._now))

    def _on_kill(self, event: KillJob) -> None:
        job = self.jobs.jobs.get(event.job)
        if job is None or job.status:
            return
        if event.index is None:
            runs = list(self.jobs.kill(job, self._now))
        else:
            run = self.jobs.kill_task(job, job.tasks[event.index], self._now)
            runs = [] if run is None else [run]
        for run in runs:
            self._tell_ledger(KillTask(JOBS, run))

    def _on_move(self, event: MoveTask) -> None:
        job = self.jobs.jobs.get(event.job)
        task = None if job is None else job.tasks[event.index]
        # What ended meanwhile, or was told to stop, has nothing left to be moved.
        if job is None or task is None or task.run != event.run or task.state not in MOVABLE:
            return
        self._tell_ledger(KillTask(JOBS, self.jobs.stop(job, task, f"{MOVED_OFF}{task.node}")))

    def _on_access(self, event: Message) -> None:
        for effect in self.access.handle(event, self._now):
            (self._notes if isinstance(effect, Note) else self._effects).append(effect)

    def _on_scale(self, event: ScaleJob) -> None:
        job = self.jobs.jobs.get(event.job)
        if job is not None:
            self._end_runs(self.changes.scale(job, event.count, self._now))

    def _on_roll_back(self, event: RollBackJob) -> None:
        job = self.jobs.jobs.get(event.job)
        if job is not None:
            self._end_runs(self.changes.roll_back(job, "asked for by a client", self._now))

    def _end_runs(self, runs: Iterable[str]) -> None:
        for run in runs:
            self._tell_ledger(KillTask(JOBS, run))

    def _on_recover(self, event: Recover) -> None:
        self._begin(event.seed, event.epoch)
        self.leases.term = event.epoch
        self.jobs.recover(((job, *self.check(job.spec)) for job in event.jobs), self._now)
        for job in self.jobs.jobs.values():
            self.dependencies.add(job)
        self.draining = set(event.draining)
        self.access.recover(event)
        self.resource_manager.knows_all_s = self._now + self.leases.lease_s
        self.leases.expect((task.node for _, task in self.jobs.runs.values()), self._now)

    # Node agents.

    def _on_joined(self, event: AgentJoined) -> None:
        known = self.nodes.get(event.node)
        if known is not None and event.session <= known.session:
            # An old connection, or an agent whose clock went back: let it dial until it is newer.
            self._effects.append(Do(HangUp(event.node, event.session)))
            return
        answer = self.leases.join(event, self._now)
        self._effects.append(Send(event.node, answer, at_once=True))
        if not isinstance(answer, Refused):
            self._admit(event, known)

    def _admit(self, event: AgentJoined, known: NodeRecord | None) -> None:
        # A resource that only this node has is no resource of the cluster; one that it lacks is 0.
        total = tuple(event.total.get(name, 0) for name in self.settings.resources.names)
        record = NodeRecord(event.session, total, event.attributes)
        if known is not None:
            record.unwell, record.unwell_s = known.unwell, known.unwell_s
        self.nodes[event.node] = record
        running = tuple(
            (run.framework, Task(run.run, event.node, self._request_of(run)))
            for run in event.running
        )
        # What was believed to run there before: the ledger may offer the node at once, and what is
        # placed on it by that has not been ordered yet.
        expected = self.jobs.runs_on(event.node)
        is_open = self._is_open(event.node)
        self._tell_ledger(NodeJoined(event.node, total, running, is_open))
        self._tell_ledger(SetOpen(event.node, is_open))
        if known is None or not known.up:
            self._note(NodeIsUp(event.node))
        self._compare(event, expected)
        if event.node in self.draining:
            self._move_from(event.node, everything=False)

    def _request_of(self, run: Running) -> Vector:
        """What a run was placed for, whatever its node says of it now: a node that counts its tasks
        for less would be given more than it has. Of runs that nobody else knows, its word."""
        held = self.resource_manager.ledger.tasks.get((run.framework, run.run))
        if held is not None:
            return held.task.request
        entry = self.jobs.runs.get(run.run) if run.framework == JOBS else None
        if entry is not None and entry[1].is_suspended:
            return suspension.held(*entry)
        return run.request if entry is None else tuple(map(max, run.request, entry[0].request))

    def _compare(self, event: AgentJoined, expected: list[str]) -> None:
        """What the job manager believed of a node against what its agent says; the agent is
        right."""
        # Three differences are possible. It runs what was not expected: that was given up, or
        # killed while the node was away, so it is ended. It has ended: told now, as if it had been
        # told in time. It neither runs nor has ended: the order never arrived, and the task waits
        # again.
        running = {run.run for run in event.running if run.framework == JOBS}
        healthy = {run.run for run in event.running if run.healthy}
        starting = {run.run for run in event.running if run.starting}
        suspended = {run.run for run in event.running if run.suspended}
        for run in running - set(expected):
            self._tell_ledger(KillTask(JOBS, run))
        for end in event.ended:
            self._on_end(event.node, end)
        for run in expected:
            if run in running:
                self._confirm(run, run not in starting)
                self._set_suspended(event.node, run, run in suspended)
                self.jobs.set_health(run, run in healthy, "", self._now)
            elif run in self.jobs.runs:
                self.jobs.lose(run, f"{event.node} never got it", self._now)

    def _confirm(self, run: str, has_started: bool) -> None:
        if has_started:
            self.jobs.start(run, self._now)
        if self.jobs.runs[run][1].state is CentralTaskState.STOPPING:
            self._tell_ledger(KillTask(JOBS, run))

    def _set_suspended(self, node: str, run: str, is_suspended: bool) -> None:
        """Tell the agent of a run whether it shall do anything, if it has it otherwise."""
        should = self.jobs.runs[run][1].is_suspended
        if should != is_suspended:
            order = Suspend if should else GoOn
            self._send(node, order, JOBS, run)

    def _on_heartbeat(self, event: Heartbeat) -> None:
        seen = self.leases.hear(event, self._now)
        self._effects.append(
            Do(HangUp(event.node, event.session))
            if seen is None
            else Send(event.node, seen, at_once=True)
        )

    def _on_disconnected(self, event: Disconnected) -> None:
        if self.leases.disconnect(event.peer, event.session):
            self._set_unreachable(event.peer)

    def _on_leaves(self, event: AgentLeaves) -> None:
        if self.leases.is_current(event.node, event.session):
            self._set_unreachable(event.node)

    def _on_lost(self, event: AgentLost) -> None:
        self._set_unreachable(event.node)

    def _set_unreachable(self, name: str) -> None:
        """Its tasks go on until its lease ends."""
        node = self.nodes.get(name)
        if node is not None and node.up:
            node.up = False
            self._tell_ledger(SetOpen(name, False))
            self._note(NodeUnreachable(name))

    def _end_leases(self) -> bool:
        """The agents of these nodes have ended their tasks by now, so that they may run
        elsewhere."""
        ended = self.leases.expire(self._now, lambda node: self.jobs.on_node[node].total())
        for node, member in ended.items():
            self._give_up(node)
            if member.connected:
                self._effects.append(Do(HangUp(node, member.session)))
        return bool(ended)

    def _on_lease_ended(self, event: LeaseEnded) -> None:
        self.leases.members.pop(event.node, None)
        self._give_up(event.node)

    def _rest(self, name: str, reason: str) -> None:
        """A node could not start a task: it gets no more for a while."""
        node = self.nodes.get(name)
        if node is None or name in self.resting:
            return
        node.unwell = reason
        node.unwell_s = min(max(UNWELL_S, 2 * node.unwell_s), UNWELL_MAX_S)
        self.resting[name] = self._now + node.unwell_s
        self._tell_ledger(SetOpen(name, False))
        self._note(NodeUnwell(name, reason, node.unwell_s))

    def _end_rests(self) -> None:
        for name in [name for name, until_s in self.resting.items() if until_s <= self._now]:
            del self.resting[name]
            self._tell_ledger(SetOpen(name, self._is_open(name)))
            self._note(NodeTriedAgain(name))

    def _give_up(self, node: str) -> None:
        self.nodes.pop(node, None)
        self.resting.pop(node, None)
        self._tell_ledger(NodeLeft(node))
        for run in self.jobs.runs_on(node):
            self.jobs.lose(run, f"{node} was lost", self._now)
        self._note(NodeIsLost(node))
        self._note_jobs()

    def _on_drain(self, event: Drain) -> None:
        if event.on == (event.node in self.draining) and not event.now:
            return
        (self.draining.add if event.on else self.draining.discard)(event.node)
        self._note(NodeDraining(event.node, event.on))
        node = self.nodes.get(event.node)
        if node is not None and node.up:
            self._tell_ledger(SetOpen(event.node, self._is_open(event.node)))
        if event.on:
            self._move_from(event.node, event.now)

    def _move_from(self, node: str, everything: bool) -> None:
        for run in self.jobs.runs_on(node):
            job, task = self.jobs.runs[run]
            # One that is suspended would wait there for as long as the node takes nothing.
            is_moved = everything or job.spec.kind == "service" or task.is_suspended
            if task.state is not CentralTaskState.STOPPING and is_moved:
                self._tell_ledger(
                    KillTask(JOBS, self.jobs.stop(job, task, f"moved: {node} is draining"))
                )

    def _on_started(self, event: RunStarted) -> None:
        if self.leases.is_current(event.node, event.session):
            node = self.nodes[event.node]
            node.unwell, node.unwell_s = "", 0.0
            self._tell_ledger(TaskReport(event.framework, event.run, Status.RUNNING))
            if event.framework == JOBS:
                self.jobs.start(event.run, self._now)

    def _on_health(self, event: RunHealth) -> None:
        if event.framework == JOBS and self.leases.is_current(event.node, event.session):
            self.jobs.set_health(event.run, event.healthy, event.reason, self._now)

    def _on_ended(self, event: RunEnded) -> None:
        if self.leases.is_current(event.node, event.session):
            self._on_end(event.node, event.ended)

    def _on_end(self, node: str, ended: Ended) -> None:
        # An end that was told before changes nothing in either table, and is answered all the same:
        # the agent repeats it because the answer was lost.
        self._tell_ledger(TaskReport(ended.framework, ended.run, ended.status, ended.reason))
        if ended.framework == JOBS:
            self.jobs.end(ended, self._now)
        if ended.node_fault:
            self._rest(node, ended.reason)
        self._send(node, EndRecorded, ended.framework, ended.run)

    # The ledger.

    def _tell_ledger(self, event: Message) -> None:
        """Hand an event to the ledger and pass on what it answers; the job manager's replies to
        offers go in again."""
        waiting: deque[Message] = deque([event])
        while waiting:
            for effect in self.resource_manager.handle(waiting.popleft(), self._now):
                assert isinstance(effect, Send), "the ledger acts on nothing and notes nothing"
                message = effect.message
                if isinstance(message, LaunchTask):
                    self._launch(message)
                elif isinstance(message, StopTask):
                    self._stop(message)
                elif isinstance(message, TaskResized):
                    is_suspended = self.jobs.runs[message.task][1].is_suspended
                    self._set_suspended(message.node, message.task, not is_suspended)
                elif effect.to != JOBS:
                    self._effects.append(effect)
                elif isinstance(message, ResourceOffer):
                    reply = self._reply(message)
                    # Said before the reply, or what it leaves would be offered once more.
                    is_last = not self._has_more()
                    waiting += [SetNeedsOffers(JOBS, False), reply] if is_last else [reply]
                else:
                    self._postpone_refused(message)

    def _postpone_refused(self, message: Message) -> None:
        """The ledger has refused what the job manager proposed: it waits. What is accepted is told
        by a `LaunchTask`."""
        refused: tuple[str, ...] = ()
        if isinstance(message, Committed):
            refused = message.refused
        elif isinstance(message, StatusUpdate) and message.status is Status.LOST:
            refused = (message.task,)
        for run in refused:
            proposal = self._proposed.pop(run, None)
            if proposal is not None:
                self.jobs.postpone(proposal.task, self._now + RETRY_S)

    def _launch(self, message: LaunchTask) -> None:
        task, order = message.task, message.task.payload
        if message.framework == JOBS:
            # What was proposed is accepted: only now it is a decision.
            self.jobs.place(*self._proposed.pop(task.task), self._now)
        # What came over a wire or out of a log is not typed yet: payloads belong to the frameworks.
        typed = order if isinstance(order, Order) else msgspec.convert(order, Order)
        if typed.user and message.framework != JOBS:
            typed = msgspec.structs.replace(typed, user="")
        self._send(task.node, Launch, message.framework, task.task, task.request, typed)

    def _stop(self, message: StopTask) -> None:
        entry = self.jobs.runs.get(message.task) if message.framework == JOBS else None
        if entry is not None and not entry[1].stopped_for:
            self.jobs.stop(*entry, "revoked: another scheduler was promised its room")
        reason = entry[1].stopped_for if entry is not None else "killed"
        self._send(message.node, Stop, message.framework, message.task, reason)

    def _send(self, node: str, kind: Callable[..., ToAgent], *content: object) -> None:
        """A message to a node that is there: its session first, what it says, the term last."""
        record = self.nodes.get(node)
        if record is not None:
            self._effects.append(Send(node, kind(record.session, *content, self.leases.term)))

    # Time.

    def _wake(self, is_wanted: bool) -> None:
        """End leases; place what waits, unless the wake was for a lease that was renewed since."""
        ended = self._end_leases()
        if not is_wanted and not ended:
            return
        self._changed = False
        self._looked_s = self._now
        self._end_rests()
        self._tell_ledger(Wake())
        if self.jobs.queue and self.settings.by_offers:
            self._tell_ledger(SetNeedsOffers(JOBS, True))
        elif self.jobs.queue:
            for proposal in self._proposals():
                self._tell_ledger(proposal)


#: The events after which a task that waits may find a node. Others are woken for by a time of their
#: own.
_MAKES_ROOM = (
    SubmitJob,
    KillJob,
    SetQuota,
    ScaleJob,
    RollBackJob,
    Recover,
    AgentJoined,
    Drain,
    RunEnded,
    LeaseEnded,
    ReplyToOffer,
    SetNeedsOffers,
    Unregister,
    FrameworkGone,
)
_ON: dict[type, Callable[[CentralMaster, Any], None]] = {
    SubmitJob: CentralMaster._on_submit,
    KillJob: CentralMaster._on_kill,
    MoveTask: CentralMaster._on_move,
    **dict.fromkeys(ACCESS_EVENTS, CentralMaster._on_access),
    ScaleJob: CentralMaster._on_scale,
    RollBackJob: CentralMaster._on_roll_back,
    Recover: CentralMaster._on_recover,
    AgentJoined: CentralMaster._on_joined,
    AgentLeaves: CentralMaster._on_leaves,
    AgentLost: CentralMaster._on_lost,
    Disconnected: CentralMaster._on_disconnected,
    Heartbeat: CentralMaster._on_heartbeat,
    LeaseEnded: CentralMaster._on_lease_ended,
    Drain: CentralMaster._on_drain,
    RunStarted: CentralMaster._on_started,
    RunHealth: CentralMaster._on_health,
    RunEnded: CentralMaster._on_ended,
}
