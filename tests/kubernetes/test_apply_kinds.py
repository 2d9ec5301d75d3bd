"""Every kind of plan on a real control plane: nodes removed, pods to place, nodes added, limits and
detours; by `murmur kube apply` for pods that name our scheduler, and by the plan's `moves.sh` for
those of the cluster's own."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.kubernetes.commands import clean, illegal, until
from tests.kubernetes.control_plane import ControlPlane, Object, real_node
from tests.kubernetes.kubelets import Kubelets
from tests.kubernetes.test_apply import begin, deployment, run

OURS, THEIRS = "murmuration", "default-scheduler"
LEASE = ("--lease", "3")
APPS = "/apis/apps/v1/namespaces/default"
PATCH = {"content-type": "application/merge-patch+json"}
#: The nodes on which an app has pods, with how many.
Places = dict[str, Counter[str]]


@pytest.fixture
def cluster(plane: ControlPlane, kubelets: Kubelets) -> Iterator[ControlPlane]:
    yield plane
    if "kube-scheduler" in plane.programs:
        plane.stop("kube-scheduler")
    for kind in ("deployments", "replicasets"):
        plane.call("DELETE", f"{APPS}/{kind}")
        until(lambda kind=kind: not plane.call("GET", f"{APPS}/{kind}")["items"], "gone")  # type: ignore[misc]
    clean(plane)
    until(lambda: not plane.pods(), "their pods are gone")


def alive(plane: ControlPlane) -> dict[str, Object]:
    return {k: p for k, p in plane.pods().items() if not p["metadata"].get("deletionTimestamp")}


def places(plane: ControlPlane) -> Places:
    """Where the ready pods of each app lie."""
    found: Places = {}
    for pod in alive(plane).values():
        if Kubelets.is_ready(pod):
            app = pod["metadata"]["labels"]["app"]
            found.setdefault(app, Counter())[pod["spec"]["nodeName"]] += 1
    return found


def add_app(plane: ControlPlane, thing: Object, nodes: list[str]) -> None:
    """A deployment with a pod on each of these nodes, bound by hand while nobody schedules."""
    app = thing["metadata"]["name"]
    plane.create(thing)

    def waiting() -> list[str]:
        pods = alive(plane).values()
        mine = [p for p in pods if p["metadata"]["labels"]["app"] == app]
        return [p["metadata"]["name"] for p in mine if not p["spec"].get("nodeName")]

    until(lambda: len(waiting()) == len(nodes), "its pods are there")
    for name, node in zip(waiting(), nodes, strict=True):
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        plane.call("POST", f"/api/v1/namespaces/default/pods/{name}/binding", body)
    until(lambda: places(plane).get(app) == Counter(nodes), "they are ready")


def app(name: str, scheduler: str, replicas: int, cpu: str, **spec: object) -> Object:
    thing = deployment(name, scheduler, replicas, cpu)
    thing["spec"]["template"]["spec"] |= spec
    return thing


@dataclass(frozen=True)
class Planned:
    """A plan, and where it takes the pods that are there."""

    folder: Path
    moves: list[Object]
    before: Places
    apps: dict[str, str]

    def after(self) -> Places:
        """By the moves of the plan, one after the other, from where the pods were."""
        where = {app: Counter(nodes) for app, nodes in self.before.items()}
        for move in self.moves:
            if move["task"] in self.apps:
                nodes = where[self.apps[move["task"]]]
                nodes[move["from"]] -= 1
                nodes[move["to"]] += 1
        return {app: +nodes for app, nodes in where.items()}


def make_plan(plane: ControlPlane, folder: Path, *words: str) -> Planned:
    planned = run(plane, "plan", "--out", str(folder), "--evaluations", "2000", *words)
    assert planned.returncode == 0, planned.stderr
    moves = json.loads((folder / "plan.json").read_text())["moves"]
    apps = {key: str(pod["metadata"]["labels"]["app"]) for key, pod in alive(plane).items()}
    return Planned(folder, moves, places(plane), apps)


def carry_out(plane: ControlPlane, planned: Planned, scheduler: str) -> str:
    """By the command, or by the script beside the cluster's own scheduler; what was said."""
    if scheduler == OURS:
        done = run(plane, "apply", str(planned.folder / "plan.json"), *LEASE)
    else:
        plane.start("kube-scheduler", "--leader-elect=false")
        kubectl = f"kubectl --kubeconfig {plane.kubeconfig}"
        environment = os.environ | {"KUBECTL": kubectl, "PATIENCE": "60"}
        script = str(planned.folder / "moves.sh")
        done = subprocess.run(
            [script], env=environment, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def is_closed(plane: ControlPlane, node: str) -> bool:
    return bool(plane.get("nodes", node)["spec"].get("unschedulable"))


@pytest.mark.parametrize("scheduler", [OURS, THEIRS])
def test_a_node_is_removed(cluster: ControlPlane, tmp_path: Path, scheduler: str) -> None:
    """Its pods go where the plan says, it stays closed and empty, the others stay open."""
    for k in range(3):
        cluster.create(real_node(f"n{k}", cpu="2"))
    add_app(cluster, app("web", scheduler, 4, "500m"), ["n0", "n0", "n0", "n1"])
    planned = make_plan(cluster, tmp_path, "--remove", "n0")
    assert len(planned.moves) == 3 and "n0" not in planned.after()["web"]
    carry_out(cluster, planned, scheduler)
    until(lambda: places(cluster) == planned.after(), "all are where the plan says")
    assert [is_closed(cluster, f"n{k}") for k in range(3)] == [True, False, False]


@pytest.mark.parametrize("scheduler", [OURS, THEIRS])
def test_two_pods_change_places_by_a_third_node(
    cluster: ControlPlane, tmp_path: Path, scheduler: str
) -> None:
    """Each prefers the other's node, and neither node has room for both: one makes a detour, and
    has another name when it goes on."""
    for k in range(3):
        labels = {"home": "abc"[k]}
        cluster.create(real_node(f"n{k}", cpu="1", labels=labels))
    for name, node in (("a", "n1"), ("b", "n0")):
        expression = {"key": "home", "operator": "In", "values": [name]}
        term = {"weight": 100, "preference": {"matchExpressions": [expression]}}
        prefers = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
        add_app(cluster, app(name, scheduler, 1, "800m", affinity=prefers), [node])
    planned = make_plan(cluster, tmp_path, "--objective", "preferences")
    assert planned.after() == {"a": Counter({"n0": 1}), "b": Counter({"n1": 1})}
    assert "detour" in [move["kind"] for move in planned.moves]
    carry_out(cluster, planned, scheduler)
    until(lambda: places(cluster) == planned.after(), "they have changed places")
    assert illegal(cluster) == []


@pytest.mark.parametrize("scheduler", [OURS, THEIRS])
def test_no_more_moves_than_the_limit(
    cluster: ControlPlane, tmp_path: Path, scheduler: str
) -> None:
    """Six pods on three nodes fit on one, but only two may move: one node is emptied."""
    for k in range(3):
        cluster.create(real_node(f"n{k}", cpu="4"))
    add_app(cluster, app("web", scheduler, 6, "500m"), ["n0", "n0", "n1", "n1", "n2", "n2"])
    planned = make_plan(cluster, tmp_path, "--objective", "nodes", "--limit", "moves=2")
    assert len(planned.moves) == 2 and len(planned.after()["web"]) == 2
    carry_out(cluster, planned, scheduler)
    until(lambda: places(cluster) == planned.after(), "all are where the plan says")


def place_plan(cluster: ControlPlane, folder: Path, scheduler: str) -> tuple[Planned, Object]:
    """Two nodes that are half full, and a pod to come that needs most of one."""
    for k in range(2):
        cluster.create(real_node(f"n{k}", cpu="2"))
    add_app(cluster, app("web", scheduler, 2, "800m"), ["n0", "n1"])
    new = app("new", scheduler, 1, "1500m")
    (folder / "new.json").write_text(json.dumps(new))
    planned = make_plan(cluster, folder, "--place", str(folder / "new.json"))
    assert [move["kind"] for move in planned.moves] == ["move", "place"]
    return planned, new


def test_room_is_made_for_a_pod_that_then_gets_it(cluster: ControlPlane, tmp_path: Path) -> None:
    """The command makes room, says when the manifest is to be applied, and puts the new pod where
    the plan says."""
    planned, new = place_plan(cluster, tmp_path, OURS)
    said: list[str] = []
    with begin(cluster, "apply", str(tmp_path / "plan.json"), *LEASE) as process:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            if "apply its manifest now" in line:
                cluster.create(new)
    assert process.returncode == 0, "".join(said)
    until(lambda: places(cluster).get("web") == planned.after()["web"], "web is where planned")
    assert places(cluster)["new"] == Counter({planned.moves[1]["to"]: 1})


def test_the_script_makes_room_and_says_so(cluster: ControlPlane, tmp_path: Path) -> None:
    planned, new = place_plan(cluster, tmp_path, THEIRS)
    said = carry_out(cluster, planned, THEIRS)
    assert "room is made for 1 new pods: apply their manifest now" in said
    cluster.create(new)
    until(lambda: "new" in places(cluster), "the new pod is ready")
    assert places(cluster)["new"] == Counter({planned.moves[1]["to"]: 1})


def test_a_node_that_was_only_planned_gets_its_name(cluster: ControlPlane, tmp_path: Path) -> None:
    """A plan with a copy of a node added is refused until somebody says which node that is."""
    cluster.create(real_node("n0", cpu="2"))
    add_app(cluster, app("web", OURS, 3, "500m"), ["n0"] * 3)
    words = ("--add", "n0=1", "--objective", "crowding")
    planned = make_plan(cluster, tmp_path, *words)
    (added,) = {move["to"] for move in planned.moves}
    plan = str(tmp_path / "plan.json")
    refused = run(cluster, "apply", plan, *LEASE)
    assert refused.returncode == 2 and f"--as {added}=NAME" in refused.stderr
    assert "1 nodes of this plan are not in the cluster" in refused.stderr
    cluster.create(real_node("fresh", cpu="2"))
    wrong = run(cluster, "apply", plan, *LEASE, "--as", added)
    assert wrong.returncode == 2 and "--as: expected PLANNED=NAME" in wrong.stderr
    done = run(cluster, "apply", plan, *LEASE, "--as", f"{added}=fresh")
    assert done.returncode == 0, done.stderr
    until(lambda: places(cluster)["web"]["fresh"] == len(planned.moves), "they are there")


def write_on(plane: ControlPlane, node: str, spec: Object) -> None:
    plane.call("PATCH", f"/api/v1/nodes/{node}", {"spec": spec}, **PATCH)


def test_what_is_left_is_planned_again(cluster: ControlPlane, tmp_path: Path) -> None:
    """A target is closed between plan and apply: with --no-replan nothing moves; else the pods go
    to the node that is left."""
    for k in range(3):
        cluster.create(real_node(f"n{k}", cpu="2"))
    add_app(cluster, app("web", OURS, 2, "500m"), ["n0", "n0"])
    planned = make_plan(cluster, tmp_path, "--remove", "n0")
    targets = {move["to"] for move in planned.moves}
    for node in targets:
        write_on(cluster, node, {"unschedulable": True})
    (left,) = {"n1", "n2"} - targets if len(targets) == 1 else {"none"}
    plan = str(tmp_path / "plan.json")
    stopped = run(cluster, "apply", plan, *LEASE, "--no-replan")
    assert stopped.returncode == 1 and "would not take" in stopped.stderr
    assert places(cluster)["web"] == Counter({"n0": 2})
    if left == "none":
        cluster.create(real_node("n3", cpu="2"))
        left = "n3"
    done = run(cluster, "apply", plan, *LEASE, *resumed(tmp_path))
    assert done.returncode == 0 and "planned again: 2 moves are left" in done.stderr, done.stderr
    assert places(cluster)["web"] == Counter({left: 2})
    assert "2 of 2 moves made" in done.stderr


def resumed(folder: Path) -> list[str]:
    return ["--resume"] if (folder / "applied.jsonl").exists() else []
