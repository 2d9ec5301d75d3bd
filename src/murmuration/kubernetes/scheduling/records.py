"""A pod as the cluster keeps it, and how it is read."""

from __future__ import annotations

from dataclasses import dataclass

from murmuration.assignment.snapshots.builder import TaskEntry
from murmuration.base.errors import InputError
from murmuration.kubernetes.claims.volumes import DISKS
from murmuration.kubernetes.objects import Object, name_of
from murmuration.kubernetes.snapshot import Reader, make_reader

#: Reads pods that have nothing to do with other objects.
ALONE = make_reader({"Node": []})
#: Volumes that other objects tell more of.
ELSEWHERE = {"persistentVolumeClaim", "ephemeral", *DISKS}


@dataclass
class PodRecord:
    """A pod that is alive."""

    uid: str
    thing: Object
    task: TaskEntry
    #: Where it lies or is going to; empty while nobody has said.
    node: str = ""
    #: Given a node by us, and not yet seen there.
    assumed: bool = False
    leaving: bool = False
    #: Nodes that other schedulers are about to bind it to.
    claimed: frozenset[str] = frozenset()
    #: The nodes it stands under, and those of them where the table counts it.
    places: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    #: The only node it may go to, if a plan says so.
    planned: str = ""

    def where(self) -> tuple[str, ...]:
        """The nodes it counts on: where it lies, or else where it may soon."""
        if self.node and not self.assumed:
            return (self.node,)
        return tuple(dict.fromkeys([*([self.node] if self.node else []), *sorted(self.claimed)]))

    def is_of(self, thing: Object) -> bool:
        """Whether an object is this very pod, not one that has taken its name."""
        return self.uid == str(thing["metadata"].get("uid") or name_of(thing))

    def is_bound(self) -> bool:
        """Whether the API has shown it on a node."""
        return bool(self.node) and not self.assumed


def read_pod(reader: Reader, pod: Object) -> TaskEntry:
    try:
        return reader.task(pod)
    except InputError as error:
        # One odd pod must not keep the others from being scheduled.
        amounts = {"cpu": 0.0, "memory": 0.0, "pods": 1.0}
        return TaskEntry(name_of(pod), amounts, "", wants="pinned", pinned=str(error), source=pod)


def needs_others(pod: Object) -> bool:
    spec = pod.get("spec") or {}
    claims = any(ELSEWHERE & volume.keys() for volume in spec.get("volumes") or ())
    return claims or bool(spec.get("resourceClaims"))
