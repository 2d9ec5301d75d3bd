"""Selectors of nodes and tasks: what they mean, and what a plan may touch then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.kubernetes.made import Made

from murmuration.assignment.problem import Problem
from murmuration.base.errors import InputError
from murmuration.cli.plan import plan
from murmuration.planning.selectors import narrow, parse_selector, select_nodes
from murmuration.planning.snapshots.opening import open_snapshot


def cluster(folder: Path) -> Path:
    """Six nodes in three zones and two pools; pods of two namespaces on each."""
    made = Made()
    for k in range(6):
        made.node(f"n{k}", "abc"[k % 3], labels={"pool": "spot" if k < 2 else "own"})
        made.pod("web", f"n{k}", space="shop")
        made.pod("dns", f"n{k}", space="system")
    path = folder / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": made.items}))
    return path


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    return open_snapshot(cluster(tmp_path))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n3", "n3"),
        ("n3, n1", "n3 n1"),
        ("zone=a", "n0 n3"),
        ("topology.kubernetes.io/zone==a", "n0 n3"),
        ("zone!=a,pool=spot", "n1"),
        ("zone in (a, b), pool = own", "n3 n4"),
        ("zone notin (a)", "n1 n2 n4 n5"),
        ("pool=spot,!gpu", ""),
    ],
)
def test_selectors_find_the_nodes_that_have_the_labels(
    problem: Problem, text: str, names: str
) -> None:
    if names:
        assert select_nodes(problem, text, "--remove") == names.split()
    else:
        with pytest.raises(InputError, match="no node has"):
            select_nodes(problem, text, "--remove")


@pytest.mark.parametrize("text", ["", "=a", "a b", "zone in a", ","])
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected a name or labels"):
        parse_selector(text, "--only")


def test_a_value_nobody_has_names_those_there_are(problem: Problem) -> None:
    with pytest.raises(InputError, match="zone is one of a, b, c"):
        select_nodes(problem, "zone=q", "--remove")


@pytest.mark.parametrize(
    ("only", "exclude", "movable"),
    [
        (["shop"], [], {f"shop/web-{k}" for k in range(6)}),
        ([], ["system"], {f"shop/web-{k}" for k in range(6)}),
        (
            ["app=dns", "app=web"],
            ["pool=own"],
            {f"{s}-{k}" for k in range(2) for s in ("shop/web", "system/dns")},
        ),
        (["pool=spot", "shop"], [], {"shop/web-0", "shop/web-1"}),
        (["zone=c"], ["n5"], {"shop/web-2", "system/dns-2"}),
    ],
)
def test_only_what_is_meant_may_move(
    problem: Problem, only: list[str], exclude: list[str], movable: set[str]
) -> None:
    narrowed = narrow(problem, only, exclude)
    assert {t for t, free in zip(narrowed.tasks, narrowed.movable, strict=True) if free} == movable


def test_nodes_that_are_left_out_take_nobody(problem: Problem) -> None:
    narrowed = narrow(problem, ["pool=spot"], [])
    assert narrowed.allowed.sum(axis=0).astype(bool).tolist() == [True] * 2 + [False] * 4
    with pytest.raises(InputError, match="neither a node nor a task has colour=red"):
        narrow(problem, ["colour=red"], [])


def test_a_zone_is_drained_by_its_label(tmp_path: Path) -> None:
    words = [str(cluster(tmp_path)), "--remove", "zone=a", "--json"]
    answer: dict[str, Any] = json.loads(
        CliRunner().invoke(plan, words, catch_exceptions=False).stdout
    )
    assert answer["removed"] == ["n0", "n3"]
    assert {move["from"] for move in answer["moves"]} == {"n0", "n3"}
    assert answer["moved"] == 4 and not answer["unplaced"]
