"""The contract of every agent: one door in, effects out.

An *agent* is a state machine that decides: the master of a cluster, a framework, a node agent, a
broker, a task of a swarm, a node that scales itself. It reads no clock, opens no socket and draws
from no generator but its own, so the same events give the same answers, in a simulation, on a real
host and in a replay of a log.

**Theory of operation.** A *driver* owns the outside world: time, the network, the disk, the
processes of a host. It calls `handle(event, now)` for everything that happens to an agent and
carries out the answer, a list of three kinds of *effects*:

- `Send(to, message)`: a message to a named party. It may arrive late, twice, out of order or never;
  a protocol that needs more repeats itself until it is answered.
- `Do(act)`: an act on the agent's own host, such as starting a process. What comes of it is
  reported by a later event.
- `Note(fact)`: a fact to be kept. It is on disk before any effect after it leaves the host.

**The order of effects is a promise.** A driver carries them out in order, and a `Note` is a
barrier: if the host crashes before the note is on disk, nothing after it has happened; if it
crashes later, the fact is there when the agent starts again. So an agent puts the note first and
what rests on it after it: "run 7 of task web.0 goes to node-3" before the message that starts it.
An answer to somebody who asked for something to be kept follows its note for the same reason.

A `Send` marked `at_once` is the exception: it rests on no note, so a driver may send it while
notes before it still wait for the disk. An answer to a heartbeat is one: a full disk must not make
a whole cluster believe that its master is gone.

**Memory is a fold of notes.** What must survive a crash changes only by `apply(fact, now)` of the
agent's `Memory`, both when the agent decides and when it starts again: a driver's disk keeps the
facts (or what they fold to) and hands a fresh agent the result. `now` is what `handle` was given
when the fact was noted. Everything else an agent knows is lost in a crash and must be learnt
again.

**Time.** `now` is the agent's own clock, in seconds. Clocks of two hosts differ by anything, so no
message carries a point in time: a message says how *old* something is, and the receiver subtracts
that from its own `now`. `due` is when the agent next wants a `Wake`, or infinity; a driver reads
it after every `handle`. A wake may come late and never comes early.

**Connections.** Some protocols keep a connection between two parties. Each side is told when it
stands (`Connected`) and when it has broken (`Disconnected`); what one connection carries arrives
in order, or not at all. A side may hear of a break long after the other.

**Names.** Parties are known by name. A message that says who speaks does so in the field its class
names in `speaker`; a driver delivers it only if the connection it came by belongs to that party, so
that an agent may believe the field.

**Messages are registered.** Every value that crosses a wire or is kept in a log is a `Message`,
known by its protocol and its name ("central.Launch"), so that two protocols may use the same word.
The unions next to them (`ToMaster`, `ToNode`) say who may hear what; a driver refuses all else.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import msgspec

#: Every message by its key.
REGISTRY: dict[str, type[Message]] = {}


class Message(msgspec.Struct, frozen=True):
    """A value that is told, sent, done or kept. A protocol derives a base of its own and names
    itself there; the classes derived from that are registered."""

    #: The protocol the message belongs to; a class without one is a base.
    protocol: ClassVar[str] = ""
    #: The field that holds the name of the party that speaks, if the message has one.
    speaker: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.protocol and "protocol" not in cls.__dict__:
            key = f"{cls.protocol}.{cls.__name__}"
            assert key not in REGISTRY, f"{key} is defined twice"
            cls.key = key
            REGISTRY[key] = cls

    #: The name under which the class is registered.
    key: ClassVar[str] = ""


def speaker_of(message: Message) -> str | None:
    """The party a message says it comes from, or None if it does not say."""
    return str(getattr(message, message.speaker)) if message.speaker else None


class Common(Message, frozen=True):
    """What every protocol has."""

    protocol: ClassVar[str] = "agent"


class Wake(Common, frozen=True):
    """The time the agent asked to be woken at has come."""


class Connected(Common, frozen=True):
    """A connection to another party stands. Its number is larger than that of every one before."""

    peer: str
    session: int


class Disconnected(Common, frozen=True):
    """The connection of this number has broken; what was under way on it is lost."""

    peer: str
    session: int


class Send(msgspec.Struct, frozen=True):
    """A message to a named party."""

    to: str
    message: Message
    #: It rests on no note, and need not wait for those before it.
    at_once: bool = False


class Do(msgspec.Struct, frozen=True):
    """An act on the agent's own host."""

    act: Message


class Note(msgspec.Struct, frozen=True):
    """A fact that must be on disk before any effect after it leaves."""

    fact: Message


Effect = Send | Do | Note


class Memory(Protocol):
    """What an agent must know again after a crash."""

    def apply(self, fact: Any, now: float) -> None:
        """Change as a fact says that was noted at this time."""


class Agent(Protocol):
    """What a driver runs."""

    def handle(self, event: Message, now: float) -> list[Effect]:
        """Take one event; return what it causes, in order."""

    @property
    def due(self) -> float:
        """When it next wants a `Wake`; infinity if only an event can change anything."""
