"""The history of a recorded cluster: for each pod when it came, got a node and left; for everything
else what was shown when."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from murmuration.base.errors import InputError
from murmuration.kubernetes.objects import Object, name_of
from murmuration.kubernetes.recording.log import ClusterLog, RecordLine
from murmuration.kubernetes.snapshot import is_alive
from murmuration.schedulers.agent import Message
from murmuration.schedulers.pods.messages import ThingLost, ThingSeen, ThingsListed

POD = "Pod"


@dataclass
class PodHistory:
    """One pod, as it was recorded."""

    key: str
    uid: str
    came_s: float
    scheduler: str
    #: Whether it was ever seen without a node: only then was there anything to decide.
    waited: bool
    node: str = ""
    bound_s: float = math.inf
    #: When it ended by itself: its run is that long wherever it runs.
    ended_s: float = math.inf
    leaving: bool = False

    @property
    def run_s(self) -> float:
        """How long it ran before it ended by itself; infinity if it did not."""
        return self.ended_s - self.bound_s if math.isfinite(self.ended_s) else math.inf


@dataclass
class ClusterHistory:
    """Everything that was shown, in order, and the pods by identity. Seconds count from the first
    line."""

    events: list[tuple[float, Message]] = field(default_factory=list)
    pods: dict[str, PodHistory] = field(default_factory=dict)
    end_s: float = 0.0
    _there: dict[str, str] = field(default_factory=dict)

    def add(self, line: RecordLine, at_s: float) -> None:
        self.end_s = at_s
        match line.what:
            case ThingsListed(kind, things):
                self.events.append((at_s, line.what))
                if kind == POD:
                    for thing in things:
                        self._see(thing, at_s)
            case ThingSeen(kind, thing):
                self.events.append((at_s, line.what))
                if kind == POD:
                    self._see(thing, at_s)
            case ThingLost():
                self.events.append((at_s, line.what))

    def _see(self, thing: Object, at_s: float) -> None:
        spec, uid, node = thing["spec"], uid_of(thing), str(thing["spec"].get("nodeName") or "")
        if uid not in self.pods:
            if not is_alive(thing):
                return
            name = str(spec.get("schedulerName") or "")
            self.pods[uid] = PodHistory(name_of(thing), uid, at_s, name, waited=not node)
        pod = self.pods[uid]
        if node and not pod.node:
            pod.node, pod.bound_s = node, at_s
        pod.leaving = pod.leaving or bool(thing["metadata"].get("deletionTimestamp"))
        if not is_alive(thing) and not pod.leaving and pod.node:
            # A pod that was told to go ends too, but then not by itself.
            pod.ended_s = min(pod.ended_s, at_s)


def read_history(log: ClusterLog) -> ClusterHistory:
    """What a recording tells of the cluster, whoever wrote it."""
    history, first_s = ClusterHistory(), math.nan
    for line in log:
        first_s = line.at_s if math.isnan(first_s) else first_s
        history.add(line, line.at_s - first_s)
    if not any(isinstance(e, ThingsListed) and e.kind == "Node" for _, e in history.events):
        raise InputError(f"{log.path}: the recording ends before the nodes were listed")
    return history


def uid_of(thing: Object) -> str:
    return str(thing["metadata"].get("uid") or name_of(thing))
