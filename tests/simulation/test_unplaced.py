"""A job that fits nowhere keeps nobody else waiting, and a quota nobody set refuses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from murmuration.simulation.engine import run as engine
from murmuration.simulation.results import invariants
from murmuration.simulation.results import summary as results
from murmuration.simulation.scenarios import scenario as sc

HEADER = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task,priority"
SECONDS = 400.0


def ended(folder: Path, jobs: list[str], scheduler: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What became of each job on two nodes of four CPUs."""
    path = folder / "jobs.csv"
    path.write_text("\n".join([HEADER, *jobs]) + "\n")
    times = {"default": {"job_time_s": 0.5, "task_time_s": 0.0}}
    tables = {
        "days": SECONDS / 86_400.0,
        "cluster": {"nodes": 2, "cpu": 4, "memory": "16G"},
        "workload": {"trace": str(path)},
        "scheduler": {"decision": times, **scheduler},
    }
    run = engine.prepare(sc.check(tables))
    for until in np.linspace(0.0, run.horizon_s, 20):
        engine.advance(run, float(until))
        invariants.check(run)
    table = results.job_table(run)
    return {
        name: {column: table[column][row].item() for column in table}
        for row, name in enumerate(table["job_id"])
    }


FILLERS = ["f1,w,0,1,300,3,0,5", "f2,w,1,1,300,3,0,5"]
STUCK = [f"stuck{k},w,2,1,10,4,0,9" for k in range(3)]
SMALL = [f"small{k},w,3,1,10,1,0,{k % 3}" for k in range(6)]
CHOICES = [{"unplaced": "next"}, {"unplaced": "back-off"}, {"unplaced": "next", "retry_s": 0.1}]


@pytest.mark.parametrize("kind", ["monolithic", "shared-state", "swarm"])
@pytest.mark.parametrize("choice", CHOICES)
def test_stuck_jobs_of_high_priority_starve_nobody(
    kind: str, choice: dict[str, Any], tmp_path: Path
) -> None:
    jobs = ended(tmp_path, FILLERS + STUCK + SMALL, {"kind": kind, **choice})
    # Two small ones fit beside the fillers at a time; six take three rounds of ten seconds.
    assert all(jobs[f"small{k}"]["scheduled_s"] < 100.0 for k in range(6))
    # Whoever is stuck is tried again, and placed once there is room.
    assert all(jobs[f"stuck{k}"]["scheduled_s"] > 300.0 for k in range(3))


def test_every_waiting_job_has_a_turn_between_two_of_a_stuck_one(tmp_path: Path) -> None:
    # Nothing fits before the fillers end: whatever the priority, attempts are shared out.
    lower = [f"low{k},w,3,1,10,2,0,{k}" for k in range(4)]
    jobs = ended(tmp_path, FILLERS + STUCK + lower, {"kind": "monolithic"})
    stuck = max(jobs[f"stuck{k}"]["attempts"] for k in range(3))
    assert stuck > 20
    assert min(jobs[f"low{k}"]["attempts"] for k in range(4)) >= 0.5 * stuck


def test_back_off_doubles_up_to_its_limit(tmp_path: Path) -> None:
    rules = {"kind": "monolithic", "unplaced": "back-off", "retry_s": 2.0, "retry_max_s": 20.0}
    jobs = ended(tmp_path, [*FILLERS, STUCK[0]], rules)
    # It waits 2, 4, 8, 16 and from then on 20 s between attempts of half a second, from 2 s on.
    begins, delay = [2.0], 2.0
    while begins[-1] < 300.5:
        begins.append(begins[-1] + 0.5 + delay)
        delay = min(2 * delay, 20.0)
    assert jobs["stuck0"]["attempts"] == len(begins)
    assert jobs["stuck0"]["scheduled_s"] == begins[-1] + 0.5


def reclaiming(policy: dict[str, Any]) -> engine.Run:
    """One optimistic scheduler alone, whose tasks use a fifth of what they request."""
    work = {"arrivals_per_s": 0.05, "tasks_per_job": 4.0, "task_duration_s": 1e6, "task_cpu": 1}
    tables = {
        "days": 0.03,
        "seed": 2,
        "cluster": {"nodes": 20, "cpu": 8, "memory": "64G"},
        "workload": {"batch": {**work, "usage": {"cpu": 0.2, "memory": 0.2}}},
        "scheduler": {
            "kind": "shared-state",
            "reclaim": True,
            "policy": policy,
            "decision": {"default": {"job_time_s": 0.0, "task_time_s": 0.0}},
        },
    }
    return engine.simulate(tables)


def used_and_required(run: engine.Run) -> tuple[float, float]:
    world = run.world
    return (
        float(world.sums[2, 0] / world.totals[0]),
        float(world.sums[0, 0] / world.totals[0]),
    )


def test_one_optimistic_scheduler_of_reclaimed_nodes_never_conflicts() -> None:
    run = reclaiming({})
    used, required = used_and_required(run)
    # More is requested than there is, which is what reclaiming is for.
    assert required > 1.5 and used < 1.0
    assert run.world.workloads["commits_failed"].sum() == 0
    assert run.world.workloads["policy_refusals"].sum() == 0


@pytest.mark.parametrize("policy", [{"quota": 0.25}, {"headroom": 0.75}])
def test_a_quota_counts_what_is_used_where_usage_is_reclaimed(policy: dict[str, Any]) -> None:
    run = reclaiming({"batch": policy})
    used, required = used_and_required(run)
    assert 0.15 < used <= 0.25 and required > 0.5
    assert run.world.workloads["policy_refusals"].sum() > 0
