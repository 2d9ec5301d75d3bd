"""`murmur kube apply` on a real control plane: controllers make pods again, budgets are kept, the
scheduler that leads hands over and takes over again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.kubernetes.commands import Command, illegal, until
from tests.kubernetes.control_plane import ControlPlane, Object, real_node, real_pod
from tests.kubernetes.kubelets import Kubelets

REPLICAS, KEPT = 6, 5


def deployment(
    name: str, scheduler: str = "murmuration", replicas: int = REPLICAS, cpu: str = "500m"
) -> Object:
    pod = real_pod("x", cpu=cpu, scheduler=scheduler, terminationGracePeriodSeconds=1)
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
        },
    }


def budget(name: str, kept: int = KEPT) -> Object:
    spec = {"minAvailable": kept, "selector": {"matchLabels": {"app": name}}}
    return {
        "apiVersion": "policy/v1beta1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def run(plane: ControlPlane, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from murmuration.cli import main; main()", "kube", *words]
    command += ["--kubeconfig", str(plane.kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, cwd=plane.folder, check=False)


def begin(plane: ControlPlane, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from murmuration.cli import main; main()", "kube", *words]
    command += ["--kubeconfig", str(plane.kubeconfig)]
    return subprocess.Popen(command, text=True, cwd=plane.folder, stderr=subprocess.PIPE)


def ready_on(plane: ControlPlane, app: str) -> dict[str, str]:
    """The nodes of the ready pods of an app."""
    return {
        key: pod["spec"].get("nodeName", "")
        for key, pod in plane.pods().items()
        if pod["metadata"].get("labels", {}).get("app") == app and Kubelets.is_ready(pod)
    }


def is_complete(plane: ControlPlane, app: str) -> bool:
    return len(ready_on(plane, app)) == REPLICAS


def one_by_one(where: dict[str, str], origin: str, nodes: list[str]) -> list[Object]:
    """A plan that takes the pods of a node to others by turns, one in each wave."""
    keys = [key for key, node in sorted(where.items()) if node == origin]
    return [
        {"step": k + 1, "wave": k + 1, "kind": "move", "task": key, "from": origin}
        | {"to": nodes[k % len(nodes)]}
        for k, key in enumerate(keys)
    ]


def write_plan(folder: Path, moves: list[Object]) -> Path:
    path = folder / "plan.json"
    path.write_text(json.dumps({"snapshot": "none", "moves": moves}))
    return path


def test_a_plan_is_carried_out_and_resumed_within_the_budget(
    plane: ControlPlane, kubelets: Kubelets, start: Callable[..., Command], tmp_path: Path
) -> None:
    """A node with three pods is emptied while a scheduler leads; the command is killed after its
    first move, and goes on."""
    plane.create(real_node("full", cpu="4"))
    scheduler = start().ready()
    plane.create(budget("web"))
    plane.create(deployment("web"))
    until(lambda: is_complete(plane, "web"), "all pods are ready")
    for k in range(2):
        plane.create(real_node(f"empty-{k}", cpu="2"))
    kubelets.fewest["web"] = REPLICAS
    moves = one_by_one(ready_on(plane, "web"), "full", ["empty-0", "empty-1"])
    plan = str(write_plan(tmp_path, moves))
    dry = run(plane, "apply", plan, "--dry-run")
    assert dry.returncode == 0 and f"{REPLICAS} moves checked, 0 would not" in dry.stderr, (
        dry.stderr
    )
    assert not (tmp_path / "applied.jsonl").exists()
    first = begin(plane, "apply", plan)
    journal = tmp_path / "applied.jsonl"
    until(lambda: journal.exists() and '"done"' in journal.read_text(), "the first move is made")
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert "go on with --resume" in run(plane, "apply", plan).stderr
    second = run(plane, "apply", plan, "--resume")
    assert second.returncode == 0, second.stderr
    until(lambda: is_complete(plane, "web"), "all pods are ready")
    where = ready_on(plane, "web")
    assert "full" not in where.values()
    assert kubelets.fewest["web"] >= KEPT
    done = [json.loads(line) for line in journal.read_text().splitlines()]
    arrived = {line["pod"]: line["step"] for line in done if line["what"] == "done"}
    to = {move["step"]: move["to"] for move in moves}
    assert all(where[pod] == to[step] for pod, step in arrived.items() if pod in where)
    # The scheduler goes on where it was.
    plane.create(real_pod("later"))
    until(lambda: bool(plane.pods()["default/later"]["spec"].get("nodeName")), "it leads again")
    assert scheduler.process.poll() is None, scheduler.text()
    assert illegal(plane) == []


def test_what_cannot_be_promised_is_said_before_anything_moves(
    plane: ControlPlane, kubelets: Kubelets, tmp_path: Path
) -> None:
    move = {"step": 1, "wave": 1, "kind": "move", "task": "default/p", "from": "a", "to": "b"}
    plan = write_plan(tmp_path, [move])
    plane.create(real_pod("p", scheduler="default-scheduler"))
    refused = run(plane, "apply", str(plan))
    assert refused.returncode == 2
    assert "1 pods of this plan do not say schedulerName: murmuration" in refused.stderr
    assert "moves.sh" in refused.stderr
    other = {"kind": "Namespace", "metadata": {"name": "kube-system", "uid": "another"}}
    (tmp_path / "cluster.json").write_text(json.dumps({"items": [other]}))
    refused = run(plane, "apply", str(plan))
    assert refused.returncode == 2 and "made for another cluster" in refused.stderr
    plan.write_text("{}")
    assert "expected a plan.json" in run(plane, "apply", str(plan)).stderr


def test_a_cluster_that_changed_under_the_plan(
    plane: ControlPlane, kubelets: Kubelets, tmp_path: Path
) -> None:
    """The pod has gone, another lies elsewhere, a node would not take a third: nothing moves."""
    plane.create(real_node("tiny", cpu="1"))
    plane.create(real_pod("wide", cpu="2"))
    plane.create(real_pod("elsewhere", nodeName="tiny"))
    tasks = (("gone", "a"), ("elsewhere", "nowhere"), ("wide", None))
    moves: list[Object] = [
        {"step": k, "wave": 1, "kind": "move" if origin else "place", "to": "tiny"}
        | {"task": f"default/{task}", "from": origin}
        for k, (task, origin) in enumerate(tasks, 1)
    ]
    plan = write_plan(tmp_path, moves)
    dry = run(plane, "apply", str(plan), "--dry-run")
    assert dry.returncode == 1
    assert "step 1: default/gone is gone" in dry.stderr
    assert "step 2: default/elsewhere lies on tiny, the plan says nowhere" in dry.stderr
    assert "step 3: tiny would not take default/wide now: too little cpu free" in dry.stderr
