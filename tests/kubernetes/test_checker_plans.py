"""The judge judged: evictions, and plans step by step."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kubernetes.checker_cluster import Object, cluster_of
from tests.kubernetes.checker_eviction import allowed, desired, eviction_refusals
from tests.kubernetes.checker_replay import Replay, claims, in_use
from tests.kubernetes.made import Made, app_is


def guarded(count: int, unready: int = 0, **spec: Any) -> tuple[Made, Object]:
    m = Made()
    m.node("n")
    for k in range(count):
        m.pod("app", "n", is_ready=k >= unready)
    return m, m.budget("b", app_is("app"), **spec)


@pytest.mark.parametrize(
    ("count", "spec", "expected"),
    [
        (7, {"minAvailable": "50%"}, 4),
        (7, {"maxUnavailable": "30%"}, 4),
        (3, {"maxUnavailable": 1}, 2),
        (3, {"minAvailable": 2}, 2),
        (5, {"maxUnavailable": "100%"}, 0),
        (5, {"minAvailable": "0%"}, 0),
    ],
)
def test_percentages_round_up(count: int, spec: Any, expected: int) -> None:
    """The documentation's seven pods: of minAvailable 50 % four must stay."""
    m, budget = guarded(count, **spec)
    cluster = cluster_of(m.items)
    assert desired(cluster, budget) == expected
    assert allowed(cluster, budget) == count - expected


def test_what_is_expected_is_what_the_controller_wants() -> None:
    m, budget = guarded(3, maxUnavailable=1)
    m.add("ReplicaSet", "app", "shop", spec={"replicas": 5})
    assert desired(cluster_of(m.items), budget) == 4
    assert allowed(cluster_of(m.items), budget) == 0


def evicted(m: Made, number: int) -> str:
    pods = [thing for thing in m.items if thing["kind"] == "Pod"]
    return "; ".join(eviction_refusals(cluster_of(m.items), pods[number]))


def test_a_second_eviction_waits_for_the_first() -> None:
    """Three replicas of which two must be available: one at a time, as the documentation tells."""
    m, _ = guarded(3, minAvailable=2)
    assert evicted(m, 0) == ""
    m.items[1]["metadata"]["deletionTimestamp"] = "now"
    assert evicted(m, 0) == "" and evicted(m, 1).startswith("429")


def test_unready_pods_follow_the_policy() -> None:
    assert evicted(guarded(3, 1, minAvailable=2)[0], 0) == ""
    assert evicted(guarded(3, 2, minAvailable=2)[0], 0).startswith("429")
    always = {"minAvailable": 2, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    assert evicted(guarded(3, 2, **always)[0], 0) == ""
    assert evicted(guarded(3, 2, **always)[0], 2).startswith("429")


def test_two_budgets_are_an_error_and_an_empty_selector_is_everything() -> None:
    m, budget = guarded(3, minAvailable=1)
    every = m.budget("all", {}, maxUnavailable=1)
    assert evicted(m, 0).startswith("500")
    m.items.remove(budget)
    assert evicted(m, 0) == ""
    every["spec"]["maxUnavailable"] = 0
    assert evicted(m, 0).startswith("429")
    every["apiVersion"] = "policy/v1beta1"
    assert evicted(m, 0) == ""


def test_a_budget_that_was_just_changed_lets_nobody_go() -> None:
    m, budget = guarded(3, minAvailable=1)
    budget["metadata"]["generation"] = 2
    budget["status"] = {"observedGeneration": 1, "desiredHealthy": 1}
    assert "still being processed" in evicted(m, 0)


def step(task: str, origin: str | None, to: str, wave: int = 1) -> Object:
    return {"step": 1, "wave": wave, "task": f"shop/{task}", "from": origin, "to": to}


def replayed(m: Made, *steps: Object, **more: Any) -> list[str]:
    return Replay(cluster_of(m.items), **more).run(steps)


def test_a_legal_plan_is_legal_and_each_pod_has_another_name_then() -> None:
    m = Made()
    m.nodes(3)
    m.pod("app", "n0")
    replay = Replay(cluster_of(m.items))
    assert replay.run([step("app-0", "n0", "n1"), step("app-0", "n1", "n2", 2)]) == []
    assert list(replay.cluster.pods) == ["shop/app-0-again"] and in_use(replay.cluster) == {"n2"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"owner": ""}, "nobody would make it again"),
        ({"owner": "DaemonSet"}, "belongs to its node"),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, "belongs to its node"),
        ({"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, "is marked"),
        ({"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}, "is marked"),
    ],
)
def test_some_pods_are_not_to_be_moved(more: Any, said: str) -> None:
    m = Made()
    m.nodes(2)
    m.pod("app", "n0", **more)
    (sentence,) = replayed(m, step("app-0", "n0", "n1"))
    assert said in sentence


def test_steps_that_name_what_is_not_there() -> None:
    m = Made()
    m.nodes(2)
    m.pod("app", "n0")
    assert "no such pod" in replayed(m, step("web-0", "n0", "n1"))[0]
    assert "no such node" in replayed(m, step("app-0", "n0", "n9"))[0]
    assert "is on n0, not on n1" in replayed(m, step("app-0", "n1", "n0"))[0]
    assert "is on n0, not on None" in replayed(m, step("app-0", None, "n1"))[0]


def test_the_order_of_steps_matters() -> None:
    m = Made()
    m.nodes(3)
    m.pod("a", "n0", "3")
    m.pod("b", "n1", "3")
    away, after = step("b-0", "n1", "n2"), step("a-0", "n0", "n1", 2)
    assert replayed(m, away, after) == []
    assert "cpu: wants 3000" in replayed(m, after, away)[0]
    (sentence,) = replayed(m, away, {**after, "wave": 1})
    assert "in its wave" in sentence


def test_a_wave_must_bear_its_budgets() -> None:
    m, _ = guarded(3, maxUnavailable=1)
    m.node("n2")
    one, two = step("app-0", "n", "n2"), step("app-1", "n", "n2")
    assert replayed(m, one, {**two, "wave": 2}) == []
    (sentence,) = replayed(m, one, two)
    assert "in its wave: 429" in sentence


def test_nodes_that_go_take_nobody_and_nodes_that_come_have_daemon_sets() -> None:
    m = Made()
    names = m.nodes(2)
    m.daemons(names, cpu="1")
    m.pod("app", "n0", "3")
    assert "cordoned" in replayed(m, step("app-0", "n0", "n1"), removed=["n1"])[0]
    m.pod("app", cpu="3500m")
    like = {"n0": m.items[0]}
    (sentence,) = replayed(m, step("app-1", None, "new-n0-1"), added=like)
    assert "new-n0-1 has 3000 left" in sentence


def test_pods_of_manifests_come_to_be() -> None:
    m = Made()
    m.node("n")
    template = {"spec": {"containers": [{"resources": {"requests": {"cpu": "5"}}}]}}
    maker = {"kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}
    maker["spec"] = {"template": template}
    budget = m.budget("web", {}, maxUnavailable=1)
    (sentence,) = replayed(m, step("web-new-0", None, "n"), makers=[budget, maker])
    assert "cpu: wants 5000" in sentence


def test_what_a_plan_says_is_held_against_the_cluster() -> None:
    m = Made()
    m.node("n")
    m.daemons(["n"])
    m.pod("app")
    replay = Replay(cluster_of(m.items))
    told = {
        "unplaced": [{"task": "shop/app-0"}],
        "stranded": [{"task": "kube-system/agent-0"}],
    }
    assert len(claims(replay, told)) == 2
    assert claims(replay, {}) == []
