"""Usage that is measured, nodes that come and go, and negotiation in bulk: resources add up all
along, and small cells come out as arithmetic says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from murmuration.base.errors import InputError
from murmuration.simulation.engine import run as engine
from murmuration.simulation.engine.usage import phase
from murmuration.simulation.results import invariants
from murmuration.simulation.results import summary as results
from murmuration.simulation.scenarios import scenario as sc

USAGE = {
    "cpu": 0.5,
    "memory": 0.6,
    "noise": 0.3,
    "spikes_per_hour": 2.0,
    "spike": 2.5,
    "spread": 0.3,
}
KINDS = ("monolithic", "shared-state", "partitioned", "swarm", "negotiation")


def cell(kind: str, **scheduler: Any) -> dict[str, Any]:
    """Thirty nodes, ten of which come after an hour and ten of which go after two."""
    work = {"task_memory": "1G", "tasks_per_job": 3.0, "spread": 0.5, "usage": USAGE}
    return {
        "name": "cell",
        "seed": 3,
        "days": 0.125,
        "cluster": {
            "group": [
                {"count": 10, "cpu": 8, "memory": "16G"},
                {"count": 10, "cpu": 8, "memory": "16G", "join_s": 3600.0},
                {"count": 10, "cpu": 4, "memory": "8G", "leave_s": 7200.0},
            ]
        },
        "workload": {
            "service": {
                **work,
                "production": True,
                "initial": 40,
                "arrivals_per_s": 0.001,
                "task_duration_s": 20_000,
                "task_cpu": 0.8,
            },
            "batch": {
                **work,
                "initial": 30,
                "arrivals_per_s": 0.02,
                "task_duration_s": 600,
                "task_cpu": 0.5,
            },
        },
        "scheduler": {"kind": kind, "reclaim": True, **scheduler},
    }


@pytest.mark.parametrize("kind", KINDS)
def test_resources_add_up_while_usage_changes_and_nodes_come_and_go(kind: str) -> None:
    run = engine.prepare(sc.check(cell(kind)))
    engine.finish(run, lambda share: invariants.check(run))
    summary = results.summary(run, kind)
    assert summary["cluster"]["nodes_mean"] == pytest.approx(
        (20 * 3600 + 30 * 3600 + 20 * 3600) / 10_800
    )
    assert 0.0 < summary["cluster"]["used"]["cpu"] < summary["cluster"]["required"]["cpu"]
    assert run.world.state["tasks_lost"][0] > 0


def test_a_task_under_way_uses_what_it_uses_on_both_nodes() -> None:
    """Over a slow network tasks are under way for minutes, in which what they use changes; what is
    free on a node is what all its tasks leave, those that come and those that go."""
    run = engine.prepare(sc.check(cell("negotiation", negotiation={"mb_per_s": 1.0})))
    changed, before = 0, dict[int, int]()
    for minute in range(1, 100):
        engine.advance(run, 60.0 * minute)
        invariants.check(run)
        moving = np.flatnonzero((run.world.tasks["job"] >= 0) & (run.world.tasks["source"] >= 0))
        now = {slot: int(run.world.task_used[slot, 0]) for slot in moving.tolist()}
        changed += sum(before.get(slot, used) != used for slot, used in now.items())
        before = now
    assert changed > 5


def test_a_run_in_pieces_is_the_run_in_one() -> None:
    whole, pieces = (engine.prepare(sc.check(cell("negotiation"))) for _ in range(2))
    engine.advance(whole)
    for until in (10.0, 59.9, 60.0, 3600.0, 7201.0):
        engine.advance(pieces, until)
    engine.advance(pieces)
    same = pieces.world._asdict()
    for name, array in whole.world._asdict().items():
        # Bytes, because a time that has not come yet is no number, in records too.
        assert array.tobytes() == same[name].tobytes(), name


def write_usage(
    folder: Path, shares: list[float], at: float = 0.0, lasts: float | None = None
) -> dict[str, Any]:
    """One task on one node, using these shares of its CPU request, ten minutes each; it lasts as
    long as they do, or this long."""
    jobs = folder / "jobs.csv"
    jobs.write_text(
        "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task\n"
        f"one,w,{at},1,{lasts or 600 * len(shares)},4,1\n"
    )
    lines = [f"one,{600 * k},{share},1.0" for k, share in enumerate(shares)]
    usage = folder / "usage.csv"
    usage.write_text("\n".join(["job_id,time_s,cpu_share,memory_share", *lines]) + "\n")
    return {"trace": str(jobs), "usage": str(usage)}


def test_what_is_used_is_what_the_curve_says(tmp_path: Path) -> None:
    shares = [0.25, 1.0, 0.5, 0.75]
    tables = {
        "days": 2400 / 86_400,
        "cluster": {"nodes": 1, "cpu": 8, "memory": "8G"},
        "workload": write_usage(tmp_path, shares),
        "scheduler": {"kind": "negotiation", "usage_s": 10.0},
    }
    run = engine.prepare(sc.check(tables))
    engine.finish(run)
    used = results.summary(run, "x")["cluster"]["used"]["cpu"]
    assert used == pytest.approx(4 * np.mean(shares) / 8, rel=0.02)


def test_a_task_that_outlasts_its_curve_stays_at_its_last_point(tmp_path: Path) -> None:
    tables = {
        "days": 2400 / 86_400,
        "cluster": {"nodes": 1, "cpu": 8, "memory": "8G"},
        "workload": write_usage(tmp_path, [0.25, 1.0], lasts=2400),
        "scheduler": {"kind": "negotiation", "usage_s": 10.0},
    }
    run = engine.prepare(sc.check(tables))
    engine.finish(run)
    used = results.summary(run, "x")["cluster"]["used"]["cpu"]
    assert used == pytest.approx(4 * np.mean([0.25, 1.0, 1.0, 1.0]) / 8, rel=0.02)


def test_tasks_begin_anywhere_on_a_curve_that_goes_round() -> None:
    """Evenly over the whole of it, by Kolmogorov and Smirnov, within a job and from job to job."""
    state = engine.prepare(sc.check(cell("negotiation"))).world.state
    points, count = 144, 2000
    whole = points * state["curve_s"][0]
    # Kernels alone call it compiled.
    plain, records = getattr(phase, "py_func", phase), state.view(np.recarray)
    for pairs in ([(7, k) for k in range(count)], [(k, 0) for k in range(count)]):
        with np.errstate(over="ignore"):
            begins = np.sort([plain(records, points, *pair) / whole for pair in pairs])
        gap = np.abs(begins - (np.arange(count) + 0.5) / count).max()
        assert gap < 1.95 / np.sqrt(count), "one in a thousand for numbers that are even"


@pytest.mark.parametrize("kind", ["monolithic", "shared-state"])
def test_without_reclaiming_no_node_is_ever_overloaded(kind: str) -> None:
    """Every request is reserved, and no task here uses more than it requests."""
    tables = cell(kind, reclaim=False)
    for workload in tables["workload"].values():
        workload["usage"] = {"cpu": 0.5, "memory": 0.6, "noise": 0.1}
    run = engine.prepare(sc.check(tables))
    engine.finish(run)
    assert results.summary(run, kind)["cluster"]["allocation_types"]["overloaded"] == 0.0


def rising(move: str) -> engine.Run:
    """Ten tasks that come to use all they request, on four nodes that hold three such tasks
    each."""
    work = {
        "initial": 10,
        "arrivals_per_s": 1e-9,
        "task_duration_s": 1e9,
        "task_cpu": 1.0,
        "task_memory": "1G",
    }
    usage = {"cpu": 1.0, "memory": 0.5, "noise": 0.4}
    tables = {
        "days": 0.25,
        "seed": 2,
        "cluster": {"nodes": 6, "cpu": 3, "memory": "32G"},
        "workload": {"w": {**work, "usage": usage}},
        "scheduler": {"kind": "negotiation", "negotiation": {"move": move}},
    }
    run = engine.prepare(sc.check(tables))
    engine.finish(run, lambda share: invariants.check(run))
    return run


def test_an_overloaded_node_gives_tasks_away() -> None:
    still, moved = (results.summary(rising(move), move)["cluster"] for move in ("none", "sras"))
    assert still["migrations_per_min"] == 0.0 < moved["migrations_per_min"]
    assert moved["allocation_types"]["overloaded"] < still["allocation_types"]["overloaded"]
    assert moved["migrated_mb_per_min"] > 100.0 * moved["migrations_per_min"]


def test_offers_cannot_run_with_measured_usage() -> None:
    with pytest.raises(InputError, match="offers cannot run with usage that is measured"):
        engine.prepare(sc.check(cell("offers")))
