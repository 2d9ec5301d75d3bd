"""Pods that drive out others: each from a node of its own, and the cheapest first."""

from __future__ import annotations

import numpy as np
from tests.kubernetes.control_plane import Object, real_node, real_pod

from murmuration.kubernetes.scheduling.cluster import LiveCluster
from murmuration.placement.registry import resolve
from murmuration.schedulers.agent import Do, Wake
from murmuration.schedulers.pods.agent import PodScheduler, PodSettings
from murmuration.schedulers.pods.leadership import AlwaysLeads
from murmuration.schedulers.pods.messages import BindPod, EvictPod, ThingLost, ThingsListed


def pod(name: str, priority: int, node: str = "", cpu: str = "900m") -> Object:
    thing = real_pod(name, cpu=cpu, metadata={"uid": name}, priority=priority)
    thing["spec"] |= {"nodeName": node} if node else {}
    return thing


def scheduler(nodes: list[Object], pods: list[Object]) -> PodScheduler:
    agent = PodScheduler(
        LiveCluster(),
        resolve("best-fit"),
        np.random.default_rng(1),
        AlwaysLeads(),
        PodSettings(preempt=True),
    )
    agent.handle(ThingsListed("Node", nodes), 0.0)
    agent.handle(ThingsListed("Pod", pods), 0.0)
    return agent


def acts(agent: PodScheduler, now: float) -> list[object]:
    return [effect.act for effect in agent.handle(Wake(), now) if isinstance(effect, Do)]


def test_each_makes_room_on_a_node_of_its_own() -> None:
    """Three nodes with one pod each, of priorities 1, 2 and 3; two important pods come together.
    The two least important go, once each, and each important pod gets one of their nodes."""
    nodes = [real_node(f"n{k}", cpu="1") for k in range(3)]
    lying = [pod(f"low-{k}", k + 1, f"n{k}") for k in range(3)]
    agent = scheduler(nodes, [*lying, pod("high-0", 10), pod("high-1", 10)])
    evicted = [act.pod for act in acts(agent, 0.0) if isinstance(act, EvictPod)]
    assert sorted(evicted) == ["default/low-0", "default/low-1"]
    for thing in lying[:2]:
        agent.handle(ThingLost("Pod", thing), 1.0)
    bound = {a.pod: a.node for a in acts(agent, 5.0) if isinstance(a, BindPod)}
    assert sorted(bound.values()) == ["n0", "n1"] and len(bound) == 2


def test_nobody_is_driven_out_for_nothing() -> None:
    """A pod that would not fit even on an empty node, and one that may not preempt."""
    agent = scheduler([real_node("n0", cpu="1")], [pod("low", 1, "n0"), pod("wide", 10, cpu="2")])
    assert not [act for act in acts(agent, 0.0) if isinstance(act, EvictPod)]
    polite = pod("polite", 10)
    polite["spec"]["preemptionPolicy"] = "Never"
    agent = scheduler([real_node("n0", cpu="1")], [pod("low", 1, "n0"), polite])
    assert not [act for act in acts(agent, 0.0) if isinstance(act, EvictPod)]
