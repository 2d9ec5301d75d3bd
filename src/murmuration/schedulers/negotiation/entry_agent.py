"""The entry agent: where new tasks enter the cell. It owns a task until a node has taken it over.

It is a source without a node: what it holds waits, and leaves as a migrating task does, with the
initial score and nothing to transfer. So a new task is as safe as a running one, and an entry agent
that crashed goes on from its books.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from murmuration.schedulers.negotiation.books import Books, Held, Status, assumed_use
from murmuration.schedulers.negotiation.messages import Submit
from murmuration.schedulers.negotiation.settings import NegotiationSettings
from murmuration.schedulers.negotiation.source import Negotiation, Phase, Source


class EntryAgent(Source):
    """Told new tasks; hands each over to a node."""

    def __init__(
        self,
        name: str,
        brokers: Sequence[str],
        resources: int,
        settings: NegotiationSettings,
        rng: np.random.Generator,
        books: Books,
    ) -> None:
        super().__init__(name, brokers, resources, settings, rng, books)
        self._on[Submit] = self._on_submit

    def _on_submit(self, submit: Submit) -> None:
        task = submit.task
        self.books.tasks[task.name] = Held(task, assumed_use(task), Status.WAITING)
        self._begin(task.name)

    def _start(self) -> None:
        super()._start()
        for name, held in self.books.tasks.items():
            if held.status is Status.WAITING and name not in self.negotiations:
                self._begin(name)

    def _give_up(self, negotiation: Negotiation, nowhere: bool) -> None:
        """A new task is never given up: it waits for new reports, then begins anew."""
        self.counts["given_up"] += 1
        negotiation.rounds = 0
        negotiation.recommendations = []
        self._wait(negotiation, Phase.PAUSE, self.settings.report_s)
