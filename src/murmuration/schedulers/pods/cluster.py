"""What a scheduler of pods asks of the cluster it decides on, and what it is told of pods.

The rules of Kubernetes are kept elsewhere (`kubernetes/`): here a pod is a name, a size and a set
of nodes it may use.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from murmuration.base.arrays import Amounts, Flags, Floats
from murmuration.placement.view import View
from murmuration.schedulers.pods.messages import NodeCommit

#: An object as the API writes it.
Thing = Mapping[str, Any]


@dataclass(frozen=True)
class PodInfo:
    """A pod that waits for a node."""

    key: str
    uid: str
    priority: int = 0
    #: When it was made, as the API writes it: of two that are equal the older goes first.
    created: str = ""
    #: The gang it belongs to, empty for none, and how many pods a gang needs.
    gang: str = ""
    gang_size: int = 1
    production: bool = True
    #: The job it is a task of: its controller, or what stands for it.
    service: str = ""


@dataclass(frozen=True)
class PodWaits:
    """A pod of ours waits, new or changed."""

    info: PodInfo


@dataclass(frozen=True)
class PodLies:
    """The API shows a pod on a node."""

    key: str
    uid: str
    node: str
    gang: str = ""


@dataclass(frozen=True)
class PodGone:
    """A pod is no more, or is not ours any more."""

    key: str
    uid: str


@dataclass(frozen=True)
class RoomChanged:
    """Something else changed that may open a node to a pod."""


@dataclass(frozen=True)
class SchedulerSeen:
    """A scheduler that shares the cluster has renewed its lease."""

    name: str


@dataclass(frozen=True)
class SchedulerGone:
    """A scheduler that shared the cluster has given up its lease."""

    name: str


PodFact = PodWaits | PodLies | PodGone | RoomChanged | SchedulerSeen | SchedulerGone


@dataclass(frozen=True)
class Victims:
    """The pods on a node that would have to go for another."""

    node: str
    #: Their names and identities, the least important first.
    pods: tuple[tuple[str, str], ...]


class PodCluster(Protocol):
    """The cluster, as far as a scheduler of pods must know it."""

    def replace(self, kind: str, things: Sequence[Thing]) -> list[PodFact]:
        """These are all objects of a kind there are."""

    def see(self, kind: str, thing: Thing) -> list[PodFact]:
        """An object is there, new or changed."""

    def lose(self, kind: str, thing: Thing) -> list[PodFact]:
        """An object is gone."""

    def blocked(self, key: str) -> str:
        """Why a pod goes nowhere, whatever room there is; empty if it may."""

    def shape(self, key: str) -> Hashable | None:
        """What pods that are decided on together have in common; None: decided on alone."""

    def request(self, key: str) -> Amounts:
        """What a pod asks for."""

    def view(self, key: str, now: float) -> View:
        """The nodes as they are for a pod."""

    def mask(self, nodes: Collection[str]) -> Flags:
        """The rows of these nodes."""

    def penalty(self, key: str) -> Floats | None:
        """What a pod pays on each node for what it would rather have; None if all are alike."""

    def reasons(self, key: str) -> Sequence[tuple[str, Flags]]:
        """What rules nodes out for a pod, room aside, with the nodes each reason leaves."""

    def assume(self, key: str, node: str) -> None:
        """A pod goes to a node and counts there from now on."""

    def forget(self, key: str) -> None:
        """It does not go there after all."""

    def replicas(self, services: Collection[str]) -> Sequence[tuple[str, str]]:
        """The pods of these jobs that have a node: the job and the node of each."""

    def claims_to_bind(self, key: str) -> Sequence[tuple[str, str]]:
        """The claims of a pod that wait for it to get a node, which it has now, each with the
        volume it gets; empty for one that its class makes."""

    def victims(self, key: str, taken: Collection[str]) -> Victims | None:
        """Whom a pod may drive out, and from where, but for nodes that are taken; None if that
        would not help."""

    # Where several schedulers share a cluster.

    def commit(self, node: str) -> NodeCommit | None:
        """What a binding to a node rests on; None if nobody else binds anything."""

    def on_conflict(self, node: str, version: str) -> None:
        """A binding was decided on what is out of date: the node is closed until that is known."""

    def unknown_pods(self) -> Sequence[tuple[str, str]]:
        """Pods that others are about to bind and that were never seen: names and identities."""

    def never(self, uid: str) -> list[PodFact]:
        """There is no such pod, and will be none."""
