"""An API server in virtual time that shows a scheduler what a recording showed, but for the pods
that are scheduled again: those are where the scheduler has put them.

A pod that ended by itself runs as long as it did, from when it is bound here. One that was deleted
is deleted when it was. One that is evicted here and has a controller is made again under another
name at once, and leaves when the recorded one did.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from murmuration.experiments.recordings.history import ClusterHistory, PodHistory, uid_of
from murmuration.kubernetes.objects import Object, controller_of, name_of
from murmuration.kubernetes.snapshot import is_alive
from murmuration.schedulers.agent import Agent, Message
from murmuration.schedulers.pods.messages import (
    BindingEnded,
    BindPod,
    EvictionEnded,
    EvictPod,
    LookAtPod,
    PodLooked,
    ThingLost,
    ThingSeen,
    ThingsListed,
)
from murmuration.simulation.messages.drive import Party, VirtualDriver

POD = "Pod"


@dataclass
class ReplayedPod:
    """A pod that is scheduled again."""

    history: PodHistory
    came_s: float
    #: As last shown, but for its node.
    thing: Object
    key: str
    uid: str
    node: str = ""
    bound_s: float = math.inf
    #: It has ended, was deleted, or was evicted.
    over_s: float = math.inf

    def shown(self, name: str) -> dict[str, object]:
        """As the API shows it here."""
        spec = {k: v for k, v in self.thing["spec"].items() if k != "nodeName"}
        spec |= {"schedulerName": name} | ({"nodeName": self.node} if self.node else {})
        metadata = {**self.thing["metadata"], "uid": self.uid}
        metadata["name"] = self.key.partition("/")[2]
        phase = "Running" if self.node else "Pending"
        return {**self.thing, "metadata": metadata, "spec": spec, "status": {"phase": phase}}


@dataclass
class ReplayedApi(Party):
    """The server and the scheduler's hands in one: what is asked for is done at once."""

    history: ClusterHistory
    driver: VirtualDriver
    make_agent: Callable[[], Agent]
    #: Of which pods the schedule is made again.
    is_ours: Callable[[PodHistory], bool]
    #: The schedulerName under which they are shown.
    scheduler: str = "murmuration"
    name: str = "scheduler"
    disk: None = None
    #: Pods by identity; those that were evicted stay, and their successors join them.
    pods: dict[str, ReplayedPod] = field(default_factory=dict)
    #: The one that stands for a recorded pod by now.
    current: dict[str, ReplayedPod] = field(default_factory=dict)
    #: Every binding in order.
    bindings: list[tuple[str, str]] = field(default_factory=list)

    def start(self, memory: object, life: int) -> Agent:
        return self.make_agent()

    def play(self) -> None:
        """Post everything that was recorded, at its time."""
        for at_s, event in self.history.events:
            self.driver.at(at_s, self._show, event)

    # What the recording shows.

    def _show(self, event: Message) -> None:
        match event:
            case ThingsListed(kind, things) if kind == POD:
                self._list(things)
            case ThingSeen(kind, thing) if kind == POD:
                self._see(thing)
            case ThingLost(kind, thing) if kind == POD and uid_of(thing) in self.current:
                self._end(self.current[uid_of(thing)])
            case _:
                self.driver.tell(self.name, event)

    def _list(self, things: list[dict[str, object]]) -> None:
        """All pods there are: those that are scheduled again are not what was listed."""
        others = [thing for thing in things if not self._is_rescheduled(thing)]
        for thing in things:
            if self._is_rescheduled(thing):
                self._learn(thing)
        listed = {uid_of(thing) for thing in things}
        for uid, pod in self.current.items():
            if uid not in listed:
                pod.over_s = min(pod.over_s, self.driver.now)
        mine = [p.shown(self.scheduler) for p in self.current.values() if p.over_s == math.inf]
        self.driver.tell(self.name, ThingsListed(POD, [*others, *mine]))

    def _see(self, thing: Object) -> None:
        if not self._is_rescheduled(thing):
            self.driver.tell(self.name, ThingSeen(POD, dict(thing)))
            return
        pod = self._learn(thing)
        if pod.over_s == math.inf:
            self._tell(pod)

    def _is_rescheduled(self, thing: Object) -> bool:
        pod = self.history.pods.get(uid_of(thing))
        return pod is not None and self.is_ours(pod)

    def _learn(self, thing: Object) -> ReplayedPod:
        uid = uid_of(thing)
        if uid not in self.current:
            pod = ReplayedPod(self.history.pods[uid], self.driver.now, thing, name_of(thing), uid)
            self.pods[uid] = self.current[uid] = pod
        pod = self.current[uid]
        if is_alive(thing) or pod.history.leaving:
            pod.thing = thing
        return pod

    def _tell(self, pod: ReplayedPod) -> None:
        self.driver.tell(self.name, ThingSeen(POD, pod.shown(self.scheduler)))

    def _end(self, pod: ReplayedPod) -> None:
        # A pod that ran to its end where it was recorded may still be running here.
        if pod.over_s == math.inf and not (pod.node and math.isfinite(pod.history.run_s)):
            self._finish(pod)

    def _finish(self, pod: ReplayedPod) -> None:
        if pod.over_s == math.inf:
            pod.over_s = self.driver.now
            self.driver.tell(self.name, ThingLost(POD, pod.shown(self.scheduler)))

    # What the scheduler asks for.

    def do(self, act: Message) -> None:
        match act:
            case BindPod(key, uid, node):
                self._answer(BindingEnded(key, uid, self._bind(uid, node)))
            case EvictPod(key, uid):
                self._answer(EvictionEnded(key, uid, self._evict(uid)))
            case LookAtPod(key, flight):
                pod = next((p for p in self.current.values() if p.key == key), None)
                self._answer(PodLooked(key, flight, pod.shown(self.scheduler) if pod else None))

    def _answer(self, event: Message) -> None:
        """An answer is an event of its own, after what is being handled."""
        self.driver.at(self.driver.now, self.driver.tell, self.name, event)

    def _bind(self, uid: str, node: str) -> str:
        pod = self.pods.get(uid)
        if pod is None or pod.node or pod.over_s < math.inf:
            return "refused"
        pod.node, pod.bound_s = node, self.driver.now
        self.bindings.append((pod.key, node))
        self.driver.at(self.driver.now, self._tell, pod)
        if math.isfinite(pod.history.run_s):
            self.driver.at(self.driver.now + pod.history.run_s, self._finish, pod)
        return "bound"

    def _evict(self, uid: str) -> str:
        pod = self.pods.get(uid)
        if pod is None or pod.over_s < math.inf:
            # Pods that are not scheduled again stay where they were recorded.
            return "refused"
        self.driver.at(self.driver.now, self._finish, pod)
        if controller_of(pod.thing) is not None:
            self._make_again(pod)
        return "gone"

    def _make_again(self, pod: ReplayedPod) -> None:
        count = sum(other.history is pod.history for other in self.pods.values())
        key, uid = f"{pod.history.key}-again-{count}", f"{pod.history.uid}-{count}"
        again = ReplayedPod(pod.history, self.driver.now, pod.thing, key, uid)
        self.pods[uid] = self.current[pod.history.uid] = again
        self.driver.at(self.driver.now, self._tell, again)
