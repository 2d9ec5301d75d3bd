"""What a run yields: its summary in the one vocabulary of results, its jobs and its time series as
tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.base.arrays import Floats, Records
from murmuration.base.resources import MICRO
from murmuration.cluster import allocation_types
from murmuration.schedulers.admission import ABANDONED, NEVER, SCHEDULED
from murmuration.simulation.engine import world as wd
from murmuration.simulation.engine.run import Run
from murmuration.simulation.results.costs import (
    HOUR_S,
    JOULES_PER_KWH,
    hours_there,
    list_prices,
    read_meters,
)
from murmuration.simulation.results.detail import job_columns
from murmuration.simulation.results.snapshots import SUMMARY_VERSION

Summary = dict[str, Any]
#: A workload is saturated if more than this share of its jobs (and more than a handful) is still
#: waiting at the end.
SATURATED_SHARE, SATURATED_JOBS = 0.01, 5
#: Work shorter than this counts as this long in a slowdown, as is usual (bounded slowdown).
SHORT_S = 10.0


def summary(run: Run, label: str) -> Summary:
    """The summary of a run at its horizon; times are kept apart."""
    scenario, world = run.setup.scenario, run.world
    return {
        "version": SUMMARY_VERSION,
        "scenario": scenario.name,
        "scheduler": label,
        "seed": scenario.seed,
        "days": scenario.days,
        "path": run.path,
        "events": int(world.state["events"][0]),
        "makespan_s": _makespan(run),
        "workloads": {
            name: _workload(run, index) for index, name in enumerate(run.setup.jobs.workloads)
        },
        "schedulers": _schedulers(run),
        "cluster": _cluster(run),
        **({"notes": list(run.setup.jobs.notes)} if run.setup.jobs.notes else {}),
    }


def _makespan(run: Run) -> float | None:
    """First submission to last end; None while tasks are still running or waiting."""
    jobs = run.world.jobs
    if not len(jobs) or (jobs["done"] < jobs["tasks"]).any():
        return None
    return float(jobs["ended"].max() - jobs["submit"].min())


def _workload(run: Run, index: int) -> Summary:
    world, counts = run.world, run.world.workloads[index]
    jobs = world.jobs[(world.jobs["workload"] == index) & _mask_submitted(run)]
    scheduled = int((jobs["status"] == SCHEDULED).sum())
    abandoned = int(np.isin(jobs["status"], (ABANDONED, NEVER)).sum())
    queued = len(jobs) - scheduled - abandoned
    tried = jobs["attempts"][jobs["attempts"] > 0]
    ok, failed = int(counts["commits_ok"]), int(counts["commits_failed"])
    return {
        "jobs_submitted": len(jobs),
        "jobs_scheduled": scheduled,
        "jobs_abandoned": abandoned,
        "jobs_queued": queued,
        "jobs_finished": int((jobs["done"] == jobs["tasks"]).sum()),
        "jobs_not_started": int(np.isnan(jobs["started"]).sum()),
        "tasks_submitted": int(jobs["tasks"].sum()),
        "tasks_placed": int(counts["tasks_placed"]),
        "tasks_left": int(jobs["left"].sum()),
        "attempts_mean": _mean(tried),
        **_waits(jobs, run.horizon_s),
        **_turnarounds(jobs),
        "busy_fraction": float(world.busy[index, :, 0].sum() / run.horizon_s),
        "busy_wasted_fraction": float(world.busy[index, :, 1].sum() / run.horizon_s),
        "conflict_fraction": failed / ok if ok else None,
        "saturated": queued > max(SATURATED_JOBS, SATURATED_SHARE * len(jobs)),
    }


def _mask_submitted(run: Run) -> NDArray[np.bool_]:
    return np.arange(len(run.world.jobs)) < int(run.world.state["arrived"][0])


def _waits(jobs: Records, horizon_s: float) -> Summary:
    """How long jobs waited: for their work to start, for the first attempt to place them, and for
    their last task to be placed.

    A job that has not started by the end counts with the time it has waited so far. Left out, it
    would make the scheduler that starts nothing look like the fastest.
    """
    started = np.where(np.isnan(jobs["started"]), horizon_s, jobs["started"]) - jobs["submit"]
    first, full = jobs["first"] - jobs["submit"], jobs["full"] - jobs["submit"]
    return {
        **_spread("wait_s", started, (50, 90, 95, 99)),
        **_spread("wait_first_attempt_s", first[~np.isnan(first)], (90,)),
        "wait_full_jobs": int((~np.isnan(full)).sum()),
        **_spread("wait_full_s", full[~np.isnan(full)], (90,)),
    }


def _turnarounds(jobs: Records) -> Summary:
    """Of the jobs that came to their end: submission to end, and how many times longer that took
    than the work itself."""
    finished = jobs[jobs["done"] == jobs["tasks"]]
    turnaround = finished["ended"] - finished["submit"]
    work = np.maximum(finished["duration"], SHORT_S)
    return {
        **_spread("turnaround_s", turnaround, (95,)),
        **_spread("slowdown", np.maximum(turnaround / work, 1.0), (95,)),
    }


def _spread(name: str, values: Floats, percents: tuple[int, ...]) -> Summary:
    """The mean and some percentiles, under keys that begin with `name`."""
    if not len(values):
        return {f"{name}_{what}": None for what in ("mean", *(f"p{p}" for p in percents))}
    quantiles = np.quantile(values, [p / 100 for p in percents])
    named = {f"{name}_p{p}": float(q) for p, q in zip(percents, quantiles, strict=True)}
    return {f"{name}_mean": float(values.mean()), **named}


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


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
    means = world.samples[first : world.state["sampled"][0]].mean(axis=0)
    types = means[wd.S_TYPES : wd.S_IMBALANCE]
    return {
        "nodes_mean": _nodes_mean(run),
        "nodes_in_use_mean": float(types.sum() - types[allocation_types.IDLE]),
        "imbalance_mean": float(means[wd.S_IMBALANCE]),
        "fragmentation_mean": float(means[wd.S_FRAGMENTATION]),
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
        **_losses(run),
        **_costs(run),
        **run.setup.architecture.count(run),
    }


def _losses(run: Run) -> Summary:
    """What failures of nodes cost, where nodes can fail: tasks, and the CPU time they had used."""
    cluster = run.setup.scenario.cluster
    if cluster.failures is None and cluster.events is None:
        return {}
    state = run.world.state[0]
    return {
        "tasks_lost": int(state["tasks_lost"]),
        "cpu_h_lost": float(state["cpu_s_lost"] / MICRO / HOUR_S),
    }


def _costs(run: Run) -> Summary:
    """Money and energy, where the scenario asks: the price of nodes while they are there, and what
    they draw."""
    costs, setup = run.setup.scenario.cluster.costs, run.setup
    if costs is None:
        return {}
    nodes = float(list_prices(costs, setup.nodes) @ hours_there(setup.changes, run.horizon_s))
    joules = read_meters(run.world, run.horizon_s)
    energy_kwh = joules / JOULES_PER_KWH
    return {
        "power_mean_w": joules / run.horizon_s,
        "energy_kwh": energy_kwh,
        "price_of_nodes": nodes,
        "cost": nodes + energy_kwh * costs.price_per_kwh,
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
        "start_s": rows["started"],
        "scheduled_s": rows["full"],
        "end_s": np.where(rows["done"] == rows["tasks"], rows["ended"], np.nan),
        "duration_s": rows["duration"],
        "status": np.array(wd.STATUS, dtype=np.str_)[rows["status"]],
        **(
            job_columns(run.setup, np.flatnonzero(_mask_submitted(run))) if run.setup.detail else {}
        ),
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
    table["imbalance"] = rows[:, wd.S_IMBALANCE]
    table["fragmentation"] = rows[:, wd.S_FRAGMENTATION]
    if run.setup.scenario.cluster.costs is not None:
        table["power_w"] = rows[:, wd.S_POWER]
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
