"""Gangs and preemption on a real control plane."""

from __future__ import annotations

from collections.abc import Callable

from tests.kubernetes.commands import Command, bound, condition, illegal, nodes_of, until
from tests.kubernetes.control_plane import ControlPlane, Object, real_node, real_pod


def member(name: str, gang: str, size: int, cpu: str) -> Object:
    labels = {"murmuration/gang": gang, "murmuration/gang-size": str(size)}
    return real_pod(name, cpu=cpu, metadata={"labels": labels})


def test_a_gang_gets_all_its_nodes_or_none(
    plane: ControlPlane, start: Callable[..., Command]
) -> None:
    """Two gangs of three pods that each fill a node, on four nodes: one gang runs, the other holds
    nothing, and a pod that fits beside it does."""
    for k in range(4):
        plane.create(real_node(f"n{k}", cpu="2"))
    start().ready()
    for gang in ("red", "blue"):
        for k in range(2):
            plane.create(member(f"{gang}-{k}", gang, 3, "1500m"))
    until(lambda: "message" in condition(plane, "red-0"), "the gang is told to wait")
    assert "2 of 3 pods of gang default/red are here" in condition(plane, "red-0")["message"]
    plane.create(member("red-2", "red", 3, "1500m"))
    bound(plane, 3)
    plane.create(member("blue-2", "blue", 3, "1500m"))
    until(lambda: "finds no nodes" in condition(plane, "blue-0")["message"], "blue is told")
    plane.create(real_pod("single", cpu="1500m"))
    bound(plane, 4)
    where = nodes_of(plane)
    assert all(where[f"default/red-{k}"] for k in range(3)) and where["default/single"]
    assert not any(where[f"default/blue-{k}"] for k in range(3))
    assert illegal(plane) == []
    for k in range(3):
        plane.call("DELETE", f"/api/v1/namespaces/default/pods/red-{k}?gracePeriodSeconds=0")
    until(lambda: all(nodes_of(plane)[f"default/blue-{k}"] for k in range(3)), "blue runs")


def test_a_gang_in_pieces_is_released(plane: ControlPlane, start: Callable[..., Command]) -> None:
    """One member was bound by somebody else, the others find no room: after a while it has to go,
    and its room is for others."""
    plane.create(real_node("n0", cpu="2"))
    piece = member("piece-0", "piece", 2, "1500m")
    piece["spec"]["terminationGracePeriodSeconds"] = 0
    piece["spec"]["nodeName"] = "n0"
    plane.create(piece)
    plane.create(member("piece-1", "piece", 2, "1500m"))
    start("--gang-release", "1").ready()
    until(lambda: "default/piece-0" not in plane.pods(), "the piece is released")
    plane.create(real_pod("single", cpu="1500m"))
    bound(plane, 1)
    assert nodes_of(plane)["default/single"] == "n0"


def test_preemption_drives_out_the_least_and_keeps_budgets(
    plane: ControlPlane, start: Callable[..., Command]
) -> None:
    """Of two nodes full of unimportant pods, those of one have a budget that allows nothing."""
    for name in ("guarded", "open"):
        plane.create(real_node(name, cpu="2", labels={"room": name}))
    plane.start("kube-controller-manager", "--controllers=disruption", "--leader-elect=false")
    budget = {
        "apiVersion": "policy/v1beta1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "default"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "guarded"}}},
    }
    plane.create(budget)
    for room in ("guarded", "open"):
        for k in range(2):
            pod = real_pod(
                f"{room}-{k}",
                cpu="900m",
                metadata={"labels": {"app": room}},
                nodeName=room,
                terminationGracePeriodSeconds=0,
            )
            plane.create(pod)
    plane.create_priority("high", 1000)
    start("--preempt").ready()
    plane.create(real_pod("important", cpu="900m", priorityClassName="high"))
    until(lambda: bool(nodes_of(plane)["default/important"]), "the important pod has a node")
    where = nodes_of(plane)
    assert where["default/important"] == "open"
    assert sum(key.startswith("default/guarded") for key in where) == 2
    assert sum(key.startswith("default/open") for key in where) == 1
    plane.stop("kube-controller-manager")
    assert illegal(plane) == []
