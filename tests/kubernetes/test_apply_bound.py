"""A successor that another scheduler has bound while a plan's own command heard nothing."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from murmuration.kubernetes.api.client import KubeClient
from murmuration.kubernetes.applying.moves import JournalLine, PlannedMove
from murmuration.kubernetes.applying.run import ApplySettings, PlanRun


def pod(uid: str, node: str) -> SimpleNamespace:
    owner = {"kind": "ReplicaSet", "uid": "set", "controller": True}
    thing = {"metadata": {"name": uid, "uid": uid, "ownerReferences": [owner]}}
    return SimpleNamespace(uid=uid, node=node, assumed=False, leaving=False, thing=thing)


def find(records: dict[str, Any], met: str = "") -> tuple[str, list[str]]:
    """What a step finds that began beside the pod `old`, and the steps that expect no more."""
    began = JournalLine(1, "began", "gone", "gone", "set", ["old", "gone"])
    journal: Any = SimpleNamespace(began=lambda step: began, lines=[began])
    stopped: list[str] = []
    expectations = {"2": SimpleNamespace(pod=met)} if met else {}
    cluster: Any = SimpleNamespace(
        records=records, expectations=expectations, stop_expecting=stopped.append
    )
    move, client = PlannedMove(1, 1, "move", "gone", "b", "a"), cast(KubeClient, None)
    run = PlanRun(client, cluster, [move], journal, ApplySettings(), asyncio.Event())
    return run._find_bound(move, "set"), stopped


def test_it_is_found_although_nobody_saw_it_wait() -> None:
    assert find({"old": pod("old", "c"), "new": pod("new", "b")}) == ("new", ["1"])
    assert find({"old": pod("old", "c"), "x": pod("x", "c"), "y": pod("y", "b")})[0] == "y"


def test_pods_from_before_and_those_of_other_steps_are_left_alone() -> None:
    assert find({"old": pod("old", "c")}) == ("", [])
    assert find({"new": pod("new", "")}) == ("", [])
    assert find({"new": pod("new", "b")}, met="new") == ("", [])
