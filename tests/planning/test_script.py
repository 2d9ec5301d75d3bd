"""`moves.sh` executed against a stand-in for `kubectl` that keeps the API's rules: the pods end
where the plan says, and whatever fails, the nodes are open again."""

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

from murmuration.assignment.moves import MoveOrder, Step
from murmuration.assignment.snapshots.builder import problem_from
from murmuration.kubernetes.snapshot import snapshot_of
from murmuration.planning.plan import Plan
from murmuration.planning.rehearsal import rehearse
from murmuration.planning.script import can_be_scripted, script

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="the script needs jq")
NODES = ("a", "b", "c")


def plan_of(pods: dict[str, str], steps: list[tuple[str, str, str]]) -> Plan:
    """A plan for pods (name: node, "" for none) of one controller each, named by the name's first
    part; steps are (pod, from, to)."""
    things = [node(name) for name in NODES]
    things += [pod(name, on, owner=f"ReplicaSet/{owner(name)}") for name, on in pods.items()]
    problem = problem_from(snapshot_of(things))
    task = {name.partition("/")[2]: t for t, name in enumerate(problem.tasks)}
    row = {"": -1, **{name: n for n, name in enumerate(problem.nodes)}}
    made = tuple(
        Step(task[name], row[origin], row[to], k) for k, (name, origin, to) in enumerate(steps, 1)
    )
    node_of = problem.node_of.copy()
    for step in made:
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
        order=MoveOrder(made, node_of, ()),
        rehearsal=rehearse(problem, ()),
        unplaced={},
    )


def owner(name: str) -> str:
    return name.partition("-")[0]


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

    def places(self) -> Counter[tuple[str, str]]:
        return Counter((pod["owner"], pod["node"]) for pod in self.state["pods"])


def execute(
    folder: Path,
    plan: Plan,
    pods: dict[str, str],
    cordoned: tuple[str, ...] = (),
    fits: dict[str, str] | None = None,
    **changes: Any,
) -> Run:
    """Run the plan's script against a cluster with these pods. `sleep` takes no time."""
    fits = fits or {"new-1": "b"}
    state = {
        "nodes": [{"name": name, "cordoned": name in cordoned, "pods_max": 10} for name in NODES],
        "pods": [
            {
                "namespace": "shop",
                "name": name,
                "node": on,
                "owner": owner(name),
                "asked": 1,
                "fits": list(fits.get(name, NODES)),
            }
            for name, on in pods.items()
        ],
        "budgets": {},
        "made": 0,
        "calls": [],
        **changes,
    }
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "moves.sh").write_text(script(plan, "moves of a test"))
    commands = folder / "bin"
    commands.mkdir(exist_ok=True)
    (commands / "sleep").write_text("#!/bin/sh\nexit 0\n")
    (commands / "sleep").chmod(0o755)
    stub = Path(__file__).with_name("kubectl.py")
    environment = {
        **os.environ,
        "PATH": f"{commands}:{os.environ['PATH']}",
        "KUBECTL": f"{sys.executable} -S {stub} {folder / 'state.json'}",
        "PATIENCE": "6",
    }
    answer = subprocess.run(
        ["bash", "moves.sh"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    after = json.loads((folder / "state.json").read_text())
    return Run(answer.returncode, answer.stdout, answer.stderr, after)


PODS = {"web-1": "a", "web-2": "a", "db-1": "b", "new-1": ""}
STEPS = [("web-1", "a", "b"), ("db-1", "b", "c"), ("new-1", "", "b"), ("web-2", "a", "c")]


@needs_jq
def test_every_pod_ends_where_the_plan_says(tmp_path: Path) -> None:
    plan = plan_of(PODS, STEPS)
    run = execute(tmp_path, plan, PODS)
    assert run.code == 0, run.err
    assert run.places() == {("web", "b"): 1, ("web", "c"): 1, ("db", "c"): 1, ("new", "b"): 1}
    assert [line for line in run.out.splitlines() if line.startswith("step")] == [
        "step 1: shop/web-1 from a to b",
        "step 2: shop/db-1 from b to c",
        "step 3: shop/new-1 to b",
        "step 4: shop/web-2 from a to c",
    ]
    assert run.open == ["a", "b", "c"]


@needs_jq
def test_the_calls_of_a_move_and_of_a_placement(tmp_path: Path) -> None:
    """In this order: look who is open, close all, check, count, open the target, evict, wait until
    one more is ready, close the target; at the end open what was open."""
    run = execute(tmp_path, plan_of(PODS, STEPS[:1]), PODS)
    look, count = "-n shop get pod web-1 -o jsonpath={.spec.nodeName}", ready_call("b")
    assert run.calls[:5] == ["get nodes -o json", "cordon a", "cordon b", "cordon c", look]
    evict = "create --raw /api/v1/namespaces/shop/pods/web-1/eviction -f -"
    assert run.calls[5:8] == [count, "uncordon b", evict]
    end = len(run.calls) - 4
    # The stub says "ready" the second time it is asked.
    assert run.calls[8:end] == [count, count]
    assert run.calls[end:] == ["cordon b", "uncordon a", "uncordon b", "uncordon c"]

    pending = {"new-1": ""}
    run = execute(
        tmp_path,
        plan_of(pending, [("new-1", "", "c")]),
        pending,
        cordoned=("a", "b"),
        fits={"new-1": "c"},
    )
    look = "-n shop get pod new-1 -o jsonpath={.spec.nodeName}"
    assert run.calls == [
        "get nodes -o json",
        "cordon c",
        "uncordon c",
        look,
        "cordon c",
        "uncordon c",
    ]
    assert run.code == 0 and run.places() == {("new", "c"): 1}


def ready_call(node: str) -> str:
    return f"-n shop get pods --field-selector spec.nodeName={node} -o json"


@needs_jq
def test_a_pending_pod_gets_the_room_that_a_move_makes(tmp_path: Path) -> None:
    pods = {"db-1": "b", "new-1": ""}
    nodes = [{"name": name, "cordoned": False, "pods_max": 1} for name in NODES]
    plan = plan_of(pods, [("db-1", "b", "c"), ("new-1", "", "b")])
    run = execute(tmp_path, plan, pods, nodes=nodes)
    assert run.code == 0, run.err
    assert run.places() == {("db", "c"): 1, ("new", "b"): 1}


@needs_jq
def test_a_pod_that_is_not_scheduled_at_once_is_waited_for(tmp_path: Path) -> None:
    """Full nodes keep the pod waiting; the real `kubectl wait` would end when its time is over."""
    full = [{"name": name, "cordoned": False, "pods_max": 0} for name in NODES]
    pending = {"new-1": ""}
    run = execute(tmp_path, plan_of(pending, [("new-1", "", "c")]), pending, nodes=full)
    assert "-n shop wait --for=condition=PodScheduled pod/new-1 --timeout=6s" in run.calls
    assert run.code != 0 and run.open == ["a", "b", "c"]


@needs_jq
def test_only_the_target_is_open_while_a_pod_moves(tmp_path: Path) -> None:
    run = execute(tmp_path, plan_of(PODS, STEPS), PODS)
    targets = [to for _, _, to in STEPS]
    opened = [call["open"] for call in run.state["calls"]]
    first = next(k for k, names in enumerate(opened) if not names)
    last = max(k for k, names in enumerate(opened) if not names)
    during = [names for names in opened[first : last + 1] if names]
    assert all(len(names) == 1 for names in during)
    order = [names[0] for k, names in enumerate(during) if not k or names != during[k - 1]]
    assert order == targets


@needs_jq
def test_nodes_that_were_closed_stay_closed(tmp_path: Path) -> None:
    run = execute(tmp_path, plan_of(PODS, STEPS[:1]), PODS, cordoned=("c",))
    assert run.code == 0 and run.open == ["a", "b"]


@needs_jq
@pytest.mark.parametrize(
    ("where", "changes", "sentence"),
    [
        ("c", {}, "step 1: shop/web-1 is not on a any more; make a new plan"),
        ("a", {"budgets": {"web": 0}}, "disruption budget"),
    ],
)
def test_what_fails_stops_the_script_and_opens_the_nodes(
    tmp_path: Path, where: str, changes: dict[str, Any], sentence: str
) -> None:
    run = execute(tmp_path, plan_of(PODS, STEPS), {**PODS, "web-1": where}, **changes)
    assert run.code != 0 and sentence in run.err
    assert run.open == ["a", "b", "c"]
    assert not any("db-1" in call for call in run.calls), "no later step is begun"


@needs_jq
def test_a_new_pod_that_is_never_ready_ends_the_wait(tmp_path: Path) -> None:
    """The pod is evicted, and its successor has no room: the script gives up after its patience, in
    steps of two seconds."""
    nodes = [{"name": name, "cordoned": False, "pods_max": 3 * (name == "a")} for name in NODES]
    run = execute(tmp_path, plan_of(PODS, STEPS[:1]), PODS, nodes=nodes)
    assert run.code == 1
    assert "step 1: the new pod of shop/web is not ready on b after 6 s" in run.err
    # Once before the eviction, then at 0, 2 and 4 seconds.
    assert run.calls.count(ready_call("b")) == 1 + 3
    assert run.open == ["a", "b", "c"]


@needs_jq
def test_nothing_to_move(tmp_path: Path) -> None:
    run = execute(tmp_path, plan_of(PODS, []), PODS)
    assert run.code == 0 and "nothing to move" in run.out and run.open == ["a", "b", "c"]


def test_a_title_of_two_lines_stays_a_comment() -> None:
    lines = script(plan_of(PODS, STEPS[:1]), "two\nlines").splitlines()
    assert lines[1] == "# two lines" and lines[-1] == "move 1 shop web-1 web a b"


@needs_jq
@settings(max_examples=5, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=4))
def test_any_order_of_moves_ends_as_the_plan_does(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[int, int]]
) -> None:
    """Pods with a controller each, so that one can be told from another; a second move of a pod is
    left out, since it has another name by then."""
    names = [f"s{k}-1" for k in range(4)]
    pods = {name: NODES[k % 3] for k, name in enumerate(names)}
    steps, seen = [], set()
    for k, n in moves:
        if k not in seen and pods[names[k]] != NODES[n]:
            steps.append((names[k], pods[names[k]], NODES[n]))
            seen.add(k)
    plan = plan_of(pods, steps)
    run = execute(tmp_path_factory.mktemp("moves"), plan, pods)
    assert run.code == 0, run.err
    wanted = {
        name.partition("/")[2]: NODES[n]
        for name, n in zip(plan.problem.tasks, plan.order.node_of.tolist(), strict=True)
    }
    assert run.places() == Counter((owner(name), on) for name, on in wanted.items())


def test_only_a_kubernetes_snapshot_has_a_script() -> None:
    plan = plan_of(PODS, [])
    assert can_be_scripted(plan)
    assert plan.problem.source is not None
    other = replace(plan.problem, source=replace(plan.problem.source, format="toml"))
    assert not can_be_scripted(replace(plan, problem=other))
    assert not can_be_scripted(replace(plan, problem=replace(plan.problem, source=None)))
