"""`murmur kube rebalance` on a real control plane: one round that is worth it, one that is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.kubernetes.commands import until
from tests.kubernetes.control_plane import ControlPlane, real_node
from tests.kubernetes.test_apply import deployment, is_complete, ready_on, run

from murmuration.base.errors import InputError
from murmuration.cli.kube.rebalance import parse_duration


@pytest.mark.usefixtures("kubelets")
def test_nodes_are_emptied_once_and_then_left_alone(plane: ControlPlane, tmp_path: Path) -> None:
    """Six pods on two nodes, of which one would do."""
    for k in range(2):
        plane.create(real_node(f"n{k}", cpu="4"))
    plane.create(deployment("web"))
    until(lambda: len(plane.pods()) == 6, "the pods are there")
    for k, key in enumerate(sorted(plane.pods())):
        target = {"kind": "Node", "name": f"n{k % 2}"}
        name = key.partition("/")[2]
        body = {"metadata": {"name": name}, "target": target}
        plane.call("POST", f"/api/v1/namespaces/default/pods/{name}/binding", body)
    until(lambda: is_complete(plane, "web"), "all pods are ready")
    assert set(ready_on(plane, "web").values()) == {"n0", "n1"}
    words = ["rebalance", "--rounds", "2", "--every", "1s", "--objective", "nodes"]
    done = run(plane, *words, "--out", str(tmp_path), "--evaluations", "500")
    assert done.returncode == 0, done.stderr
    until(lambda: is_complete(plane, "web"), "all pods are ready")
    assert len(set(ready_on(plane, "web").values())) == 1
    lines = [json.loads(line) for line in (tmp_path / "rebalance.jsonl").read_text().splitlines()]
    assert [(line["planned"], line["moved"]) for line in lines] == [(3, 3), (0, 0)]
    assert lines[0]["problems"] == [] and lines[0]["gain"] > 0.05


def test_times() -> None:
    assert [parse_duration(text, "x") for text in ("90", "90s", "10m", "1.5h")] == [
        90.0,
        90.0,
        600.0,
        5400.0,
    ]
    with pytest.raises(InputError, match="--every: expected a time such as 10m"):
        parse_duration("soon", "--every")
