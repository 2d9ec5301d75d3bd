"""The agent of one node of a swarm: it hosts containers that decide, finds destinations for them,
and decides itself who may come.

**Search.** A container that wants to leave is offered to one node of the ring after the other,
beginning behind its own (section 5 of the paper). The node that is asked applies the destination
rules to what it holds with all queues counted, n − Q + R, and reserves the room in the same moment:
that is the paper's marker on the destination. The source counts the container as leaving when the
grant arrives, and only if it would still decide so: its own node may have become fuller since it
asked. Two nodes that offer each other a container at the same time would otherwise swap them, again
and again; this way at least one of them withdraws.

**Departure.** A node sends one container after the other. The copy runs nowhere until the
hand-over.

**Hand-over.** A container is owned by the node in whose memory it stands, and the source keeps it
until its target has said that it took it. When the copy is complete the source notes that the
container is stopped, stops it, and says so (`HandOver`) until it is answered. `HandedOver`: the
target owns it, the source drops it. `HandOverRefused`: the target has nothing of this move and has
noted that it never will, so the source runs it on. Until one of the two arrives nobody but the
target may run the container, whatever is lost, late or double; only the news that the target is
down for good (`PeerGone`) frees the source. For the same reason a container may not move on before
its last source has dropped it (`HandOverClosed`).

**Room that nobody needs.** Reservations are not kept on disk. A target that crashes forgets them
and refuses the hand-over; a source that crashes forgets its moves, and cancels them when the target
next repeats its grant.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from murmuration.schedulers.agent import Do, Effect, Message, Note, Send, Wake
from murmuration.schedulers.swarm.container_agent import LEAVING, ContainerAgent, Stage
from murmuration.schedulers.swarm.host import Host, Scent
from murmuration.schedulers.swarm.memory import Ownership, SwarmMemory
from murmuration.schedulers.swarm.messages import (
    Amounts,
    AskRoom,
    CancelMove,
    ContainerDropped,
    ContainerEnded,
    ContainerHosted,
    ContainerPlaced,
    ContainerResumed,
    ContainerSent,
    ContainerStopped,
    HandedOver,
    HandOver,
    HandOverClosed,
    HandOverRefused,
    LifeBegun,
    Move,
    MoveBarred,
    MoveClosed,
    PeerGone,
    RoomGranted,
    RoomRefused,
    RunContainer,
    SendContainer,
    StopContainer,
    StrategyChanged,
    SwarmContainer,
)
from murmuration.schedulers.swarm.settings import SwarmSettings

#: Numbers of moves of one life; the next life begins above them.
NUMBERS_PER_LIFE = 2**32


@dataclass(slots=True, eq=False)
class TargetSearch:
    """A container that is being offered along the ring."""

    agent: ContainerAgent
    number: int
    #: Places behind this node that were asked, the last of them being `target`.
    asked: int = 0
    target: str = ""


@dataclass(slots=True, eq=False)
class Departure:
    """A container that has a destination."""

    agent: ContainerAgent
    number: int
    target: str
    repeats: int = 0


class SwarmNode:
    """One node. `ring` names all nodes in ring order; `counted` says which resources count for
    fullness."""

    def __init__(
        self,
        name: str,
        ring: Sequence[str],
        total: Amounts,
        counted: Sequence[bool],
        settings: SwarmSettings,
        rng: np.random.Generator,
        memory: SwarmMemory,
    ) -> None:
        self.name, self.settings, self.memory = name, settings, memory
        self.host = Host(total, counted, settings)
        self.containers: dict[str, ContainerAgent] = {}
        #: Room reserved here, by move.
        self.reserved: dict[Move, SwarmContainer] = {}
        self.searches: dict[int, TargetSearch] = {}
        self.departures: dict[int, Departure] = {}
        self.counts: Counter[str] = Counter()
        self._ring, self._place = list(ring), list(ring).index(name)
        self._rng = rng
        self._queue: deque[int] = deque()
        self._sending: int | None = None
        self._gone: set[str] = set()
        self._number = 0
        self._scent: Scent | None = None
        self._timers: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._timer_count = 0
        self._started = False
        self._now = 0.0
        self._effects: list[Effect] = []
        self._on: dict[type, Callable[[Any], None]] = {
            AskRoom: self._on_ask,
            RoomGranted: self._on_granted,
            RoomRefused: self._on_refused,
            CancelMove: self._on_cancel,
            HandOver: self._on_hand_over,
            HandedOver: self._on_handed_over,
            HandOverRefused: self._on_hand_over_refused,
            HandOverClosed: self._on_closed,
            ContainerPlaced: self._on_placed,
            ContainerEnded: self._on_ended,
            ContainerSent: self._on_sent,
            PeerGone: self._on_peer_gone,
            StrategyChanged: self._on_strategy,
            Wake: self._on_wake,
        }

    def handle(self, event: Message, now: float) -> list[Effect]:
        """Take one event; return what it causes, in order."""
        self._now, self._effects = now, []
        if not self._started:
            self._started = True
            self._start()
        self._on[type(event)](event)
        return self._effects

    @property
    def due(self) -> float:
        """When the agent next wants a `Wake`; at once if it has not begun."""
        if not self._started:
            return -math.inf
        return self._timers[0][0] if self._timers else math.inf

    def check(self) -> None:
        """The sums are those of the containers, to the last digit."""
        sums = Host(tuple(self.host.total.tolist()), self.host.counted.tolist(), self.settings)
        for name, owned in self.memory.containers.items():
            sums.here += owned.container.request
            assert owned.stopped == (self.containers[name].stage is Stage.STOPPED)
            if self.containers[name].stage in LEAVING:
                sums.leaving += owned.container.request
        for container in self.reserved.values():
            sums.coming += container.request
        same = (sums.here == self.host.here) & (sums.leaving == self.host.leaving)
        assert (same & (sums.coming == self.host.coming)).all(), f"{self.name}: wrong sums"
        assert self.containers.keys() == self.memory.containers.keys()

    # Effects and time.

    def _send(self, to: str, message: Message) -> None:
        self._effects.append(Send(to, message))

    def _note(self, fact: Message) -> None:
        self.memory.apply(fact, self._now)
        self._effects.append(Note(fact))

    def _do(self, act: Message) -> None:
        self._effects.append(Do(act))

    def _set_timer(self, seconds: float, call: Callable[[Any], None], subject: Any) -> None:
        self._timer_count += 1
        heapq.heappush(self._timers, (self._now + seconds, self._timer_count, call, subject))

    def _on_wake(self, _: Wake) -> None:
        while self._timers and self._timers[0][0] <= self._now:
            _at, _count, call, subject = heapq.heappop(self._timers)
            call(subject)

    # Starting, from what the notes of earlier lives fold to.

    def _start(self) -> None:
        self._note(LifeBegun(self.memory.life + 1))
        self._number = self.memory.life * NUMBERS_PER_LIFE
        for owned in self.memory.containers.values():
            if owned.move is not None:
                self._start_stopped(owned, owned.move)
            else:
                self._enter(owned.container)
                self._do(RunContainer(owned.container))
        for move in self.memory.taken:
            self._repeat_handed_over(move)

    def _start_stopped(self, owned: Ownership, move: Move) -> None:
        """A hand-over goes on where it was. The last life may have ended between the note and the
        act, so the container is stopped again."""
        self._enter(owned.container)
        agent = self.containers[owned.container.name]
        self._set_stage(agent, Stage.STOPPED)
        departure = self.departures[move[1]] = Departure(agent, move[1], owned.target)
        self._do(StopContainer(owned.container.name))
        self._repeat_hand_over(departure)

    # Containers: they come, decide and go.

    def _enter(self, container: SwarmContainer) -> None:
        """A container is here and begins its loop, at a moment of its own."""
        seconds = float(self._rng.random()) * self.settings.step_s
        agent = ContainerAgent(container, self._now + seconds)
        self.containers[container.name] = agent
        self.host.here += container.request
        self._scent = None
        self._set_timer(seconds, self._decide, agent)

    def _leave(self, agent: ContainerAgent) -> None:
        """A container is no longer here."""
        self._set_stage(agent, Stage.STAYING)
        del self.containers[agent.container.name]
        self.host.here -= agent.container.request
        self._note(ContainerDropped(agent.container.name))

    def _set_stage(self, agent: ContainerAgent, stage: Stage) -> None:
        """Where a container is on its way out; from its place in the queue on it counts as gone."""
        change = (stage in LEAVING) - (agent.stage in LEAVING)
        self.host.leaving += change * np.array(agent.container.request, np.int64)
        agent.stage = stage
        self._scent = None

    def scent(self) -> Scent:
        """The pheromone now: of the containers that decide here, and those that come."""
        if self._scent is None:
            here = {
                agent.container.request
                for agent in self.containers.values()
                if agent.stage not in LEAVING
            }
            self._scent = self.host.scent(here | {c.request for c in self.reserved.values()})
        return self._scent

    def _decide(self, agent: ContainerAgent) -> None:
        """One turn of a container's loop. While it is on its way out it sleeps."""
        name, step = agent.container.name, self.settings.step_s
        if self.containers.get(name) is not agent or agent.wakes_at > self._now:
            return
        agent.wakes_at = self._now + step
        self._set_timer(step, self._decide, agent)
        scent = self.scent()
        may_leave = self.memory.containers[name].came_by is None
        if agent.stage is not Stage.STAYING or scent.pheromone <= 0.0 or not may_leave:
            return
        size, largest = self._sizes(agent.container.request, scent)
        draw = float(self._rng.random())
        if agent.decides_to_leave(
            scent.pheromone, size, largest, self.settings.size_weighted, draw
        ):
            self._begin_search(agent)

    def _sizes(self, request: Amounts, scent: Scent) -> tuple[float, float]:
        """A container's size and that of the largest here, where sizes matter (eq. 25)."""
        if not self.settings.size_weighted:
            return 1.0, 1.0
        requests = {agent.container.request for agent in self.containers.values()}
        sizes = {r: self.host.size(r, scent.resource, scent.packing) for r in requests}
        return sizes[request], max(sizes.values())

    def _on_placed(self, event: ContainerPlaced) -> None:
        if event.container.name not in self.memory.containers:
            self._note(ContainerHosted(event.container))
            self._enter(event.container)
            self._do(RunContainer(event.container))

    def _on_ended(self, event: ContainerEnded) -> None:
        agent = self.containers.get(event.container)
        if agent is None or agent.stage is Stage.STOPPED:
            return
        for search in [s for s in self.searches.values() if s.agent is agent]:
            del self.searches[search.number]
        for departure in [d for d in self.departures.values() if d.agent is agent]:
            self._abandon(departure)
        self._leave(agent)

    def _on_strategy(self, event: StrategyChanged) -> None:
        self.host.strategy = event.strategy
        self._scent = None

    # The search.

    def _begin_search(self, agent: ContainerAgent) -> None:
        self._number += 1
        self._set_stage(agent, Stage.SEARCHING)
        search = self.searches[self._number] = TargetSearch(agent, self._number)
        self._ask_next(search)

    def _end_search(self, search: TargetSearch) -> None:
        del self.searches[search.number]
        self._set_stage(search.agent, Stage.STAYING)

    def _ask_next(self, search: TargetSearch) -> None:
        """Offer the container to the next node of the ring, unless all were asked or its own node
        drives nobody away any more."""
        scent = self.scent()
        while search.asked + 1 < len(self._ring) and scent.pheromone > 0.0:
            search.asked += 1
            search.target = self._ring[(self._place + search.asked) % len(self._ring)]
            if search.target not in self._gone:
                self.counts["asked"] += 1
                move = (self.name, search.number)
                container, than = search.agent.container, scent.fuller_than
                self._set_timer(self.settings.answer_s, self._when_late, (search, search.asked))
                self._send(search.target, AskRoom(self.name, move, container, than))
                return
        self.counts["searches_failed"] += 1
        self._end_search(search)

    def _when_late(self, question: tuple[TargetSearch, int]) -> None:
        search, asked = question
        if self.searches.get(search.number) is search and search.asked == asked:
            self.counts["unanswered"] += 1
            self._ask_next(search)

    def _on_refused(self, answer: RoomRefused) -> None:
        search = self.searches.get(answer.move[1])
        if search is not None and search.target == answer.node:
            self._ask_next(search)

    def _on_granted(self, answer: RoomGranted) -> None:
        search = self.searches.get(answer.move[1])
        if search is not None and search.target == answer.node:
            self._end_search(search)
            if self._still_leaves(answer.fullness):
                self._queue_departure(Departure(search.agent, search.number, answer.node))
                return
            self.counts["withdrawn"] += 1
        departure = self.departures.get(answer.move[1])
        if departure is None or departure.target != answer.node:
            self._send(answer.node, CancelMove(self.name, answer.move))

    def _still_leaves(self, fullness: float) -> bool:
        """Whether the move is still one by the rules, as this node is now."""
        scent = self.scent()
        return scent.pheromone > 0.0 and fullness > scent.fuller_than

    # Departures, one after the other.

    def _queue_departure(self, departure: Departure) -> None:
        self._set_stage(departure.agent, Stage.QUEUED)
        self.departures[departure.number] = departure
        self._queue.append(departure.number)
        self._send_next()

    def _send_next(self) -> None:
        if self._sending is None and self._queue:
            self._sending = self._queue.popleft()
            departure = self.departures[self._sending]
            self._set_stage(departure.agent, Stage.SENDING)
            move, name = (self.name, departure.number), departure.agent.container.name
            self._do(SendContainer(move, name, departure.target))

    def _abandon(self, departure: Departure) -> None:
        """Give a move up while the container still runs here."""
        assert departure.agent.stage in (Stage.QUEUED, Stage.SENDING)
        del self.departures[departure.number]
        if departure.number in self._queue:
            self._queue.remove(departure.number)
        self._set_stage(departure.agent, Stage.STAYING)
        self._send(departure.target, CancelMove(self.name, (self.name, departure.number)))

    def _on_sent(self, event: ContainerSent) -> None:
        number = event.move[1]
        if number != self._sending:
            return
        self._sending = None
        departure = self.departures.get(number)
        if departure is not None and event.ok:
            self._hand_over(departure)
        elif departure is not None:
            self._abandon(departure)
        self._send_next()

    # The hand-over, as the source.

    def _hand_over(self, departure: Departure) -> None:
        """The note comes first: a source that crashes after it must not run the container again,
        and one that crashes before it has said nothing to the target."""
        name, move = departure.agent.container.name, (self.name, departure.number)
        self._note(ContainerStopped(name, move, departure.target))
        self._set_stage(departure.agent, Stage.STOPPED)
        self._do(StopContainer(name))
        self._repeat_hand_over(departure)

    def _repeat_hand_over(self, departure: Departure) -> None:
        if self.departures.get(departure.number) is departure:
            rules = self.settings
            pause = min(rules.retry_s * 2**departure.repeats, rules.retry_max_s)
            departure.repeats += 1
            self._set_timer(pause, self._repeat_hand_over, departure)
            self._send(departure.target, HandOver(self.name, (self.name, departure.number)))

    def _find_departure(self, move: Move, node: str) -> Departure | None:
        """The departure an answer to a hand-over is about, if it still waits for it."""
        departure = self.departures.get(move[1])
        if departure is None or departure.agent.stage is not Stage.STOPPED:
            return None
        return departure if departure.target == node else None

    def _on_handed_over(self, answer: HandedOver) -> None:
        departure = self._find_departure(answer.move, answer.node)
        if departure is not None:
            self.counts["migrations"] += 1
            del self.departures[departure.number]
            self._leave(departure.agent)
        # Said every time, because the target repeats itself until it hears it.
        self._send(answer.node, HandOverClosed(self.name, answer.move))

    def _on_hand_over_refused(self, answer: HandOverRefused) -> None:
        departure = self._find_departure(answer.move, answer.node)
        if departure is not None:
            self._resume(departure)

    def _resume(self, departure: Departure) -> None:
        """The target has nothing of it and never will: the container runs on here."""
        self.counts["resumed"] += 1
        del self.departures[departure.number]
        self._note(ContainerResumed(departure.agent.container.name))
        self._set_stage(departure.agent, Stage.STAYING)
        self._do(RunContainer(departure.agent.container))

    # The other side: room for a container that may come, and taking it.

    def _on_ask(self, question: AskRoom) -> None:
        """Grant or refuse. Asked again about a reservation, the answer is the same; asked about a
        move that is over, it is no."""
        move = question.move
        if move not in self.reserved:
            over = self.memory.is_barred(move) or question.source in self._gone
            if over or not self.host.takes(question.container.request, question.fuller_than):
                self.counts["refused"] += 1
                self._send(question.source, RoomRefused(self.name, move))
                return
            self.reserved[move] = question.container
            self.host.coming += question.container.request
            self._scent = None
        self._repeat_grant(move)

    def _repeat_grant(self, move: Move) -> None:
        if move in self.reserved:
            self._set_timer(self.settings.keep_s, self._repeat_grant, move)
            self._send(move[0], RoomGranted(self.name, move, self.host.fullness()))

    def _release(self, move: Move) -> SwarmContainer | None:
        """The reservation ends; returns whom it was for."""
        container = self.reserved.pop(move, None)
        if container is not None:
            self.host.coming -= container.request
            self._scent = None
        return container

    def _on_cancel(self, message: CancelMove) -> None:
        self._release(message.move)

    def _on_hand_over(self, message: HandOver) -> None:
        """The source has stopped the container: take it if room is reserved for it, else say that
        it will never be taken, and note that first."""
        move = message.move
        container = self._release(move)
        if container is not None:
            self._note(ContainerHosted(container, move))
            self._enter(container)
            self._do(RunContainer(container))
            self._repeat_handed_over(move)
        elif move in self.memory.taken:
            self._send(message.source, HandedOver(self.name, move))
        else:
            if not self.memory.is_barred(move):
                self._note(MoveBarred(move))
            self._send(message.source, HandOverRefused(self.name, move))

    def _repeat_handed_over(self, move: Move) -> None:
        if move in self.memory.taken:
            self._set_timer(self.settings.retry_max_s, self._repeat_handed_over, move)
            self._send(move[0], HandedOver(self.name, move))

    def _on_closed(self, message: HandOverClosed) -> None:
        if message.move in self.memory.taken:
            self._note(MoveClosed(message.move))

    # Nodes that are down for good.

    def _on_peer_gone(self, event: PeerGone) -> None:
        node = event.node
        self._gone.add(node)
        for search in [s for s in self.searches.values() if s.target == node]:
            self._ask_next(search)
        for departure in [d for d in self.departures.values() if d.target == node]:
            if departure.agent.stage is Stage.STOPPED:
                self._resume(departure)
            else:
                self._abandon(departure)
        for move in [move for move in self.reserved if move[0] == node]:
            self._release(move)
        for move in [move for move in self.memory.taken if move[0] == node]:
            self._note(MoveClosed(move))
