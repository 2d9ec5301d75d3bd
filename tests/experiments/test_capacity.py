"""How few nodes and how much load: clusters whose answer is known by counting, and the rule that
ends a walk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from murmuration.base.errors import InputError
from murmuration.experiments import capacity, parallel
from murmuration.experiments.capacity import CapacityQuestion
from murmuration.experiments.pages import capacity as capacity_page
from murmuration.experiments.specs import Spec, make_spec
from murmuration.reports.page import render
from murmuration.simulation.engine import run as engine
from murmuration.simulation.scenarios import scenario as sc

Tables = dict[str, Any]
HEADER = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task"
NODES, JOBS = 20, 20


@pytest.fixture
def halves(tmp_path: Path) -> Tables:
    """Twenty nodes and twenty tasks that each take half a node and outlast the run: ten nodes are
    just enough."""
    lines = [f"job{k},batch,{k},1,1000000,2,4" for k in range(JOBS)]
    (tmp_path / "jobs.csv").write_text("\n".join([HEADER, *lines]) + "\n")
    return {
        "name": "halves",
        "days": 0.01,
        "cluster": {"nodes": NODES, "cpu": 4, "memory": "16G"},
        "workload": {"trace": str(tmp_path / "jobs.csv")},
        "scheduler": {
            "kind": "monolithic",
            "placement": "best-fit",
            "decision": {"default": {"job_time_s": 0.01}},
        },
    }


def run_here(specs: Sequence[Spec]) -> list[dict[str, Any]]:
    return parallel.run_all(specs, workers=1)


@pytest.mark.parametrize("kind", ["compact", "grow"])
def test_a_cluster_that_is_too_small_already_holds_nothing(halves: Tables, kind: str) -> None:
    """Five nodes hold ten of the twenty tasks: the answer says so instead of praising 100 %."""
    halves["cluster"]["nodes"] = 5
    question = CapacityQuestion(kind, 0.05)
    walk = capacity.walk(make_spec("best-fit", halves), question, run_here)
    assert walk.farthest is None and len(walk.steps) == 2
    assert walk.steps[0].left == pytest.approx(0.5)
    sentence = capacity.answer(question, walk)
    assert "does not hold at 100 % already: batch saturated" in sentence


def test_the_fewest_nodes_are_found(halves: Tables) -> None:
    walk = capacity.walk(make_spec("best-fit", halves), CapacityQuestion("compact", 0.05), run_here)
    assert walk.farthest is not None and (walk.farthest.size, walk.farthest.nodes) == (0.5, 10)
    assert [round(step.nodes or 0) for step in walk.steps] == list(range(20, 7, -1)), (
        "down to two that fail"
    )
    for step in walk.steps:
        nodes = round(step.nodes or 0)
        assert step.left == pytest.approx(max(0, JOBS - 2 * nodes) / JOBS)
        assert step.holds == (nodes >= 10)
        # What runs is all that fits: half of the CPU at the start, all of it at ten nodes.
        assert step.used is not None and step.used["cpu"] == pytest.approx(
            min(10 / nodes, 1), rel=0.02
        )


def test_the_most_load_is_found(halves: Tables) -> None:
    """Up to twice the jobs fit. Copies are made by the hash of ids; how many that gives is counted
    apart."""
    walk = capacity.walk(
        make_spec("best-fit", halves), CapacityQuestion("grow", 0.25), run_here, ahead=3
    )
    assert walk.farthest is not None
    for step in walk.steps:
        jobs = len(
            engine.prepare(
                sc.check(sc.override(halves, {"workload.multiply": step.size}))
            ).setup.jobs
        )
        assert step.left == pytest.approx(max(0, jobs - 2 * NODES) / jobs)
        assert step.holds == (jobs <= 2 * NODES)
    assert walk.farthest.size == 2.0


def test_fewer_nodes_are_always_some_of_the_more(halves: Tables) -> None:
    def names(keep: float, seed: int = 1) -> list[str]:
        tables = sc.override(halves, {"cluster.keep": keep, "seed": seed})
        return list(engine.prepare(sc.check(tables)).setup.nodes.names)

    everything = names(1.0)
    for keep in (0.9, 0.55, 0.5, 0.05):
        fewer = names(keep)
        assert len(fewer) == round(keep * NODES) and set(fewer) < set(everything)
        assert fewer == sorted(fewer, key=everything.index), "in their old order"
        everything_kept, everything = set(everything), fewer
        assert set(fewer) <= everything_kept
    assert names(0.5, seed=1) != names(0.5, seed=2)


def test_what_happens_to_a_node_that_is_gone_does_not_happen() -> None:
    group = {"count": 10, "cpu": 4, "memory": "16G"}
    stream = {"arrivals_per_s": 0.01, "task_duration_s": 10, "task_cpu": 1}
    tables = {
        "days": 0.01,
        "workload": {"a": stream},
        "cluster": {"keep": 0.5, "group": [group, {**group, "join_s": 100.0, "leave_s": 500.0}]},
    }
    run = engine.simulate(tables)
    late = [name for name in run.setup.nodes.names if int(name.removeprefix("node-")) >= 10]
    assert len(run.setup.nodes) == 10 and 0 < len(late) < 10
    changed = [run.setup.nodes.names[row] for row in run.setup.changes.node]
    assert sorted(changed) == sorted(2 * late)


def test_a_generated_workload_is_multiplied_too() -> None:
    stream = {
        "arrivals_per_s": 0.05,
        "tasks_per_job": 2,
        "task_duration_s": 10,
        "task_cpu": 1,
        "initial": 10,
    }
    tables = {"days": 0.01, "cluster": {"nodes": 50}, "workload": {"a": stream, "b": stream}}
    once = engine.prepare(sc.check(tables)).setup.jobs
    double = engine.prepare(sc.check(sc.override(tables, {"workload.multiply": 2}))).setup.jobs
    assert double.tasks.sum() == 2 * once.tasks.sum()
    assert double.submit_s[::2].tolist() == double.submit_s[1::2].tolist() == once.submit_s.tolist()
    some = engine.prepare(sc.check(sc.override(tables, {"workload.multiply": 1.5}))).setup.jobs
    assert set(once.job_id) < set(some.job_id) < set(double.job_id)


def summary(overloaded: float = 0.0, queued: int = 0, saturated: bool = False) -> dict[str, Any]:
    """The figures a verdict is made of, of a hundred nodes and a thousand jobs."""
    types = {
        "idle": 0.0,
        "sta": 0.0,
        "ta": 0.0,
        "pa": 0.0,
        "da": 100.0 - overloaded,
        "overloaded": overloaded,
    }
    jobs = {
        "jobs_submitted": 1000,
        "jobs_queued": queued,
        "jobs_abandoned": 0,
        "saturated": saturated,
    }
    cluster = {"allocation_types": types, "nodes_mean": 100.0, "tasks_running_mean": 5.0}
    return {"workloads": {"a": jobs}, "cluster": {**cluster, "used": {"cpu": 0.5, "memory": 0.5}}}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (summary(), ""),
        (summary(overloaded=0.5), ""),
        (summary(overloaded=0.51), "overloaded"),
        (summary(queued=15), ""),  # five of them wait at 100 % as well
        (summary(queued=16), "not placed"),
        (summary(saturated=True), "a saturated"),
    ],
)
def test_a_size_holds_while_nothing_is_overloaded_or_waits(
    found: dict[str, Any], words: str
) -> None:
    step = capacity.judge(0.9, found, summary(queued=5), CapacityQuestion("compact", 0.01))
    assert step.holds == (not words) and words in step.why


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(1, 4))
def test_a_walk_ends_at_the_second_failure_in_a_row(holds: list[bool], ahead: int) -> None:
    """Whatever runs side by side, the steps are those of a walk one by one."""
    said = iter([*holds, False, False, *[True] * 10])

    def run_all(specs: Sequence[Spec]) -> list[dict[str, Any]]:
        return [summary(overloaded=0.0 if next(said) else 50.0) for _ in specs]

    tables = {"cluster": {"nodes": 1}, "workload": {"a": {"arrivals_per_s": 1}}}
    walk = capacity.walk(make_spec("x", tables), CapacityQuestion("grow", 0.1), run_all, ahead)
    text = "".join("+" if hold else "-" for hold in [*holds, False, False])
    assert len(walk.steps) == text.index("--") + 2
    good = len(text) - len(text.lstrip("+"))
    assert (walk.farthest.size if walk.farthest else None) == (
        pytest.approx(1 + 0.1 * (good - 1)) if good else None
    )


def test_a_size_that_cannot_run_fails_and_is_no_error(halves: Tables) -> None:
    """One large node among small ones is what the jobs need: without it none can ever run."""
    group = {"cpu": 4, "memory": "16G"}
    tables = {
        **halves,
        "cluster": {"group": [{**group, "count": 10}, {"count": 10, "cpu": 1, "memory": "16G"}]},
    }
    walk = capacity.walk(
        make_spec("x", tables), CapacityQuestion("compact", 0.25), run_here, ahead=2
    )
    assert walk.steps[0].holds and not walk.steps[-1].holds
    nothing = {**halves, "cluster": {"nodes": 20, "cpu": 1, "memory": "16G"}}
    with pytest.raises(InputError, match="no job can ever run"):
        capacity.walk(make_spec("x", nothing), CapacityQuestion("compact", 0.25), run_here)


def test_a_cluster_of_one_size_ends_where_there_are_no_nodes_left(halves: Tables) -> None:
    tables = {**halves, "cluster": {**halves["cluster"], "nodes": 100}}
    walk = capacity.walk(make_spec("x", tables), CapacityQuestion("compact", 0.3), run_here)
    assert [step.size for step in walk.steps] == [
        1.0,
        0.7,
        0.4,
        0.1,
    ] and walk.farthest == walk.steps[-1]


def test_the_page_shows_every_step(halves: Tables) -> None:
    question = CapacityQuestion("compact", 0.25)
    walk = capacity.walk(make_spec("best-fit", halves), question, run_here)
    page = render(capacity_page.page("halves", question, [walk]))
    assert "best-fit: holds at 50 % of its nodes (10 nodes, 20 tasks running)" in page
    assert all(f"{100 * step.size:g} %" in page for step in walk.steps)
    assert capacity.document(question, [walk])["schedulers"][0]["farthest"] == 0.5


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (CapacityQuestion("compact", 0.0), "--step: expected a share above 0 up to 0.5"),
        (CapacityQuestion("compact", float("nan")), "--step"),
        (CapacityQuestion("grow", 11.0), "--step: expected a share above 0 up to 10"),
        (CapacityQuestion("grow", 0.1, limit=1.0), "--limit"),
        (CapacityQuestion("grow", 0.1, waiting=-0.1), "--waiting"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(question: CapacityQuestion, words: str) -> None:
    with pytest.raises(InputError, match=words):
        capacity.check(question)
