"""The agent of one DEPAS node: it works, gossips, and decides how many nodes there are.

Three parts share one node, as in the paper: the overlay manager (`membership.py`), the load
balancer (`handing.py` and the queue here) and the auto-scaler, which runs Algorithm 1 every cycle
on what it knows of itself and its neighbours.

**Leaving.** A node that decides to leave notes it first: if it crashes it must not come back to
work. From then on it takes no request and answers every message that it has departed; it finishes
what it has and is then given back. Whoever rents the nodes may refuse (`LeaveRefused`), because
nobody else can count them.

Requests are not kept on disk: those of a node that crashes are lost, as in the bulk form.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from murmuration.autoscaling import balancer, depas
from murmuration.autoscaling.agents.handing import Handing, Handings
from murmuration.autoscaling.agents.links import draw_share, estimate_load
from murmuration.autoscaling.agents.membership import Membership
from murmuration.autoscaling.agents.messages import (
    AddNode,
    ExchangeDeclined,
    ExchangeLinks,
    HandRequest,
    Introduced,
    JoinWalk,
    KindOffered,
    LeaveRefused,
    LeaveSystem,
    Link,
    LinkGiven,
    LinksExchanged,
    NodeDeparted,
    NodeLeaves,
    NodeStays,
    Probe,
    ProbeAnswer,
    ProcessRequest,
    RequestFinished,
    RequestProcessed,
    RequestTaken,
    SampleWalk,
    ShutDown,
)
from murmuration.autoscaling.agents.outlet import Outlet
from murmuration.autoscaling.agents.settings import DepasSettings
from murmuration.autoscaling.load import work_of
from murmuration.base.arrays import RandomState
from murmuration.schedulers.agent import Effect, Message, Wake

#: Messages with requests that are remembered, so that a late copy of one changes nothing.
REMEMBERED = 1000


@dataclass
class WorkerMemory:
    """What notes fold to: whether the node has left."""

    leaves: bool = False

    def apply(self, fact: Message, now: float) -> None:
        """Fold one note."""
        assert isinstance(fact, NodeLeaves | NodeStays), f"not a fact of a worker: {fact!r}"
        self.leaves = isinstance(fact, NodeLeaves)


class Worker:
    """One node. `first_decision_s` after its start it decides for the first time; `introducers` are
    nodes it knows from the start."""

    def __init__(
        self,
        name: str,
        capacity: int,
        offered: KindOffered,
        entry: str,
        settings: DepasSettings,
        rng: RandomState,
        memory: WorkerMemory,
        introducers: tuple[Link, ...] = (),
        first_decision_s: float | None = None,
    ) -> None:
        self.name, self.capacity, self.settings, self.memory = name, capacity, settings, memory
        #: Requests processed or rejected here, in all, and the load of the last window.
        self.counted, self.work = 0, 0.0
        self.outlet = Outlet()
        self.membership = Membership(self.own_link, entry, settings, rng, self.outlet)
        self.handings = Handings(
            name,
            settings,
            rng,
            self.outlet,
            self.membership.links,
            self.membership.drop,
            self._reject,
        )
        self.running: dict[int, str] = {}
        #: Requests that wait, the oldest first: when issued, which, and their entry point.
        self.queue: list[tuple[float, int, str]] = []
        self.counts: Counter[str] = Counter()
        self._offered, self._entry, self._rng = offered, entry, rng
        self._introducers = introducers
        self._first_decision_s = settings.cycle_s if first_decision_s is None else first_decision_s
        self._history: deque[int] = deque(maxlen=settings.window_s)
        self._up_at = -math.inf
        self._started = False
        self._handled: deque[tuple[int, int]] = deque(maxlen=REMEMBERED)
        part = self.membership
        self._on: dict[type, Callable[[Any], None]] = {
            Probe: part.on_probe,
            ProbeAnswer: part.on_probe_answer,
            ExchangeLinks: part.on_exchange,
            LinksExchanged: part.on_exchanged,
            ExchangeDeclined: part.on_declined,
            JoinWalk: part.on_join_walk,
            LinkGiven: part.on_link_given,
            Introduced: part.on_introduced,
            SampleWalk: part.on_sample_walk,
            HandRequest: self._on_request,
            RequestTaken: self._on_taken,
            RequestProcessed: self._on_processed,
            NodeDeparted: self._on_departed,
            KindOffered: self._on_offered,
            LeaveRefused: self._on_leave_refused,
            Wake: lambda _: self.outlet.wake(),
        }

    def handle(self, event: Message, now: float) -> list[Effect]:
        """Take one event; return what it causes, in order."""
        self.outlet.begin(now)
        if not self._started:
            self._started = True
            self._start()
        if self.memory.leaves:
            self._handle_leaving(event)
        else:
            self._on[type(event)](event)
        return self.outlet.effects

    @property
    def due(self) -> float:
        """When the agent next wants a `Wake`; at once if it has not begun."""
        return self.outlet.due if self._started else -math.inf

    def own_link(self) -> Link:
        """This node as others are told of it."""
        return Link(self.name, self.capacity, self.work)

    def check(self) -> None:
        """What it runs fits, and nothing waits while there is room."""
        assert len(self.running) <= self.capacity
        assert not self.queue or len(self.running) == self.capacity
        assert len(self.membership.neighbours) <= self.settings.degree

    # Starting.

    def _start(self) -> None:
        self._up_at = self.outlet.now
        if self.memory.leaves:
            self._leave()
            return
        if len(self._introducers) == 1:
            self.membership.join(self._introducers[0])
        for link in self._introducers:
            self.membership.meet(link)
        rules = self.settings
        self.outlet.after(1.0, self._measure)
        self.outlet.after(draw_share(self._rng) * rules.overlay_s, self._gossip)
        self.outlet.after(draw_share(self._rng) * rules.introduce_s, self._ask_introduction)
        self.outlet.after(self._first_decision_s, self._decide)

    def _gossip(self) -> None:
        self.outlet.after(self.settings.overlay_s, self._gossip)
        if not self.memory.leaves:
            self.membership.gossip()

    def _ask_introduction(self) -> None:
        self.outlet.after(self.settings.introduce_s, self._ask_introduction)
        if not self.memory.leaves:
            self.membership.ask_introduction()

    def _measure(self) -> None:
        """Once a second: the work of the last window, or since the node is up."""
        self.outlet.after(1.0, self._measure)
        window = self.settings.window_s
        before = self._history[0] if len(self._history) == window else 0
        seconds = min(float(window), self.outlet.now - self._up_at)
        self.work = work_of(self.counted, before, seconds, self.settings.execution_s)
        self._history.append(self.counted)

    # The auto-scaler.

    def _decide(self) -> None:
        """One cycle of Algorithm 1."""
        rules, offered = self.settings, self._offered
        self.outlet.after(rules.cycle_s, self._decide)
        if self.memory.leaves:
            return
        load = estimate_load(self.own_link(), self.membership.links())
        answer = depas.decide(
            load,
            rules.target_load,
            rules.band,
            self.capacity,
            offered.capacity,
            draw_share(self._rng),
            rules.formula,
        )
        if answer == depas.LEAVE:
            self._note(NodeLeaves())
            self.counts["removals"] += 1
            self._leave()
        for _ in range(max(answer, 0)):
            self.counts["additions"] += 1
            self.outlet.do(AddNode(offered.kind, self.own_link()))

    def _on_offered(self, event: KindOffered) -> None:
        self._offered = event

    # Leaving.

    def _note(self, fact: Message) -> None:
        self.memory.apply(fact, self.outlet.now)
        self.outlet.note(fact)

    def _leave(self) -> None:
        self.outlet.do(LeaveSystem())
        self.outlet.send(self._entry, NodeDeparted(self.name))
        self._shut_down_when_idle()

    def _shut_down_when_idle(self) -> None:
        if not self.running and not self.handings:
            self.outlet.do(ShutDown())

    def _on_leave_refused(self, _: LeaveRefused) -> None:
        if self.memory.leaves:
            self._note(NodeStays())

    def _handle_leaving(self, event: Message) -> None:
        """Only what is here still matters; everybody else is told to forget this node."""
        if isinstance(event, RequestProcessed):
            self._on_processed(event)
            self._shut_down_when_idle()
        elif isinstance(event, RequestTaken | Wake | KindOffered | LeaveRefused):
            self._on[type(event)](event)
        elif isinstance(event, Probe | ExchangeLinks | HandRequest):
            self.outlet.send(event.sender, NodeDeparted(self.name))
        elif isinstance(event, NodeDeparted):
            self._on_departed(event)

    def _on_departed(self, message: NodeDeparted) -> None:
        self.membership.drop(message.node)
        self.handings.on_departed(message.node)

    # The balancer.

    def _on_request(self, message: HandRequest) -> None:
        """Start it, queue it, pass it on or reject it; whoever sent it is told that it is here."""
        self.outlet.send(message.sender, RequestTaken(self.name, message.request))
        request, entry = message.request, message.entry
        here = request in self.running or any(request == queued for _, queued, _ in self.queue)
        if here or (request, message.hops) in self._handled:
            return
        self._handled.append((request, message.hops))
        issued = self.outlet.now - message.age_s
        if balancer.admits(
            len(self.queue), len(self.running), self.capacity, self.settings.queue_max
        ):
            heapq.heappush(self.queue, (issued, request, entry))
            self._start_next()
        else:
            handing = Handing(request, entry, message.hops + 1, issued)
            if message.hops >= self.settings.hops_max:
                self._reject(handing)
            else:
                self.handings.hand(handing)

    def _start_next(self) -> None:
        if self.queue and len(self.running) < self.capacity:
            _issued, request, entry = heapq.heappop(self.queue)
            self.running[request] = entry
            self.outlet.do(ProcessRequest(request))

    def _reject(self, handing: Handing) -> None:
        """No worker took it; the last one it reached counts it as its load."""
        self.counted += 1
        self.outlet.send(handing.entry, RequestFinished(self.name, handing.request, False))

    def _on_taken(self, message: RequestTaken) -> None:
        self.handings.on_taken(message.request, message.node)
        if self.memory.leaves:
            self._shut_down_when_idle()

    def _on_processed(self, event: RequestProcessed) -> None:
        entry = self.running.pop(event.request, None)
        if entry is not None:
            self.counted += 1
            self.outlet.send(entry, RequestFinished(self.name, event.request, True))
            self._start_next()
