"""The side of a negotiation that gives a task away (Sliwko and Getov, section 6), shared by node
and entry agents.

One negotiation per task, several at a time: ask a broker, ask its candidates, choose among those
that accept, have room reserved, transfer, hand over. Every step has a time after which it is
repeated or the next candidate is tried; `phases.py` has all steps as a table.

**Hand-over.** A task is owned by the agent in whose memory it stands; the source keeps it there
until the target has said that it took it. When the transfer is done the source notes that the task
is stopped, stops it, and says so (`TakeOver`) until it is answered. `TakenOver`: the target runs
it, the source forgets it. `NotTaken`: the target has nothing of this migration and never will, the
source runs it on. Until one of both arrives nobody but the target may run it, whatever is lost,
late or double; only the news that the target is down for good (`NodeGone`) frees the source.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from murmuration.cluster.migration import migration_mb
from murmuration.schedulers.agent import Message
from murmuration.schedulers.negotiation.base_agent import NegotiationAgent
from murmuration.schedulers.negotiation.candidates import draw, rate
from murmuration.schedulers.negotiation.memory import (
    NegotiationMemory,
    OwnedTask,
    TaskLeft,
    TaskResumed,
    TaskState,
    TaskStopped,
)
from murmuration.schedulers.negotiation.messages import (
    GetCandidateNodesRequest,
    GetCandidateNodesResponse,
    HaltTask,
    Migration,
    MigrationCancelled,
    MigrationFinished,
    NodeGone,
    NotTaken,
    Released,
    RunTask,
    Spoken,
    StartTransfer,
    TakenOver,
    TakeOver,
    TaskMigrationAcceptanceResponse,
    TaskMigrationProcessConfirmationResponse,
    TaskMigrationProcessErrorResponse,
    TaskMigrationProcessRequest,
    TaskMigrationRejectionResponse,
    TaskMigrationRequest,
    Vector,
)
from murmuration.schedulers.negotiation.phases import NegotiationPhase, may_lead
from murmuration.schedulers.negotiation.settings import NegotiationSettings
from murmuration.schedulers.negotiation.sums import assumed_use


@dataclass(slots=True)
class Recommendation:
    node: str
    weight: float
    forced: bool
    at: float


@dataclass(slots=True)
class Negotiation:
    """One task on its way out."""

    task: str
    phase: NegotiationPhase = NegotiationPhase.NONE
    #: Of the question or migration that is under way.
    number: int = 0
    deadline: float = math.inf
    rounds: int = 0
    target: str = ""
    forced: bool = False
    repeats: int = 0
    waiting: set[str] = field(default_factory=set)
    recommendations: list[Recommendation] = field(default_factory=list)


class Giver(NegotiationAgent):
    """An agent that gives tasks away. `brokers` are those it may ask, its own first; `authorities`
    are the parties whose word it takes that a node is gone."""

    def __init__(
        self,
        name: str,
        brokers: Sequence[str],
        resources: int,
        settings: NegotiationSettings,
        rng: np.random.Generator,
        memory: NegotiationMemory,
        authorities: Collection[str] = (),
    ) -> None:
        super().__init__(name, memory)
        self.settings = settings
        self.negotiations: dict[str, Negotiation] = {}
        self.counts: Counter[str] = Counter()
        #: What each task uses, measured or assumed; and which were measured.
        self.use: dict[str, Vector] = {
            name: assumed_use(owned.task) for name, owned in memory.tasks.items()
        }
        self.measured: set[str] = set()
        self._brokers, self._rng = list(brokers), rng
        self._authorities = frozenset(authorities)
        self._room = (np.zeros(resources), np.zeros(resources))
        self._by_number: dict[int, Negotiation] = {}
        #: The phases of negotiations before the event that is handled, of those it concerns.
        self._phases_before: dict[str, NegotiationPhase] = {}
        #: Nodes that are down for good; nodes that did not answer: how often in a row, and when
        #: last.
        self._gone: set[str] = set()
        self._unanswered: dict[str, tuple[int, float]] = {}

    def _check(self, event: type[Message]) -> None:
        """Every negotiation went where the event may lead it."""
        for task, before in self._phases_before.items():
            negotiation = self.negotiations.get(task)
            after = NegotiationPhase.NONE if negotiation is None else negotiation.phase
            assert may_lead(before, event, after), (
                f"{self.name}: {event.__name__} led from {before.name} to {after.name}"
            )
        self._phases_before = {}

    def _start(self) -> None:
        """Before anything else, after a crash: hand-overs go on where they were."""
        for owned in self.memory.in_state(TaskState.STOPPED):
            assert owned.migration is not None
            negotiation = Negotiation(
                owned.task.name, number=owned.migration[1], target=owned.target
            )
            self._by_number[negotiation.number] = negotiation
            self._wait(negotiation, NegotiationPhase.HAND_OVER, 0.0)

    # Time.

    def _wait(self, negotiation: Negotiation, phase: NegotiationPhase, seconds: float) -> None:
        """Enter a phase; if it lasts longer than this, something is done about it. A negotiation
        is under way from its first phase on."""
        self._phases_before.setdefault(negotiation.task, negotiation.phase)
        self.negotiations[negotiation.task] = negotiation
        negotiation.phase, negotiation.deadline = phase, self._now + seconds
        if seconds < math.inf:
            self._set_timer(negotiation.deadline, self._when_late, negotiation)

    def _when_late(self, negotiation: Negotiation) -> None:
        """An answer did not come in time."""
        if (
            self.negotiations.get(negotiation.task) is not negotiation
            or negotiation.deadline > self._now
        ):
            return
        match negotiation.phase:
            case NegotiationPhase.HAND_OVER:
                self._say_take_over(negotiation)
            case NegotiationPhase.PAUSE:
                self._ask_broker(negotiation)
            case NegotiationPhase.BROKER:
                self._next_round(negotiation)
            case NegotiationPhase.NODES:
                for node in sorted(negotiation.waiting):
                    self._count_silence(node)
                self._choose(negotiation)
            case NegotiationPhase.ROOM:
                self._count_silence(negotiation.target)
                self._cancel(negotiation)
                self._choose(negotiation)

    # Step 2: candidates from a broker.

    def _renumber(self, negotiation: Negotiation) -> int:
        """A new number for the next step: answers to the last one are no longer heard."""
        self._by_number.pop(negotiation.number, None)
        negotiation.number = self._number()
        self._by_number[negotiation.number] = negotiation
        return negotiation.number

    def _end(self, negotiation: Negotiation) -> None:
        self._phases_before.setdefault(negotiation.task, negotiation.phase)
        self.negotiations.pop(negotiation.task, None)
        self._by_number.pop(negotiation.number, None)

    def _find(self, number: int, phase: NegotiationPhase) -> Negotiation | None:
        """The negotiation a message is about, if it still waits for it."""
        negotiation = self._by_number.get(number)
        return negotiation if negotiation is not None and negotiation.phase is phase else None

    def _answered_by_target(
        self, answer: Spoken, migration: Migration, phase: NegotiationPhase
    ) -> Negotiation | None:
        """The negotiation whose target answers, if it still waits for that."""
        negotiation = self._find(migration[1], phase)
        return negotiation if negotiation and negotiation.target == answer.sender else None

    def _ask_broker(self, negotiation: Negotiation) -> None:
        owned, number = self.memory.tasks[negotiation.task], self._renumber(negotiation)
        # The own broker first; if that did not lead anywhere, any.
        pick = 0 if negotiation.rounds == 0 else int(self._rng.integers(len(self._brokers)))
        new = owned.state is TaskState.WAITING
        self._wait(negotiation, NegotiationPhase.BROKER, self.settings.answer_s)
        question = GetCandidateNodesRequest(
            self.name, number, owned.task, self.use[negotiation.task], new, self._unanswering()
        )
        self._send(self._brokers[pick], question)

    def _next_round(self, negotiation: Negotiation) -> None:
        negotiation.rounds += 1
        if negotiation.rounds < self.settings.rounds:
            self._ask_broker(negotiation)
        else:
            self._give_up(negotiation, nowhere=False)

    def _give_up(self, negotiation: Negotiation, nowhere: bool) -> None:
        """No node takes the task; `nowhere`: a broker knows none that could hold it at all."""
        self.counts["given_up"] += 1
        self._end(negotiation)

    def _on_candidates(self, answer: GetCandidateNodesResponse) -> None:
        negotiation = self._find(answer.number, NegotiationPhase.BROKER)
        if negotiation is None:
            return
        known = [c for c in answer.candidates if c.node not in self._gone and c.node != self.name]
        if not known:
            self._give_up(negotiation, nowhere=True)
            return
        owned = self.memory.tasks[negotiation.task]
        forced = [Recommendation(c.node, c.weight, True, self._now) for c in known if c.forced]
        negotiation.recommendations += forced
        negotiation.waiting = {c.node for c in known if not c.forced}
        self._wait(negotiation, NegotiationPhase.NODES, self.settings.answer_s)
        request = TaskMigrationRequest(
            self.name, answer.number, owned.task, self.use[negotiation.task]
        )
        for candidate in known:
            if not candidate.forced:
                self.counts["requests"] += 1
                self._send(candidate.node, request)
        if not negotiation.waiting:
            self._choose(negotiation)

    # Steps 3 and 4: answers of candidates, and a choice among them.

    def _on_acceptance(self, answer: TaskMigrationAcceptanceResponse) -> None:
        self._unanswered.pop(answer.sender, None)
        negotiation = self._find(answer.number, NegotiationPhase.NODES)
        if negotiation is None or answer.sender not in negotiation.waiting:
            return
        owned, load = self.memory.tasks[negotiation.task], answer.load
        kind = self.settings.score(owned.state is TaskState.WAITING)
        rows = (load.total, load.used, self.use[negotiation.task], owned.task.request)
        total, used, use, request = (np.array(row, np.int64) for row in rows)
        weight = rate(kind, total, used, load.tasks, use, request, *self._room)
        negotiation.recommendations.append(Recommendation(answer.sender, weight, False, self._now))
        self._count_answer(negotiation, answer.sender)

    def _on_rejection(self, answer: TaskMigrationRejectionResponse) -> None:
        self._unanswered.pop(answer.sender, None)
        negotiation = self._find(answer.number, NegotiationPhase.NODES)
        if negotiation is not None:
            self.counts["rejections"] += 1
            self._count_answer(negotiation, answer.sender)

    def _count_answer(self, negotiation: Negotiation, node: str) -> None:
        negotiation.waiting.discard(node)
        if not negotiation.waiting:
            self._choose(negotiation)

    def _choose(self, negotiation: Negotiation) -> None:
        """Ask the next candidate to reserve room: one drawn by score among those that accepted,
        forced ones last."""
        oldest = self._now - self.settings.recommendation_s
        fresh = [
            r for r in negotiation.recommendations if r.at > oldest and r.node not in self._gone
        ]
        negotiation.recommendations = fresh
        if not fresh:
            self._next_round(negotiation)
            return
        pool = [r for r in fresh if not r.forced] or fresh
        chosen = pool[int(draw(np.array([r.weight for r in pool]), 1, self._rng)[0])]
        negotiation.recommendations = [r for r in fresh if r.node != chosen.node]
        negotiation.target, negotiation.forced = chosen.node, chosen.forced
        owned, number = self.memory.tasks[negotiation.task], self._renumber(negotiation)
        self.counts["attempts"] += 1
        self._wait(negotiation, NegotiationPhase.ROOM, self.settings.answer_s)
        migration, cost = (self.name, number), self.megabytes(owned)
        use = self.use[negotiation.task]
        request = TaskMigrationProcessRequest(
            self.name, migration, owned.task, use, cost, chosen.forced
        )
        self._send(chosen.node, request)

    def megabytes(self, owned: OwnedTask) -> float:
        """What moving the task costs: by its memory in use, or requested while it was not measured;
        nothing if new."""
        if owned.state is TaskState.WAITING:
            return 0.0
        name = owned.task.name
        amounts = self.use[name] if name in self.measured else owned.task.request
        return migration_mb(amounts[min(1, len(amounts) - 1)])

    # Step 5: room, transfer, hand-over.

    def _on_confirmation(self, answer: TaskMigrationProcessConfirmationResponse) -> None:
        self._unanswered.pop(answer.sender, None)
        negotiation = self._by_number.get(answer.migration[1])
        if negotiation is None:
            self._send(answer.sender, MigrationCancelled(self.name, answer.migration))
        elif negotiation.phase is NegotiationPhase.ROOM and answer.sender == negotiation.target:
            owned = self.memory.tasks[negotiation.task]
            if owned.state is TaskState.WAITING:
                self._hand_over(negotiation)
                return
            self._wait(negotiation, NegotiationPhase.TRANSFER, math.inf)
            cost = self.megabytes(owned)
            self._do(StartTransfer(answer.migration, owned.task.name, negotiation.target, cost))

    def _on_error(self, answer: TaskMigrationProcessErrorResponse) -> None:
        self._unanswered.pop(answer.sender, None)
        negotiation = self._answered_by_target(answer, answer.migration, NegotiationPhase.ROOM)
        if negotiation is not None:
            self.counts["collisions"] += 1
            self._choose(negotiation)

    def _on_finished(self, finished: MigrationFinished) -> None:
        negotiation = self._find(finished.migration[1], NegotiationPhase.TRANSFER)
        if negotiation is None:
            return
        if finished.ok:
            self._hand_over(negotiation)
        else:
            self._cancel(negotiation)
            self._choose(negotiation)

    def _cancel(self, negotiation: Negotiation) -> None:
        """Give the migration up while the task is still here."""
        self._send(
            negotiation.target, MigrationCancelled(self.name, (self.name, negotiation.number))
        )

    def _hand_over(self, negotiation: Negotiation) -> None:
        """Note that the task is stopped, stop it, and let the target run it.

        The note comes first: an agent that crashes after it finds a stopped task in its memory, has
        it stopped (`KeepRunning`), and goes on handing it over.
        """
        name, migration = negotiation.task, (self.name, negotiation.number)
        runs_here = self.memory.tasks[name].state is TaskState.RUNNING
        self._note(TaskStopped(name, migration, negotiation.target))
        if runs_here:
            self._do(HaltTask(name))
        negotiation.repeats = 0
        self._say_take_over(negotiation)

    def _say_take_over(self, negotiation: Negotiation) -> None:
        pause = min(self.settings.retry_s * 2**negotiation.repeats, self.settings.retry_max_s)
        negotiation.repeats += 1
        self._wait(negotiation, NegotiationPhase.HAND_OVER, pause)
        self._send(negotiation.target, TakeOver(self.name, (self.name, negotiation.number)))

    def _on_taken_over(self, answer: TakenOver) -> None:
        negotiation = self._answered_by_target(answer, answer.migration, NegotiationPhase.HAND_OVER)
        if negotiation is not None:
            self._forget(self.memory.tasks[negotiation.task])
            self._end(negotiation)
            runs_tasks = self.memory.home is TaskState.RUNNING
            self.counts["migrations" if runs_tasks else "placed"] += 1
            self.counts["forced"] += negotiation.forced
        # Said again and again, because the target waits for it.
        self._send(answer.sender, Released(self.name, answer.migration))

    def _forget(self, owned: OwnedTask) -> None:
        """The task is not this agent's any more."""
        self._note(TaskLeft(owned.task.name))
        del self.use[owned.task.name]
        self.measured.discard(owned.task.name)

    def _on_not_taken(self, answer: NotTaken) -> None:
        negotiation = self._answered_by_target(answer, answer.migration, NegotiationPhase.HAND_OVER)
        if negotiation is not None:
            self._take_back(negotiation)

    def _take_back(self, negotiation: Negotiation) -> None:
        """The target has nothing of it: the task goes on here, and another candidate is tried."""
        self._note(TaskResumed(negotiation.task))
        if self.memory.home is TaskState.RUNNING:
            self._do(RunTask(self.memory.tasks[negotiation.task].task))
        self._choose(negotiation)

    # Nodes that are down, or do not answer.

    def _on_gone(self, gone: NodeGone) -> None:
        """A node is gone, if somebody says so who must know: believed wrongly, it would make a task
        run twice."""
        if gone.sender not in self._authorities:
            self.counts["disbelieved"] += 1
            return
        self._gone.add(gone.node)
        for negotiation in list(self.negotiations.values()):
            if negotiation.phase is NegotiationPhase.NODES and gone.node in negotiation.waiting:
                self._count_answer(negotiation, gone.node)
            elif negotiation.target == gone.node and negotiation.phase in (
                NegotiationPhase.ROOM,
                NegotiationPhase.TRANSFER,
            ):
                self._choose(negotiation)
            elif (
                negotiation.target == gone.node and negotiation.phase is NegotiationPhase.HAND_OVER
            ):
                self._take_back(negotiation)

    def _count_silence(self, node: str) -> None:
        self.counts["unanswered"] += 1
        if self.settings.unanswered_max:
            self._unanswered[node] = (self._unanswered.get(node, (0, 0.0))[0] + 1, self._now)

    def _unanswering(self) -> tuple[tuple[str, float], ...]:
        """Nodes that left too many requests unanswered, and for how long yet they are left out."""
        limit, pause = self.settings.unanswered_max, self.settings.unanswering_s
        remaining = [
            (node, at + pause - self._now)
            for node, (times, at) in self._unanswered.items()
            if times >= limit
        ]
        return tuple((node, seconds) for node, seconds in remaining if seconds > 0.0)
