"""A plan that is carried out while the API server goes away and comes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tests.kubernetes.commands import Command, nodes_of, until
from tests.kubernetes.control_plane import ControlPlane, real_node, real_pod
from tests.kubernetes.kubelets import Kubelets
from tests.kubernetes.test_apply import budget, deployment, ready_on, run
from tests.kubernetes.test_apply_faults import LEASE, Trouble


def test_a_server_that_is_away_while_a_plan_is_carried_out(
    plane: ControlPlane, kubelets: Kubelets, start: Callable[..., Command], tmp_path: Path
) -> None:
    """It is stopped in the middle, for longer than a lease lasts, and started again: the plan is
    carried out to its end by the same command, and the scheduler goes on afterwards."""
    for k in range(2):
        plane.create(real_node(f"old-{k}", labels={"pool": "old"}))
    scheduler = start(*LEASE).ready()
    plane.create(budget("web", 18))
    plane.create(deployment("web", replicas=20, cpu="100m"))
    until(lambda: len(ready_on(plane, "web")) == 20, "all pods are ready")
    for k in range(2):
        plane.create(real_node(f"new-{k}"))
    kubelets.fewest["web"] = 20
    planned = run(plane, "plan", "--remove", "pool=old", "--out", str(tmp_path))
    assert planned.returncode == 0, planned.stderr
    trouble = Trouble(plane, tmp_path / "plan.json", 1)
    trouble.go_on()
    until(lambda: trouble.made() >= 3 or trouble.is_over(), "some moves are made")
    plane.stop("server")
    time.sleep(9.0)
    assert not trouble.is_over()
    plane.start_server()
    assert trouble.finish() == 0, trouble.said
    until(lambda: len(ready_on(plane, "web")) == 20, "all pods are ready")
    assert all(node.startswith("new-") for node in nodes_of(plane).values())
    assert kubelets.fewest["web"] >= 18
    plane.create(real_pod("later"))
    until(lambda: bool(nodes_of(plane)["default/later"]), "the scheduler goes on")
    assert scheduler.process.poll() is None, scheduler.text()
