"""What a node counts for tasks that are to come: the same in bulk as message by message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from murmuration.cluster.migration import migration_mb
from murmuration.simulation.engine import run as engine
from murmuration.simulation.messages.negotiation.from_scenario import small_cluster
from murmuration.simulation.results import invariants
from murmuration.simulation.results import summary as results
from murmuration.simulation.scenarios import scenario as sc

JOBS = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task,production\n"
MINUTES = 5


def cell(
    folder: Path, nodes: int, jobs: list[str], usage: dict[str, float], **rules: Any
) -> engine.Run:
    """A cell of nodes of 4 CPUs and 16 GB, and jobs that use these shares of their CPUs."""
    (folder / "jobs.csv").write_text(JOBS + "\n".join(jobs) + "\n")
    lines = [f"{name},0,{share},{share}" for name, share in usage.items()]
    (folder / "usage.csv").write_text("job_id,time_s,cpu_share,memory_share\n" + "\n".join(lines))
    tables = {
        "days": MINUTES / 1440.0,
        "cluster": {"nodes": nodes, "cpu": 4, "memory": "16G"},
        "workload": {
            "trace": str(folder / "jobs.csv"),
            "usage": str(folder / "usage.csv"),
        },
        "scheduler": {"kind": "negotiation", "negotiation": rules},
    }
    return engine.prepare(sc.check(tables))


def test_tasks_that_come_together_count_as_what_they_are_thought_to_use(tmp_path: Path) -> None:
    """Twenty tasks of one CPU each on two nodes of four: not measured yet, a task counts as a
    tenth of its request, so all of them are accepted at once, in bulk as by messages."""
    jobs, usage = ["many,w,5,20,1000,1,0.1,false"], {"many": 0.05}
    agents = small_cluster(cell(tmp_path, 2, jobs, usage), 1)
    agents.run(30.0)
    bulk = cell(tmp_path, 2, jobs, usage)
    engine.advance(bulk, 30.0)
    invariants.check(bulk)
    assert len(agents.hosts.runs) == 20
    assert int(bulk.world.state["running"][0]) == 20
    assert results.summary(bulk, "")["cluster"]["collision_fraction"] == 0.0


def test_production_tasks_that_come_together_have_their_requests_guaranteed(tmp_path: Path) -> None:
    """Eight production tasks of one CPU fit on two nodes of four; the ninth waits, in both."""
    jobs, usage = ["many,w,5,9,1000,1,0.1,true"], {"many": 0.05}
    agents = small_cluster(cell(tmp_path, 2, jobs, usage), 1)
    agents.run(30.0)
    bulk = cell(tmp_path, 2, jobs, usage)
    engine.advance(bulk, 30.0)
    invariants.check(bulk)
    forced = int(bulk.state.progress["forced_new"][0])
    assert len(agents.hosts.runs) - agents.counts().get("forced", 0) == 8
    assert int(bulk.world.state["running"][0]) - forced == 8


@pytest.mark.parametrize(("portion", "collides"), [(0, True), (1, False), (30, True)])
def test_tasks_of_one_portion_ask_before_any_of_them_is_placed(
    portion: int, collides: bool, tmp_path: Path
) -> None:
    """Thirty tasks that use most of a node each, for thirty nodes: whoever asks one by one finds
    what was accepted."""
    jobs, usage = ["wide,w,5,30,1000,3,0.1,true"], {"wide": 1.0}
    run = cell(tmp_path, 30, jobs, usage, portion=portion)
    engine.advance(run, 30.0)
    invariants.check(run)
    collisions = int(run.state.progress["collisions"][0])
    assert (collisions > 0) == collides


def test_what_is_placed_is_counted_at_its_request(tmp_path: Path) -> None:
    jobs, usage = ["a,w,5,7,1000,0.1,1.5,false", "b,w,65,1,1000,0.1,2,true"], {"a": 0.1, "b": 0.1}
    run = cell(tmp_path, 4, jobs, usage)
    engine.advance(run)
    placed = results.summary(run, "")["cluster"]["placed_mb_per_min"] * MINUTES
    assert placed == pytest.approx(7 * migration_mb(1_500_000_000) + migration_mb(2_000_000_000))


def test_overload_is_also_counted_when_agents_look(tmp_path: Path) -> None:
    """One node alone, and a task that uses all it has and half as much again: it is seen overloaded
    at every look but those before it was measured, and nobody can take it."""
    run = cell(tmp_path, 1, ["greedy,w,5,1,1000,3.5,0.1,false"], {"greedy": 1.5})
    engine.advance(run)
    looks = int(run.state.progress["looks"][0])
    seen = results.summary(run, "")["cluster"]["overloaded_seen"]
    assert looks >= MINUTES - 1 and seen == pytest.approx((looks - 1) / looks, abs=1 / looks)
