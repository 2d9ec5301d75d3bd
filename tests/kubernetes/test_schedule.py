"""`murmur kube schedule` on a real control plane: the command as a user starts it."""

from __future__ import annotations

from collections.abc import Callable

from tests.kubernetes.commands import (
    Command,
    bound,
    condition,
    events,
    illegal,
    nodes_of,
    until,
)
from tests.kubernetes.control_plane import ControlPlane, real_node, real_pod

ZONE = "topology.kubernetes.io/zone"


def test_pods_that_name_it_get_nodes_by_the_rules_of_kubernetes(
    plane: ControlPlane, start: Callable[..., Command]
) -> None:
    for k in range(6):
        labels = {ZONE: f"z{k % 3}", "disk": "ssd" if k < 2 else "hdd"}
        taints = [{"key": "gpu", "effect": "NoSchedule"}] if k == 5 else []
        plane.create(real_node(f"n{k}", labels=labels, taints=taints))
    apart = {
        "labelSelector": {"matchLabels": {"app": "web"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    web = {"labels": {"app": "web"}}
    command = start().ready()
    for k in range(5):
        plane.create(real_pod(f"web-{k}", metadata=web, affinity=rule))
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "even"}},
    }
    for k in range(6):
        even = {"labels": {"app": "even"}}
        plane.create(real_pod(f"even-{k}", metadata=even, topologySpreadConstraints=[spread]))
    for k in range(4):
        plane.create(real_pod(f"ssd-{k}", cpu="1500m", nodeSelector={"disk": "ssd"}))
    port = {"ports": [{"containerPort": 80, "hostPort": 8080}]}
    for k in range(3):
        plane.create(real_pod(f"port-{k}", container=port))
    plane.create(real_pod("other", scheduler="default-scheduler"))
    bound(plane, 18)
    assert illegal(plane) == []
    where = nodes_of(plane)
    assert len({where[f"default/web-{k}"] for k in range(5)}) == 5
    assert where["default/other"] == ""
    until(lambda: bool(events(plane, "web-0")), "the event is written")
    (event,) = events(plane, "web-0")
    assert (event["reason"], event["type"]) == ("Scheduled", "Normal")
    assert event["source"]["component"] == "murmuration"
    assert command.end() == 0
    assert "18 bound" in command.text()


def test_a_pod_nobody_can_place_is_told_why_and_placed_when_it_can_be(
    plane: ControlPlane, start: Callable[..., Command]
) -> None:
    plane.create(real_node("small", cpu="1"))
    plane.create(real_node("closed", unschedulable=True))
    start().ready()
    plane.create(real_pod("big", cpu="3"))
    until(lambda: condition(plane, "big").get("status") == "False", "it is told")
    told = condition(plane, "big")
    assert told["reason"] == "Unschedulable"
    assert "0/2 nodes are available" in told["message"]
    assert "have less than 3 CPU free" in told["message"]
    assert "a taint it does not tolerate" in told["message"]
    until(lambda: bool(events(plane, "big")), "the event is written")
    assert events(plane, "big")[0]["reason"] == "FailedScheduling"
    plane.create(real_node("large", cpu="8"))
    bound(plane, 1)
    assert nodes_of(plane)["default/big"] == "large"


def test_a_policy_of_ones_own(plane: ControlPlane, start: Callable[..., Command]) -> None:
    """The policy of the README's kind, in a file beside: the fullest node that fits, by name."""
    (plane.folder / "mine.py").write_text(
        "import numpy as np\n"
        "class pack:\n"
        "    def decide(self, view, job, rng):\n"
        "        free = view.free.copy()\n"
        "        rows = []\n"
        "        for _ in range(job.tasks):\n"
        "            fits = np.flatnonzero(view.allowed & (free >= job.request).all(axis=1))\n"
        "            if not len(fits):\n"
        "                break\n"
        "            rows.append(int(max(fits, key=lambda i: view.names[i])))\n"
        "            free[rows[-1]] -= job.request\n"
        "        return rows + [-1] * (job.tasks - len(rows))\n"
    )
    for k in range(3):
        plane.create(real_node(f"n{k}", cpu="1"))
    start("--placement", "mine:pack").ready()
    for k in range(25):
        plane.create(real_pod(f"p{k}"))
    bound(plane, 25)
    counts = [list(nodes_of(plane).values()).count(f"n{k}") for k in range(3)]
    assert counts == [5, 10, 10]


def test_batches_of_pods(plane: ControlPlane, start: Callable[..., Command]) -> None:
    """Pods of all sizes that fill four nodes to the last, gathered and placed as a whole."""
    for k in range(4):
        plane.create(real_node(f"n{k}", cpu="2"))
    for k in range(4):
        plane.create(real_pod(f"small-{k}", cpu="500m"))
    for k in range(3):
        plane.create(real_pod(f"large-{k}", cpu="2"))
    start("--architecture", "genetic", "--batch", "0.5").ready()
    bound(plane, 7)
    assert illegal(plane) == []
    where = nodes_of(plane)
    assert len({where[f"default/small-{k}"] for k in range(4)}) == 1
