"""A node's place in the overlay: its links, kept up by gossip, message by message.

Each round it asks a few neighbours for their load and swaps some links with its oldest neighbour.
An exchange is decided where both rows of links meet: the one that asks sends all its links, the one
that is asked applies `overlay.swap` to both rows, keeps its own and sends the other back. Between
question and answer the one that asked declines exchanges, so that its row cannot change before the
answer arrives. An answer that is lost leaves some links twice and some nowhere; the next rounds
mend that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from murmuration.autoscaling.agents.links import draw_index, oldest_link, swap_links
from murmuration.autoscaling.agents.messages import (
    AskIntroduction,
    ExchangeDeclined,
    ExchangeLinks,
    Introduced,
    JoinWalk,
    Link,
    LinkGiven,
    LinksExchanged,
    Probe,
    ProbeAnswer,
    SampleWalk,
    WorkerSampled,
)
from murmuration.autoscaling.agents.outlet import Outlet
from murmuration.autoscaling.agents.settings import DepasSettings
from murmuration.autoscaling.overlay import TRIES, WALK_STEPS
from murmuration.base.arrays import RandomState


@dataclass(slots=True)
class Neighbour:
    """A link as its owner keeps it: `created` counts the owner's rounds."""

    node: str
    capacity: int
    work: float
    created: int


@dataclass(slots=True, eq=False)
class Exchange:
    """An exchange this node asked for; `lost` are neighbours dropped meanwhile."""

    partner: str
    number: int
    question: ExchangeLinks
    tries: int = 1
    lost: set[str] = field(default_factory=set)


class Membership:
    """The links of one node. `own` describes it as it is now."""

    def __init__(
        self,
        own: Callable[[], Link],
        entry: str,
        settings: DepasSettings,
        rng: RandomState,
        outlet: Outlet,
    ) -> None:
        self.neighbours: list[Neighbour] = []
        self._own, self._entry, self._settings = own, entry, settings
        self._rng, self._outlet = rng, outlet
        self._name = own().node
        self._round = self._number = self._cursor = 0
        self._probing: dict[str, int] = {}
        self._open: Exchange | None = None
        #: The last exchange each node asked for, and its answer, in case that is lost.
        self._answers: dict[str, LinksExchanged] = {}

    def links(self) -> list[Link]:
        """The links as they are told to others."""
        return [Link(n.node, n.capacity, n.work, self._round - n.created) for n in self.neighbours]

    def knows(self, node: str) -> bool:
        return any(n.node == node for n in self.neighbours)

    def drop(self, node: str) -> None:
        """Forget a neighbour that is gone or does not answer."""
        self.neighbours = [n for n in self.neighbours if n.node != node]
        self._probing.pop(node, None)
        if self._open is not None:
            self._open.lost.add(node)
            if self._open.partner == node:
                self._open = None

    def _add(self, link: Link) -> None:
        self.neighbours.append(
            Neighbour(link.node, link.capacity, link.work, self._round - link.age)
        )

    def meet(self, link: Link) -> None:
        """Take a link in unless it is known or there is no room."""
        new = link.node != self._name and not self.knows(link.node)
        if new and len(self.neighbours) < self._settings.degree:
            self._add(link)

    # Joining.

    def join(self, introducer: Link) -> None:
        """Walk at random from somebody who is there, once for every link there is room for."""
        self.meet(introducer)
        for _ in range(self._settings.degree):
            self._outlet.send(introducer.node, JoinWalk(self._own(), WALK_STEPS))

    def on_join_walk(self, walk: JoinWalk) -> None:
        """Pass a newcomer on, or take it in: in free room, or in place of a link that it gets."""
        if walk.newcomer.node == self._name:
            return
        if walk.steps > 0 and self.neighbours:
            following = self.neighbours[draw_index(len(self.neighbours), self._rng)].node
            self._outlet.send(following, JoinWalk(walk.newcomer, walk.steps - 1))
        elif not self.knows(walk.newcomer.node):
            given = self._own()
            if len(self.neighbours) >= self._settings.degree:
                given = self.links()[at := draw_index(len(self.neighbours), self._rng)]
                del self.neighbours[at]
            self._add(walk.newcomer)
            if given.node != walk.newcomer.node:
                self._outlet.send(walk.newcomer.node, LinkGiven(given))

    def on_link_given(self, message: LinkGiven) -> None:
        self.meet(message.link)

    def on_sample_walk(self, walk: SampleWalk) -> None:
        """The entry point draws workers."""
        if walk.steps > 0 and self.neighbours:
            following = self.neighbours[draw_index(len(self.neighbours), self._rng)].node
            self._outlet.send(following, SampleWalk(walk.entry, walk.steps - 1))
        else:
            own = self._own()
            self._outlet.send(walk.entry, WorkerSampled(own.node, own.capacity))

    def ask_introduction(self) -> None:
        self._outlet.send(self._entry, AskIntroduction(self._name, self._own()))

    def on_introduced(self, message: Introduced) -> None:
        """A link from outside. It takes the oldest one's place: links that gossip keeps swapping
        among the same nodes are worth less."""
        if message.link.node == self._name or self.knows(message.link.node):
            return
        if not self.neighbours:
            self.join(message.link)
            return
        if len(self.neighbours) >= self._settings.degree:
            del self.neighbours[oldest_link(self.links())]
        self._add(message.link)

    # A round.

    def gossip(self) -> None:
        """Probe the next few neighbours and exchange links with the oldest."""
        self._round += 1
        if not self.neighbours:
            self.ask_introduction()
            return
        for _ in range(min(self._settings.probes, len(self.neighbours))):
            self._cursor = 0 if self._cursor >= len(self.neighbours) else self._cursor
            node = self.neighbours[self._cursor].node
            self._cursor += 1
            if node not in self._probing:
                self._probe(node, 1)
        if self._open is None:
            self._ask_exchange()

    def _probe(self, node: str, tries: int) -> None:
        self._probing[node] = tries
        self._outlet.after(self._settings.answer_s, self._when_probe_late, node, tries)
        self._outlet.send(node, Probe(self._name))

    def _when_probe_late(self, node: str, tries: int) -> None:
        if self._probing.get(node) != tries:
            return
        if tries < TRIES:
            self._probe(node, tries + 1)
        else:
            self.drop(node)

    def on_probe(self, message: Probe) -> None:
        self._outlet.send(message.sender, ProbeAnswer(self._name, self._own().work))

    def on_probe_answer(self, message: ProbeAnswer) -> None:
        self._probing.pop(message.node, None)
        for neighbour in self.neighbours:
            if neighbour.node == message.node:
                neighbour.work = message.work

    def _ask_exchange(self) -> None:
        links = self.links()
        partner = links.pop(oldest_link(links)).node
        self._number += 1
        question = ExchangeLinks(self._name, self._number, self._own(), tuple(links))
        self._open = Exchange(partner, self._number, question)
        self._send_exchange(self._open)

    def _send_exchange(self, exchange: Exchange) -> None:
        seconds = self._settings.answer_s
        self._outlet.after(seconds, self._when_exchange_late, exchange, exchange.tries)
        self._outlet.send(exchange.partner, exchange.question)

    def _when_exchange_late(self, exchange: Exchange, tries: int) -> None:
        if self._open is not exchange or exchange.tries != tries:
            return
        if tries < TRIES:
            exchange.tries += 1
            self._send_exchange(exchange)
        else:
            self.drop(exchange.partner)

    def on_exchange(self, question: ExchangeLinks) -> None:
        """Swap links with the sender, once for each question however often it comes."""
        last = self._answers.get(question.sender)
        if last is None or last.number < question.number:
            if self._open is not None:
                declined = ExchangeDeclined(self._name, question.number)
                self._outlet.send(question.sender, declined)
                return
            theirs, mine = swap_links(
                (question.own, question.links),
                (self._own(), self.links()),
                self._settings.degree,
                self._settings.exchange,
                self._rng,
            )
            self._replace(mine)
            last = LinksExchanged(self._name, question.number, tuple(theirs))
            self._answers[question.sender] = last
        if last.number == question.number:
            self._outlet.send(question.sender, last)

    def _replace(self, links: list[Link]) -> None:
        self.neighbours = []
        for link in links:
            self._add(link)

    def on_exchanged(self, answer: LinksExchanged) -> None:
        exchange = self._open
        if exchange is not None and exchange.number == answer.number:
            self._open = None
            # Probes sent with the question were answered meanwhile, and their loads are newer.
            heard = {n.node: n.work for n in self.neighbours}
            self._replace([link for link in answer.links if link.node not in exchange.lost])
            for neighbour in self.neighbours:
                neighbour.work = heard.get(neighbour.node, neighbour.work)

    def on_declined(self, answer: ExchangeDeclined) -> None:
        if self._open is not None and self._open.number == answer.number:
            self._open = None
