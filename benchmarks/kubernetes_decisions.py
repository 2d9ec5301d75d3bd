"""kube-scheduler's own workloads through our scheduler, without an API server: pods per CPU-second.

    python benchmarks/kubernetes_decisions.py [--nodes 5000] [--only basic,anti-affinity]

The workloads are those of its performance tests (nodes of 4 CPUs and 32 GiB, pods of 100m and
500Mi; 1,000 pods lie there already). Every pod that waits is told to the scheduler as a watch would
tell it; it decides and commits, and what it bound is shown to it again. CPU is that of reading the
pod, the rules, the decision by least-allocated, and the commitment, in one thread of Python.

Beside it stands the floor that Kubernetes' own CI demands of kube-scheduler with an API server and
etcd in pods per second of the clock on several cores. That is other work on another machine: the
ratio says whether deciding would hold such a scheduler back, and no more.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from murmuration.kubernetes.api.client import BUDGETS
from murmuration.kubernetes.scheduling.options import SchedulerOptions
from murmuration.kubernetes.scheduling.serving import KINDS
from murmuration.schedulers.agent import Do, Wake
from murmuration.schedulers.pods.agent import PodScheduler
from murmuration.schedulers.pods.messages import (
    BindingEnded,
    BindPod,
    EvictionEnded,
    EvictPod,
    ThingLost,
    ThingSeen,
    ThingsListed,
)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.kubernetes.control_plane import Object, real_node, real_pod

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
LYING = 1000


@dataclass(frozen=True)
class Workload:
    """What waits, how many of it, and what kube-scheduler's CI demands (pods per second)."""

    pod: Callable[[int], Object]
    pods: int
    floor: float | None
    zones: int = 1
    nodes: int | None = None
    node_amounts: dict[str, str] = field(default_factory=dict)
    #: Pods that are there before and get no node.
    blocked: Callable[[int], Object] | None = None
    blocked_count: int = 0
    preempt: bool = False
    #: Pods that fill the nodes before.
    lying: Callable[[int], Object] | None = None
    lying_count: int = LYING
    #: Every so many pods a node comes and goes.
    churn: int = 0


def pod(k: int, color: str = "", prefix: str = "p", **spec: Any) -> Object:
    labels = {"labels": {"color": color}} if color else {}
    return real_pod(f"{prefix}-{k}", metadata={"uid": f"{prefix}-{k}", **labels}, **spec)


def term(color: str, key: str) -> Object:
    return {"labelSelector": {"matchLabels": {"color": color}}, "topologyKey": key}


def between(part: str, color: str, key: str, preferred: bool = False) -> Callable[[int], Object]:
    rule: Object = (
        {PREFERRED: [{"weight": 1, "podAffinityTerm": term(color, key)}]}
        if preferred
        else {REQUIRED: [term(color, key)]}
    )
    return lambda k: pod(k, color, affinity={part: rule})


def to_zones(k: int) -> Object:
    expression = {"key": ZONE, "operator": "In", "values": ["zone0", "zone1"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return pod(k, affinity={"nodeAffinity": {REQUIRED: required}})


def daemon(k: int) -> Object:
    wanted = {"key": "metadata.name", "operator": "In", "values": [f"node-{k}"]}
    required = {"nodeSelectorTerms": [{"matchFields": [wanted]}]}
    return pod(k, affinity={"nodeAffinity": {REQUIRED: required}})


def spread(when: str) -> Callable[[int], Object]:
    rule = {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"color": "blue"}},
    }
    return lambda k: pod(k, "blue", topologySpreadConstraints=[rule])


def extended(k: int) -> Object:
    amounts = {"cpu": "100m", "memory": "500Mi", "example.com/device": "1"}
    return pod(k, container={"resources": {"requests": amounts, "limits": amounts}})


MIXED = (
    between("podAffinity", "blue", ZONE),
    between("podAntiAffinity", "green", HOST),
    between("podAffinity", "red", HOST, preferred=True),
    between("podAntiAffinity", "yellow", HOST, preferred=True),
    pod,
)

WORKLOADS = {
    "basic": Workload(pod, 10_000, 680),
    "daemon set, 15,000 nodes": Workload(daemon, 15_000, 1100, nodes=15_000, lying_count=0),
    "mixed churn": Workload(pod, 10_000, 710, churn=100),
    "unschedulable": Workload(
        pod, 10_000, 590, blocked=lambda k: pod(k, prefix="big", cpu="9"), blocked_count=200
    ),
    "gated": Workload(
        pod,
        10_000,
        910,
        blocked=lambda k: pod(k, prefix="gated", schedulingGates=[{"name": "wait"}]),
        blocked_count=10_000,
    ),
    "preemption": Workload(
        lambda k: pod(k, cpu="3", prefix="high", priority=10),
        5000,
        570,
        preempt=True,
        lying=lambda k: pod(k, prefix="low", cpu="900m"),
        lying_count=20_000,
    ),
    "extended resources": Workload(
        extended, 10_000, 180, node_amounts={"example.com/device": "100"}
    ),
    "node affinity": Workload(to_zones, 5000, 220, zones=2),
    "anti-affinity": Workload(between("podAntiAffinity", "green", HOST), 2000, 60),
    "pod affinity": Workload(between("podAffinity", "blue", ZONE), 5000, 35),
    "preferred affinity": Workload(between("podAffinity", "red", HOST, True), 5000, 90),
    "preferred anti-affinity": Workload(between("podAntiAffinity", "yellow", HOST, True), 5000, 90),
    "topology spread": Workload(spread("DoNotSchedule"), 5000, None, zones=3),
    "preferred spread": Workload(spread("ScheduleAnyway"), 5000, None, zones=3),
    "mixed": Workload(lambda k: MIXED[k % 5](k), 5000, 140, zones=1),
}


class Loop:
    """A scheduler whose acts are done at once, and shown to it."""

    def __init__(self, workload: Workload, nodes: int) -> None:
        self.workload, self.nodes = workload, workload.nodes or nodes
        options = SchedulerOptions(elect=False, preempt=workload.preempt)
        self.agent: PodScheduler = options.make_agent()
        self.pods: dict[str, Object] = {}
        self.bound = 0

    def prepare(self) -> None:
        amounts = self.workload.node_amounts
        zones = self.workload.zones
        nodes = [
            real_node(f"node-{k}", labels={ZONE: f"zone{k % zones}"}, amounts=amounts)
            for k in range(self.nodes)
        ]
        make = self.workload.lying or (lambda k: pod(k, prefix="lying"))
        lying = [make(k) for k in range(self.workload.lying_count)]
        for k, thing in enumerate(lying):
            thing["spec"]["nodeName"] = f"node-{k % self.nodes}"
        self.pods = {f"default/{thing['metadata']['name']}": thing for thing in lying}
        for kind in (*KINDS, BUDGETS):
            things = {"Node": nodes, "Pod": lying}.get(kind.name, [])
            self.agent.handle(ThingsListed(kind.name, things), 0.0)
        blocked = self.workload.blocked
        for k in range(self.workload.blocked_count if blocked else 0):
            assert blocked is not None
            self.agent.handle(ThingSeen("Pod", blocked(k)), 0.0)
        # Kernels are compiled and tables built before the clock starts.
        self.run([pod(0, prefix="first")])
        self.bound = 0

    def run(self, things: list[Object]) -> None:
        now = 1.0
        for batch in batches(things, 100):
            now += 0.01
            for thing in batch:
                self.pods[f"default/{thing['metadata']['name']}"] = thing
                self.agent.handle(ThingSeen("Pod", thing), now)
            self.work(now)
            if self.workload.churn:
                self.churn(now)
        # Back-off after an eviction is waited for on a clock that costs nothing.
        for _ in range(30 if self.workload.preempt else 0):
            now += 1.0
            self.work(now)

    def work(self, now: float) -> None:
        while self.agent.due <= now:
            for effect in self.agent.handle(Wake(), now):
                assert isinstance(effect, Do)
                if isinstance(effect.act, BindPod):
                    self.bind(effect.act, now)
                elif isinstance(effect.act, EvictPod):
                    self.evict(effect.act, now)

    def bind(self, act: BindPod, now: float) -> None:
        self.bound += 1
        thing = self.pods[act.pod]
        shown = {**thing, "spec": {**thing["spec"], "nodeName": act.node}}
        self.agent.handle(BindingEnded(act.pod, act.uid, "bound"), now)
        self.agent.handle(ThingSeen("Pod", shown), now)

    def evict(self, act: EvictPod, now: float) -> None:
        self.agent.handle(EvictionEnded(act.pod, act.uid, "gone"), now)
        self.agent.handle(ThingLost("Pod", self.pods.pop(act.pod)), now)

    def churn(self, now: float) -> None:
        """A node comes and goes, as in the workload of that name."""
        node = real_node("comes-and-goes")
        self.agent.handle(ThingSeen("Node", node), now)
        self.agent.handle(ThingLost("Node", node), now)


def batches(things: list[Object], size: int) -> Iterator[list[Object]]:
    for at in range(0, len(things), size):
        yield things[at : at + size]


def measure(name: str, workload: Workload, nodes: int) -> None:
    loop = Loop(workload, nodes)
    loop.prepare()
    things = [workload.pod(k) for k in range(workload.pods)]
    began = time.process_time()
    loop.run(things)
    cpu = time.process_time() - began
    rate = loop.bound / cpu
    floor = "" if workload.floor is None else f"  floor {workload.floor:5.0f}/s"
    ratio = "" if workload.floor is None else f"  {rate / workload.floor:5.1f} ×"
    print(
        f"{name:26} {loop.bound:6} of {workload.pods:6} pods  {rate:7.0f} per CPU-second"
        f"{floor}{ratio}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--only", default="", help="names of workloads, with commas")
    arguments = parser.parse_args()
    wanted = [name for name in arguments.only.split(",") if name] or list(WORKLOADS)
    for name in wanted:
        measure(name, WORKLOADS[name], arguments.nodes)


if __name__ == "__main__":
    main()
