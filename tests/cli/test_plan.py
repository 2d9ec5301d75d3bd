"""`murmur plan` as a user meets it: what it prints and writes, and one sentence for every bad
snapshot."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.cli.checkouts import ROOT
from tests.cli.conftest import Murmur
from tests.cli.test_bad_input import check
from tests.kubernetes.objects import apart, budget, node, pod, write

WEB, DB = {"app": "web"}, {"app": "db"}


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Three nodes, the first crowded: what a first-fit would leave behind."""
    pods = [pod(f"web-{k}", "a", labels=WEB) for k in range(4)]
    pods += [
        pod(
            "db-0",
            "a",
            cpu="1",
            memory="6Gi",
            labels=DB,
            owner="StatefulSet/db",
            affinity=apart(DB),
        )
    ]
    pods += [
        pod(
            "db-1",
            "b",
            cpu="1",
            memory="6Gi",
            labels=DB,
            owner="StatefulSet/db",
            affinity=apart(DB),
        )
    ]
    things = [node("a"), node("b"), node("c"), *pods, budget("web", WEB, maxUnavailable=1)]
    return write(tmp_path / "cluster.json", *things)


def test_a_plan_is_better_allowed_and_labelled(murmur: Murmur, cluster: Path) -> None:
    answer = murmur("plan", str(cluster), "--evaluations", "300", "--out", "out")
    assert answer.code == 0, answer.err
    assert "feasible now, not reserved" in answer.err and "chosen" in answer.out
    told = json.loads(Path("out/plan.json").read_text())
    assert told["label"] == "feasible now, not reserved"
    assert told["objectives"]["crowding"]["chosen"] < told["objectives"]["crowding"]["before"]
    assert told["objectives"]["unplaced"]["chosen"] == 0
    # The disruption budget lets one of its pods be on the way at a time.
    waves = [move["wave"] for move in told["moves"] if move["task"].startswith("shop/web")]
    assert len(set(waves)) == len(waves)
    assert "parallel" in Path("out/report.html").read_text()


def test_the_moves_are_rehearsed(murmur: Murmur, cluster: Path) -> None:
    answer = murmur("plan", str(cluster), "--evaluations", "200", "--rate", "250", "--out", "out")
    assert "rehearsed at 250 MB/s a move" in answer.err and "none above its total" in answer.err
    told = json.loads(Path("out/plan.json").read_text())
    moved = sum({"web": 1, "db-": 6}[move["task"][5:8]] * 2**30 / 1e6 for move in told["moves"])
    found = told["rehearsal"]
    assert found["megabytes"] == pytest.approx(moved) and found["wrong"] == []
    assert (
        found["seconds"]
        == max(move["end_s"] for move in told["moves"])
        <= found["seconds_one_by_one"]
    )
    assert found["seconds_one_by_one"] == pytest.approx(moved / 250, abs=1e-2)
    assert found["nodes_above_total"] == 0 and found["load_max"] <= 1
    assert "Moves under way" in Path("out/report.html").read_text()


def test_the_script_is_shell_and_says_every_move(murmur: Murmur, cluster: Path) -> None:
    assert murmur("plan", str(cluster), "--evaluations", "200", "--out", "out").code == 0
    told = json.loads(Path("out/plan.json").read_text())
    text = Path("out/moves.sh").read_text()
    assert subprocess.run(["bash", "-n", "out/moves.sh"], check=False).returncode == 0
    assert text.count("\nmove ") == len(told["moves"]) > 0
    assert "feasible now, not reserved" in text


def test_the_same_seed_gives_the_same_plan(murmur: Murmur, cluster: Path) -> None:
    answers = [
        json.loads(murmur("plan", str(cluster), "--evaluations", "200", "--json").out)
        for _ in range(2)
    ]
    for answer in answers:
        answer.pop("timing")
    assert answers[0] == answers[1]


def test_a_pod_that_fits_nowhere_is_placed_with_the_fewest_moves(
    murmur: Murmur, tmp_path: Path
) -> None:
    things = [
        node("a"),
        node("b"),
        pod("p", "a", cpu="2"),
        pod("q", "b", cpu="2", owner="ReplicaSet/q"),
    ]
    snapshot = write(tmp_path / "full.json", *things)
    new = write(tmp_path / "new.json", pod("big", cpu="3", owner="ReplicaSet/big"))
    told = json.loads(murmur("plan", str(snapshot), "--place", str(new), "--json").out)
    assert told["moved"] == 1 and told["fewest_moves_bound"] == 1 and told["unplaced"] == []
    assert [move["kind"] for move in told["moves"]] == ["move", "place"]


def test_a_removed_node_tells_who_goes_where_and_who_is_stranded(
    murmur: Murmur, tmp_path: Path
) -> None:
    things = [
        node("a", cpu="3"),
        node("b"),
        pod("p", "b", cpu="2"),
        pod("q", "b", cpu="2"),
        pod("bare", "b", owner=""),
    ]
    snapshot = write(tmp_path / "c.json", *things)
    told = json.loads(murmur("plan", str(snapshot), "--remove", "b", "--json").out)
    assert told["stranded"] == [{"task": "shop/bare", "reason": "nothing would make it again"}]
    assert [(m["kind"], m["from"], m["to"]) for m in told["moves"]] == [("move", "b", "a")]
    (left,) = told["unplaced"]
    assert "1 node without 2 CPU free" in left["reason"]


def test_an_objective_may_lie_beside_the_snapshot(
    murmur: Murmur, cluster: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "beside_it.py").write_text("def on_c(problem, node_of):\n    return 0.0\n")
    snapshot = cluster.rename(folder / "cluster.json")
    options = ("--objective", "beside_it:on_c", "--objective", "power", "--evaluations", "20")
    answer = murmur("plan", str(snapshot), *options, "--json")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["chosen"]["beside_it:on_c"] == 0.0


def test_limits_and_user_objectives(murmur: Murmur, cluster: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def on_c(problem, node_of):\n    return float((node_of == 2).sum())\n"
    )
    arguments = (
        "--objective",
        "crowding",
        "--objective",
        "mine:on_c",
        "--limit",
        "moves=2",
        "--evaluations",
        "300",
    )
    told = json.loads(murmur("plan", str(cluster), *arguments, "--json").out)
    assert told["moved"] <= 2
    assert {"crowding", "mine:on_c"} == set(told["front"][0])
    assert (
        told["objectives"]["mine:on_c"]["chosen"]
        == told["chosen"]["mine:on_c"]
        == int(told["chosen"]["mine:on_c"])
    )


def test_pymoo_is_shown_beside_it_and_breaks_nothing(murmur: Murmur, cluster: Path) -> None:
    """The library starts from the same placements, so it places as much; the plan is worse than it
    in not all."""
    told = json.loads(murmur("plan", str(cluster), "--pymoo", "--evaluations", "400", "--json").out)
    peer, ours = told["baselines"]["pymoo"], told["chosen"]
    assert peer["unplaced"] == ours["unplaced"] == 0
    assert any(ours[o["name"]] <= peer[o["name"]] for o in told["optimised"])
    shown = murmur("plan", str(cluster), "--pymoo", "--evaluations", "200").out
    assert shown.count("NSGA-III") == 1


def test_the_toml_format(murmur: Murmur, tmp_path: Path) -> None:
    text = """
[[node]]
name = "n"
count = 3
cpu = 4
memory = "8Gi"
[[service]]
name = "web"
cpu = 1
memory = "1Gi"
on = ["n-1", "n-1", "n-1"]
apart = "node"
[[service]]
name = "new"
cpu = 2
memory = "2Gi"
replicas = 2
"""
    (tmp_path / "own.toml").write_text(text)
    told = json.loads(murmur("plan", "own.toml", "--evaluations", "200", "--json").out)
    Path("out").mkdir()
    Path("out/moves.sh").write_text("that of another plan")
    answer = murmur("plan", "own.toml", "--evaluations", "20", "--out", "out")
    # There is no kubectl for it, so there is no script of it either.
    assert sorted(path.name for path in Path("out").iterdir()) == ["plan.json", "report.html"]
    assert "moves.sh" not in answer.err and "report.html" in answer.err
    assert told["unplaced"] == [] and told["nodes"] == 3
    ends = {move["task"]: move["to"] for move in told["moves"]}
    assert len({ends.get(f"web-{k}", "n-1") for k in (1, 2, 3)}) == 3


def bad(change: Any) -> list[Any]:
    """A small cluster with something wrong in its pod."""
    thing = pod("p", "a", labels=WEB)
    change(thing)
    return [node("a"), thing]


def requests(thing: Any, **amounts: str) -> None:
    thing["spec"]["containers"][0]["resources"]["requests"].update(amounts)


def limits(thing: Any) -> None:
    thing["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "100m"}


BAD = {
    "a request above its limit": (bad(limits), "shop/p.*more cpu than its limit"),
    "a negative quantity": (bad(lambda p: requests(p, cpu="-1")), "shop/p.*neither negative"),
    "an unparsable quantity": (
        bad(lambda p: requests(p, memory="lots")),
        "shop/p.*expected a number",
    ),
    "a unit nobody knows": (bad(lambda p: requests(p, memory="5Qi")), "shop/p.*unit"),
    "containers by name": (
        bad(lambda p: p["spec"].update(containers={"main": {}})),
        "shop/p: expected containers to be a list",
    ),
    "an empty cluster": ([pod("p")], "the cluster is empty"),
    "a pod in two states": (
        [node("a"), pod("p"), pod("p", "a")],
        "shop/p: is in the snapshot twice",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_snapshot_is_one_sentence(murmur: Murmur, tmp_path: Path, what: str) -> None:
    things, sentence = BAD[what]
    snapshot = write(tmp_path / "bad.json", *things)
    check(murmur, tmp_path, ("plan", str(snapshot), "--out", "out"), *sentence.split(".*"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "expected JSON"),
        ('{"kind": "List", "items": []}', "found none"),
        ('{"a": 1}', "expected Kubernetes objects"),
        ("name,cpu\na,1\n", "no snapshot"),
        ("", "the file is empty"),
    ],
)
def test_a_snapshot_of_something_else_is_one_sentence(
    murmur: Murmur, tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "other.json").write_text(text)
    check(murmur, tmp_path, ("plan", "other.json"), *sentence.split(".*"))


def test_wrong_options_are_one_sentence(murmur: Murmur, cluster: Path, tmp_path: Path) -> None:
    twice = ("--objective", "crowding", "--objective", "crowding")
    for options, sentence in (
        (("--remove", "d"), "--remove: unknown node 'd'"),
        (("--add", "m5.lage=2"), "did you mean 'm5.large'"),
        (("--add", "m5.large"), "TYPE=COUNT"),
        (twice, "each objective once"),
    ):
        check(murmur, tmp_path, ("plan", str(cluster), *options), sentence)
    check(murmur, tmp_path, ("plan", "nothing.json"), "no such file")


def test_a_pod_without_requests_is_counted_and_said(murmur: Murmur, tmp_path: Path) -> None:
    thing = pod("p", "a")
    thing["spec"]["containers"][0].pop("resources")
    snapshot = write(tmp_path / "c.json", node("a"), thing)
    told = json.loads(murmur("plan", str(snapshot), "--evaluations", "20", "--json").out)
    assert any("1 of 1 pods request neither CPU nor memory" in note for note in told["notes"])


def test_one_is_one_and_percents_are_written_alike(murmur: Murmur) -> None:
    answer = murmur("plan", str(ROOT / "examples" / "cluster.toml"), "--out", "planned")
    assert "1 is placed" in answer.err and "0 find no node" in answer.err
    assert not re.search(r"\b1 (tasks|moves|nodes|steps|waves|are)\b|\d%", answer.out + answer.err)
