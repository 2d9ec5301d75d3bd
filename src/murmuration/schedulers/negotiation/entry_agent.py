"""The entry agent: where new tasks enter the cluster. It owns a task until a node has taken it
over.

It is a giver without a node: what it holds waits, and leaves as a migrating task does, with the
initial score and nothing to transfer. So a new task is as safe as a running one, and an entry agent
that crashed goes on from its memory.
"""

from __future__ import annotations

from murmuration.schedulers.agent import Message, Wake
from murmuration.schedulers.negotiation import messages as m
from murmuration.schedulers.negotiation.giver import Giver, Negotiation
from murmuration.schedulers.negotiation.memory import TaskAdmitted, TaskState
from murmuration.schedulers.negotiation.phases import NegotiationPhase
from murmuration.schedulers.negotiation.sums import assumed_use


class EntryAgent(Giver):
    """Told new tasks; hands each over to a node."""

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
        super()._start()
        for owned in self.memory.in_state(TaskState.WAITING):
            self._begin(owned.task.name)

    def _on_submit(self, submit: m.SubmitTask) -> None:
        """A task submitted twice is the same task; its name says so."""
        name = submit.task.name
        if name not in self.memory.tasks:
            self._note(TaskAdmitted(submit.task))
            self.use[name] = assumed_use(submit.task)
            self._begin(name)

    def _give_up(self, negotiation: Negotiation, nowhere: bool) -> None:
        """A new task is never given up: it waits for new reports, then begins again."""
        self.counts["given_up"] += 1
        negotiation.rounds = 0
        negotiation.recommendations = []
        self._wait(negotiation, NegotiationPhase.PAUSE, self.settings.report_s)
