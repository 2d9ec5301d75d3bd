"""`murmur kube snapshot`, `why` and `plan` on a real control plane."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.kubernetes.control_plane import ControlPlane, real_node, real_pod

from murmuration.base.errors import InputError
from murmuration.cli.kube import kube


@pytest.fixture(scope="module", autouse=True)
def cluster(plane: ControlPlane) -> None:
    """Three nodes of 4 CPUs; one is closed. Two pods run, one can go nowhere, one could."""
    for k in range(3):
        plane.create(real_node(f"n{k}", unschedulable=k == 2))
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}
    owned = {"ownerReferences": [{**owner, "controller": True}]}
    for k in range(2):
        plane.create(real_pod(f"web-{k}", cpu="1", nodeName=f"n{k}", metadata=owned))
    plane.create(real_pod("big", cpu="3500m"))
    plane.create(real_pod("small", cpu="100m"))


def run(plane: ControlPlane, *words: str) -> Result:
    return CliRunner().invoke(kube, [*words, "--kubeconfig", str(plane.kubeconfig)])


def test_a_snapshot_is_what_plan_reads(plane: ControlPlane, tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    result = run(plane, "snapshot", "-o", str(path))
    assert result.exit_code == 0, result.output
    document = json.loads(path.read_text())
    kinds = [item["kind"] for item in document["items"]]
    assert kinds.count("Node") == 3 and kinds.count("Pod") == 4
    assert document["metadata"]["resourceVersion"].isdigit()
    assert not any("managedFields" in item["metadata"] for item in document["items"])
    assert json.loads(run(plane, "snapshot").stdout)["kind"] == "List"


def test_why_counts_nodes_by_reason(plane: ControlPlane) -> None:
    result = run(plane, "why", "big")
    assert result.exit_code == 0, result.output
    first, *rest = result.stdout.splitlines()
    assert first == (
        "default/big: 0/3 nodes are available: 2 have less than 3.5 CPU free, "
        "1 a taint it does not tolerate"
    )
    assert any("asking for less cpu than 3.5 CPU: up to 2 more nodes" in line for line in rest)
    document = json.loads(run(plane, "why", "--pending", "--json").stdout)
    pods = {pod["key"]: pod for pod in document["pods"]}
    assert set(pods) == {"default/big", "default/small"}
    assert pods["default/small"]["feasible"] == 2
    assert {node["node"] for node in pods["default/small"]["best"]} == {"n0", "n1"}


def test_why_of_what_is_not_waiting(plane: ControlPlane) -> None:
    for words, sentence in (
        (["why", "nobody"], "no pod default/nobody"),
        (["why", "default/web-0"], "pod default/web-0 has a node: n0"),
        (["why"], "expected the name of a pod, or --pending"),
        (["why", "big", "--pending"], "expected the name of a pod, or --pending"),
    ):
        error = run(plane, *words).exception
        assert isinstance(error, InputError) and sentence in str(error)


def test_a_plan_of_the_cluster_as_it_is(plane: ControlPlane, tmp_path: Path) -> None:
    words = ("plan", "--remove", "n0", "--out", str(tmp_path), "--json", "--evaluations", "500")
    result = run(plane, *words)
    assert result.exit_code == 0, result.output
    moves = json.loads(result.stdout)["moves"]
    assert [(m["task"], m["from"], m["to"]) for m in moves if m["kind"] == "move"] == [
        ("default/web-0", "n0", "n1")
    ]
    assert json.loads((tmp_path / "cluster.json").read_text())["kind"] == "List"
    assert (tmp_path / "plan.json").exists()
