"""What pods would rather have, in scheduling: of the nodes with room those that are liked best, by
sums a reader can do, and a plainly written second count."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from tests.kubernetes.control_plane import Object, real_node, real_pod

from murmuration.kubernetes.scheduling.cluster import LiveCluster
from murmuration.placement.registry import resolve
from murmuration.schedulers.agent import Do, Wake
from murmuration.schedulers.pods.agent import PodScheduler, PodSettings
from murmuration.schedulers.pods.leadership import AlwaysLeads
from murmuration.schedulers.pods.messages import BindPod, ThingSeen, ThingsListed

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ZONE, HOST = "zone", "kubernetes.io/hostname"


def pod(name: str, app: str = "", node: str = "", **spec: Any) -> Object:
    metadata = {"uid": f"u-{name}", "labels": {"app": app} if app else {}}
    thing = real_pod(name, metadata=metadata, **spec)
    thing["spec"] |= {"nodeName": node} if node else {}
    return thing


def likes(weight: int, key: str, value: str) -> Object:
    expression = {"key": key, "operator": "In", "values": [value]}
    return {"weight": weight, "preference": {"matchExpressions": [expression]}}


def beside(weight: int, app: str, key: str) -> Object:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"weight": weight, "podAffinityTerm": term}


def schedule(nodes: list[Object], pods: list[Object], preferences: bool = True) -> dict[str, str]:
    """Where the pods that wait go, told one after the other."""
    scheduler = PodScheduler(
        LiveCluster(),
        resolve("best-fit"),
        np.random.default_rng(1),
        AlwaysLeads(),
        PodSettings(preferences=preferences),
    )
    scheduler.handle(ThingsListed("Node", nodes), 0.0)
    scheduler.handle(ThingsListed("Pod", []), 0.0)
    where: dict[str, str] = {}
    for at, thing in enumerate(pods):
        effects = scheduler.handle(ThingSeen("Pod", thing), float(at))
        effects += scheduler.handle(Wake(), float(at))
        acts = [effect.act for effect in effects if isinstance(effect, Do)]
        where |= {act.pod.split("/")[1]: act.node for act in acts if isinstance(act, BindPod)}
    return where


def test_the_heavier_wish_wins_and_room_comes_first() -> None:
    """Two wishes of 30 and 50: the node of the heavier, until it is full; then the other; then
    any."""
    nodes = [real_node(f"n{k}", cpu="1", labels={"disk": d}) for k, d in enumerate("abc")]
    wishes = {"nodeAffinity": {PREFERRED: [likes(30, "disk", "a"), likes(50, "disk", "b")]}}
    pods = [pod(f"p{k}", cpu="600m", affinity=wishes) for k in range(3)]
    assert schedule(nodes, pods) == {"p0": "n1", "p1": "n0", "p2": "n2"}


def test_a_job_fills_the_best_nodes_first_and_then_the_next() -> None:
    """Pods that are alike are decided on together, and still go to the next best when the best is
    full; a taint that only asks is the last choice."""
    taint = [{"key": "old", "effect": "PreferNoSchedule"}]
    nodes = [real_node("asked-off", cpu="1", taints=taint), real_node("n1", cpu="1")]
    scheduler_pods = [pod(f"p{k}", cpu="300m") for k in range(5)]
    scheduler = PodScheduler(
        LiveCluster(), resolve("best-fit"), np.random.default_rng(1), AlwaysLeads()
    )
    scheduler.handle(ThingsListed("Node", nodes), 0.0)
    scheduler.handle(ThingsListed("Pod", scheduler_pods), 0.0)
    effects = scheduler.handle(Wake(), 0.0)
    acts = [e.act for e in effects if isinstance(e, Do) and isinstance(e.act, BindPod)]
    assert [act.node for act in acts] == ["n1"] * 3 + ["asked-off"] * 2
    tolerant = pod("t", cpu="300m", tolerations=[{"key": "old", "operator": "Exists"}])
    full = pod("x", cpu="100m", node="asked-off")
    assert schedule(nodes, [full, tolerant]) == {"t": "asked-off"}


def test_wishes_between_pods() -> None:
    """Rather apart from its own, rather beside the cache, and evenly over zones."""
    nodes = [real_node(f"n{k}", labels={ZONE: f"z{k // 2}"}) for k in range(4)]
    apart = {"podAntiAffinity": {PREFERRED: [beside(100, "web", HOST)]}}
    web = [pod(f"w{k}", "web", affinity=apart) for k in range(4)]
    assert sorted(schedule(nodes, web).values()) == ["n0", "n1", "n2", "n3"]
    near = {"podAffinity": {PREFERRED: [beside(10, "cache", ZONE)]}}
    pods = [pod("c", "cache", node="n3"), pod("a", affinity=near)]
    assert schedule(nodes, pods)["a"] in ("n2", "n3")
    even = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "even"}},
    }
    pods = [pod(f"e{k}", "even", topologySpreadConstraints=[even]) for k in range(6)]
    zones = [int(node[1]) // 2 for node in schedule(nodes, pods).values()]
    assert [zones.count(z) for z in (0, 1)] == [3, 3]
    # The packing policy alone would put them on one node.
    assert len(set(schedule(nodes, pods, preferences=False).values())) == 1


def plain_penalty(nodes: list[Object], lying: list[Object], asked: Object, node: Object) -> float:
    """Preferred affinity and anti-affinity, term by term and pod by pod."""

    def label(of: Object, key: str) -> str | None:
        value = of["metadata"]["labels"].get(key)
        return None if value is None else str(value)

    by_name = {each["metadata"]["name"]: each for each in nodes}

    def here(other: Object, key: str) -> bool:
        place = label(by_name[other["spec"]["nodeName"]], key)
        return place is not None and place == label(node, key)

    def terms(of: Object, part: str) -> list[Object]:
        return list(of["spec"].get("affinity", {}).get(part, {}).get(PREFERRED, []))

    def meant(term: Object, other: Object) -> bool:
        wanted = term["podAffinityTerm"]["labelSelector"]["matchLabels"]["app"]
        return bool(label(other, "app") == wanted)

    total = 0.0
    for wish in asked["spec"].get("affinity", {}).get("nodeAffinity", {}).get(PREFERRED, []):
        (want,) = wish["preference"]["matchExpressions"]
        total += wish["weight"] * (label(node, want["key"]) not in want["values"])
    for term in terms(asked, "podAntiAffinity"):
        key = term["podAffinityTerm"]["topologyKey"]
        total += term["weight"] * sum(meant(term, o) and here(o, key) for o in lying)
    for term in terms(asked, "podAffinity"):
        key = term["podAffinityTerm"]["topologyKey"]
        total += term["weight"] * (not any(meant(term, o) and here(o, key) for o in lying))
    for other in lying:
        for term in terms(other, "podAntiAffinity"):
            key = term["podAffinityTerm"]["topologyKey"]
            total += term["weight"] * (meant(term, asked) and here(other, key))
    return total


@pytest.mark.parametrize("seed", range(20))
def test_every_node_is_charged_what_a_plain_count_says(seed: int) -> None:
    rng = random.Random(seed)
    nodes = []
    for k in range(6):
        labels = {"disk": rng.choice("ab")} | ({ZONE: rng.choice("xyz")} if k else {})
        nodes.append(real_node(f"n{k}", labels=labels))

    def draw(name: str, node: str) -> Object:
        affinity = {
            "nodeAffinity": {PREFERRED: [likes(rng.randint(1, 100), "disk", rng.choice("ab"))]},
            "podAntiAffinity": {
                PREFERRED: [beside(rng.randint(1, 100), rng.choice("pq"), rng.choice((ZONE, HOST)))]
            },
            "podAffinity": {PREFERRED: [beside(rng.randint(1, 100), rng.choice("pq"), ZONE)]},
        }
        kept = {part: terms for part, terms in affinity.items() if rng.random() < 0.6}
        return pod(name, rng.choice("pq"), node, affinity=kept)

    live = LiveCluster()
    live.replace("Node", nodes)
    lying = [draw(f"l{k}", f"n{rng.randrange(6)}") for k in range(8)]
    for thing in lying:
        live.see("Pod", thing)
    _ = live.table
    gone = lying.pop()
    live.lose("Pod", gone)
    asked = draw("asked", "")
    live.see("Pod", asked)
    penalty = live.penalty("default/asked")
    expected = [plain_penalty(nodes, lying, asked, node) for node in nodes]
    assert (np.zeros(6) if penalty is None else penalty).tolist() == expected
