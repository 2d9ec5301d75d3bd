"""An API server in virtual time, for schedulers under faults: late watches, lost answers, bindings
that are carried out though nobody hears of it, schedulers that are suspended or crash."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace as replace_struct
from tests.kubernetes.control_plane import Object, real_node, real_pod

from murmuration.kubernetes.scheduling.cluster import LiveCluster
from murmuration.kubernetes.scheduling.shared.ledgers import (
    CLAIMS_MARK,
    MEMBER,
    NODE_MARK,
    ROLE,
    SCHEDULER,
)
from murmuration.kubernetes.scheduling.shared.sharing import Sharing
from murmuration.placement.registry import resolve
from murmuration.schedulers.agent import Agent, Message
from murmuration.schedulers.pods.agent import PodScheduler, PodSettings
from murmuration.schedulers.pods.leadership import AlwaysLeads, Leadership
from murmuration.schedulers.pods.members import Members
from murmuration.schedulers.pods.messages import (
    BindingEnded,
    BindPod,
    EvictionEnded,
    EvictPod,
    LeaseSeen,
    LeaseWritten,
    LookAtPod,
    NodeCommit,
    PodLooked,
    ReadLease,
    ThingLost,
    ThingSeen,
    ThingsListed,
    WriteLease,
)
from murmuration.simulation.messages.drive import Party, VirtualDriver
from murmuration.simulation.messages.network import FaultSettings, Network

#: As the hands have it: a request has ended by then, one way or the other.
REQUEST_S = 5.0
RENEW_S = 10.0


@dataclass
class Trouble:
    """How likely things are to go wrong."""

    #: A request is never carried out; or it is, and its answer is lost.
    lost_before: float = 0.0
    lost_after: float = 0.0
    #: A binding is refused for no reason, as by a server that is too busy.
    refused: float = 0.0
    #: Requests take up to this long, watches are up to this late.
    request_s: float = 0.05
    watch_s: float = 0.05


@dataclass
class Api:
    """The truth, and everybody who watches it."""

    trouble: Trouble
    rng: np.random.Generator
    #: How long leaders believe in a lease.
    renew_s: float = RENEW_S
    nodes: dict[str, Object] = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    lease: tuple[str, int, int] | None = None
    #: Every binding that was carried out: when, which turn of leading, pod, node.
    bindings: list[tuple[float, int, str, str]] = field(default_factory=list)
    #: When each turn of leading began.
    turns: dict[int, float] = field(default_factory=dict)
    watchers: list[Scheduler] = field(default_factory=list)
    events: list[Message] = field(default_factory=list)
    #: Leases by which schedulers that share the cluster are known, and the ledgers of nodes.
    leases: dict[str, Object] = field(default_factory=dict)
    #: Every write to a ledger that came too late.
    conflicts: int = 0
    #: Whether ledgers are written on condition of their version.
    checks: bool = True
    #: Nodes that held too much at some time.
    overfilled: list[str] = field(default_factory=list)

    def add_pod(self, pod: Object) -> None:
        pod["metadata"]["uid"] = f"uid-{pod['metadata']['name']}-{len(self.bindings)}"
        self.pods[f"default/{pod['metadata']['name']}"] = pod
        self.show(ThingSeen("Pod", copy.deepcopy(pod)))

    def add_node(self, node: Object) -> None:
        self.nodes[node["metadata"]["name"]] = node
        self.show(ThingSeen("Node", copy.deepcopy(node)))

    def remove_pod(self, key: str) -> None:
        self.show(ThingLost("Pod", copy.deepcopy(self.pods.pop(key))))

    def touch(self, key: str) -> None:
        """Somebody changes what does not matter, and the watch shows the pod again."""
        if key in self.pods:
            self.show(ThingSeen("Pod", copy.deepcopy(self.pods[key])))

    def show(self, event: Message) -> None:
        for watcher in self.watchers:
            watcher.watch(event)

    def bind(self, act: BindPod, now: float) -> str:
        pod = self.pods.get(act.pod)
        if pod is None or pod["metadata"]["uid"] != act.uid or pod["spec"].get("nodeName"):
            return "refused"
        pod["spec"]["nodeName"] = act.node
        self.bindings.append((now, act.epoch, act.pod, act.node))
        self.overfilled += self.overfull()
        self.show(ThingSeen("Pod", copy.deepcopy(pod)))
        return "bound"

    def put_lease(self, name: str, thing: Object, version: str) -> str:
        """Write a lease if it has this version (empty: if there is none); its new version, empty
        if it was refused."""
        there = self.leases.get(name)
        has = "" if there is None else there["metadata"]["resourceVersion"]
        if self.checks and version != has:
            return ""
        new = str(int(has or "0") + 1)
        metadata = {**thing["metadata"], "resourceVersion": new}
        self.leases[name] = {**thing, "kind": "Lease", "metadata": metadata}
        self.show(ThingSeen("Lease", copy.deepcopy(self.leases[name])))
        return new

    def write_member(self, act: WriteLease) -> LeaseWritten:
        name = f"scheduler.{act.holder}"
        labels = {SCHEDULER: "murmuration", ROLE: MEMBER}
        thing = {"metadata": {"labels": labels}, "spec": {"holderIdentity": act.holder}}
        version = self.put_lease(name, thing, act.version)
        return LeaseWritten("written" if version else "refused", version)

    def write_lease(self, act: WriteLease, now: float) -> LeaseWritten:
        version = 0 if self.lease is None else self.lease[2]
        if act.version != (str(version) if version else ""):
            return LeaseWritten("refused")
        self.lease = (act.holder, act.transitions, version + 1)
        self.turns.setdefault(act.transitions, now)
        return LeaseWritten("written", str(version + 1))

    def overfull(self) -> list[str]:
        """Nodes that hold more than they have, by a sum of thousandths of CPUs."""
        used: dict[str, int] = {}
        for pod in self.pods.values():
            node = pod["spec"].get("nodeName")
            cpu = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            used[node] = used.get(node, 0) + int(cpu.removesuffix("m"))
        return [
            name
            for name, node in self.nodes.items()
            if used.get(name, 0) > 1000 * int(node["status"]["allocatable"]["cpu"])
        ]


class Scheduler(Party):
    """A scheduler, its watch and its hands."""

    hears = Message

    def __init__(
        self, name: str, api: Api, driver: VirtualDriver, elect: bool, shared: bool = False
    ) -> None:
        super().__init__(name)
        self.api, self.driver, self.elect, self.shared = api, driver, elect, shared
        #: Up to when each kind was shown: each has a watch of its own.
        self._shown_s: dict[str, float] = {}
        self._life = 0
        #: The versions of ledgers that we wrote ourselves, one after the other, and what of them.
        self._rows: dict[str, list[tuple[str, list[tuple[str, str, str]]]]] = {}

    @property
    def claimant(self) -> str:
        return f"{self.name}/{self._life}"

    def start(self, memory: object, life: int) -> Agent:
        self._life, self._shown_s, self._rows = life, {}, {}
        if self.shared:
            return PodScheduler(
                LiveCluster(sharing=Sharing(self.claimant)),
                resolve("least-allocated"),
                np.random.default_rng(life),
                Leadership(self.name),
                PodSettings(frozenset({"Node", "Pod", "Lease"}), gang_release_s=20.0),
                Members(self.name, 15.0),
            )
        return PodScheduler(
            LiveCluster(),
            resolve("least-allocated"),
            np.random.default_rng(life),
            Leadership(self.name, renew_s=self.api.renew_s) if self.elect else AlwaysLeads(),
            PodSettings(gang_release_s=20.0),
        )

    def first_events(self) -> list[Message]:
        events: list[Message] = [
            ThingsListed("Node", copy.deepcopy(list(self.api.nodes.values()))),
            ThingsListed("Pod", copy.deepcopy(list(self.api.pods.values()))),
            ThingsListed("Lease", copy.deepcopy(list(self.api.leases.values()))),
        ]
        return events if self.shared else events[:2]

    def watch(self, event: Message) -> None:
        """A watch is late, but in order; two watches are late apart from each other."""
        kind = str(getattr(event, "kind", ""))
        late = self.api.trouble.watch_s * self.api.rng.random()
        self._shown_s[kind] = max(self._shown_s.get(kind, 0.0), self.driver.now + late)
        self.driver.at(self._shown_s[kind], self._tell, event, self._life)

    def _tell(self, event: Message, life: int) -> None:
        if life == self._life:
            self.driver.tell(self.name, event)

    def do(self, act: Message) -> None:
        delay = self.api.trouble.request_s * self.api.rng.random()
        self.driver.at(self.driver.now + delay, self._send, act, self._life)

    def _send(self, act: Message, life: int) -> None:
        """The request leaves: not while we are suspended, and not when another may lead."""
        if life != self._life or not self.driver.is_up(self.name):
            return
        if self.driver.is_paused(self.name):
            self.driver.at(self.driver.now + 0.1, self._send, act, life)
            return
        if isinstance(act, BindPod | EvictPod) and self.driver.clock(self.name) >= act.until:
            self._tell(self._ended(act, "refused"), life)
            return
        self._request(act, life)

    def _request(self, act: Message, life: int) -> None:
        trouble, draw = self.api.trouble, self.api.rng.random()
        takes = min(trouble.request_s * self.api.rng.random(), REQUEST_S - 0.01)
        now = self.driver.now
        if draw < trouble.lost_before:
            self.driver.at(now + REQUEST_S, self._tell, self._ended(act, "unknown"), life)
        elif draw < trouble.lost_before + trouble.lost_after:
            self.driver.at(now + takes, self._carry_out, act, life, False)
            self.driver.at(now + REQUEST_S, self._tell, self._ended(act, "unknown"), life)
        elif isinstance(act, BindPod) and self.api.rng.random() < trouble.refused:
            self.driver.at(now + takes, self._tell, self._ended(act, "refused"), life)
        else:
            self.driver.at(now + takes, self._carry_out, act, life, True)

    def _carry_out(self, act: Message, life: int, answered: bool) -> None:
        answer: Message | None = None
        match act:
            case BindPod(commit=commit) if commit is not None:
                if not self._claim(act, commit):
                    self.api.conflicts += 1
                    answer = self._ended(act, "conflict")
                elif answered:
                    # The binding is another request, which may be lost by itself.
                    self._request(replace_struct(act, commit=None), life)
            case BindPod():
                answer = self._ended(act, self.api.bind(act, self.driver.now))
            case LookAtPod(pod, flight):
                answer = PodLooked(pod, flight, copy.deepcopy(self.api.pods.get(pod)))
            case ReadLease():
                answer = self._lease() if not self.shared else self._own_lease()
            case WriteLease() if self.shared:
                answer = self.api.write_member(act)
            case WriteLease():
                answer = self.api.write_lease(act, self.driver.now)
            case EvictPod(pod, uid):
                if pod in self.api.pods and self.api.pods[pod]["metadata"]["uid"] == uid:
                    self.api.remove_pod(pod)
                answer = EvictionEnded(pod, uid, "gone")
            case _:
                self.api.events.append(act)
        if answered and answer is not None:
            self._tell(answer, life)

    def _claim(self, act: BindPod, commit: NodeCommit) -> bool:
        """Write the claim into the node's ledger, by a version that is the decision's, or ours
        since then; whether it was in time."""
        row = self._rows.get(act.node, [])
        at = next((k for k, (version, _) in enumerate(row) if version == commit.version), None)
        row = [(commit.version, [])] if at is None else row[at:]
        mine = (act.pod, act.uid, self.claimant)
        kept = [*commit.keep, *(claim for _, claims in row[1:] for claim in claims), mine]
        marks = {NODE_MARK: act.node, CLAIMS_MARK: msgspec.json.encode(kept).decode()}
        version = self.api.put_lease(
            f"node.{act.node}", {"metadata": {"annotations": marks}}, row[-1][0]
        )
        self._rows[act.node] = [*row, (version, [mine])] if version else []
        return bool(version)

    def _own_lease(self) -> LeaseSeen:
        lease = self.api.leases.get(f"scheduler.{self.name}")
        if lease is None:
            return LeaseSeen()
        return LeaseSeen(self.name, 0, lease["metadata"]["resourceVersion"], exists=True)

    def _lease(self) -> LeaseSeen:
        if self.api.lease is None:
            return LeaseSeen()
        holder, turns, version = self.api.lease
        return LeaseSeen(holder, turns, str(version), exists=True)

    def _ended(self, act: Message, outcome: str) -> Message:
        match act:
            case BindPod(pod, uid):
                return BindingEnded(pod, uid, outcome)
            case EvictPod(pod, uid):
                return EvictionEnded(pod, uid, "refused")
            case WriteLease():
                return LeaseWritten("unknown")
            case LookAtPod(pod):
                # The hands tell nothing, and the agent asks again.
                return BindingEnded(pod, "", "unknown")
        return LeaseSeen(readable=False)


def make(
    seed: int,
    trouble: Trouble,
    nodes: int = 4,
    names: tuple[str, ...] = ("a",),
    renew_s: float = RENEW_S,
    shared: bool = False,
) -> tuple[VirtualDriver, Api]:
    """An API server with some nodes, and schedulers; several elect a leader, or share the work."""
    rng = np.random.default_rng(seed)
    driver = VirtualDriver(Network(FaultSettings(), np.random.default_rng(seed)))
    api = Api(trouble, rng, renew_s)
    for k in range(nodes):
        api.add_node(real_node(f"n{k}", cpu="2"))
    for name in names:
        party = Scheduler(name, api, driver, elect=len(names) > 1, shared=shared)
        api.watchers.append(party)
        driver.add(party)
    return driver, api


def small(name: str, cpu: str = "500m", **more: Any) -> Object:
    return real_pod(name, cpu=cpu, memory="1Mi", **more)
