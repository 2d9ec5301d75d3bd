"""The messages of DEPAS nodes: gossip of the overlay, hand-over of requests, and what a node asks
of whoever rents it.

Links carry the age of what they say, in rounds of the overlay, and requests their age in seconds;
clocks of two nodes have nothing to do with each other.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from murmuration.schedulers.agent import Message, Wake


class Depas(Message, frozen=True):
    """The base of the protocol."""

    protocol: ClassVar[str] = "depas"


class Link(msgspec.Struct, frozen=True):
    """What one node knows of another: its capacity, the work it last said it has, and how many
    rounds ago the link was made."""

    node: str
    capacity: int
    work: float = 0.0
    age: int = 0


# The overlay.


class Probe(Depas, frozen=True):
    """What is your load? Who does not answer is forgotten."""

    speaker: ClassVar[str] = "sender"
    sender: str


class ProbeAnswer(Depas, frozen=True):
    """The node's work: requests per second processed or rejected, times their length."""

    speaker: ClassVar[str] = "node"
    node: str
    work: float


class ExchangeLinks(Depas, frozen=True):
    """All links of the sender but the one to the receiver, who swaps some of them for his."""

    speaker: ClassVar[str] = "sender"
    sender: str
    number: int
    own: Link
    links: tuple[Link, ...]


class LinksExchanged(Depas, frozen=True):
    """The links the sender of the question has from now on."""

    speaker: ClassVar[str] = "node"
    node: str
    number: int
    links: tuple[Link, ...]


class ExchangeDeclined(Depas, frozen=True):
    """The node waits for the answer to an exchange of its own."""

    speaker: ClassVar[str] = "node"
    node: str
    number: int


class JoinWalk(Depas, frozen=True):
    """A newcomer walks at random; where the walk ends it takes the place of a link."""

    newcomer: Link
    steps: int


class LinkGiven(Depas, frozen=True):
    """A link for a newcomer."""

    link: Link


class AskIntroduction(Depas, frozen=True):
    """A node that knows nobody, or has not heard from outside for a while, asks the entry point."""

    speaker: ClassVar[str] = "node"
    node: str
    own: Link


class Introduced(Depas, frozen=True):
    """Some node the entry point knows."""

    link: Link


class SampleWalk(Depas, frozen=True):
    """The entry point draws workers by random walks."""

    entry: str
    steps: int


class WorkerSampled(Depas, frozen=True):
    """Where a walk of the entry point ended."""

    speaker: ClassVar[str] = "node"
    node: str
    capacity: int


class NodeDeparted(Depas, frozen=True):
    """The answer of a node that leaves to everything: forget me."""

    speaker: ClassVar[str] = "node"
    node: str


# Requests.


class HandRequest(Depas, frozen=True):
    """A request for a worker; `hops` counts the workers that passed it on."""

    speaker: ClassVar[str] = "sender"
    sender: str
    entry: str
    request: int
    hops: int
    age_s: float


class RequestTaken(Depas, frozen=True):
    """The worker has the request: it queues it, passes it on or rejects it."""

    speaker: ClassVar[str] = "node"
    node: str
    request: int


class RequestFinished(Depas, frozen=True):
    """To the entry point: the request was processed, or rejected by the last worker it reached."""

    speaker: ClassVar[str] = "node"
    node: str
    request: int
    ok: bool


# What a host tells its agent.


class RequestIssued(Depas, frozen=True):
    """A client's request reaches the entry point."""

    request: int


class RequestProcessed(Depas, frozen=True):
    """A request that was started is done."""

    request: int


class KindOffered(Depas, frozen=True):
    """The kind of node that is best to add from now on, and its capacity."""

    kind: str
    capacity: int


class LeaveRefused(Depas, frozen=True):
    """There are so few nodes that none may leave."""


# What an agent wants of its host.


class ProcessRequest(Depas, frozen=True):
    """Start a request."""

    request: int


class AddNode(Depas, frozen=True):
    """Rent a node; the one that asks introduces it to the overlay."""

    kind: str
    introducer: Link


class LeaveSystem(Depas, frozen=True):
    """The node leaves: it no longer counts, and takes no more requests."""


class ShutDown(Depas, frozen=True):
    """The node that left has nothing more to do and can be given back."""


class ReplyToClient(Depas, frozen=True):
    """The one answer to a request."""

    request: int
    ok: bool


# What must survive a crash.


class NodeLeaves(Depas, frozen=True):
    """The node leaves; if it crashes it must not come back to work."""


class NodeStays(Depas, frozen=True):
    """It may not leave after all."""


#: What a worker may hear from other nodes and the entry point; what the entry point may hear; and
#: what hosts tell.
ToWorker = (
    Probe
    | ProbeAnswer
    | ExchangeLinks
    | LinksExchanged
    | ExchangeDeclined
    | JoinWalk
    | LinkGiven
    | Introduced
    | SampleWalk
    | NodeDeparted
    | HandRequest
    | RequestTaken
)
ToEntryPoint = AskIntroduction | WorkerSampled | RequestTaken | RequestFinished | NodeDeparted
FromHost = RequestIssued | RequestProcessed | KindOffered | LeaveRefused | Wake
