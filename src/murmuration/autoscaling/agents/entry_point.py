"""The entry point: clients' requests come here and go to a worker drawn by capacity.

It knows some of the workers and redraws them from time to time by random walks over the overlay.
It is also the one address every node knows: a node without links asks it for one, and so do the
others now and then. So it hears of every node that lives, whatever gossip has forgotten.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from murmuration.autoscaling.agents.handing import Handing, Handings
from murmuration.autoscaling.agents.links import draw_index
from murmuration.autoscaling.agents.messages import (
    AskIntroduction,
    Introduced,
    Link,
    NodeDeparted,
    ReplyToClient,
    RequestFinished,
    RequestIssued,
    RequestTaken,
    SampleWalk,
    WorkerSampled,
)
from murmuration.autoscaling.agents.outlet import Outlet
from murmuration.autoscaling.agents.settings import DepasSettings
from murmuration.autoscaling.overlay import WALK_STEPS
from murmuration.base.arrays import RandomState
from murmuration.schedulers.agent import Effect, Message, Wake

#: Walks take a few messages; what has come back after this many times the patience for one answer
#: makes the new list.
COLLECT = 4.0
#: Walks for each worker it wants to know: some end at the same node, some are lost.
WALKS = 2


class EntryPoint:
    """The agent in front of all workers. `workers` are those it knows at the start."""

    def __init__(
        self,
        name: str,
        settings: DepasSettings,
        rng: RandomState,
        workers: tuple[Link, ...] = (),
    ) -> None:
        self.name, self.settings = name, settings
        self.outlet = Outlet()
        self.known: dict[str, Link] = {link.node: link for link in workers}
        #: Nodes that asked for an introduction, and when; requests go there only if no other worker
        #: is known. Every node asks now and then, so one that has not is gone.
        self.asked_by: dict[str, tuple[Link, float]] = {}
        #: Requests that have no answer yet.
        self.waiting: set[int] = set()
        self.counts: Counter[str] = Counter()
        self._rng, self._sampled = rng, dict[str, Link]()
        self._started = False
        self.handings = Handings(
            name,
            settings,
            rng,
            self.outlet,
            lambda: list(self.known.values()) or self._present(),
            self._forget,
            self._reject,
        )
        self._on: dict[type, Callable[[Any], None]] = {
            RequestIssued: self._on_issued,
            RequestTaken: lambda m: self.handings.on_taken(m.request, m.node),
            RequestFinished: self._on_finished,
            AskIntroduction: self._on_ask_introduction,
            WorkerSampled: self._on_sampled,
            NodeDeparted: self._on_departed,
            Wake: lambda _: self.outlet.wake(),
        }

    def handle(self, event: Message, now: float) -> list[Effect]:
        """Take one event; return what it causes, in order."""
        self.outlet.begin(now)
        if not self._started:
            self._started = True
            self.outlet.after(self.settings.entry_s, self._renew)
        self._on[type(event)](event)
        return self.outlet.effects

    @property
    def due(self) -> float:
        """When the agent next wants a `Wake`; at once if it has not begun."""
        return self.outlet.due if self._started else -math.inf

    # Requests: each is answered once.

    def _on_issued(self, event: RequestIssued) -> None:
        self.waiting.add(event.request)
        self.outlet.after(self.settings.outcome_s, self._when_lost, event.request)
        self.handings.hand(Handing(event.request, self.name, 0, self.outlet.now))

    def _answer(self, request: int, ok: bool, outcome: str) -> None:
        if request in self.waiting:
            self.waiting.remove(request)
            self.counts[outcome] += 1
            self.outlet.do(ReplyToClient(request, ok))

    def _on_finished(self, message: RequestFinished) -> None:
        # A worker that finished it has it, whether or not its word for that has come.
        self.handings.on_taken(message.request, message.node)
        self._answer(message.request, message.ok, "done" if message.ok else "rejected")

    def _reject(self, handing: Handing) -> None:
        self._answer(handing.request, False, "rejected")

    def _when_lost(self, request: int) -> None:
        self._answer(request, False, "lost")

    # Workers it knows.

    def _forget(self, node: str) -> None:
        self.known.pop(node, None)
        self.asked_by.pop(node, None)

    def _on_departed(self, message: NodeDeparted) -> None:
        self._forget(message.node)
        self.handings.on_departed(message.node)

    def _present(self) -> list[Link]:
        """The nodes that have asked lately."""
        since = self.outlet.now - 2.0 * self.settings.introduce_s
        return [link for link, at in self.asked_by.values() if at >= since]

    def _renew(self) -> None:
        """Draw workers by walks that start at those it knows."""
        self.outlet.after(self.settings.entry_s, self._renew)
        known = [*self.known, *(link.node for link in self._present())]
        self._sampled = {}
        for _ in range(WALKS * self.settings.entry_min if known else 0):
            start = known[draw_index(len(known), self._rng)]
            self.outlet.send(start, SampleWalk(self.name, WALK_STEPS))
        self.outlet.after(COLLECT * self.settings.answer_s, self._collect)

    def _on_sampled(self, message: WorkerSampled) -> None:
        if len(self._sampled) < self.settings.entry_min:
            self._sampled[message.node] = Link(message.node, message.capacity)

    def _collect(self) -> None:
        if self._sampled:
            self.known, self._sampled = self._sampled, {}

    def _on_ask_introduction(self, message: AskIntroduction) -> None:
        """Name another worker, and remember the one that asks."""
        links = self._present() or list(self.known.values())
        others = [link for link in links if link.node != message.node]
        if others:
            link = others[draw_index(len(others), self._rng)]
            self.outlet.send(message.node, Introduced(link))
        self.asked_by.pop(message.node, None)
        self.asked_by[message.node] = (message.own, self.outlet.now)
        if len(self.asked_by) > self.settings.entry_min:
            del self.asked_by[next(iter(self.asked_by))]
