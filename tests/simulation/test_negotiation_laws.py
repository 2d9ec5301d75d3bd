"""What negotiating agents may and may not do, seen in whole runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.simulation.scenarios import HEADER

from murmuration.simulation.engine import run as engine
from murmuration.simulation.results import outputs, snapshots
from murmuration.simulation.results import summary as results

SCORED, CANDIDATES = 20, 15
#: Nodes with room for one task, and nodes that are taken.
ROOMY, TAKEN = 20, 6


def run_jobs(jobs: list[tuple[float, int]], nodes: int, end_s: float, folder: Path) -> engine.Run:
    """Jobs by time and number of tasks, of each of which a node holds one."""
    lines = [
        f"j{k},work,{submit_s},{tasks},1000000,3,4,0,false,true,"
        for k, (submit_s, tasks) in enumerate(jobs)
    ]
    (folder / "jobs.csv").write_text("\n".join([HEADER, *lines]) + "\n")
    rules = {"scored_new": SCORED, "candidates": CANDIDATES}
    tables: dict[str, Any] = {
        "name": "laws",
        "seed": 1,
        "days": end_s / 86_400.0,
        "cluster": {"nodes": nodes, "cpu": 4, "memory": "16G"},
        "workload": {"trace": str(folder / "jobs.csv")},
        "scheduler": {"kind": "negotiation", "negotiation": rules},
    }
    return engine.simulate(tables)


def test_a_broker_scores_as_many_nodes_as_it_should_and_no_more(tmp_path: Path) -> None:
    """All 100 nodes suit and 20 are to be scored: 20 are."""
    table = outputs.outputs(run_jobs([(0.0, 1), (61.0, 1)], 100, 100.0, tmp_path))
    decisions = table[snapshots.DECISIONS]
    assert not isinstance(decisions, str)
    considered = decisions["considered"][decisions["decision"] == "candidates"]
    assert len(considered) and set(considered.tolist()) == {SCORED}


def test_nobody_is_forced_while_enough_nodes_suit(tmp_path: Path) -> None:
    """Twenty nodes have room for one task each and six have none; then a job asks for forty at
    once. Twenty are placed. The rest finds that all who suited by their last report are taken. But
    as many suited as a broker recommends, so nobody is forced: they wait for the next reports."""
    jobs = [(0.0, 1)] * TAKEN + [(61.0, 40)]
    run = run_jobs(jobs, ROOMY + TAKEN, 110.0, tmp_path)
    summary = results.summary(run, "x")
    assert summary["workloads"]["work"]["tasks_placed"] == TAKEN + ROOMY
    assert summary["cluster"]["collision_fraction"] > 0.0, "some found their node taken"
    assert summary["cluster"]["forced_new_per_min"] == 0.0


def test_where_too_few_suit_somebody_is(tmp_path: Path) -> None:
    """The same after the nodes have reported that they are full: now the rest is forced on them."""
    jobs = [(0.0, 1)] * TAKEN + [(61.0, 40)]
    summary = results.summary(run_jobs(jobs, ROOMY + TAKEN, 200.0, tmp_path), "x")
    assert summary["cluster"]["forced_new_per_min"] > 0.0
