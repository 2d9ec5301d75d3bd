"""What a run yields: its summary in the one vocabulary of results, its jobs and its time series as
tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.cluster import allocation_types
from murmuration.schedulers.admission import ABANDONED, NEVER, SCHEDULED
from murmuration.simulation.engine import world as wd
from murmuration.simulation.engine.run import Run

Summary = dict[str, Any]
#: A workload is saturated if more than this share of its jobs (and more than a handful) is still
#: waiting at the end.
SATURATED_SHARE, SATURATED_JOBS = 0.01, 5


def summary(run: Run, label: str) -> Summary:
    """The summary of a run at its horizon; times are kept apart."""
    scenario, world = run.setup.scenario, run.world
    return {
        "scenario": scenario.name,
        "scheduler": label,
        "seed": scenario.seed,
        "days": scenario.days,
        "path": run.path,
        "events": int(world.state["events"][0]),
        "workloads": {
            name: _workload(run, index) for index, name in enumerate(run.setup.jobs.workloads)
        },
        "schedulers": _schedulers(run),
        "cluster": _cluster(run),
        **({"notes": list(run.setup.jobs.notes)} if run.setup.jobs.notes else {}),
    }


def _workload(run: Run, index: int) -> Summary:
    world, counts = run.world, run.world.workloads[index]
    jobs = world.jobs[(world.jobs["workload"] == index) & _mask_submitted(run)]
    scheduled = int((jobs["status"] == SCHEDULED).sum())
    abandoned = int(np.isin(jobs["status"], (ABANDONED, NEVER)).sum())
    queued = len(jobs) - scheduled - abandoned
    tried = jobs["attempts"][jobs["attempts"] > 0]
    wait, full = jobs["first"] - jobs["submit"], jobs["full"] - jobs["submit"]
    ok, failed = int(counts["commits_ok"]), int(counts["commits_failed"])
    return {
        "jobs_submitted": len(jobs),
        "jobs_scheduled": scheduled,
        "jobs_abandoned": abandoned,
        "jobs_queued": queued,
        "tasks_placed": int(counts["tasks_placed"]),
        "attempts_mean": _mean(tried),
        "wait_s_mean": _mean(wait[~np.isnan(wait)]),
        "wait_s_p90": _p90(wait[~np.isnan(wait)]),
        "wait_full_s_mean": _mean(full[~np.isnan(full)]),
        "wait_full_s_p90": _p90(full[~np.isnan(full)]),
        "busy_fraction": float(world.busy[index, :, 0].sum() / run.horizon_s),
        "busy_wasted_fraction": float(world.busy[index, :, 1].sum() / run.horizon_s),
        "conflict_fraction": failed / ok if ok else None,
        "saturated": queued > max(SATURATED_JOBS, SATURATED_SHARE * len(jobs)),
    }


def _mask_submitted(run: Run) -> NDArray[np.bool_]:
    return np.arange(len(run.world.jobs)) < int(run.world.state["arrived"][0])


def _mean(values: NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None


def _p90(values: NDArray[Any]) -> float | None:
    return float(np.quantile(values, 0.9)) if len(values) else None


def _schedulers(run: Run) -> Summary:
    """Busyness per scheduler; slots of one framework are added up."""
    slots = int(run.world.state["slots"][0])
    busy = run.world.busy[:, :, 0].sum(axis=0).reshape(len(run.setup.schedulers), slots).sum(axis=1)
    return {
        scheduler.name: {"busy_fraction": float(busy[k] / run.horizon_s)}
        for k, scheduler in enumerate(run.setup.schedulers)
    }


def _cluster(run: Run) -> Summary:
    world, names, seconds = run.world, run.setup.resources.names, run.horizon_s
    capacity = np.maximum(_capacity_mean(run), 1)
    mean = world.sums_s / seconds / capacity
    used = mean[wd.USED_NOW] if run.setup.has_usage else mean[wd.REQUIRED]
    # Where usage is measured, the tasks of time 0 are placed after the first sample.
    first = 1 if run.setup.has_usage and world.state["sampled"][0] > 1 else 0
    types = world.samples[first : world.state["sampled"][0], wd.S_TYPES : wd.S_RESOURCES].mean(
        axis=0
    )
    return {
        "nodes_mean": _nodes_mean(run),
        "tasks_running_mean": float(world.state["running_s"][0] / seconds),
        "required": {name: float(mean[wd.REQUIRED, r]) for r, name in enumerate(names)},
        "guaranteed": {name: float(mean[wd.GUARANTEED, r]) for r, name in enumerate(names)},
        "used": {name: float(used[r]) for r, name in enumerate(names)},
        "offered_fraction": float(world.state["offered_s"][0] / seconds / capacity[0]),
        "allocation_types": dict(zip(allocation_types.NAMES, map(float, types), strict=True)),
        "migrations_per_min": float(world.state["migrations"][0] / seconds * 60.0),
        "migrations_forced_per_min": float(world.state["forced"][0] / seconds * 60.0),
        "migrated_mb_per_min": float(world.state["migrated_mb"][0] / seconds * 60.0),
        "collision_fraction": None,
        **run.setup.architecture.count(run),
    }


def _nodes_mean(run: Run) -> float:
    """How many nodes are there: their mean over time, where they come and go."""
    state = run.world.state[0]
    return float(
        state["nodes_s"] / run.horizon_s if len(run.setup.changes.time_s) else state["nodes"]
    )


def _capacity_mean(run: Run) -> NDArray[Any]:
    """What the nodes have: their mean over time, where they come and go."""
    changes = run.setup.changes
    return changes.capacity_mean(run.horizon_s) if len(changes.time_s) else run.world.totals


def job_table(run: Run) -> dict[str, NDArray[Any]]:
    """One row per job: what it asked for and what became of it."""
    rows, jobs = run.world.jobs[_mask_submitted(run)], run.setup.jobs.select(_mask_submitted(run))
    return {
        "job_id": jobs.job_id,
        "workload": np.array(jobs.workloads, dtype=np.str_)[jobs.workload],
        "submit_s": jobs.submit_s,
        "tasks": jobs.tasks,
        "tasks_placed": rows["tasks"] - rows["left"],
        "attempts": rows["attempts"].astype(np.int64),
        "conflicts": rows["conflicts"].astype(np.int64),
        "first_attempt_s": rows["first"],
        "scheduled_s": rows["full"],
        "status": np.array(wd.STATUS, dtype=np.str_)[rows["status"]],
    }


def series(run: Run) -> dict[str, NDArray[np.float64]]:
    """The time series, evenly spaced: shares of the cluster, nodes per allocation type, counts of
    each workload."""
    world, names = run.world, run.setup.resources.names
    rows = world.samples[: world.state["sampled"][0]]
    capacity = np.maximum(run.setup.changes.capacity(rows[:, wd.S_TIME]), 1)
    table = {
        "time_s": rows[:, wd.S_TIME],
        "tasks_running": rows[:, wd.S_RUNNING],
        "offered.cpu": rows[:, wd.S_OFFERED] / capacity[:, 0],
    }
    for kind, name in enumerate(allocation_types.NAMES):
        table[f"nodes.{name}"] = rows[:, wd.S_TYPES + kind]
    at = wd.S_RESOURCES
    for r, name in enumerate(names):
        table[f"required.{name}"] = rows[:, at + wd.REQUIRED] / capacity[:, r]
        table[f"guaranteed.{name}"] = rows[:, at + wd.GUARANTEED] / capacity[:, r]
        if run.setup.has_usage:
            table[f"used.{name}"] = rows[:, at + wd.USED_NOW] / capacity[:, r]
        at += 3
    for name in run.setup.jobs.workloads:
        for offset, column in enumerate(wd.S_PER_WORKLOAD):
            table[f"{name}.{column}"] = rows[:, at + offset]
        at += len(wd.S_PER_WORKLOAD)
    slots = int(world.state["slots"][0])
    for k, scheduler in enumerate(run.setup.schedulers):
        table[f"queue.{scheduler.name}"] = rows[:, at + k * slots]
    return table
