"""Pods that are gathered and placed as a whole: by the batches of the simulation, within the rules
of Kubernetes, and better than one after the other."""

from __future__ import annotations

from typing import Any

from tests.kubernetes.control_plane import Object, real_node, real_pod

from murmuration.kubernetes.scheduling.options import SchedulerOptions
from murmuration.schedulers.agent import Do, Wake
from murmuration.schedulers.pods.agent import PodScheduler
from murmuration.schedulers.pods.messages import BindPod, TellPending, ThingSeen, ThingsListed

KINDS = (
    "Node",
    "Pod",
    "Namespace",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
    "PodDisruptionBudget",
)


def scheduler(nodes: list[Object], architecture: str = "genetic") -> PodScheduler:
    agent = SchedulerOptions(
        elect=False, architecture=architecture, placement="least-allocated"
    ).make_agent()
    for kind in KINDS:
        agent.handle(ThingsListed(kind, nodes if kind == "Node" else []), 0.0)
    return agent


def pod(name: str, cpu: str, labels: Object | None = None, **spec: Any) -> Object:
    metadata = {"uid": name, "labels": labels or {}}
    return real_pod(name, cpu=cpu, memory="1Mi", metadata=metadata, **spec)


def tell(agent: PodScheduler, pods: list[Object], now: float) -> None:
    for thing in pods:
        agent.handle(ThingSeen("Pod", thing), now)


def run(agent: PodScheduler, until: float) -> dict[str, tuple[str, float]]:
    """Where each pod was bound, and when."""
    bound: dict[str, tuple[str, float]] = {}
    while agent.due <= until:
        now = agent.due
        for effect in agent.handle(Wake(), now):
            assert isinstance(effect, Do)
            if isinstance(effect.act, BindPod):
                bound[effect.act.pod.partition("/")[2]] = (effect.act.node, now)
    return bound


def test_pods_are_gathered_until_their_window_ends() -> None:
    agent = scheduler([real_node("n0"), real_node("n1")])
    tell(agent, [pod("a", "1")], 10.2)
    tell(agent, [pod("b", "1")], 10.9)
    bound = run(agent, 11.5)
    assert {name: at for name, (_, at) in bound.items()} == {"a": 11.0, "b": 11.0}
    # The next window is as long, whenever the last one was.
    tell(agent, [pod("c", "1")], 11.5)
    assert run(agent, 13.0)["c"][1] == 12.0


def test_what_fits_only_in_another_order_fits_as_a_whole() -> None:
    """Small pods first, spread over two nodes of two CPUs, leave no room for one of two CPUs. A
    batch looks at all of them."""
    nodes = [real_node("n0", cpu="2"), real_node("n1", cpu="2")]
    pods = [pod("small-0", "1"), pod("small-1", "1"), pod("large", "2")]
    one_by_one = scheduler(nodes, "monolithic")
    tell(one_by_one, pods, 10.0)
    assert "large" not in run(one_by_one, 11.5)
    agent = scheduler(nodes)
    tell(agent, pods, 10.0)
    bound = run(agent, 11.5)
    assert len(bound) == 3
    assert bound["small-0"][0] == bound["small-1"][0] != bound["large"][0]


def test_rules_and_gangs_are_kept() -> None:
    """Pods that must be apart, pods that may use one node alone, and gangs: one that fits, one that
    does not."""
    nodes = [real_node(f"n{k}", cpu="4", labels={"disk": "ssd" if k else "hdd"}) for k in range(4)]
    apart = {
        "labelSelector": {"matchLabels": {"app": "web"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    web = [pod(f"web-{k}", "100m", labels={"app": "web"}, affinity=rule) for k in range(4)]
    disk = [pod(f"disk-{k}", "1", nodeSelector={"disk": "hdd"}) for k in range(3)]
    gang = {"murmuration/gang": "g", "murmuration/gang-size": "4"}
    fits = [pod(f"gang-{k}", "1900m", labels=gang) for k in range(4)]
    wide = {"murmuration/gang": "w", "murmuration/gang-size": "9"}
    wider = [pod(f"wide-{k}", "1500m", labels=wide) for k in range(9)]
    agent = scheduler(nodes)
    tell(agent, [*web, *disk, *fits, *wider], 10.0)
    bound = run(agent, 11.5)
    assert len({bound[f"web-{k}"][0] for k in range(4)}) == 4
    assert {bound[f"disk-{k}"][0] for k in range(3)} == {"n0"}
    assert sum(name.startswith("gang") for name in bound) == 4
    assert not any(name.startswith("wide") for name in bound)
    used: dict[str, float] = {}
    amounts = {"web": 0.1, "disk": 1.0, "gang": 1.9}
    for name, (node, _) in bound.items():
        used[node] = used.get(node, 0.0) + amounts[name.partition("-")[0]]
    assert max(used.values()) <= 4.0


def test_who_finds_no_node_is_told_why() -> None:
    agent = scheduler([real_node("n0", cpu="1")])
    tell(agent, [pod("large", "3"), pod("small", "500m")], 10.0)
    told = []
    while agent.due <= 11.5:
        effects = agent.handle(Wake(), agent.due)
        told += [e.act for e in effects if isinstance(e, Do) and isinstance(e.act, TellPending)]
    assert [(act.pod, act.sentence) for act in told] == [
        ("default/large", "0/1 nodes are available: 1 have less than 3 CPU free")
    ]
