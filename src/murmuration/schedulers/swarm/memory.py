"""What a node of a swarm must still know after a crash: a fold of notes."""

from __future__ import annotations

from dataclasses import dataclass, field

from murmuration.schedulers.agent import Message
from murmuration.schedulers.swarm.messages import (
    ContainerDropped,
    ContainerHosted,
    ContainerResumed,
    ContainerStopped,
    LifeBegun,
    Move,
    MoveBarred,
    MoveClosed,
    SwarmContainer,
)


@dataclass
class Ownership:
    """A container this node owns. It is *stopped* while a move that may have handed it over is
    unanswered."""

    container: SwarmContainer
    #: Of a stopped container: the move that is to be answered, and by whom.
    move: Move | None = None
    target: str = ""
    #: The move it came by, until its source has dropped it. Until then it may not move on: if this
    #: node died, the source would run it again.
    came_by: Move | None = None

    @property
    def stopped(self) -> bool:
        return self.move is not None


@dataclass
class SwarmMemory:
    """The state that notes fold to."""

    life: int = 0
    containers: dict[str, Ownership] = field(default_factory=dict)
    #: Moves to this node that were taken, until their sources have dropped the container.
    taken: dict[Move, str] = field(default_factory=dict)
    #: The highest number of a move of each source that was taken or whose hand-over was refused.
    #: Without it a late copy of the question and then of the hand-over would run a container twice.
    barred: dict[str, int] = field(default_factory=dict)

    def apply(self, fact: Message, now: float) -> None:
        """Fold one note; nothing else changes the memory. When it was noted does not matter."""
        if isinstance(fact, LifeBegun):
            assert fact.life > self.life, "a life is never lived twice"
            self.life = fact.life
        elif isinstance(fact, ContainerHosted):
            self._host(fact.container, fact.move)
        elif isinstance(fact, ContainerStopped):
            owned = self.containers[fact.container]
            owned.move, owned.target = fact.move, fact.target
        elif isinstance(fact, ContainerResumed):
            owned = self.containers[fact.container]
            owned.move, owned.target = None, ""
        elif isinstance(fact, ContainerDropped):
            del self.containers[fact.container]
        elif isinstance(fact, MoveClosed):
            self._close(fact.move)
        elif isinstance(fact, MoveBarred):
            self._bar(fact.move)
        else:
            raise TypeError(f"not a fact of a swarm: {fact!r}")

    def _host(self, container: SwarmContainer, move: Move | None) -> None:
        assert container.name not in self.containers, f"{container.name} is here already"
        self.containers[container.name] = Ownership(container, came_by=move)
        if move is not None:
            self.taken[move] = container.name
            self._bar(move)

    def _close(self, move: Move) -> None:
        owned = self.containers.get(self.taken.pop(move, ""))
        if owned is not None and owned.came_by == move:
            owned.came_by = None

    def _bar(self, move: Move) -> None:
        source, number = move
        self.barred[source] = max(number, self.barred.get(source, 0))

    def is_barred(self, move: Move) -> bool:
        """Whether a question about this move comes too late."""
        return move[1] <= self.barred.get(move[0], 0)
