"""What tasks would rather have: counted by hand, and granted where that can be done."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests.kubernetes.made import HOST, ZONE, Made, app_is, term, where

from murmuration.assignment.packed import pack
from murmuration.assignment.preferences import Preferences, SoftRule
from murmuration.assignment.problem import APART, SPREAD, TOGETHER, Rule, problem_of
from murmuration.assignment.search.grant import grant_wishes
from murmuration.cli.plan import plan

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NOBODY = np.zeros((1, 3))


def wishes(kind: str, weight: float = 50.0, limit: int = 0) -> Preferences:
    """Three tasks that are each other's concern, by node."""
    tasks = np.arange(3)
    rule = Rule(kind, "wish", tasks, tasks, np.arange(3), limit)
    return Preferences(NOBODY, np.zeros(3, dtype=np.int64), (SoftRule(rule, weight),))


@pytest.mark.parametrize(
    ("kind", "limit", "node_of", "unmet"),
    [
        (APART, 0, [0, 1, 2], 0.0),
        (APART, 0, [0, 0, 2], 1.0),  # Two holders, each with one beside it, half a weight each.
        (APART, 0, [1, 1, 1], 3.0),
        (TOGETHER, 0, [0, 0, 1], 0.5),
        (TOGETHER, 0, [0, 1, 2], 1.5),
        (TOGETHER, 0, [0, 0, -1], 0.0),
        (SPREAD, 1, [0, 0, 1], 0.5),  # Two on a node, none on another, one is allowed.
        (SPREAD, 1, [0, 1, 2], 0.0),
        (SPREAD, 2, [0, 0, 1], 0.0),
    ],
)
def test_wishes_between_tasks_are_counted(
    kind: str, limit: int, node_of: list[int], unmet: float
) -> None:
    assert wishes(kind, 50.0, limit).unmet(np.array(node_of)) == pytest.approx(unmet)


def test_nodes_that_are_not_liked_are_counted_and_a_part_keeps_its_wishes() -> None:
    table = np.array([[0.0, 100.0], [30.0, 0.0]])
    some = Preferences(table, np.array([0, 1, 1]))
    assert some.unmet(np.array([1, 0, 1])) == pytest.approx(1.3)
    assert some.subset(np.array([False, True, True])).unmet(np.array([0, 0])) == pytest.approx(0.6)
    three = wishes(APART).subset(np.array([True, False, True]))
    assert three.unmet(np.array([0, 0])) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", [APART, TOGETHER, SPREAD])
def test_every_move_grants_something(kind: str) -> None:
    begin = [0, 1, 2] if kind == TOGETHER else [0, 0, 0]
    problem = problem_of([[10, 10]] * 3, [[1, 1]] * 3, begin, preferences=wishes(kind, limit=1))
    if kind == APART:
        problem = problem_of([[10, 10]] * 3, [[1, 1]] * 3, begin, preferences=wishes(kind))
    assert problem.preferences is not None
    work = pack(problem)
    start = work.packed.start.astype(np.int32)
    path = [problem.node_of, *(work.restore(x) for x in grant_wishes(work, start, 9, bool))]
    values = [problem.preferences.unmet(node_of) for node_of in path]
    assert len(path) > 1 and values[-1] == 0.0
    assert all(after < before for before, after in pairwise(values))


def test_wishes_of_pods_are_read_and_granted(tmp_path: Path) -> None:
    """A taint that asks to stay away, a zone that is liked, replicas that would rather be apart,
    and a soft spread: a plan of two moves grants all."""
    made = Made()
    soft = [{"key": "spot", "effect": "PreferNoSchedule"}]
    made.node("n0", "a", taints=soft)
    made.node("n1", "b")
    made.node("n2", "c")
    liked = {"weight": 40, "preference": where(ZONE, "In", "c")}
    beside = {"weight": 60, "podAffinityTerm": term(app_is("web"), HOST)}
    made.pod("zonal", "n1", affinity={"nodeAffinity": {PREFERRED: [liked]}})
    for _ in range(2):
        made.pod("web", "n2", affinity={"podAntiAffinity": {PREFERRED: [beside]}})
    even = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": app_is("web"),
    }
    made.items[-1]["spec"]["topologySpreadConstraints"] = [even]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": made.items}))
    words = [str(path), "--objective", "preferences", "--evaluations", "60", "--json"]
    answer: dict[str, Any] = json.loads(
        CliRunner().invoke(plan, words, catch_exceptions=False).stdout
    )
    told = answer["objectives"]["preferences"]
    # 0.4 for the zone, twice 0.6 for the two beside each other, 1 for the second in one zone.
    assert told["before"] == pytest.approx(0.4 + 1.2 + 1.0)
    assert told["chosen"] == pytest.approx(0.0) and answer["moved"] == 2
