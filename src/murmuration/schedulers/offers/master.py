"""The master (5.2): it offers what is free to the frameworks an allocator chooses, and launches
what they reply with.

It is an agent of the contract (`schedulers/agent.py`) that notes nothing: all it knows can be
rebuilt from what node agents and frameworks tell a new master (5.2.6). A round offers all that is
available on a node to one framework, node by node, so that shares interleave.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from murmuration.schedulers.agent import Effect, Message, Send, Wake
from murmuration.schedulers.offers.allocators import Allocator, drf, drf_of_shares, keep_entitled
from murmuration.schedulers.offers.client import Client, Demand, Wanting
from murmuration.schedulers.offers.ledger import Key, Ledger, fits
from murmuration.schedulers.offers.messages import (
    Callback,
    CommitTasks,
    Committed,
    FrameworkGone,
    GetGuaranteedShare,
    GuaranteedShare,
    KillTask,
    LaunchTask,
    NodeJoined,
    NodeLeft,
    NodeLost,
    OfferRescinded,
    Reconcile,
    Register,
    ReplyToOffer,
    ResizeTask,
    ResourceOffer,
    SetFilters,
    SetNeedsOffers,
    SetOpen,
    Slice,
    Status,
    StatusUpdate,
    StopTask,
    SyncTable,
    Table,
    TableRow,
    Task,
    TaskReport,
    TaskResized,
    Unregister,
    Vector,
)
from murmuration.schedulers.offers.revocation import choose_victims
from murmuration.schedulers.offers.transactions import accept_tasks

#: Ends that are remembered for frameworks that were away when they were told.
ENDS_MAX = 10_000


@dataclass(frozen=True)
class Rules:
    """What the organisation decides. A `min_offer` larger than a node means the whole node."""

    allocator: Allocator = drf
    #: Rounds happen at multiples of this; at once if 0.
    period_s: float = 0.0
    #: An offer unanswered for this long is rescinded; never if 0.
    timeout_s: float = 0.0
    #: Abstain from offering a node until this much of it is free (4.10); at least one unit of CPU.
    min_offer: Vector = (1,)
    #: This share of each node is for tasks that are killed after `short_max_s` (4.8).
    short_share: float = 0.0
    short_max_s: float = 60.0
    #: A framework below its guarantee that waited this long without an offer gets tasks of others
    #: revoked (5.2.3).
    revoke_after_s: float = math.inf


class Master:
    """The state machine. Everything it knows can be rebuilt from node agents and frameworks
    (5.2.6)."""

    def __init__(self, resources: int, rules: Rules, rng: np.random.Generator) -> None:
        self.rules = rules
        self.ledger = Ledger(resources, rules.short_share)
        self.offers: dict[int, ResourceOffer] = {}
        self.clients: dict[str, Client] = {}
        self._demand = Demand(self.clients)
        self.weight = np.zeros(0)
        self.guaranteed = np.zeros(0)
        #: How many offers each framework was made.
        self._offers_made = np.zeros(0, np.int64)
        #: Who was promised a share, with its row in the arrays.
        self._entitled: dict[str, int] = {}
        #: Tasks told to stop that still hold their resources, with what their framework will be
        #: told.
        self.stopping: dict[Key, tuple[Status, str]] = {}
        #: Nodes on which tasks were revoked, and for whom; nobody else is offered them before.
        self.cleared: dict[str, str] = {}
        #: From when on a task that is not in the ledger does not run anywhere. A master that takes
        #: over knows that only when every node has joined or has ended its tasks.
        self.knows_all_s = -math.inf
        #: How the last tasks ended, the oldest first.
        self._ends: OrderedDict[Key, StatusUpdate] = OrderedDict()
        self._rng = rng
        self._now = 0.0
        self._out: list[Effect] = []
        #: Nodes of which something may have become worth offering since the last round, in order.
        self._changed: dict[str, None] = {}
        self._timers: list[tuple[float, int, str, Any]] = []
        self._serial = 0
        self._round_set = False

    def handle(self, event: Message, now: float) -> list[Effect]:
        """Take one event; return the messages it causes, in order."""
        self._now, self._out = now, []
        _ON[type(event)](self, event)
        if self._changed and not self.rules.period_s:
            self._offer_round()
        elif self._changed and not self._round_set:
            self._round_set = True
            self._set_timer(
                (math.floor(now / self.rules.period_s) + 1) * self.rules.period_s, "round", None
            )
        if self._entitled and self.rules.revoke_after_s < math.inf:
            self._revoke()
        return self._out

    @property
    def due(self) -> float:
        """When it next wants a `Wake`, whatever else happens; infinity for never."""
        while self._timers and self._is_settled(*self._timers[0][2:]):
            heapq.heappop(self._timers)
        timer = self._timers[0][0] if self._timers else math.inf
        patience = self.rules.revoke_after_s
        if patience == math.inf or not self._entitled:
            return timer
        # What is due already was tried in the last `handle`; it is tried again with the next event,
        # not by waking.
        return min(
            [
                timer,
                *(
                    at
                    for name in self._starving()
                    if (at := self.clients[name].served + patience) > self._now
                ),
            ]
        )

    def check(self) -> None:
        """Assert that all amounts add up and no node is over-committed."""
        self.ledger.check(
            (offer.framework, part) for offer in self.offers.values() for part in offer.slices
        )
        assert set(self.stopping) <= set(self.ledger.tasks), (
            "a task that holds nothing is being stopped"
        )

    def _call_back(self, message: Callback) -> None:
        self._out.append(Send(message.framework, message))

    # Node agents.

    def _on_joined(self, event: NodeJoined) -> None:
        running = {(framework, task.task) for framework, task in event.running}
        if event.node in self.ledger.nodes:
            self._drop_node(event.node, running)
        self.ledger.add_node(event.node, event.total, event.open)
        for framework, task in event.running:
            self._client(framework)
            self.ledger.start(framework, task)
        self._changed[event.node] = None

    def _on_left(self, event: NodeLeft) -> None:
        if event.node in self.ledger.nodes:
            self._drop_node(event.node, set())
            for framework in self.clients:
                self._call_back(NodeLost(framework, event.node))

    def _on_open(self, event: SetOpen) -> None:
        if event.node in self.ledger.nodes:
            self.ledger.nodes[event.node].open = event.open
            self._changed[event.node] = None
            if not event.open:
                self._rescind_of(event.node)

    def _rescind_of(self, node: str) -> None:
        for offer in [
            o for o in self.offers.values() if any(part.node == node for part in o.slices)
        ]:
            self._rescind(offer)

    def _drop_node(self, node: str, running: set[Key]) -> None:
        self._rescind_of(node)
        for held in self.ledger.drop_node(node):
            key = (held.framework, held.task.task)
            self.stopping.pop(key, None)
            if key not in running:
                self._tell_end(StatusUpdate(*key, Status.LOST, f"{node} was lost"))
        self._changed.pop(node, None)
        self.cleared.pop(node, None)

    def _on_report(self, event: TaskReport) -> None:
        key = (event.framework, event.task)
        if key not in self.ledger.tasks:
            return
        status, reason = event.status, event.reason
        if status is not Status.RUNNING:
            asked = self.stopping.pop(key, None)
            if asked is not None and status is Status.KILLED:
                status, reason = asked
            self._changed[self.ledger.end(key).task.node] = None
            self._tell_end(StatusUpdate(event.framework, event.task, status, reason))
            return
        self._call_back(StatusUpdate(event.framework, event.task, status, reason))

    def _tell_end(self, update: StatusUpdate) -> None:
        """Its framework may not be there to hear it: it is kept for when it asks."""
        self._ends[update.framework, update.task] = update
        if len(self._ends) > ENDS_MAX:
            self._ends.popitem(last=False)
        self._call_back(update)

    # Schedulers of shared state (6.1).

    def _on_sync(self, event: SyncTable) -> None:
        self._client(event.framework)
        count = self.ledger.resources
        rows = tuple(
            TableRow(node, row.columns[:count], tuple(row.available[:count]), row.sequence)
            for node, row in self.ledger.nodes.items()
            if row.open
        )
        self._call_back(Table(event.framework, rows))

    def _on_commit(self, event: CommitTasks) -> None:
        """What is accepted is launched; what is on offer to somebody is as good as taken."""
        client = self._client(event.framework)
        asked = (event.transaction, tuple(task.task for task in event.tasks))
        if client.commit == asked:
            return  # it was heard twice
        client.commit = asked
        accepted = accept_tasks(self.ledger, event)
        for task in accepted:
            self.ledger.start(event.framework, task)
        names = tuple(task.task for task in accepted)
        taken = set(names)
        refused = tuple(task.task for task in event.tasks if task.task not in taken)
        self._call_back(Committed(event.framework, event.transaction, names, refused))
        for task in accepted:
            self._out.append(Send(task.node, LaunchTask(event.framework, task)))

    # Frameworks.

    def _client(self, name: str) -> Client:
        """What is known of a framework; a new master may hear of its tasks or needs before it
        registers (5.2.6)."""
        if name not in self.clients:
            self.clients[name] = Client()
            self._demand.change()
            self.ledger.add_framework(name)
            self.weight, self.guaranteed = (
                np.append(self.weight, 1.0),
                np.append(self.guaranteed, 0.0),
            )
            # A newcomer is level with the others, or it would win every tie until it had caught up.
            self._offers_made = np.append(self._offers_made, self._offers_made.max(initial=0))
        return self.clients[name]

    def _on_register(self, event: Register) -> None:
        """The first thing a framework says on a connection: offers of an earlier one are void."""
        self._client(event.framework).commit = None
        self._take_back_all(event.framework)
        position = self.ledger.position[event.framework]
        self.weight[position], self.guaranteed[position] = event.weight, event.guaranteed
        self._entitled = {
            name: at for name, at in self.ledger.position.items() if self.guaranteed[at] > 0.0
        }

    def _on_unregister(self, event: Unregister) -> None:
        self._client(event.framework)
        self.clients[event.framework] = Client()
        self._demand.change()
        self._take_back_all(event.framework)
        for key in [key for key in self.ledger.tasks if key[0] == event.framework]:
            self._stop(key, Status.KILLED, "its framework left")

    def _on_gone(self, event: FrameworkGone) -> None:
        if event.framework in self.clients:
            self.clients[event.framework].needs = False
            self._demand.change()
            self._take_back_all(event.framework)

    def _take_back_all(self, framework: str) -> None:
        for offer in [o for o in self.offers.values() if o.framework == framework]:
            self._rescind(offer)

    def _on_reconcile(self, event: Reconcile) -> None:
        """Say how tasks ended that the framework believes alive; of one that nobody has heard of,
        only when nobody can run it."""
        self._client(event.framework)
        for task in event.tasks:
            key = (event.framework, task)
            if key in self.ledger.tasks:
                continue
            if key in self._ends:
                self._call_back(self._ends[key])
            elif self._now >= self.knows_all_s:
                self._call_back(StatusUpdate(*key, Status.LOST, "no node has it"))

    def _on_needs(self, event: SetNeedsOffers) -> None:
        client = self._client(event.framework)
        self._demand.change()
        if event.needs:
            if not client.needs:
                client.served = self._now
            client.refused.clear()
            self._changed.update(dict.fromkeys(self.ledger.in_order()))
        client.needs = event.needs

    def _on_filters(self, event: SetFilters) -> None:
        self._client(event.framework).filters = event.filters
        self._demand.change()
        self._changed.update(dict.fromkeys(self.ledger.in_order()))

    def _on_get_guaranteed(self, event: GetGuaranteedShare) -> None:
        self._client(event.framework)
        share = float(self.guaranteed[self.ledger.position[event.framework]])
        amount = tuple(math.floor(share * int(total)) for total in self.ledger.total)
        self._call_back(GuaranteedShare(event.framework, amount))

    def _on_kill(self, event: KillTask) -> None:
        key = (event.framework, event.task)
        if key in self.ledger.tasks:
            self._stop(key, Status.KILLED, "its framework killed it")

    def _on_reply(self, event: ReplyToOffer) -> None:
        offer = self.offers.get(event.offer)
        if offer is None or offer.framework != event.framework:
            # A reply that is heard twice has launched its tasks: they are not lost.
            again = event.offer == self._client(event.framework).replied
            for task in () if again else event.tasks:
                self._call_back(
                    StatusUpdate(
                        event.framework, task.task, Status.LOST, "the offer no longer stands"
                    )
                )
            return
        room = {part.node: self.ledger.room(part) for part in offer.slices}
        self.clients[event.framework].replied = event.offer
        self._take_back(offer)
        for task in event.tasks:
            self._launch(event.framework, task, room)
        for node, left in room.items():
            self._refuse(
                event.framework, node, tuple(left[: self.ledger.resources]), event.refuse_s
            )

    def _launch(self, framework: str, task: Task, room: dict[str, list[int]]) -> None:
        left, cost = room.get(task.node), self.ledger.cost(task)
        error = ""
        if left is None:
            error = f"{task.node} is not part of the offer"
        elif (
            len(task.request) != self.ledger.resources
            or min(task.request) < 0
            or not fits(cost, left)
        ):
            error = "it does not fit in the offer"
        elif (framework, task.task) in self.ledger.tasks:
            error = "a task of this name is running"
        if left is None or error:
            self._call_back(StatusUpdate(framework, task.task, Status.LOST, error))
            return
        left[:] = map(int.__sub__, left, cost)
        self.ledger.start(framework, task)
        self._out.append(Send(task.node, LaunchTask(framework, task)))
        if task.short and self.rules.short_share:
            self._set_timer(self._now + self.rules.short_max_s, "limit", (framework, task.task))

    def _refuse(self, framework: str, node: str, left: Vector, refuse_s: float) -> None:
        if self._is_worth_offering(node, left):
            until = self._now + refuse_s
            self._demand.refuse(framework, node, until, left)
            self._set_timer(until, "refusal", node)

    # Offers.

    def _offer_round(self) -> None:
        """Offer what is available on each changed node, in random order, to whom the allocator
        chooses for it."""
        nodes = [
            node
            for node in self._changed
            if self._is_worth_offering(node, self.ledger.nodes[node].available)
        ]
        self._changed.clear()
        if not nodes or not self._demand.is_any():
            return
        given: dict[str, list[Slice]] = {}
        for at in self._rng.permutation(len(nodes)) if len(nodes) > 1 else (0,):
            part = self.ledger.available(nodes[at])
            chosen = self._choose(part)
            if chosen is not None:
                self.ledger.hold(chosen, part)
                given.setdefault(chosen, []).append(part)
        for framework, parts in given.items():
            self._make_offer(framework, tuple(parts))

    def _is_worth_offering(self, node: str, left: Vector | list[int]) -> bool:
        row = self.ledger.nodes[node]
        return row.open and all(map(int.__le__, map(min, self.rules.min_offer, row.columns), left))

    def _choose(self, part: Slice) -> str | None:
        """The framework that is offered this slice; those below their guaranteed share come
        first."""
        wants = self._demand.find(part, self._now)
        if part.node in self.cleared:
            wants = self._settle_cleared(part.node, wants)
        if not wants.any():
            return None
        ledger, allocator = self.ledger, self.rules.allocator
        if self._entitled:
            keep_entitled(ledger.allocated + ledger.offered, ledger.total, self.guaranteed, wants)
        draw = self._rng.random()
        if allocator is drf:
            chosen = drf_of_shares(ledger.shares, self.weight, wants, self._offers_made)
        else:
            amounts = ledger.allocated, ledger.offered
            chosen = allocator(*amounts, ledger.total, self.weight, wants, draw)
        return ledger.frameworks[chosen] if chosen >= 0 else None

    def _settle_cleared(self, node: str, wants: Wanting) -> Wanting:
        """A node with revoked tasks waits until they are gone; then it is the turn of whom they
        made way for."""
        if any(key in self.stopping for key in self.ledger.nodes[node].tasks):
            return np.zeros_like(wants)
        position = self.ledger.position[self.cleared.pop(node)]
        return np.arange(wants.size) == position if wants[position] else wants

    def _make_offer(self, framework: str, parts: tuple[Slice, ...]) -> None:
        self._serial += 1
        limit = self.rules.short_max_s if self.rules.short_share else None
        offer = ResourceOffer(framework, self._serial, parts, limit)
        self.offers[offer.offer] = offer
        self.clients[framework].served = self._now
        self._offers_made[self.ledger.position[framework]] += 1
        if self.rules.timeout_s:
            self._set_timer(self._now + self.rules.timeout_s, "offer", offer.offer)
        self._call_back(offer)

    def _take_back(self, offer: ResourceOffer) -> None:
        del self.offers[offer.offer]
        for part in offer.slices:
            self.ledger.give_back(offer.framework, part)
            self._changed[part.node] = None

    def _rescind(self, offer: ResourceOffer) -> None:
        self._take_back(offer)
        self._call_back(OfferRescinded(offer.framework, offer.offer))

    # Stopping tasks.

    def _stop(self, key: Key, status: Status, reason: str) -> None:
        if key not in self.stopping:
            self.stopping[key] = (status, reason)
            node = self.ledger.tasks[key].task.node
            self._out.append(Send(node, StopTask(key[0], node, key[1])))

    def _on_resize(self, event: ResizeTask) -> None:
        """A task that gives a part of its room away, or has taken it back."""
        key = (event.framework, event.task)
        if key in self.ledger.tasks:
            node = self.ledger.resize(key, event.request)
            self._changed[node] = None
            self._out.append(Send(node, TaskResized(event.framework, node, event.task)))

    def _starving(self) -> Iterator[str]:
        """Frameworks that need offers, are below their guarantee, have none to answer and no node
        being cleared."""
        ledger = self.ledger
        # Asked after every event: of those that were promised nothing, nobody is looked at.
        for name, position in self._entitled.items():
            if not self.clients[name].needs or name in self.cleared.values():
                continue
            share = (ledger.allocated[position] / np.maximum(ledger.total, 1)).max(initial=0.0)
            if share < self.guaranteed[position] and not ledger.offered[position].any():
                yield name

    def _revoke(self) -> None:
        for name in list(self._starving()):
            client = self.clients[name]
            if self._now < client.served + self.rules.revoke_after_s:
                continue
            for key in choose_victims(
                self.ledger, self.guaranteed, self.stopping, name, client.filters
            ):
                self._stop(key, Status.REVOKED, f"revoked for {name}")
                self.cleared[self.ledger.tasks[key].task.node] = name
                client.served = self._now

    # Time.

    def _set_timer(self, at: float, kind: str, subject: Any) -> None:
        self._serial += 1
        heapq.heappush(self._timers, (at, self._serial, kind, subject))

    def _is_settled(self, kind: str, subject: Any) -> bool:
        """Whether a timer has nothing left to do."""
        if kind == "offer":
            return subject not in self.offers
        return kind == "limit" and subject not in self.ledger.tasks

    def _run_timers(self) -> None:
        while self._timers and self._timers[0][0] <= self._now:
            _, _, kind, subject = heapq.heappop(self._timers)
            if not self._is_settled(kind, subject):
                _WHEN[kind](self, subject)

    def _when_offer_expires(self, offer: int) -> None:
        """Its framework took too long: others are offered it, and this one not at once again."""
        expired = self.offers[offer]
        self._rescind(expired)
        for part in expired.slices:
            self._refuse(expired.framework, part.node, part.amount, self.rules.timeout_s)

    def _when_refusal_ends(self, node: str) -> None:
        if node in self.ledger.nodes:
            self._changed[node] = None

    def _when_limit_is_reached(self, key: Key) -> None:
        self._stop(key, Status.KILLED, f"it ran past the limit of {self.rules.short_max_s:g} s")

    def _when_round_is_due(self, _: None) -> None:
        self._round_set = False
        self._offer_round()

    def _on_wake(self, event: Wake) -> None:
        """Only now: a driver wakes after all that has arrived. However late a busy master hears a
        reply, it counts; else a master that falls behind would take back its offers, make them
        again, and never catch up."""
        self._run_timers()


_ON: dict[type, Callable[[Master, Any], None]] = {
    NodeJoined: Master._on_joined,
    NodeLeft: Master._on_left,
    TaskReport: Master._on_report,
    Register: Master._on_register,
    Unregister: Master._on_unregister,
    ReplyToOffer: Master._on_reply,
    SetNeedsOffers: Master._on_needs,
    SetFilters: Master._on_filters,
    GetGuaranteedShare: Master._on_get_guaranteed,
    KillTask: Master._on_kill,
    ResizeTask: Master._on_resize,
    Reconcile: Master._on_reconcile,
    FrameworkGone: Master._on_gone,
    SetOpen: Master._on_open,
    SyncTable: Master._on_sync,
    CommitTasks: Master._on_commit,
    Wake: Master._on_wake,
}
_WHEN: dict[str, Callable[[Master, Any], None]] = {
    "offer": Master._when_offer_expires,
    "refusal": Master._when_refusal_ends,
    "limit": Master._when_limit_is_reached,
    "round": Master._when_round_is_due,
}
