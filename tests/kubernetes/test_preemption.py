"""Pods that drive out others: each from a node of its own, and the cheapest first."""

from __future__ import annotations

import random
from itertools import combinations

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


def cheapest(
    cpu: dict[str, int], lying: dict[str, list[tuple[str, int, int]]], asked: int, priority: int
) -> tuple[int, list[int]]:
    """By looking at every set of pods of every node: the lowest priority that must be the highest
    to go, and the priorities that Kubernetes' own way drives out of each node that needs no more
    than that. Pods are (name, CPU, priority)."""
    ways = [
        max(p for _, _, p in gone)
        for node, pods in lying.items()
        for count in range(1, len(pods) + 1)
        for gone in combinations([pod for pod in pods if pod[2] < priority], count)
        if cpu[node] - sum(c for _, c, _ in pods) + sum(c for _, c, _ in gone) >= asked
    ]
    if not ways:
        return -1, []
    lengths = []
    for node, pods in lying.items():
        free = cpu[node] - sum(c for _, c, p in pods if p >= priority) - asked
        victims = []
        for _, size, rank in sorted((p for p in pods if p[2] < priority), key=lambda p: -p[2]):
            if free >= size:
                free -= size
            else:
                victims.append(rank)
        if free >= 0 and victims and max(victims) == min(ways):
            lengths.append(len(victims))
    return min(ways), lengths


def test_the_cheapest_are_driven_out() -> None:
    """Against a search of all nodes and all sets of pods, after pods and nodes have come and
    gone."""
    seen = 0
    for seed in range(60):
        rng = random.Random(seed)
        cpu = {f"n{k}": rng.choice([2000, 3000]) for k in range(5)}
        lying: dict[str, list[tuple[str, int, int]]] = {}
        live = LiveCluster()
        live.replace("Node", [real_node(name, cpu=f"{m}m") for name, m in cpu.items()])
        for node, room in cpu.items():
            lying[node] = []
            while room > 400 and len(lying[node]) < 5:
                size, rank = rng.choice([300, 500, 900]), rng.randrange(6)
                if size <= room:
                    name, room = f"{node}-{len(lying[node])}", room - size
                    lying[node].append((name, size, rank))
                    live.see("Pod", pod(name, rank, node, f"{size}m"))
        live.see("Pod", pod("high", 4, cpu="1500m"))
        _ = live.victims("default/high", [])
        # One node goes, and one pod: what is known of priorities goes with them.
        live.lose("Node", real_node("n1", cpu=f"{cpu.pop('n1')}m"))
        lying.pop("n1")
        if lying["n2"]:
            name, size, rank = lying["n2"].pop()
            live.lose("Pod", pod(name, rank, "n2", f"{size}m"))
        fits = any(cpu[n] - sum(c for _, c, _ in pods) >= 1500 for n, pods in lying.items())
        highest, lengths = cheapest(cpu, lying, 1500, 4)
        victims = live.victims("default/high", [])
        if fits:
            continue
        if highest < 0:
            assert victims is None
            continue
        assert victims is not None
        ranks = {name: rank for pods in lying.values() for name, _, rank in pods}
        gone = [ranks[key.partition("/")[2]] for key, _ in victims.pods]
        assert (max(gone), len(gone)) == (highest, min(lengths)), f"seed {seed}"
        seen += 1
    assert seen > 20


def test_a_budget_is_kept() -> None:
    """Of two nodes with one pod each, the cheaper one is under a budget that lets nobody go."""
    live = LiveCluster()
    live.replace("Node", [real_node(f"n{k}", cpu="1") for k in range(2)])
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "kept"}}, "minAvailable": 1},
        "status": {"disruptionsAllowed": 0},
    }
    kept = pod("kept", 1, "n0")
    kept["metadata"]["labels"] = {"app": "kept"}
    for thing in (kept, pod("other", 2, "n1"), pod("high", 9)):
        live.see("Pod", thing)
    assert (victims := live.victims("default/high", [])) and victims.node == "n0"
    live.see("PodDisruptionBudget", budget)
    assert (victims := live.victims("default/high", [])) and victims.node == "n1"
    # Another of the same name elsewhere is another.
    elsewhere = {**budget, "metadata": {"name": "b", "namespace": "elsewhere"}}
    live.see("PodDisruptionBudget", elsewhere)
    live.lose("PodDisruptionBudget", elsewhere)
    assert (victims := live.victims("default/high", [])) and victims.node == "n1"
