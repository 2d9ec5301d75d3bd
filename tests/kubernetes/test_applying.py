"""What a run that goes on with a plan takes for its own, without a cluster."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest
from tests.kubernetes.control_plane import Object, real_node, real_pod

from murmuration.cli.kube.replanning import lower_limits
from murmuration.kubernetes.api.access import Access
from murmuration.kubernetes.api.client import KubeClient
from murmuration.kubernetes.api.credentials import Fixed
from murmuration.kubernetes.api.http import Server
from murmuration.kubernetes.applying.moves import (
    JournalLine,
    MoveJournal,
    PlannedMove,
    rename_nodes,
)
from murmuration.kubernetes.applying.run import ApplySettings, PlanRun
from murmuration.kubernetes.making import is_made_by, maker_of_new
from murmuration.kubernetes.scheduling.cluster import LiveCluster


def owned(name: str, node: str = "") -> Object:
    owner = {"kind": "ReplicaSet", "name": "web-6d5f", "uid": "rs", "controller": True}
    thing = real_pod(name, metadata={"uid": name, "ownerReferences": [owner]})
    thing["spec"] |= {"nodeName": node} if node else {}
    return thing


def began(step: int, pod: str, siblings: list[str]) -> JournalLine:
    return JournalLine(step, "began", f"default/{pod}", pod, "rs", siblings)


@pytest.mark.parametrize("order", list(itertools.permutations(["s1", "s2", "s3"])))
def test_every_step_that_began_finds_a_successor(tmp_path: Path, order: tuple[str, ...]) -> None:
    """Three pods were evicted one after the other, each after the successor of the one before had
    come: the last step knows only one stranger, the first knows three."""
    journal = MoveJournal(tmp_path / "applied.jsonl", tmp_path / "plan.json")
    journal.lines = [
        began(1, "p1", ["p1", "p2", "p3"]),
        began(2, "p2", ["p2", "p3", order[0]]),
        began(3, "p3", ["p3", order[0], order[1]]),
    ]
    cluster = LiveCluster()
    cluster.replace("Node", [real_node("n0"), real_node("n1")])
    for name in order:
        cluster.see("Pod", owned(name, "n1"))
    moves = [PlannedMove(k, 1, "move", f"default/p{k}", "n1", "n0") for k in (1, 2, 3)]
    access = Access(Server("127.0.0.1", 1), Fixed("Bearer t"), "default", "nobody")
    client = KubeClient(access)
    run = PlanRun(client, cluster, moves, journal, ApplySettings(), asyncio.Event())
    resumed = run._find_resumed()
    assert sorted(resumed.values()) == ["default/s1", "default/s2", "default/s3"]
    for line in journal.lines:
        assert resumed[line.step].removeprefix("default/") not in line.siblings


def test_a_journal_knows_the_plan_that_is_carried_out(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    journal = MoveJournal.open(plan, resume=False)
    journal.add(JournalLine(1, "done", "default/a"))
    journal.add(JournalLine(2, "began", "default/b"))
    journal.add(JournalLine(0, "replanned", plan="plan-2.json"))
    journal.add(JournalLine(1, "done", "default/b"))
    again = MoveJournal.open(plan, resume=True)
    assert (again.plan, again.made, again.plans) == (tmp_path / "plan-2.json", 1, 1)
    assert again.ended() == {1} and again.began(2) is None


def test_names_and_limits() -> None:
    moves = [PlannedMove(1, 1, "move", "default/p", "new-1", "n0")]
    (renamed,) = rename_nodes(moves, {"new-1": "fresh"})
    assert (renamed.to, renamed.origin) == ("fresh", "n0")
    assert lower_limits(["moves=20", "nodes=3"], 7) == ["moves=13", "nodes=3"]
    assert lower_limits(["moves=2"], 7) == ["moves=0"]
    assert maker_of_new("default/web-new-3") == "default/web"
    assert maker_of_new("default/brand-new-thing") == "" == maker_of_new("default/web-1")
    assert is_made_by(owned("x"), "default/web") and is_made_by(owned("x"), "default/web-6d5f")
    assert not is_made_by(owned("x"), "other/web") and not is_made_by(owned("x"), "default/we")
