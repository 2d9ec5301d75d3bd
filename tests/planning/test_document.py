"""The document of a plan says what the plan says: counts recomputed from the moves, sentences for
every size."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.planning.test_script import MOVES, PODS, plan_of

from murmuration.assignment import objectives as of
from murmuration.assignment.objectives import Objective
from murmuration.planning.document import FRONT_MAX, document, rehearsal_sentence, table
from murmuration.planning.plan import Plan
from murmuration.planning.rehearsal import MoveRehearsal, Pace, rehearse


@pytest.fixture
def plan() -> Plan:
    """A plan of four steps, one of which places a pod, with values that are easy to tell apart."""
    made = plan_of(PODS, MOVES)
    made.before = np.arange(of.COUNT, dtype=float) + 1
    made.values = made.before * 0.5
    made.baselines = {"kubernetes": made.before * 2}
    made.objectives = (Objective("crowding"), Objective("moves", 2.0))
    made.rehearsal = rehearse(made.problem, made.order.steps)
    return made


def test_the_moves_lead_from_before_to_after(plan: Plan) -> None:
    """Played over the pods' places they give the plan's placement, with names instead of
    numbers."""
    written = json.loads(json.dumps(document(plan, "a cluster")))
    where = {
        task: plan.problem.nodes[n] if n >= 0 else None
        for task, n in zip(plan.problem.tasks, plan.problem.node_of.tolist(), strict=True)
    }
    for number, move in enumerate(written["moves"], 1):
        assert move["step"] == number and where[move["task"]] == move["from"]
        assert move["kind"] == ("place" if move["from"] is None else "move")
        assert 0 <= move["start_s"] <= move["end_s"]
        where[move["task"]] = move["to"]
    ends = [plan.problem.nodes[n] for n in plan.order.node_of.tolist()]
    assert where == dict(zip(plan.problem.tasks, ends, strict=True))
    assert written["moved"] == 3
    assert written["placed_before"] == sum(bool(on) for on in PODS.values())
    assert written["rehearsal"]["wrong"] == []


def test_a_displaced_task_moves_from_the_node_that_is_gone(plan: Plan) -> None:
    task = plan.problem.tasks.index("shop/new-1")
    plan.displaced = {task: "gone"}
    (move,) = [m for m in document(plan, "")["moves"] if m["task"] == "shop/new-1"]
    assert (move["kind"], move["from"], move["to"]) == ("move", "gone", "b")
    assert document(plan, "")["placed_before"] == sum(bool(on) for on in PODS.values()) + 1


def test_changes_are_against_what_ran_before(plan: Plan) -> None:
    rows = document(plan, "")["objectives"]
    assert list(rows) == list(of.NAMES)
    assert all(row["change"] == pytest.approx(-0.5) for row in rows.values())
    plan.before[0] = 0.0
    assert document(plan, "")["objectives"]["crowding"]["change"] is None


def test_a_long_front_is_thinned_and_keeps_its_ends(plan: Plan) -> None:
    plan.front = np.column_stack([np.arange(3000.0), np.arange(3000.0)[::-1]])
    shown = document(plan, "")["front"]
    assert len(shown) == FRONT_MAX
    assert shown[0] == {"crowding": 0, "moves": 2999} and shown[-1]["crowding"] == 2999
    assert [row["crowding"] for row in shown] == sorted(row["crowding"] for row in shown)


def test_the_table_marks_what_was_asked_for(plan: Plan) -> None:
    columns, rows = table(plan)
    assert columns[0] == "objective" and columns[-2:] == ["chosen", "change"]
    assert [str(row[0]) for row in rows if str(row[0]).endswith("*")] == ["crowding *", "moves *"]
    assert {row[-1] for row in rows} == {"−50.0\u00a0%"}
    plan.values = plan.before * 1.0001
    assert {row[-1] for row in table(plan)[1]} == {"0\u00a0%"}
    assert table(plan, only=("pymoo",))[0] == ["objective", "before", "chosen", "change"]


def rehearsal(seconds: float, megabytes: float) -> MoveRehearsal:
    problem = plan_of({"web-1": "a"}, []).problem
    steps = plan_of({"web-1": "a"}, [("web-1", "a", "b", 1)]).order.steps
    found = rehearse(problem, steps, Pace(float(problem.megabytes[0] / seconds)))
    found.megabytes = megabytes
    return found


@pytest.mark.parametrize(
    ("seconds", "megabytes", "words"),
    [
        (12.3456, 5.0, "12.3 s for 5 MB (12.3 s one by one), at most 1 at once"),
        (119.0, 999.0, "119 s for 999 MB"),
        (170.0, 5.0, "3 min for 5 MB"),
        (600.0, 1000.0, "10 min for 1 GB"),
        (9000.0, 2_500_000.0, "2.5 h for 2,500 GB"),
    ],
)
def test_durations_and_sizes_are_for_people(seconds: float, megabytes: float, words: str) -> None:
    assert words in rehearsal_sentence(rehearsal(seconds, megabytes))


def test_nothing_to_copy_is_said() -> None:
    found = rehearse(plan_of({"new-1": ""}, []).problem, ())
    assert rehearsal_sentence(found).startswith("rehearsed: nothing has to be copied; ")
    found.overfull, found.above = 2, 1
    assert rehearsal_sentence(found).endswith("1 of 2 overfull nodes got fuller")
