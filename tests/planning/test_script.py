"""`moves.sh` executed against a stand-in for `kubectl` that keeps the API's rules: the pods end
where the plan says, whatever fails the nodes are open again, and a second run goes on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kubernetes.objects import node, pod

from murmuration.assignment.moves import MoveOrder, MoveStep
from murmuration.assignment.snapshots.builder import problem_from
from murmuration.kubernetes.marks import mark_for_execution
from murmuration.kubernetes.snapshot import snapshot_of
from murmuration.planning.changes import remove_nodes
from murmuration.planning.nodes import list_emptied
from murmuration.planning.plan import Options, Plan, make_plan
from murmuration.planning.rehearsal import rehearse
from murmuration.planning.script import can_be_scripted, script, script_notes

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="the script needs jq")
NODES = ("a", "b", "c")
MARK = "murmuration/closed-for-moves"
#: A pod, where it is ("" for nowhere), where it goes, and the wave.
Move = tuple[str, str, str, int]


def owner(name: str) -> str:
    return name.partition("-")[0]


def kind(name: str) -> str:
    return "StatefulSet" if name.startswith("db") else "ReplicaSet"


def plan_of(
    pods: dict[str, str],
    moves: list[Move],
    *,
    removed: str = "",
    absent: tuple[str, ...] = (),
    ignoring: tuple[str, ...] = (),
    cpu: str = "100m",
) -> Plan:
    """A plan for pods (name: node, "" for none) of a controller named by the name's first part.

    Pods on `removed` have no node in the problem, as after `--remove`; what is `absent` is not in
    the cluster; who is `ignoring` tolerates everything.
    """
    everything = [{"operator": "Exists"}]
    things = [node(name) for name in NODES]
    for name, on in pods.items():
        more: dict[str, Any] = {"tolerations": everything} if name in ignoring else {}
        things.append(pod(name, on, owner=f"{kind(name)}/{owner(name)}", cpu=cpu, **more))
    there = [thing for thing in things if thing["metadata"]["name"] not in absent]
    problem = problem_from(mark_for_execution(snapshot_of(things), there))
    task = {name.partition("/")[2]: t for t, name in enumerate(problem.tasks)}
    row = {"": -1, removed: -1, **{name: n for n, name in enumerate(problem.nodes)}}
    displaced = {task[name]: on for name, on in pods.items() if removed and on == removed}
    if removed:
        row[removed] = -1
        node_of = problem.node_of.copy()
        node_of[list(displaced)] = -1
        problem = replace(problem, node_of=node_of)
    steps = tuple(MoveStep(task[name], row[on], row[to], wave) for name, on, to, wave in moves)
    node_of = problem.node_of.copy()
    for step in steps:
        node_of[step.task] = step.node
    none = np.zeros(0)
    return Plan(
        problem=problem,
        objectives=(),
        before=none,
        baselines={},
        front=none,
        placements=node_of[None],
        values=none,
        order=MoveOrder(steps, node_of, ()),
        rehearsal=rehearse(problem, ()),
        unplaced={},
        displaced=displaced,
    )


@dataclass
class Run:
    """What the script did: its exit code and output, and the cluster after it."""

    code: int
    out: str
    err: str
    state: dict[str, Any]

    @property
    def calls(self) -> list[str]:
        return [" ".join(call["words"]) for call in self.state["calls"]]

    @property
    def open(self) -> list[str]:
        return [node["name"] for node in self.state["nodes"] if not node["cordoned"]]

    @property
    def marked(self) -> list[str]:
        nodes = self.state["nodes"]
        return [node["name"] for node in nodes if MARK in node.get("annotations", {})]

    @property
    def evicted(self) -> list[str]:
        paths = [call["words"][2] for call in self.state["calls"] if "--raw" in call["words"]]
        return [path.split("/")[6] for path in paths]

    def places(self) -> Counter[tuple[str, str]]:
        return Counter((pod["owner"], pod["node"]) for pod in self.state["pods"])


class Cluster:
    """A folder with a cluster's state, a script, and a `sleep` that takes no time."""

    def __init__(self, folder: Path, pods: dict[str, str], **changes: Any) -> None:
        self.folder, self.state = folder, folder / "state.json"
        cordoned, marks = changes.pop("cordoned", ()), changes.pop("pods_max", {})
        special, self.patience = changes.pop("special", {}), changes.pop("patience", 300)
        nodes = [
            {"name": name, "cordoned": name in cordoned, "pods_max": marks.get(name, 10)}
            for name in NODES
        ]
        state = {
            "nodes": nodes,
            "pods": [self._pod(name, on, special.get(name, {})) for name, on in pods.items()],
            "budgets": {},
            "vanish": {},
            "made": 0,
            "calls": [],
            "kill_at": 0,
            "leaves": 8,
            "starts": 12,
            "thrown_out": [],
            "api": "policy/v1",
            **changes,
        }
        self.state.write_text(json.dumps(state))
        (folder / "bin").mkdir()
        (folder / "bin" / "sleep").write_text("#!/bin/sh\nexit 0\n")
        (folder / "bin" / "sleep").chmod(0o755)

    @staticmethod
    def _pod(name: str, on: str, more: dict[str, Any]) -> dict[str, Any]:
        made = {"namespace": "shop", "name": name, "uid": f"uid-{name}", "node": on}
        return {**made, "owner": owner(name), "kind": kind(name), "scheduled_at": -100, **more}

    def change(self, **values: Any) -> None:
        self.state.write_text(json.dumps({**json.loads(self.state.read_text()), **values}))

    def run(self, plan: Plan, *arguments: str) -> Run:
        (self.folder / "moves.sh").write_text(script(plan, "moves of a test"))
        stub = Path(__file__).with_name("kubectl.py")
        environment = {
            **os.environ,
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "KUBECTL": f"{sys.executable} -S {stub} {self.state}",
            "PATIENCE": str(self.patience),
        }
        answer = subprocess.run(
            ["bash", "moves.sh", *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
        )
        state = json.loads(self.state.read_text())
        return Run(answer.returncode, answer.stdout, answer.stderr, state)


PODS = {"web-1": "a", "web-2": "a", "db-1": "b", "new-1": "", "idle-1": "a", "rest-1": "b"}
MOVES: list[Move] = [
    ("web-1", "a", "b", 1),
    ("web-2", "a", "c", 1),
    ("db-1", "b", "c", 2),
    ("new-1", "", "b", 2),
]
ENDS = {
    ("web", "b"): 1,
    ("web", "c"): 1,
    ("db", "c"): 1,
    ("new", "b"): 1,
    ("idle", "a"): 1,
    ("rest", "b"): 1,
}
#: Two pods change places over a third node; the first one moves twice.
RING_PODS = {"web-1": "a", "api-1": "b", "idle-1": "a", "rest-1": "b"}
RING: list[Move] = [
    ("web-1", "a", "c", 1),
    ("api-1", "b", "a", 2),
    ("web-1", "c", "b", 3),
]
RING_ENDS = {("web", "b"): 1, ("api", "a"): 1, ("idle", "a"): 1, ("rest", "b"): 1}


def cluster(folder: Path, **changes: Any) -> Cluster:
    special = {"new-1": {"fits": ["b"]}, **changes.pop("special", {})}
    return Cluster(folder, PODS, special=special, **changes)


@needs_jq
def test_every_pod_ends_where_the_plan_says(tmp_path: Path) -> None:
    run = cluster(tmp_path).run(plan_of(PODS, MOVES))
    assert run.code == 0, run.err
    assert run.places() == ENDS
    assert run.open == ["a", "b", "c"] and run.marked == []
    assert sorted(run.evicted) == ["db-1", "web-1", "web-2"]


@needs_jq
def test_nodes_are_closed_only_until_the_successor_has_a_node(tmp_path: Path) -> None:
    """From each eviction until somebody sees the new pod's node only the target is open; while pods
    start and old ones leave, all are."""
    run = cluster(tmp_path, starts=60).run(plan_of(PODS, MOVES[:1]))
    opened = [call["open"] for call in run.state["calls"]]
    at = next(k for k, call in enumerate(run.calls) if "eviction" in call)
    assert opened[at] == ["b"]
    closed = sum(len(names) < 3 for names in opened)
    assert run.code == 0 and closed < 12 < sum(len(names) == 3 for names in opened)


@needs_jq
def test_the_pods_of_a_wave_start_side_by_side(tmp_path: Path) -> None:
    """The second eviction of a wave does not wait until the first successor is ready; the next wave
    waits for both."""
    run = cluster(tmp_path, starts=40).run(plan_of(PODS, MOVES))
    at = [k for k, call in enumerate(run.calls) if "eviction" in call]
    assert run.code == 0, run.err
    assert at[1] - at[0] < 40 <= at[2] - at[1]


@needs_jq
def test_a_node_that_is_removed_is_emptied_and_stays_closed(tmp_path: Path) -> None:
    pods = {"web-1": "a", "db-1": "a", "rest-1": "b"}
    plan = plan_of(pods, [("web-1", "", "b", 1), ("db-1", "", "c", 1)], removed="a")
    run = Cluster(tmp_path, pods).run(plan)
    assert run.code == 0, run.err
    assert run.places() == {("web", "b"): 1, ("db", "c"): 1, ("rest", "b"): 1}
    assert run.open == ["b", "c"] and run.marked == []
    assert "empty now and left closed: a" in run.out


@needs_jq
def test_a_node_that_becomes_empty_stays_closed_only_if_the_script_ends_well(
    tmp_path: Path,
) -> None:
    pods = {"web-1": "a", "rest-1": "b"}
    plan = plan_of(pods, [("web-1", "a", "b", 1)])
    (tmp_path / "well").mkdir()
    (tmp_path / "ill").mkdir()
    run = Cluster(tmp_path / "well", pods).run(plan)
    assert run.code == 0 and run.open == ["b", "c"] and run.marked == []
    stuck = Cluster(
        tmp_path / "ill", pods, special={"web-1": {"never_ready": True}}, patience=9
    ).run(plan)
    assert stuck.code == 1 and stuck.open == ["a", "b", "c"] and stuck.marked == []


@needs_jq
def test_a_detour_follows_the_pod_under_its_new_name(tmp_path: Path) -> None:
    run = Cluster(tmp_path, RING_PODS).run(plan_of(RING_PODS, RING))
    assert run.code == 0, run.err
    assert run.places() == RING_ENDS
    assert run.evicted[0] == "web-1" and run.evicted[2].startswith("web-made-")


@needs_jq
@pytest.mark.parametrize("kill_at", (3, 12, 21, 30, 36, 42, 48, 57))
def test_a_run_that_is_killed_can_be_run_again(tmp_path: Path, kill_at: int) -> None:
    """Killed at any call, the second run ends where the plan does, and everything is open."""
    for folder, pods, moves, ends in (
        (tmp_path / "moves", PODS, MOVES, ENDS),
        (tmp_path / "ring", RING_PODS, RING, RING_ENDS),
    ):
        folder.mkdir()
        plan, special = plan_of(pods, moves), {"new-1": {"fits": ["b"]}}
        it = Cluster(folder, pods, kill_at=kill_at, special=special)
        first = it.run(plan)
        assert (first.code < 0) == (len(first.calls) == kill_at), first.err
        second = it.run(plan)
        assert second.code == 0, second.err
        assert second.places() == ends
        assert second.open == ["a", "b", "c"] and second.marked == []
        # Nobody is sent away twice.
        steps = [move for move in moves if move[1]]
        assert len(second.evicted) == len(steps), second.evicted


@needs_jq
def test_nodes_a_killed_run_left_closed_can_be_opened_alone(tmp_path: Path) -> None:
    it = cluster(tmp_path, cordoned=("c",), kill_at=8)
    plan = plan_of(PODS, MOVES[:1])
    killed = it.run(plan)
    assert killed.code < 0 and killed.open == ["b"] and killed.marked == ["a"]
    opened = it.run(plan, "--open")
    # What its owner had closed before stays closed.
    assert opened.code == 0 and opened.open == ["a", "b"] and opened.marked == []
    assert opened.evicted == killed.evicted


@needs_jq
def test_a_refused_eviction_is_tried_again(tmp_path: Path) -> None:
    """One of the two may be down at a time: the second waits until the first successor is ready,
    with the nodes open."""
    run = cluster(tmp_path, budgets={"web": 1}).run(plan_of(PODS, MOVES))
    assert run.code == 0, run.err
    assert run.places() == ENDS
    assert "waiting: " in run.out and "disruption budget" in run.out
    assert len(run.evicted) > 3


@needs_jq
def test_an_eviction_that_is_always_refused_ends_the_script(tmp_path: Path) -> None:
    run = cluster(tmp_path, budgets={"web": 0}, patience=30).run(plan_of(PODS, MOVES))
    assert run.code == 1 and "not evicted after 30 s" in run.err
    assert "disruption budget" in run.err
    assert run.open == ["a", "b", "c"] and run.marked == []
    assert "db-1" not in run.evicted


@needs_jq
@pytest.mark.parametrize("call", [4, 9])
def test_a_node_that_vanishes(tmp_path: Path, call: int) -> None:
    """The target: it is said and nobody is sent to nowhere. Another one: nothing happens."""
    for name, ends in (("b", False), ("c", True)):
        folder = tmp_path / name
        folder.mkdir()
        it = cluster(folder, vanish={str(call): name}, patience=60)
        run = it.run(plan_of(PODS, MOVES[:1]))
        if ends:
            assert run.code == 0, run.err
            assert run.places()[("web", "b")] == 1
        elif run.code:
            assert "node b is not there any more" in run.err or "step 1: shop/web-1" in run.err
        assert run.open == [n for n in NODES if n != name] and run.marked == []


@needs_jq
def test_nobody_else_is_thrown_out_for_room_that_is_not_free_yet(tmp_path: Path) -> None:
    """`web` comes to `b` with a high priority when `db` has left it: if the script did not wait for
    that, `rest` would have to go."""
    pods = {"web-1": "a", "cache-1": "b", "rest-1": "b", "idle-1": "a"}
    moves: list[Move] = [("cache-1", "b", "c", 1), ("web-1", "a", "b", 2)]
    special = {"web-1": {"priority": 9}}
    it = Cluster(tmp_path, pods, special=special, pods_max={"b": 2}, leaves=50, starts=1)
    run = it.run(plan_of(pods, moves))
    assert run.code == 0, run.err
    assert run.state["thrown_out"] == []
    assert run.places()[("web", "b")] == run.places()[("cache", "c")] == 1


@needs_jq
def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    it = cluster(tmp_path, budgets={"web": 0})
    before = json.loads(it.state.read_text())
    run = it.run(plan_of(PODS, MOVES), "--dry-run")
    assert run.code == 0, run.err
    assert "step 1: shop/web-1 would wait, it cannot be evicted now" in run.out
    assert "step 3: shop/db-1 would go from b to c" in run.out
    assert [n["cordoned"] for n in run.state["nodes"]] == [False] * 3
    assert [p["uid"] for p in run.state["pods"]] == [p["uid"] for p in before["pods"]]
    assert not any("annotate" in call or "cordon" in call for call in run.calls)
    ring = tmp_path / "ring"
    ring.mkdir()
    run = Cluster(ring, RING_PODS).run(plan_of(RING_PODS, RING), "--dry-run")
    assert run.code == 0 and "step 3: shop/web-1 goes on from c to b" in run.out


@needs_jq
@pytest.mark.parametrize("argument", [(), ("--dry-run",)])
def test_a_pod_that_is_elsewhere_ends_the_script(tmp_path: Path, argument: tuple[str, ...]) -> None:
    run = Cluster(tmp_path, {**PODS, "web-1": "c"}).run(plan_of(PODS, MOVES), *argument)
    assert run.code == 1
    assert "step 1: shop/web-1 is on c and not on a; make a new plan" in run.err
    assert run.evicted == [] and run.open == ["a", "b", "c"] and run.marked == []


@needs_jq
def test_a_pod_nobody_knows_of_is_not_waited_for(tmp_path: Path) -> None:
    pods = {name: on for name, on in PODS.items() if name != "web-1"}
    run = Cluster(tmp_path, pods).run(plan_of(PODS, MOVES))
    assert run.code == 1 and "shop/web-1 is not there any more; make a new plan" in run.err
    assert run.open == ["a", "b", "c"]


@needs_jq
def test_a_successor_that_goes_elsewhere_is_noticed(tmp_path: Path) -> None:
    it = cluster(tmp_path, special={"web-1": {"ignores_cordons": True}})
    run = it.run(plan_of(PODS, MOVES))
    assert run.code == 1 and "shop/web-1 was put on a instead of b; make a new plan" in run.err
    assert run.open == ["a", "b", "c"] and run.marked == []


@needs_jq
def test_nodes_that_were_closed_stay_closed(tmp_path: Path) -> None:
    run = cluster(tmp_path, cordoned=("c",)).run(plan_of(PODS, MOVES[:1]))
    assert run.code == 0 and run.open == ["a", "b"]
    (tmp_path / "target").mkdir()
    run = cluster(tmp_path / "target", cordoned=("b",)).run(plan_of(PODS, MOVES[:1]))
    assert run.code == 1 and "node b is closed; open it or make a new plan" in run.err
    assert run.evicted == [] and run.open == ["a", "c"]


@needs_jq
def test_an_older_server_gets_the_older_eviction(tmp_path: Path) -> None:
    run = cluster(tmp_path, api="policy/v1beta1").run(plan_of(PODS, MOVES[:1]))
    assert run.code == 0, run.err
    assert run.places()[("web", "b")] == 1


@needs_jq
def test_nothing_to_move_and_an_argument_nobody_knows(tmp_path: Path) -> None:
    it = cluster(tmp_path)
    run = it.run(plan_of(PODS, []))
    assert run.code == 0 and "nothing to move" in run.out and run.open == ["a", "b", "c"]
    run = it.run(plan_of(PODS, []), "--help-me")
    assert run.code == 2 and "usage: moves.sh [--dry-run | --open]" in run.err


def test_a_pod_that_tolerates_closed_nodes_is_left_out_with_who_needs_its_room() -> None:
    """Nodes of four cores and pods of three: `api` may come to `a` only if `web` leaves it, and
    `db` needs nobody's room."""
    pods = {"web-1": "a", "api-1": "b"}
    moves: list[Move] = [("web-1", "a", "c", 1), ("api-1", "b", "a", 2)]
    plan = plan_of(pods, moves, ignoring=("web-1",), cpu="3")
    assert not can_be_scripted(plan)
    assert script_notes(plan) == [
        "there is no moves.sh: a script can carry out no step of this plan",
        "step 1: shop/web-1 tolerates closed nodes, so its successor may go to any node",
        "step 2: shop/api-1 relies on a step that is left out",
    ]
    small = plan_of(pods, moves, ignoring=("web-1",))
    assert can_be_scripted(small)
    lines = script(small, "").splitlines()
    assert [line for line in lines if line.startswith("move ")] == [
        "move 2 shop api-1 ReplicaSet/api b"
    ]


def test_who_is_left_out_keeps_nobody_else_on_a_node_that_goes() -> None:
    """`web` tolerates closed nodes and is left out; the others on its node are moved all the
    same."""
    things = [node(name) for name in NODES]
    for name in ("web-1", "api-1", "api-2"):
        more: dict[str, Any] = {"tolerations": [{"operator": "Exists"}]} if name == "web-1" else {}
        things.append(pod(name, "a", owner=f"ReplicaSet/{owner(name)}", cpu="1", **more))
    rest = remove_nodes(problem_from(mark_for_execution(snapshot_of(things), things)), ["a"])
    options = Options(only_place=True, displaced=rest.displaced, exact_effort=0.0)
    plan = make_plan(rest.problem, options)
    moved = [line.split()[3] for line in script(plan, "").splitlines() if line.startswith("move ")]
    assert sorted(moved) == ["api-1", "api-2"]
    assert list_emptied(plan.problem, plan.order.node_of) == ["a"]


def test_what_is_not_in_the_cluster_is_left_out() -> None:
    plan = plan_of(PODS, MOVES, absent=("new-1", "c"))
    notes = script_notes(plan)
    assert len(notes) == 3
    assert notes[0] == (
        "moves.sh leaves out step 2: shop/web-2 would go to c, which is not in the cluster yet"
    )
    assert "shop/new-1 is not in the cluster yet; apply its manifest" in notes[2]
    text = script(plan, "")
    assert "move 1 shop web-1 ReplicaSet/web a" in text and "room is made for 1 new pods" in text
    assert "\nplace " not in text and "\nto c" not in text
    only_new = plan_of(PODS, MOVES[3:], absent=("new-1",))
    assert not can_be_scripted(only_new)


def test_a_title_of_two_lines_stays_a_comment() -> None:
    lines = script(plan_of(PODS, MOVES[:1]), "two\nlines $(id)").splitlines()
    assert lines[1] == "# two lines $(id)" and lines[-1] == "finish"


@needs_jq
@settings(max_examples=5, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=5))
def test_any_order_of_moves_ends_as_the_plan_does(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[int, int]]
) -> None:
    """Any pod may move any number of times, to nodes it has not been on."""
    names = [f"s{k}-1" for k in range(4)]
    pods = {name: NODES[k % 3] for k, name in enumerate(names)}
    been = {name: [on] for name, on in pods.items()}
    steps: list[Move] = []
    for k, n in moves:
        name = names[k]
        if NODES[n] not in been[name]:
            steps.append((name, been[name][-1], NODES[n], len(steps) + 1))
            been[name].append(NODES[n])
    run = Cluster(tmp_path_factory.mktemp("moves"), pods).run(plan_of(pods, steps))
    assert run.code == 0, run.err
    assert run.places() == Counter((owner(name), nodes[-1]) for name, nodes in been.items())


def test_only_a_kubernetes_snapshot_has_a_script() -> None:
    plan = plan_of(PODS, [])
    assert can_be_scripted(plan)
    assert plan.problem.source is not None
    other = replace(plan.problem, source=replace(plan.problem.source, format="toml"))
    for problem in (other, replace(plan.problem, source=None)):
        assert not can_be_scripted(replace(plan, problem=problem))
        assert script_notes(replace(plan, problem=problem)) == []
