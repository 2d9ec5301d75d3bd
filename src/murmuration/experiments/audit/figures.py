"""Every figure of a summary that single tasks and attempts say, added up again."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from murmuration.base.arrays import Column
from murmuration.base.resources import MICRO
from murmuration.experiments.audit.conservation import answers_later
from murmuration.experiments.audit.energy import energy_kwh
from murmuration.experiments.audit.folder import (
    PLACED_AGAIN,
    Flags,
    Floats,
    Integers,
    RecordedRun,
    Texts,
)
from murmuration.experiments.audit.offers import locked_share, offer_counts
from murmuration.experiments.audit.over_time import (
    TYPES,
    RecordedUse,
    capacity_mean,
    nodes_mean,
    required_mean,
    sampled_means,
    task_seconds,
)

#: A figure may be unknown; counts and flags are numbers.
Figures = dict[str, float | None]
Outcome = Mapping[str, Column]
#: A task that was killed at the limit of short ones has come to its end.
COMPLETED = ("finished", "killed")
SHORT_S = 10.0


def recompute(run: RecordedRun) -> Figures:
    """The figures by their dotted keys in `summary.json`; what is not in here cannot be known from
    tasks and attempts."""
    outcome = job_outcomes(run)
    figures: Figures = {"events": events(run), "makespan_s": makespan(run, outcome)}
    for name in run.summary["workloads"]:
        figures |= {
            f"workloads.{name}.{key}": value for key, value in _workload(run, name, outcome).items()
        }
    for name in run.summary["schedulers"]:
        busy = run.attempts.busy[run.attempts.scheduler == name].sum()
        figures[f"schedulers.{name}.busy_fraction"] = float(busy / run.horizon)
    figures |= {f"cluster.{key}": value for key, value in _cluster(run).items()}
    return figures


def events(run: RecordedRun) -> int:
    """Jobs that arrived, attempts that ended, tasks that ended."""
    ended = run.stays.ends("finished", "killed", *PLACED_AGAIN)
    return len(run.jobs.ids) + int(run.attempts.ended.sum()) + int(ended.sum())


def job_outcomes(run: RecordedRun) -> Outcome:
    """What `jobs.parquet` says of each job, from its tasks and attempts."""
    jobs, stays, attempts = len(run.jobs.ids), run.stays, run.attempts
    placed = np.bincount(stays.job[stays.begins], minlength=jobs)
    placed -= np.bincount(stays.job[stays.ends(*PLACED_AGAIN)], minlength=jobs)
    first, started = np.full(jobs, np.inf), np.full(jobs, np.inf)
    last, ended = np.full(jobs, -np.inf), np.full(jobs, -np.inf)
    np.minimum.at(first, attempts.job, attempts.start)
    np.minimum.at(started, stays.job[stays.begins], stays.start[stays.begins])
    np.maximum.at(last, stays.job[stays.begins], stays.start[stays.begins])
    over = stays.ends(*COMPLETED)
    np.maximum.at(ended, stays.job[over], stays.end[over])
    done = np.bincount(stays.job[over], minlength=jobs)
    whole = placed == run.jobs.tasks
    return {
        "tasks_placed": placed,
        "attempts": np.bincount(attempts.job, minlength=jobs),
        "conflicts": np.bincount(attempts.job[attempts.refused > 0], minlength=jobs),
        "first_attempt_s": np.where(np.isfinite(first), first, np.nan),
        "start_s": np.where(np.isfinite(started), started, np.nan),
        "end_s": np.where(done == run.jobs.tasks, ended, np.nan),
        "scheduled_s": np.where(whole, last, np.nan),
        "status": _status(run, whole),
    }


def _status(run: RecordedRun, whole: Flags) -> Texts:
    """Scheduled when all its tasks are placed; abandoned when it was tried as often as allowed.
    That a job can never run is said when it arrives: then it must never have been tried."""
    jobs, attempts = len(run.jobs.ids), run.attempts
    tried = np.bincount(attempts.job[attempts.ended], minlength=jobs)
    in_vain = attempts.ended & (attempts.placed == 0) & (attempts.refused == 0)
    empty = np.bincount(attempts.job[in_vain & (attempts.busy == 0)], minlength=jobs)
    rules = run.scenario.scheduler
    exhausted = np.zeros(jobs, np.bool_)
    if rules.attempts_max:
        exhausted |= tried >= rules.attempts_max
    if rules.empty_attempts_max:
        exhausted |= empty >= rules.empty_attempts_max
    exhausted &= _last_attempt(run) >= _last_loss(run)
    untried = np.bincount(attempts.job, minlength=jobs) == 0
    never = (run.jobs.outcome["status"] == "never") & untried
    status = np.where(whole, "scheduled", np.where(exhausted, "abandoned", "waiting"))
    return np.where(never, "never", status)


def _last_attempt(run: RecordedRun) -> Floats:
    last = np.full(len(run.jobs.ids), -1.0)
    np.maximum.at(last, run.attempts.job[run.attempts.ended], run.attempts.end[run.attempts.ended])
    return last


def _last_loss(run: RecordedRun) -> Floats:
    last, lost = np.full(len(run.jobs.ids), -1.0), run.stays.ends(*PLACED_AGAIN)
    np.maximum.at(last, run.stays.job[lost], run.stays.end[lost])
    return last


def _workload(run: RecordedRun, name: str, outcome: Outcome) -> Figures:
    mine: Flags = run.jobs.workload == name
    tries: Flags = mine[run.attempts.job]
    starts = run.stays.begins & mine[run.stays.job]
    status = outcome["status"][mine]
    scheduled = int((status == "scheduled").sum())
    left_out = int(np.isin(status, ("abandoned", "never")).sum())
    queued = int(mine.sum()) - scheduled - left_out
    ok = int((tries & (run.attempts.placed > 0) & (run.attempts.refused == 0)).sum())
    failed = int((tries & (run.attempts.refused > 0)).sum())
    counts = outcome["attempts"][mine]
    return {
        "jobs_submitted": int(mine.sum()),
        "jobs_scheduled": scheduled,
        "jobs_abandoned": left_out,
        "jobs_queued": queued,
        "jobs_finished": int((~np.isnan(outcome["end_s"][mine])).sum()),
        "jobs_not_started": int(np.isnan(outcome["start_s"][mine]).sum()),
        "tasks_submitted": int(run.jobs.tasks[mine].sum()),
        "tasks_placed": int(starts.sum()),
        **_count_unplaced(run, mine, outcome),
        "attempts_mean": _mean(counts[counts > 0]),
        **_times_of(run, mine, outcome),
        "busy_fraction": float(run.attempts.busy[tries].sum() / run.horizon),
        "busy_wasted_fraction": float(run.attempts.wasted[tries].sum() / run.horizon),
        "conflict_fraction": failed / ok if ok else None,
        "saturated": queued > max(5, 0.01 * mine.sum()),
    }


def _count_unplaced(run: RecordedRun, mine: Flags, outcome: Outcome) -> Figures:
    """Tasks that are not placed. One whose node is chosen and whose offer is not answered is in no
    file."""
    left = (run.jobs.tasks - outcome["tasks_placed"])[mine]
    return {} if answers_later(run) else {"tasks_left": int(left.sum())}


def _mean(values: Floats | Integers) -> float | None:
    return float(values.mean()) if len(values) else None


def _times_of(run: RecordedRun, mine: Flags, outcome: Outcome) -> Figures:
    """Waits and turnarounds. A job that has not started counts with its wait so far; a job shorter
    than ten seconds has a slowdown as if it were as long as that, and none is below 1."""
    submit = run.jobs.submit[mine]
    start, end = outcome["start_s"][mine], outcome["end_s"][mine]
    turnaround = end - submit
    slowdown = np.maximum(turnaround / np.maximum(run.jobs.duration[mine], SHORT_S), 1.0)
    return {
        **_spread("wait_s", np.where(np.isnan(start), run.horizon, start) - submit, 50, 90, 95, 99),
        **_spread("wait_first_attempt_s", outcome["first_attempt_s"][mine] - submit, 90),
        "wait_full_jobs": int((~np.isnan(outcome["scheduled_s"][mine])).sum()),
        **_spread("wait_full_s", outcome["scheduled_s"][mine] - submit, 90),
        **_spread("turnaround_s", turnaround, 95),
        **_spread("slowdown", slowdown, 95),
    }


def _spread(name: str, values: Floats, *percents: int) -> Figures:
    """The mean of what is known, and percentiles between the two nearest values."""
    known = np.sort(values[~np.isnan(values)])
    figures: Figures = {f"{name}_mean": _mean(known)}
    for percent in percents:
        figures[f"{name}_p{percent}"] = None
        if len(known):
            at = percent / 100 * (len(known) - 1)
            low, part = int(at), at - int(at)
            high = min(low + 1, len(known) - 1)
            value = known[low] + part * (known[high] - known[low])
            figures[f"{name}_p{percent}"] = float(value)
    return figures


def makespan(run: RecordedRun, outcome: Outcome) -> float | None:
    """First submission to last end, once everything has ended."""
    if not len(run.jobs.ids) or np.isnan(outcome["end_s"]).any():
        return None
    return float(outcome["end_s"].max() - run.jobs.submit.min())


def _cluster(run: RecordedRun) -> Figures:
    capacity, minutes = np.maximum(capacity_mean(run), 1), run.horizon / 60.0
    prefilled = run.nodes.prefilled.sum(axis=0)
    every = np.ones(len(run.jobs.ids), np.bool_)
    required = (required_mean(run, every) + prefilled) / capacity
    guaranteed = required_mean(run, run.jobs.production) / capacity
    used = (RecordedUse(run).mean() + prefilled) / capacity if run.has_usage else required
    moved = ~run.stays.begins
    figures: Figures = {
        "nodes_mean": nodes_mean(run),
        "tasks_running_mean": float(task_seconds(run).sum() / run.horizon)
        + run.nodes.prefilled_tasks,
        "migrations_per_min": float(moved.sum() / minutes),
        "migrations_forced_per_min": float((moved & run.stays.forced).sum() / minutes),
        "migrated_mb_per_min": float(_megabytes(run, moved) / minutes),
    }
    for r, name in enumerate(run.resources):
        figures[f"required.{name}"] = float(required[r])
        figures[f"guaranteed.{name}"] = float(guaranteed[r])
        figures[f"used.{name}"] = float(used[r])
    types, imbalance, fragmentation = sampled_means(run)
    for name, count in zip(TYPES, types, strict=True):
        figures[f"allocation_types.{name}"] = float(count)
    figures |= {
        "nodes_in_use_mean": float(types.sum() - types[0]),
        "imbalance_mean": imbalance,
        "fragmentation_mean": fragmentation,
    }
    return figures | _lost(run) | _energy(run) | _own_figures(run, int(moved.sum()))


def _energy(run: RecordedRun) -> Figures:
    energy = energy_kwh(run)
    if energy is None:
        return {}
    return {"energy_kwh": energy, "power_mean_w": energy * 3.6e6 / run.horizon}


def _lost(run: RecordedRun) -> Figures:
    """Tasks lost with their nodes, and the CPU time they had used; what a task that had moved had
    used before is not in its last stay."""
    cluster = run.scenario.cluster
    if cluster.failures is None and cluster.events is None:
        return {}
    lost, stays = run.stays.ends("lost"), run.stays
    figures: Figures = {"tasks_lost": int(lost.sum())}
    if stays.begins.all():
        cpu = run.jobs.request[stays.job[lost], 0]
        seconds = (cpu * (stays.end[lost] - stays.start[lost])).sum()
        figures["cpu_h_lost"] = float(seconds / MICRO / 3600.0)
    return figures


def _megabytes(run: RecordedRun, moved: Flags) -> float:
    """What all moves copied: by what their tasks used then where that is measured, else by what
    they request."""
    if run.has_usage:
        return float(RecordedUse(run).when_moved().sum())
    memory = run.jobs.request[run.stays.job[moved], run.resources.index("memory")]
    return float((100.0 + memory / 2**20).sum())


def _own_figures(run: RecordedRun, moves: int) -> Figures:
    """The figures that only some architectures have."""
    if run.kind == "offers":
        return offer_counts(run) | locked_share(run, float(capacity_mean(run)[0]))
    if run.kind == "swarm":
        under_way = run.stays.ends("cut")
        return {
            "offered_fraction": 0.0,
            "migrations": moves,
            "migrations_cut_short": int(under_way.sum()) - _turned_back(run),
        }
    return {"offered_fraction": 0.0}


def _turned_back(run: RecordedRun) -> int:
    """Moves whose destination left, or whose source did: they were not cut short by the task's
    end."""
    cut, stays = run.stays.ends("cut"), run.stays
    ends = {
        (job, index, end)
        for job, index, end, why in zip(stays.job, stays.index, stays.end, stays.why, strict=True)
        if why == "finished"
    }
    finished = [
        (job, index, end) in ends
        for job, index, end in zip(stays.job[cut], stays.index[cut], stays.end[cut], strict=True)
    ]
    return int(cut.sum()) - sum(finished)
