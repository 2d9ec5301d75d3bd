"""What a scheduler of pods is told, and what it asks to be done."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from murmuration.schedulers.agent import Message


class PodMessage(Message, frozen=True):
    protocol: ClassVar[str] = "pods"


# Told by the API.


class ThingsListed(PodMessage, frozen=True):
    """These are all objects of a kind there are."""

    kind: str
    things: list[dict[str, object]]


class ThingSeen(PodMessage, frozen=True):
    """An object is there, new or changed."""

    kind: str
    thing: dict[str, object]


class ThingLost(PodMessage, frozen=True):
    """An object is gone."""

    kind: str
    thing: dict[str, object]


class PodLooked(PodMessage, frozen=True):
    """How a pod is now, as the API said when asked because of a flight; None if there is none."""

    pod: str
    flight: int
    thing: dict[str, object] | None


class BindingEnded(PodMessage, frozen=True):
    """What came of a binding: "bound", "refused" (nothing happened), "conflict" (another scheduler
    was at the node first, nothing happened), or "unknown"."""

    pod: str
    uid: str
    outcome: str
    reason: str = ""


class EvictionEnded(PodMessage, frozen=True):
    """What came of an eviction: "gone", or "refused"."""

    pod: str
    uid: str
    outcome: str
    reason: str = ""


class LeaseSeen(PodMessage, frozen=True):
    """The lease as it is; without a version there is none, or it could not be read."""

    holder: str = ""
    transitions: int = 0
    version: str = ""
    exists: bool = False
    readable: bool = True
    #: Who has asked the holder to let it have the lease.
    asked_by: str = ""


class LeaseWritten(PodMessage, frozen=True):
    """What came of writing the lease: "written" with its version, "refused", or "unknown"."""

    outcome: str
    version: str = ""


# Asked to be done.


class NodeCommit(msgspec.Struct, frozen=True):
    """What a binding rests on where several schedulers share a cluster: the version of the node's
    ledger (empty: there is none), and the claims that must stay in it (pod, identity, by whom)."""

    version: str
    keep: tuple[tuple[str, str, str], ...] = ()


class BindPod(PodMessage, frozen=True):
    """Bind a pod to a node; not after `until` of the agent's clock, for then another may lead."""

    pod: str
    uid: str
    node: str
    until: float
    epoch: int = 0
    #: Claims that must get their volume first.
    claims: tuple[str, ...] = ()
    commit: NodeCommit | None = None
    #: Those of them that get a volume which is there already, and which.
    volumes: tuple[tuple[str, str], ...] = ()


class LookAtPod(PodMessage, frozen=True):
    """Ask how a pod is now, to learn what became of a flight."""

    pod: str
    flight: int


class TellScheduled(PodMessage, frozen=True):
    """Write an event: the pod was given a node."""

    pod: str
    uid: str
    node: str


class TellPending(PodMessage, frozen=True):
    """Say on the pod why it waits: as a condition, and as an event."""

    pod: str
    uid: str
    reason: str
    sentence: str


class EvictPod(PodMessage, frozen=True):
    """Evict a pod by the eviction API, which keeps disruption budgets."""

    pod: str
    uid: str
    sentence: str
    until: float


class ReadLease(PodMessage, frozen=True):
    """Read the lease that says who leads."""


class AskForLease(PodMessage, frozen=True):
    """Write our name beside the holder's, so that it lets us have the lease."""


class WriteLease(PodMessage, frozen=True):
    """Write ourselves into the lease, if it still has this version (empty: there is none)."""

    holder: str
    transitions: int
    version: str
    renewal: bool = False


ToPods = (
    ThingsListed
    | ThingSeen
    | ThingLost
    | PodLooked
    | BindingEnded
    | EvictionEnded
    | LeaseSeen
    | LeaseWritten
)
