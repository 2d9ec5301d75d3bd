"""A plan of a hundred moves under a disruption budget while the cluster changes under it: pods are
killed, a target is closed, the command is killed. Never are fewer pods ready than the budget keeps,
and in the end everybody has a place."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kubernetes.commands import Command, illegal, nodes_of, until
from tests.kubernetes.control_plane import ControlPlane, real_node
from tests.kubernetes.kubelets import Kubelets
from tests.kubernetes.test_apply import begin, budget, deployment, ready_on, run

REPLICAS, KEPT = 100, 88
LEASE = ("--lease", "6")


class Trouble:
    """What goes wrong with one plan, in an order drawn from a seed."""

    def __init__(self, plane: ControlPlane, plan: Path, seed: int) -> None:
        self.plane, self.plan = plane, plan
        self.random = random.Random(seed)
        self.journal = plan.parent / "applied.jsonl"
        self.process: subprocess.Popen[str] | None = None
        self.said: list[str] = []

    def made(self) -> int:
        return self.journal.read_text().count('"done"') if self.journal.exists() else 0

    def go_on(self) -> None:
        words = ["apply", str(self.plan), *LEASE, *(["--resume"] if self.journal.exists() else [])]
        self.process = begin(self.plane, *words)

    def kill_command(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.said.append(self.process.communicate()[1])
        self.go_on()

    def kill_pod(self) -> None:
        """Somebody deletes a pod, budget or not; the next thing goes wrong when it is replaced."""
        key = self.random.choice(sorted(ready_on(self.plane, "web")))
        space, _, name = key.partition("/")
        path = f"/api/v1/namespaces/{space}/pods/{name}?gracePeriodSeconds=0"
        self.plane.call("DELETE", path)
        until(lambda: len(ready_on(self.plane, "web")) >= KEPT, "others are ready")

    def close_node(self) -> None:
        node = f"/api/v1/nodes/new-{self.random.randrange(8)}"
        patch = {"content-type": "application/merge-patch+json"}
        self.plane.call("PATCH", node, {"spec": {"unschedulable": True}}, **patch)

    def happen(self) -> None:
        acts = [self.kill_command, self.kill_command, self.kill_pod, self.kill_pod, self.close_node]
        self.random.shuffle(acts)
        moments = sorted(self.random.sample(range(1, 70), len(acts)))
        self.go_on()
        for at, act in zip(moments, acts, strict=True):
            until(lambda at=at: self.made() >= at or self.is_over(), f"{at} moves are made")  # type: ignore[misc]
            act()

    def is_over(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def finish(self) -> int:
        assert self.process is not None
        self.said.append(self.process.communicate()[1])
        return self.process.returncode


@pytest.mark.parametrize("seed", [1])
def test_a_hundred_moves_through_trouble(
    plane: ControlPlane,
    kubelets: Kubelets,
    start: Callable[..., Command],
    tmp_path: Path,
    seed: int,
) -> None:
    for k in range(5):
        plane.create(real_node(f"old-{k}", cpu="2", labels={"pool": "old"}))
    start(*LEASE).ready()
    plane.create(budget("web", KEPT))
    plane.create(deployment("web", replicas=REPLICAS, cpu="100m"))
    until(lambda: len(ready_on(plane, "web")) == REPLICAS, "all pods are ready")
    for k in range(8):
        plane.create(real_node(f"new-{k}", cpu="2"))
    kubelets.fewest["web"] = REPLICAS
    planned = run(plane, "plan", "--remove", "pool=old", "--out", str(tmp_path))
    assert planned.returncode == 0, planned.stderr
    assert len(json.loads((tmp_path / "plan.json").read_text())["moves"]) == REPLICAS
    trouble = Trouble(plane, tmp_path / "plan.json", seed)
    trouble.happen()
    code = trouble.finish()
    said = "".join(trouble.said)
    assert code == 0, said
    assert "planned again" in said and "Traceback" not in said
    until(lambda: len(ready_on(plane, "web")) == REPLICAS, "all pods are ready")
    where = nodes_of(plane)
    assert len(where) == REPLICAS and all(node.startswith("new-") for node in where.values())
    # A pod that was deleted rather than evicted is missing beyond what the budget speaks of.
    assert kubelets.fewest["web"] >= KEPT - 1
    # Who came before the node was closed may stay there.
    assert [text for text in illegal(plane) if "is cordoned" not in text] == []
