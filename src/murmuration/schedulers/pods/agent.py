"""The scheduler of pods as an agent: told what the API shows, it answers with bindings.

**One loop.** Everything the API shows goes into the cluster (`PodCluster`) at once. Decisions are
made when the agent is woken, so that what arrives together is decided on together: pods are taken
by priority and age, those that are alike as one job, and each decision is the policy's own
`decide(view, job, rng)`. What it decides counts at once (*assumed*), so the next decision sees it.

**What is under way.** A binding that was accepted counts until the API shows the pod. One that was
refused is forgotten, and the pod waits again. One whose answer was lost may have happened: the pod
counts on its node until the API, asked, has said where it is.

**Who leads** is decided by a lease (`leadership.py`). A scheduler that does not lead follows
everything and decides nothing; every binding says until when it may be sent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from murmuration.base.errors import InputError
from murmuration.placement.registry import Placement
from murmuration.schedulers.agent import Do, Effect, Message, Wake
from murmuration.schedulers.pods.batches import PodBatches
from murmuration.schedulers.pods.cluster import (
    PodCluster,
    PodFact,
    PodGone,
    PodInfo,
    PodLies,
    PodWaits,
    RoomChanged,
    SchedulerGone,
    SchedulerSeen,
)
from murmuration.schedulers.pods.deciding import Decider
from murmuration.schedulers.pods.explain import explain_pod
from murmuration.schedulers.pods.gangs import RELEASE_S, Gangs
from murmuration.schedulers.pods.leadership import Leadership
from murmuration.schedulers.pods.members import Members
from murmuration.schedulers.pods.messages import (
    BindingEnded,
    BindPod,
    EvictionEnded,
    EvictPod,
    LeaseSeen,
    LeaseWritten,
    LookAtPod,
    PodLooked,
    TellPending,
    TellScheduled,
    ThingLost,
    ThingSeen,
    ThingsListed,
)
from murmuration.schedulers.pods.promises import Promise
from murmuration.schedulers.pods.queue import PodQueue, WaitingPod

POD = "Pod"
#: Pods looked at in one round; then bindings leave, and what was told meanwhile is heard.
ROUND = 256
#: Bindings under way at once: more would only wait in line at the server.
FLYING_MAX = 512
#: A binding that was accepted is shown by the API within this time, or asked for.
SHOWN_S = 30.0
#: How long after a binding without an answer the API is asked where the pod is, and how often.
LOOK_S = 2.0
#: Stands for the flight of a pod that others are about to bind.
NO_FLIGHT = 0


@dataclass(frozen=True)
class PodSettings:
    """How a scheduler of pods works."""

    #: The kinds of objects that must be known before anything is decided.
    kinds: frozenset[str] = frozenset({"Node", POD})
    #: Whether pods may drive out others of lower priority.
    preempt: bool = False
    #: Whether what pods would rather have is weighed, before the policy chooses.
    preferences: bool = True
    gang_release_s: float = RELEASE_S


@dataclass
class Flight:
    """A binding that was sent, until the API shows the pod."""

    pod: WaitingPod
    node: str
    #: Tells it from an earlier flight of the same pod: an answer about that one says nothing here.
    number: int
    #: When to ask where the pod is.
    look_s: float
    #: The version of the node's ledger that it rests on, where there are ledgers.
    version: str = ""
    accepted: bool = False


@dataclass
class PodScheduler:
    """Decides where pods go."""

    cluster: PodCluster
    placement: Placement
    rng: np.random.Generator
    leadership: Leadership
    settings: PodSettings = field(default_factory=PodSettings)
    members: Members = field(default_factory=Members)
    #: Gathers pods and places them together; None: each is decided on as soon as it can be.
    batches: PodBatches | None = None
    queue: PodQueue = field(default_factory=PodQueue)
    decider: Decider = field(init=False)
    gangs: Gangs = field(init=False)
    flying: dict[str, Flight] = field(default_factory=dict)
    #: Counts for reports: what became of bindings.
    counts: dict[str, int] = field(default_factory=dict)
    _missing: set[str] = field(init=False)
    #: Shapes that no node has room for as things are, and why.
    _hopeless: dict[object, str] = field(default_factory=dict)
    #: Bindings the API has shown before it answered.
    _bound: dict[tuple[str, str], str] = field(default_factory=dict)
    #: Pods that wait for other schedulers.
    _others: dict[str, PodInfo] = field(default_factory=dict)
    #: When to ask for pods that others are about to bind and that were never seen.
    _wonder_s: float = math.inf
    _flights: int = 0
    _now: float = -math.inf

    def __post_init__(self) -> None:
        self._missing = set(self.settings.kinds)
        self.gangs = Gangs(self.settings.gang_release_s)
        self.decider = Decider(self.cluster, self.placement, self.rng, self.settings.preferences)

    # The contract.

    def handle(self, event: Message, now: float) -> list[Effect]:
        self._now = now
        effects = self._react(event, now)
        if self.batches is not None:
            self.batches.wait(self.queue.due(now) <= now, now)
        return effects

    def _react(self, event: Message, now: float) -> list[Effect]:
        match event:
            case Wake():
                return self._wake(now)
            case ThingsListed(kind, things):
                self._missing.discard(kind)
                return self._learn(self.cluster.replace(kind, things), now)
            case ThingSeen(kind, thing):
                return self._learn(self.cluster.see(kind, thing), now)
            case ThingLost(kind, thing):
                return self._learn(self.cluster.lose(kind, thing), now)
            case BindingEnded():
                return self._on_binding(event, now)
            case PodLooked():
                return self._on_look(event, now)
            case EvictionEnded():
                return self._on_eviction(event)
            case LeaseSeen():
                return self.leadership.see(event, now)
            case LeaseWritten():
                return self.leadership.on_written(event, now)
        raise AssertionError(f"a scheduler of pods does not hear {event.key}")

    @property
    def due(self) -> float:
        times = [self.leadership.due, self._looks_due(), self.members.due, self._wonder_s]
        if self.leadership.leads(self._now) and not self._missing:
            times.append(self.gangs.due())
            if len(self.flying) < FLYING_MAX:
                times.append(self._queue_due())
        return min(times)

    def _queue_due(self) -> float:
        """When pods are to be decided on: at once, or when their batch ends."""
        due = self.queue.due(self._now)
        return due if self.batches is None or due > self._now else self.batches.ends_s

    # What the API shows.

    def _learn(self, facts: Sequence[PodFact], now: float) -> list[Effect]:
        for fact in facts:
            match fact:
                case PodWaits(info):
                    self._on_waits(info)
                case PodLies(key, uid, _, gang):
                    self._on_lies(key, uid, gang)
                case PodGone(key, _):
                    self.queue.remove(key)
                    self._others.pop(key, None)
                    self.flying.pop(key, None)
                    self.gangs.goes(key)
                    self.decider.promises.end(key)
                    self._on_victim(key)
                    self._on_room()
                case RoomChanged():
                    self._on_room()
                case SchedulerSeen(name):
                    if self.members.see(name, now):
                        self._share()
                case SchedulerGone(name):
                    if self.members.lose(name):
                        self._share()
        if self._wonder_s == math.inf and self.cluster.unknown_pods():
            self._wonder_s = now + LOOK_S
        return []

    def _on_waits(self, info: PodInfo) -> None:
        if not self.members.takes(info):
            self.queue.remove(info.key)
            self._others[info.key] = info
            return
        self._others.pop(info.key, None)
        if info.key not in self.flying:
            self.queue.add(info)
        if info.gang:
            self._meet(info.gang, info.key, info.gang_size)

    def _share(self) -> None:
        """Another scheduler has come or gone: pods change hands. Those that rest go on resting."""
        for info in list(self._others.values()):
            if self.members.takes(info):
                self._on_waits(info)
        for pod in list(self.queue.pods.values()):
            if not self.members.takes(pod.info):
                self._on_waits(pod.info)

    def _meet(self, name: str, key: str, size: int) -> None:
        """A member of a gang has come: the others need not rest any more."""
        self.gangs.waits(name, key, size)
        for other in self.gangs.gangs[name].waiting:
            if other in self.queue.pods:
                self.queue.wake(other)

    def _on_lies(self, key: str, uid: str, gang: str) -> None:
        flight = self.flying.pop(key, None)
        if flight is not None and not flight.accepted:
            self._count("bound")
            self._bound[key, uid] = flight.node
        self._others.pop(key, None)
        if self.queue.remove(key) is not None:
            self._count("bound by others")
        if gang:
            self.gangs.lies(gang, key, uid)

    def _on_room(self) -> None:
        self._hopeless.clear()
        self.queue.on_room()

    # What came of what was asked for.

    def _on_binding(self, event: BindingEnded, now: float) -> list[Effect]:
        flight = self.flying.get(event.pod)
        if flight is None or flight.pod.info.uid != event.uid:
            # The API has shown the pod already, or that it is gone.
            return self._shown(event)
        if event.outcome == "bound":
            self._count("bound")
            flight.accepted, flight.look_s = True, now + SHOWN_S
            return [Do(TellScheduled(event.pod, event.uid, flight.node))]
        if event.outcome == "unknown":
            flight.look_s = now + LOOK_S
            return []
        if event.outcome == "conflict":
            self._count("conflicts")
            self.cluster.on_conflict(flight.node, flight.version)
            self._take_back(event.pod, now)
            # It was beaten, not refused: it may go elsewhere at once.
            self.queue.wake(event.pod)
            return []
        self._count("refused")
        self._take_back(event.pod, now)
        return []

    def _shown(self, event: BindingEnded) -> list[Effect]:
        node = self._bound.pop((event.pod, event.uid), "")
        if event.outcome == "bound" and node:
            return [Do(TellScheduled(event.pod, event.uid, node))]
        return []

    def _on_look(self, event: PodLooked, now: float) -> list[Effect]:
        if event.flight == NO_FLIGHT:
            return self._on_unknown(event, now)
        flight = self.flying.get(event.pod)
        if flight is None or flight.number != event.flight or event.thing is None:
            # Of a pod that is gone the watch will tell; until then its room is not given away.
            return []
        spec = event.thing.get("spec")
        if isinstance(spec, dict) and spec.get("nodeName"):
            return self._learn(self.cluster.see(POD, event.thing), now)
        # The binding had ended, one way or the other, when the API was asked: it has not happened.
        self._take_back(event.pod, now)
        return []

    def _on_unknown(self, event: PodLooked, now: float) -> list[Effect]:
        """A pod that others are about to bind and that was never seen: if it is there the watch
        will show it; if it is not, it will never be."""
        metadata = (event.thing or {}).get("metadata")
        there = metadata.get("uid") if isinstance(metadata, dict) else None
        for key, uid in list(self.cluster.unknown_pods()):
            if key == event.pod and uid != there:
                self._learn(self.cluster.never(uid), now)
        return []

    def _take_back(self, key: str, now: float) -> None:
        """A binding has not happened: the pod waits again."""
        flight = self.flying.pop(key)
        self.cluster.forget(key)
        self.queue.put_back(flight.pod)
        self.queue.rest(flight.pod, now)
        if flight.pod.info.gang:
            self.gangs.waits(flight.pod.info.gang, key, flight.pod.info.gang_size)
        self._on_room()

    def _on_eviction(self, event: EvictionEnded) -> list[Effect]:
        if event.outcome == "refused":
            self._on_victim(event.pod)
        return []

    def _on_victim(self, key: str) -> None:
        """A pod that was asked to go has gone, or will not."""
        waiting = self.decider.promises.go(key)
        if waiting in self.queue.pods:
            self.queue.wake(waiting)

    # Time.

    def _wake(self, now: float) -> list[Effect]:
        effects = self.leadership.wake(now)
        for key, flight in self.flying.items():
            if flight.look_s <= now:
                flight.look_s = now + LOOK_S
                effects.append(Do(LookAtPod(key, flight.number)))
        if self.members.expire(now):
            self._share()
        if self._wonder_s <= now:
            unknown = self.cluster.unknown_pods()
            self._wonder_s = now + LOOK_S if unknown else math.inf
            effects += [Do(LookAtPod(key, NO_FLIGHT)) for key, _ in unknown]
        if not self._missing and self.leadership.leads(now):
            effects += self._release(now)
            self.queue.refill(now)
            if self.batches is None:
                effects += self._round(now)
            elif self.batches.ends_s <= now:
                self.batches.ends_s = math.inf
                effects += self._place_batch(self.batches, now)
        return effects

    def _looks_due(self) -> float:
        return min((flight.look_s for flight in self.flying.values()), default=math.inf)

    def _release(self, now: float) -> list[Effect]:
        until = self.leadership.leads_until()
        effects: list[Effect] = []
        for name, key, uid in self.gangs.release(now):
            if key not in self.flying:
                sentence = f"gang {name} could not be completed: its members are released"
                effects.append(Do(EvictPod(key, uid, sentence, until)))
        return effects

    # One round of decisions.

    def _round(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        looked = 0
        kept: WaitingPod | None = None
        while looked < ROUND and len(self.flying) < FLYING_MAX:
            first, kept = kept or self.queue.take(), None
            if first is None:
                break
            if first.info.gang:
                looked += len(self.gangs.gangs[first.info.gang].waiting)
                effects += self._place_gang(first, now)
                continue
            job, kept = self._gather(first, ROUND - looked)
            looked += len(job)
            effects += self._place(job, now)
        if kept is not None:
            self.queue.wake(kept.info.key)
        return effects

    def _place_batch(self, batches: PodBatches, now: float) -> list[Effect]:
        """Place the pods that wait as a whole; those that rules between pods concern, and gangs of
        unlike pods, are decided on after that, one after the other."""
        pods: list[WaitingPod] = []
        while len(pods) < min(batches.settings.tasks_max, FLYING_MAX - len(self.flying)):
            pod = self.queue.take()
            if pod is None:
                break
            pods.append(pod)
        jobs, alone = batches.gather(self.decider, self.gangs, pods)
        effects: list[Effect] = []
        for job, nodes in zip(jobs, batches.decide(self.decider, jobs, now), strict=True):
            for pod, node in zip(job.pods, nodes, strict=False):
                self.cluster.assume(pod.info.key, node)
                effects.append(self._fly(pod, node, now))
            # A pod without a node after the batch is asked about by itself, for the reason.
            alone += job.pods[len(nodes) :]
        for pod in alone:
            if pod.info.key not in self.queue.pods or pod.rests_until > now:
                continue  # Its gang was decided on with another of its pods.
            placed = self._place_gang(pod, now) if pod.info.gang else self._place([pod], now)
            effects += placed
        return effects

    def _gather(
        self, first: WaitingPod, count_max: int
    ) -> tuple[list[WaitingPod], WaitingPod | None]:
        """The pods next in line that are tasks of one job, and the first that is not."""
        job = [first]
        if self.cluster.blocked(first.info.key):
            return job, None
        shape = self.cluster.shape(first.info.key)
        while shape is not None and len(job) < count_max:
            other = self.queue.take()
            if other is None:
                break
            if not self._is_alike(first, other, shape):
                return job, other
            job.append(other)
        return job, None

    def _is_alike(self, first: WaitingPod, other: WaitingPod, shape: object) -> bool:
        a, b = first.info, other.info
        return (
            (a.service, a.priority, b.gang) == (b.service, b.priority, "")
            and not self.cluster.blocked(b.key)
            and self.cluster.shape(b.key) == shape
        )

    def _place(self, job: list[WaitingPod], now: float) -> list[Effect]:
        """Decide on pods that are alike; those that find no node rest."""
        first = job[0]
        blocked = self.cluster.blocked(first.info.key)
        shape = None if blocked else self.cluster.shape(first.info.key)
        nodes: list[str] = []
        error = ""
        if not blocked and (shape is None or shape not in self._hopeless):
            try:
                nodes = self.decider.decide(job, now)
            except InputError as failure:
                error = str(failure)
        effects = [self._fly(pod, node, now) for pod, node in zip(job, nodes, strict=False)]
        for pod in job[len(nodes) :]:
            why = error or self._why(pod, shape, now)
            effects += self._wait(pod, why, now, may_drive=not error and not blocked)
        return effects

    def _why(self, pod: WaitingPod, shape: object, now: float) -> str:
        """Why a pod finds no node; what holds for one holds for all that are alike."""
        if shape is not None and shape in self._hopeless:
            return self._hopeless[shape]
        job = self.decider.job_view([pod])
        sentence = explain_pod(self.cluster, pod.info.key, self.placement, job, now).sentence()
        if shape is not None:
            self._hopeless[shape] = sentence
        return sentence

    def _fly(self, pod: WaitingPod, node: str, now: float) -> Effect:
        """Bind a pod that was given a node."""
        info = pod.info
        self.queue.remove(info.key)
        self.decider.promises.end(info.key)
        until = self.leadership.leads_until()
        self._flights += 1
        commit = self.cluster.commit(node)
        version = "" if commit is None else commit.version
        self.flying[info.key] = Flight(pod, node, self._flights, math.inf, version)
        pairs = tuple(self.cluster.claims_to_bind(info.key))
        claims = tuple(claim for claim, _ in pairs)
        if info.gang:
            self.gangs.lies(info.gang, info.key, info.uid)
        epoch = self.leadership.epoch
        volumes = tuple(pair for pair in pairs if pair[1])
        return Do(BindPod(info.key, info.uid, node, until, epoch, claims, commit, volumes))

    def _wait(self, pod: WaitingPod, why: str, now: float, may_drive: bool) -> list[Effect]:
        """A pod found no node: say why if that is new, and let it rest."""
        self.queue.rest(pod, now)
        effects = self._tell(pod, why)
        if self.settings.preempt and may_drive:
            effects += self._drive_out(pod)
        return effects

    def _tell(self, pod: WaitingPod, sentence: str) -> list[Effect]:
        if sentence == pod.told:
            return []
        pod.told = sentence
        return [Do(TellPending(pod.info.key, pod.info.uid, "Unschedulable", sentence))]

    def _drive_out(self, pod: WaitingPod) -> list[Effect]:
        """Ask pods of lower priority to go, unless those asked before are still on their way."""
        info = pod.info
        if self.decider.promises.is_kept_waiting(info.key):
            return []
        self.decider.promises.end(info.key)
        # Where room is being made for another, those who go are not there to go again.
        victims = self.cluster.victims(info.key, self.decider.promises.nodes())
        if victims is None:
            return []
        names = {key for key, _ in victims.pods}
        self.decider.promises.make(info.key, Promise(victims.node, info.priority, names))
        sentence = f"it makes room on {victims.node} for {info.key}, which has a higher priority"
        until = self.leadership.leads_until()
        return [Do(EvictPod(key, uid, sentence, until)) for key, uid in victims.pods]

    def _place_gang(self, first: WaitingPod, now: float) -> list[Effect]:
        """All members of a gang that wait, or none."""
        name = first.info.gang
        gang = self.gangs.gangs[name]
        members = [self.queue.pods[key] for key in gang.waiting if key in self.queue.pods]
        members.sort(key=lambda pod: pod.number)
        if not gang.is_complete():
            here = len(members) + len(gang.lying)
            return self._wait_all(
                members, f"{here} of {gang.size} pods of gang {name} are here", now
            )
        placed: list[tuple[WaitingPod, str]] = []
        for pod in members:
            sentence = self._place_member(pod, placed, now)
            if sentence:
                for other, _ in placed:
                    self.cluster.forget(other.info.key)
                missing = f"gang {name} finds no nodes for all: {pod.info.key}: {sentence}"
                return self._wait_all(members, missing, now)
        for pod in members:
            pod.in_line = False
        return [self._fly(pod, node, now) for pod, node in placed]

    def _place_member(
        self, pod: WaitingPod, placed: list[tuple[WaitingPod, str]], now: float
    ) -> str:
        """Give one member of a gang a node; why not, if it finds none."""
        key = pod.info.key
        try:
            nodes = [] if self.cluster.blocked(key) else self.decider.decide([pod], now)
        except InputError as failure:
            return str(failure)
        if nodes:
            placed.append((pod, nodes[0]))
            return ""
        return self._why(pod, None, now)

    def _wait_all(self, members: list[WaitingPod], sentence: str, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for pod in members:
            self.queue.rest(pod, now)
            effects += self._tell(pod, sentence)
        return effects

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
