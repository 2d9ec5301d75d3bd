"""The side of a negotiation that gives a task away (Sliwko and Getov, section 6), shared by node
and entry agents.

One negotiation per task, several at a time: ask a broker, ask its candidates, choose among those
that accept, have room set aside, transfer, hand over. Every step has a time after which it is
repeated or the next candidate is tried.

**Hand-over.** A task is owned by the agent in whose books it stands; the source keeps it there
until the target has said that it took it. When the transfer is done the source first stops the task
and writes that down, then says so (`TakeOver`) until it is answered. `TakenOver`: the target runs
it, the source forgets it. `NotTaken`: the target has nothing of this migration and never will, the
source runs it on. Until one of both arrives nobody but the target may run it, whatever is lost,
late or double; only the news that the target is down for good (`NodeGone`) frees the source.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec
import numpy as np

from murmuration.cluster.migration import migration_mb
from murmuration.schedulers.negotiation.books import Books, Held, Status
from murmuration.schedulers.negotiation.candidates import draw, rate
from murmuration.schedulers.negotiation.messages import (
    GetCandidateNodesRequest,
    GetCandidateNodesResponse,
    MigrationCancelled,
    MigrationFinished,
    NodeGone,
    NotTaken,
    Outbox,
    Released,
    RunTask,
    StartTransfer,
    StopTask,
    TakenOver,
    TakeOver,
    TaskMigrationAcceptanceResponse,
    TaskMigrationProcessConfirmationResponse,
    TaskMigrationProcessErrorResponse,
    TaskMigrationProcessRequest,
    TaskMigrationRejectionResponse,
    TaskMigrationRequest,
    Wake,
)
from murmuration.schedulers.negotiation.settings import NegotiationSettings

Handler = Callable[[Any], None]


class Phase(Enum):
    """What a negotiation waits for."""

    BROKER = "candidates of a broker"
    NODES = "answers of candidates"
    ROOM = "room at the target"
    TRANSFER = "the transfer"
    HAND_OVER = "the target to take over"
    PAUSE = "a better time"


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
    phase: Phase = Phase.PAUSE
    #: Of the question or migration that is under way.
    number: int = 0
    deadline: float = math.inf
    rounds: int = 0
    target: str = ""
    forced: bool = False
    repeats: int = 0
    waiting: set[str] = field(default_factory=set)
    recommendations: list[Recommendation] = field(default_factory=list)


class Source:
    """An agent that gives tasks away. `brokers` are those it may ask, its own first."""

    #: What a task does here when it is not handed over.
    home = Status.WAITING

    def __init__(
        self,
        name: str,
        brokers: Sequence[str],
        resources: int,
        settings: NegotiationSettings,
        rng: np.random.Generator,
        books: Books,
    ) -> None:
        self.name, self.settings, self.books = name, settings, books
        self.negotiations: dict[str, Negotiation] = {}
        self.counts: Counter[str] = Counter()
        self._brokers, self._rng = list(brokers), rng
        self._room = (np.zeros(resources), np.zeros(resources))
        self._by_number: dict[int, Negotiation] = {}
        self._timers: list[tuple[float, int, str, Any]] = []
        self._started = False
        self._timer_count = 0
        self._out: Outbox = []
        self._now = 0.0
        #: Nodes that are down for good; nodes that did not answer: how often in a row, and when
        #: last.
        self._gone: set[str] = set()
        self._unanswered: dict[str, tuple[int, float]] = {}
        self._on: dict[type, Handler] = {
            GetCandidateNodesResponse: self._on_candidates,
            TaskMigrationAcceptanceResponse: self._on_acceptance,
            TaskMigrationRejectionResponse: self._on_rejection,
            TaskMigrationProcessConfirmationResponse: self._on_confirmation,
            TaskMigrationProcessErrorResponse: self._on_error,
            MigrationFinished: self._on_finished,
            TakenOver: self._on_taken_over,
            NotTaken: self._on_not_taken,
            NodeGone: self._on_gone,
            Wake: self._on_wake,
        }

    def handle(self, message: Any, now: float) -> Outbox:
        """The one door in: what the agent wants done because of a message, or of the time."""
        self._now, self._out = now, []
        if not self._started:
            self._started = True
            self._start()
        self._on[type(message)](message)
        return self._out

    @property
    def due(self) -> float:
        """When the agent must be woken; at once if it has not begun yet."""
        if not self._started:
            return 0.0
        return self._timers[0][0] if self._timers else math.inf

    def _send(self, to: str | None, message: msgspec.Struct) -> None:
        self._out.append((to, message))

    # Time.

    def _set_timer(self, at: float, kind: str, subject: Any = None) -> None:
        self._timer_count += 1
        heapq.heappush(self._timers, (at, self._timer_count, kind, subject))

    def _on_wake(self, wake: Wake) -> None:
        while self._timers and self._timers[0][0] <= self._now:
            _, _, kind, subject = heapq.heappop(self._timers)
            getattr(self, f"_when_{kind}")(subject)

    def _wait(self, negotiation: Negotiation, phase: Phase, seconds: float) -> None:
        negotiation.phase, negotiation.deadline = phase, self._now + seconds
        if seconds < math.inf:
            self._set_timer(negotiation.deadline, "late", negotiation)

    def _start(self) -> None:
        """Before anything else, after a crash: hand-overs go on where they were."""
        for name, held in self.books.tasks.items():
            if held.status is Status.STOPPED and held.migration is not None:
                negotiation = Negotiation(name, number=held.migration[1], target=held.target)
                self._register(negotiation)
                self._wait(negotiation, Phase.HAND_OVER, 0.0)

    def _when_late(self, negotiation: Negotiation) -> None:
        """An answer did not come in time."""
        if (
            self.negotiations.get(negotiation.task) is not negotiation
            or negotiation.deadline > self._now
        ):
            return
        if negotiation.phase is Phase.HAND_OVER:
            self._say_take_over(negotiation)
        elif negotiation.phase is Phase.PAUSE:
            self._ask_broker(negotiation)
        elif negotiation.phase is Phase.BROKER:
            self._next_round(negotiation)
        elif negotiation.phase is Phase.NODES:
            for node in sorted(negotiation.waiting):
                self._note_silence(node)
            self._choose(negotiation)
        elif negotiation.phase is Phase.ROOM:
            self._note_silence(negotiation.target)
            self._cancel(negotiation)
            self._choose(negotiation)

    # Step 2: candidates from a broker.

    def _begin(self, name: str) -> None:
        negotiation = Negotiation(name)
        self._register(negotiation)
        self._ask_broker(negotiation)

    def _register(self, negotiation: Negotiation) -> None:
        self.negotiations[negotiation.task] = negotiation
        self._by_number[negotiation.number] = negotiation

    def _renumber(self, negotiation: Negotiation) -> int:
        """A new number for the next step: answers to the last one are no longer heard."""
        self._by_number.pop(negotiation.number, None)
        negotiation.number = self.books.number()
        self._by_number[negotiation.number] = negotiation
        return negotiation.number

    def _end(self, negotiation: Negotiation) -> None:
        self.negotiations.pop(negotiation.task, None)
        self._by_number.pop(negotiation.number, None)

    def _found(self, number: int, phase: Phase) -> Negotiation | None:
        """The negotiation a message is about, if it still waits for it."""
        negotiation = self._by_number.get(number)
        return negotiation if negotiation is not None and negotiation.phase is phase else None

    def _ask_broker(self, negotiation: Negotiation) -> None:
        held, number = self.books.tasks[negotiation.task], self._renumber(negotiation)
        # The own broker first; if that did not lead anywhere, any.
        pick = 0 if negotiation.rounds == 0 else int(self._rng.integers(len(self._brokers)))
        new = held.status is Status.WAITING
        self._wait(negotiation, Phase.BROKER, self.settings.answer_s)
        question = GetCandidateNodesRequest(
            self.name, number, held.task, held.use, new, self._unanswering()
        )
        self._send(self._brokers[pick], question)

    def _next_round(self, negotiation: Negotiation) -> None:
        negotiation.rounds += 1
        if negotiation.rounds < self.settings.rounds:
            self._ask_broker(negotiation)
        else:
            self._give_up(negotiation, nowhere=False)

    def _give_up(self, negotiation: Negotiation, nowhere: bool) -> None:
        """No node was found; `nowhere`: a broker knows none that could hold the task at all."""
        self.counts["given_up"] += 1
        self._end(negotiation)

    def _on_candidates(self, answer: GetCandidateNodesResponse) -> None:
        negotiation = self._found(answer.number, Phase.BROKER)
        if negotiation is None:
            return
        known = [c for c in answer.candidates if c.node not in self._gone and c.node != self.name]
        if not known:
            self._give_up(negotiation, nowhere=True)
            return
        held = self.books.tasks[negotiation.task]
        forced = [Recommendation(c.node, c.weight, True, self._now) for c in known if c.forced]
        negotiation.recommendations += forced
        negotiation.waiting = {c.node for c in known if not c.forced}
        self._wait(negotiation, Phase.NODES, self.settings.answer_s)
        for candidate in known:
            if not candidate.forced:
                self.counts["requests"] += 1
                self._send(
                    candidate.node,
                    TaskMigrationRequest(self.name, answer.number, held.task, held.use),
                )
        if not negotiation.waiting:
            self._choose(negotiation)

    # Steps 3 and 4: answers of candidates, and a choice among them.

    def _on_acceptance(self, answer: TaskMigrationAcceptanceResponse) -> None:
        self._unanswered.pop(answer.sender, None)
        negotiation = self._found(answer.number, Phase.NODES)
        if negotiation is None or answer.sender not in negotiation.waiting:
            return
        held, level = self.books.tasks[negotiation.task], answer.level
        kind = self.settings.score(held.status is Status.WAITING)
        rows = (level.total, level.used, held.use, held.task.request)
        total, used, use, request = (np.array(row, np.int64) for row in rows)
        chance = rate(kind, total, used, level.tasks, use, request, *self._room)
        negotiation.recommendations.append(Recommendation(answer.sender, chance, False, self._now))
        self._answered(negotiation, answer.sender)

    def _on_rejection(self, answer: TaskMigrationRejectionResponse) -> None:
        self._unanswered.pop(answer.sender, None)
        negotiation = self._found(answer.number, Phase.NODES)
        if negotiation is not None:
            self.counts["rejections"] += 1
            self._answered(negotiation, answer.sender)

    def _answered(self, negotiation: Negotiation, node: str) -> None:
        negotiation.waiting.discard(node)
        if not negotiation.waiting:
            self._choose(negotiation)

    def _choose(self, negotiation: Negotiation) -> None:
        """Ask the next candidate to make room: one drawn by score among those that accepted, forced
        ones last."""
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
        held, number = self.books.tasks[negotiation.task], self._renumber(negotiation)
        self.counts["attempts"] += 1
        self._wait(negotiation, Phase.ROOM, self.settings.answer_s)
        migration, cost = (self.name, number), self.megabytes(held)
        request = TaskMigrationProcessRequest(
            self.name, migration, held.task, held.use, cost, chosen.forced
        )
        self._send(chosen.node, request)

    def megabytes(self, held: Held) -> float:
        """What moving the task costs: by its memory in use, or requested while it was not measured;
        nothing if new."""
        if held.status is Status.WAITING:
            return 0.0
        memory = held.use if held.measured else held.task.request
        return migration_mb(memory[min(1, len(memory) - 1)])

    # Step 5: room, transfer, hand-over.

    def _on_confirmation(self, answer: TaskMigrationProcessConfirmationResponse) -> None:
        self._unanswered.pop(answer.sender, None)
        negotiation = self._by_number.get(answer.migration[1])
        if negotiation is None:
            self._send(answer.sender, MigrationCancelled(self.name, answer.migration))
        elif negotiation.phase is Phase.ROOM:
            held = self.books.tasks[negotiation.task]
            if held.status is Status.WAITING:
                self._hand_over(negotiation)
                return
            self._wait(negotiation, Phase.TRANSFER, math.inf)
            cost = self.megabytes(held)
            self._send(
                None, StartTransfer(answer.migration, held.task.name, negotiation.target, cost)
            )

    def _on_error(self, answer: TaskMigrationProcessErrorResponse) -> None:
        self._unanswered.pop(answer.sender, None)
        negotiation = self._found(answer.migration[1], Phase.ROOM)
        if negotiation is not None:
            self.counts["collisions"] += 1
            self._choose(negotiation)

    def _on_finished(self, finished: MigrationFinished) -> None:
        negotiation = self._found(finished.migration[1], Phase.TRANSFER)
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
        """Stop the task, write that down, and let the target run it."""
        held = self.books.tasks[negotiation.task]
        if held.status is Status.RUNNING:
            self._send(None, StopTask(held.task.name))
        held.status = Status.STOPPED
        held.migration, held.target = (self.name, negotiation.number), negotiation.target
        negotiation.repeats = 0
        self._say_take_over(negotiation)

    def _say_take_over(self, negotiation: Negotiation) -> None:
        pause = min(self.settings.retry_s * 2**negotiation.repeats, self.settings.retry_max_s)
        negotiation.repeats += 1
        self._wait(negotiation, Phase.HAND_OVER, pause)
        self._send(negotiation.target, TakeOver(self.name, (self.name, negotiation.number)))

    def _on_taken_over(self, answer: TakenOver) -> None:
        negotiation = self._found(answer.migration[1], Phase.HAND_OVER)
        if negotiation is not None:
            held = self.books.tasks[negotiation.task]
            self._forget(held)
            self._end(negotiation)
            self.counts["migrations" if self.home is Status.RUNNING else "placed"] += 1
            self.counts["forced"] += negotiation.forced
        # Said again and again, because the target waits for it.
        self._send(answer.sender, Released(self.name, answer.migration))

    def _forget(self, held: Held) -> None:
        del self.books.tasks[held.task.name]

    def _on_not_taken(self, answer: NotTaken) -> None:
        negotiation = self._found(answer.migration[1], Phase.HAND_OVER)
        if negotiation is not None:
            self._take_back(negotiation)

    def _take_back(self, negotiation: Negotiation) -> None:
        """The target has nothing of it: the task goes on here, and another candidate is tried."""
        held = self.books.tasks[negotiation.task]
        held.status, held.migration, held.target = self.home, None, ""
        if self.home is Status.RUNNING:
            self._send(None, RunTask(held.task))
        self._choose(negotiation)

    # Nodes that are down, or do not answer.

    def _on_gone(self, gone: NodeGone) -> None:
        self._gone.add(gone.node)
        for negotiation in list(self.negotiations.values()):
            if negotiation.phase is Phase.NODES and gone.node in negotiation.waiting:
                self._answered(negotiation, gone.node)
            elif negotiation.target == gone.node and negotiation.phase in (
                Phase.ROOM,
                Phase.TRANSFER,
            ):
                self._choose(negotiation)
            elif negotiation.target == gone.node and negotiation.phase is Phase.HAND_OVER:
                self._take_back(negotiation)

    def _note_silence(self, node: str) -> None:
        self.counts["unanswered"] += 1
        if self.settings.unanswered_max:
            self._unanswered[node] = (self._unanswered.get(node, (0, 0.0))[0] + 1, self._now)

    def _unanswering(self) -> tuple[tuple[str, float], ...]:
        """Nodes that were asked in vain too often, and until when they are left out."""
        most, pause = self.settings.unanswered_max, self.settings.unanswering_s
        late = {node: at + pause for node, (times, at) in self._unanswered.items() if times >= most}
        return tuple((node, until) for node, until in late.items() if until > self._now)
