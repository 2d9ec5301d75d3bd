"""Which taint, label, cordon or volume closes a node to a pod; and how long pods take to start."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.made import ZONE, Made, on_nodes, where

from murmuration.assignment.moves import MoveStep
from murmuration.assignment.reasons import why_unplaced
from murmuration.kubernetes.marks import seconds_until_ready
from murmuration.planning.failures import try_failures
from murmuration.planning.rehearsal import pace_of, rehearse
from murmuration.planning.snapshots.opening import open_snapshot

GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def written(made: Made, folder: Path) -> Path:
    path = folder / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": made.items}))
    return path


def test_every_reason_is_named(tmp_path: Path) -> None:
    made = Made()
    made.node("a", "a", labels={"disk": "ssd"}, taints=[GPU])
    made.node("b", "a", labels={"disk": "ssd"}, unschedulable=True)
    made.node("c", "a", labels={"disk": "ssd"}, state="Unknown")
    made.node("d", "a")
    made.node("e", "b", labels={"disk": "ssd"})
    made.node("f", "a", labels={"disk": "ssd"}, cpu="1")
    made.pod(
        "web",
        cpu="2",
        nodeSelector={"disk": "ssd"},
        affinity=on_nodes(where(ZONE, "In", "a", "c")),
    )
    problem = open_snapshot(written(made, tmp_path))
    sentence = why_unplaced(problem, problem.node_of, 0)
    assert sorted(sentence.split("; ")) == [
        "1 node closed by a cordon",
        "1 node not ready",
        "1 node outside its node affinity (topology.kubernetes.io/zone In a, c)",
        "1 node smaller than the 2 CPU it asks for",
        "1 node with the taint gpu=yes:NoSchedule",
        "1 node without the label disk=ssd",
    ]


def test_a_node_that_fails_asks_no_job_and_no_mark(tmp_path: Path) -> None:
    """A job's pod and one that asks to be left alone come back elsewhere and need room; a daemon's
    and a bare one do not. Zones have their names."""
    made = Made()
    for name, zone in (("n0", "a"), ("n1", "b")):
        made.node(name, zone, cpu="2")
    made.pod("job", "n0", "1", owner="Job")
    made.pod("calm", "n0", "1", annotations={"karpenter.sh/do-not-disrupt": "true"})
    made.pod("bare", "n1", "500m", owner="")
    made.pod("daemon", "n0", "100m", owner="DaemonSet")
    problem = open_snapshot(written(made, tmp_path))
    first = try_failures(problem, "zone", 1)[0]
    assert first.failed == "zone a" and first.displaced == 2
    assert len(first.unplaced) == 1, "beside the bare pod there is room for one of the two"
    second = try_failures(problem, "node", 1)[1]
    assert second.failed == "n1" and second.bound == ["shop/bare-0"]


def condition(kind: str, at: str, state: str = "True") -> dict[str, Any]:
    return {"type": kind, "status": state, "lastTransitionTime": f"2026-01-01T00:{at}Z"}


@pytest.mark.parametrize(
    ("conditions", "restarts", "seconds"),
    [
        ([condition("PodScheduled", "00:00"), condition("Ready", "00:42")], 0, 42.0),
        ([condition("PodScheduled", "00:00"), condition("Ready", "00:42", "False")], 0, math.nan),
        ([condition("PodScheduled", "00:00"), condition("Ready", "00:42")], 3, math.nan),
        ([condition("Ready", "00:42")], 0, math.nan),
        ([], 0, math.nan),
    ],
)
def test_a_pod_tells_how_long_it_took(
    conditions: list[dict[str, Any]], restarts: int, seconds: float
) -> None:
    status = {"conditions": conditions, "containerStatuses": [{"restartCount": restarts}]}
    assert seconds_until_ready({"status": status}) == pytest.approx(seconds, nan_ok=True)


def test_a_rehearsal_waits_until_pods_are_ready(tmp_path: Path) -> None:
    """Two pods of two nodes go to a third one: one took 42 s, of the other nothing is known."""
    made = Made()
    for k in range(3):
        made.node(f"n{k}")
    told = [condition("PodScheduled", "00:00"), condition("Ready", "00:42")]
    made.pod("slow", "n0")["status"]["conditions"] = told
    made.pod("other", "n1")["status"]["conditions"] = []
    problem = open_snapshot(written(made, tmp_path))
    steps = [MoveStep(0, 0, 2), MoveStep(1, 1, 2)]
    result = rehearse(problem, steps, pace_of(problem, None, 7.0))
    assert (result.restarts, result.seconds, result.one_by_one) == (2, 42.0, 49.0)
    assert rehearse(problem, steps, pace_of(problem, None, None)).one_by_one == 84.0
    copied = rehearse(problem, steps, pace_of(problem, 100.0, None))
    assert copied.restarts == 0 and copied.one_by_one == pytest.approx(2 * 536.870912 / 100)
