"""The messages of a swarm: a container asks nodes for room and is handed over to the one that
grants it.

Amounts are tuples of exact integers, one per resource. A *move* is one attempt of one container to
change nodes. It is known by its source and a number that the source never uses twice, not even
after a crash, so that every message about it may arrive late, twice or never.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from murmuration.schedulers.agent import Message, Wake

Amounts = tuple[int, ...]
#: The source, and its number for this move.
Move = tuple[str, int]


class Swarm(Message, frozen=True):
    """The base of the protocol."""

    protocol: ClassVar[str] = "swarm"


class SwarmContainer(msgspec.Struct, frozen=True):
    """A task as the paper sees it: its name, what it requests, and what a host needs to run it."""

    name: str
    request: Amounts
    payload: str = ""


# From node to node: the search.


class AskRoom(Swarm, frozen=True):
    """Would you take this container? When the source packs, only a node that is then fuller than
    `fuller_than` may; a source that spreads asks with −1."""

    speaker: ClassVar[str] = "source"
    source: str
    move: Move
    container: SwarmContainer
    fuller_than: float


class RoomGranted(Swarm, frozen=True):
    """Room is reserved, and counts from now on (R of eq. 18). Repeated from time to time until the
    container comes or the source cancels. `fullness` is the node's with the container."""

    speaker: ClassVar[str] = "node"
    node: str
    move: Move
    fullness: float


class RoomRefused(Swarm, frozen=True):
    """The destination rules say no."""

    speaker: ClassVar[str] = "node"
    node: str
    move: Move


class CancelMove(Swarm, frozen=True):
    """The source knows nothing of this move any more; the room can be used again."""

    speaker: ClassVar[str] = "source"
    source: str
    move: Move


# From node to node: the hand-over.


class HandOver(Swarm, frozen=True):
    """The source has stopped the container for good unless this is refused. Repeated until
    answered."""

    speaker: ClassVar[str] = "source"
    source: str
    move: Move


class HandedOver(Swarm, frozen=True):
    """The target owns the container. Repeated until the source closes the move."""

    speaker: ClassVar[str] = "node"
    node: str
    move: Move


class HandOverRefused(Swarm, frozen=True):
    """The target has nothing of this move and never will: the source runs the container on."""

    speaker: ClassVar[str] = "node"
    node: str
    move: Move


class HandOverClosed(Swarm, frozen=True):
    """The source has dropped the container: the target may forget the move, and the container may
    move on."""

    speaker: ClassVar[str] = "source"
    source: str
    move: Move


# What a host tells its agent.


class ContainerPlaced(Swarm, frozen=True):
    """A new container starts here: whoever places tasks chose this node."""

    container: SwarmContainer


class ContainerEnded(Swarm, frozen=True):
    """A container has ended."""

    container: str


class ContainerSent(Swarm, frozen=True):
    """The copy of a container is at its target, or could not be made."""

    move: Move
    ok: bool = True


class PeerGone(Swarm, frozen=True):
    """A node is down for good and what it ran is stopped; `told_by` says who vouches for it. A node
    that comes back has a new name."""

    node: str
    told_by: str


class StrategyChanged(Swarm, frozen=True):
    """The operator's one parameter: spread, or also pack."""

    strategy: int


# What an agent wants of its host.


class RunContainer(Swarm, frozen=True):
    """Run a container; one that runs already goes on."""

    container: SwarmContainer


class StopContainer(Swarm, frozen=True):
    """Stop a container; nothing if it does not run."""

    container: str


class SendContainer(Swarm, frozen=True):
    """Copy a running container to its target; it runs on meanwhile."""

    move: Move
    container: str
    target: str


# What must survive a crash.


class LifeBegun(Swarm, frozen=True):
    """The agent has started for the so-manieth time; numbers of moves begin with it."""

    life: int


class ContainerHosted(Swarm, frozen=True):
    """This node owns a container, which came by a move unless it was placed here."""

    container: SwarmContainer
    move: Move | None = None


class ContainerStopped(Swarm, frozen=True):
    """The container is stopped here and only its target may run it."""

    container: str
    move: Move
    target: str


class ContainerResumed(Swarm, frozen=True):
    """The target has not taken it: it runs here again."""

    container: str


class ContainerDropped(Swarm, frozen=True):
    """The container has ended, or its target owns it."""

    container: str


class MoveClosed(Swarm, frozen=True):
    """The source of a move to this node has dropped the container."""

    move: Move


class MoveBarred(Swarm, frozen=True):
    """A hand-over was refused: this move, and older ones of its source, are never begun again."""

    move: Move


#: What a node's agent may hear from other nodes, and from its host.
ToSwarmNode = (
    AskRoom
    | RoomGranted
    | RoomRefused
    | CancelMove
    | HandOver
    | HandedOver
    | HandOverRefused
    | HandOverClosed
)
FromHost = ContainerPlaced | ContainerEnded | ContainerSent | PeerGone | StrategyChanged | Wake
Fact = (
    LifeBegun
    | ContainerHosted
    | ContainerStopped
    | ContainerResumed
    | ContainerDropped
    | MoveClosed
    | MoveBarred
)
