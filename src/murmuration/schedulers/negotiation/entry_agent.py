"""The entry agent: where new tasks enter the cluster. It owns a task until a node has taken it
over.

It is a giver without a node: what it holds waits, and leaves as a migrating task does, with the
initial score and nothing to transfer. So a new task is as safe as a running one, and an entry agent
that crashed goes on from its memory.

Tasks ask in portions. All tasks of a large job that asked at once would be answered by nodes that
know of none of the others, gather on the same few, and be moved again a minute later.
"""

from __future__ import annotations

import math
from collections import deque

from murmuration.schedulers.agent import Message, Wake
from murmuration.schedulers.negotiation import messages as m
from murmuration.schedulers.negotiation.giver import Giver, Negotiation
from murmuration.schedulers.negotiation.memory import TaskAdmitted, TaskState
from murmuration.schedulers.negotiation.phases import NegotiationPhase
from murmuration.schedulers.negotiation.sums import assumed_use

#: A negotiation asks until a node has reserved room.
ASKING = (NegotiationPhase.BROKER, NegotiationPhase.NODES, NegotiationPhase.ROOM)


class EntryAgent(Giver):
    """Told new tasks; hands each over to a node."""

    #: Tasks that ask, and negotiations that wait for their turn to.
    _asking: set[str]
    _turns: deque[Negotiation]

    def _dispatch(self, event: Message, now: float) -> None:
        """All that an entry agent hears (`ToEntry`), and who takes it."""
        match event:
            case Wake():
                self._on_wake(now)
            case m.SubmitTask():
                self._on_submit(event)
            case m.GetCandidateNodesResponse():
                self._on_candidates(event)
            case m.TaskMigrationAcceptanceResponse():
                self._on_acceptance(event)
            case m.TaskMigrationRejectionResponse():
                self._on_rejection(event)
            case m.TaskMigrationProcessConfirmationResponse():
                self._on_confirmation(event)
            case m.TaskMigrationProcessErrorResponse():
                self._on_error(event)
            case m.TakenOver():
                self._on_taken_over(event)
            case m.NotTaken():
                self._on_not_taken(event)
            case m.NodeGone():
                self._on_gone(event)
            case _:
                raise AssertionError(f"{self.name} may not hear {event.key}")

    def _start(self) -> None:
        self._asking, self._turns = set(), deque()
        super()._start()
        for owned in self.memory.in_state(TaskState.WAITING):
            self._ask_broker(Negotiation(owned.task.name))

    def _on_submit(self, submit: m.SubmitTask) -> None:
        """A task submitted twice is the same task; its name says so."""
        name = submit.task.name
        if name not in self.memory.tasks:
            self._note(TaskAdmitted(submit.task))
            self.use[name] = assumed_use(submit.task)
            self._ask_broker(Negotiation(name))

    # Portions.

    def _ask_broker(self, negotiation: Negotiation) -> None:
        if self._may_ask(negotiation.task):
            super()._ask_broker(negotiation)
        else:
            self._turns.append(negotiation)
            self._wait(negotiation, NegotiationPhase.PAUSE, math.inf)

    def _may_ask(self, task: str) -> bool:
        portion = self.settings.portion
        return portion == 0 or len(self._asking - {task}) < portion

    def _wait(self, negotiation: Negotiation, phase: NegotiationPhase, seconds: float) -> None:
        super()._wait(negotiation, phase, seconds)
        if phase in ASKING:
            self._asking.add(negotiation.task)
        elif negotiation.task in self._asking:
            self._asking.remove(negotiation.task)
            self._set_timer(self._now, self._when_turn)

    def _when_turn(self, _: None) -> None:
        """Somebody has got its room, or a pause: the next one asks."""
        if self._turns and self._may_ask(self._turns[0].task):
            super()._ask_broker(self._turns.popleft())

    def _give_up(self, negotiation: Negotiation, nowhere: bool) -> None:
        """A new task is never given up: it waits for new reports, then begins again."""
        self.counts["given_up"] += 1
        negotiation.rounds = 0
        negotiation.recommendations = []
        self._wait(negotiation, NegotiationPhase.PAUSE, self.settings.report_s)
