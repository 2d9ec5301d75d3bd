"""Job lists made to fit a run: another day's arrivals, jobs that are tried again, use of a known
mean, a larger or smaller load by tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from murmuration.base.arrays import Amounts, Floats
from murmuration.base.errors import InputError, unknown
from murmuration.workload.jobs import JobList, hash_share


def shift_arrivals(jobs: JobList, start_s: float) -> JobList:
    """The jobs of time 0, and after them those that were submitted from `start_s` on."""
    there = jobs.submit_s == 0.0
    submit = np.where(there, 0.0, jobs.submit_s - start_s)
    return replace(jobs, submit_s=submit).select(there | (submit >= 0.0)).sorted()


def split_runs(jobs: JobList, runs: float) -> JobList:
    """Every job that is submitted after time 0 runs so many times on average, one run after the
    other, each for its part of the time: as a task that fails and is submitted again. What runs
    at any time stays the same; how often something is placed does not."""
    count = np.ones(len(jobs), dtype=np.int64)
    later = np.flatnonzero(jobs.submit_s > 0.0)
    draws = np.array([hash_share(f"{jobs.job_id[j]}~") for j in later])
    count[later] = np.floor(runs + draws).astype(np.int64)
    rows = np.repeat(np.arange(len(jobs)), count)
    serial = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    chosen, part = jobs.select(rows), jobs.duration_s[rows] / count[rows]
    names = [f"{name}~{k}" if k else name for name, k in zip(chosen.job_id, serial, strict=True)]
    return replace(
        chosen,
        job_id=np.array(names, dtype=np.str_),
        submit_s=chosen.submit_s + serial * part,
        duration_s=part,
    ).sorted()


def bootstrap(jobs: JobList, factor: float, rng: np.random.Generator) -> JobList:
    """Arrivals as they might have been: every job that arrived comes a Poisson number of times,
    `factor` on average, each at its own time or up to the next arrival after it. So the day keeps
    its shape and bursts stay bursts, and every seed has other jobs. What was there at time 0
    stays."""
    arrives = jobs.submit_s > 0.0
    copies = np.where(arrives, rng.poisson(factor, len(jobs)), 1)
    rows = np.repeat(np.arange(len(jobs)), copies)
    serial = np.arange(len(rows)) - np.repeat(np.cumsum(copies) - copies, copies)
    # `job_list` sorts by submission; the last job has no next one.
    gaps = np.append(np.diff(jobs.submit_s), 0.0)
    chosen = jobs.select(rows)
    later = np.where(arrives[rows], rng.random(len(rows)) * gaps[rows], 0.0)
    names = [f"{name}~{k}" if k else name for name, k in zip(chosen.job_id, serial, strict=True)]
    return replace(
        chosen,
        job_id=np.array(names, dtype=np.str_),
        submit_s=chosen.submit_s + later,
        recorded=np.where(serial == 0, chosen.recorded, -1),
    ).sorted()


def multiply_tasks(jobs: JobList, factor: float) -> JobList:
    """The same jobs with this many times the tasks. Where that is no whole number, a hash of the
    job's id decides, so that no seed changes the choice; a job may be left without any."""
    shares = np.array([hash_share(name) for name in jobs.job_id])
    tasks = np.floor(jobs.tasks * factor + shares).astype(np.int64)
    return replace(jobs, tasks=tasks).select(tasks > 0)


def scale_use(
    jobs: JobList, total: Amounts, seconds: float, wanted: Mapping[str, float]
) -> JobList:
    """The same jobs, using so much more or less that they would use these shares of a cluster on
    average over a run, if each ran from its submission on."""
    if jobs.curves is None:
        raise InputError("workload.used: the trace does not say what its jobs use")
    factors = np.ones(len(jobs.resources), dtype=np.float32)
    # A job without a curve uses what it requests, however the others are scaled.
    fixed = add_up_use(jobs.select(jobs.curve < 0), seconds) / total
    measured = add_up_use(jobs.select(jobs.curve >= 0), seconds) / total
    for name, share in wanted.items():
        if name not in jobs.resources.names:
            raise InputError(f"workload.used: {unknown('resource', name, jobs.resources.names)}")
        resource = jobs.resources.names.index(name)
        if measured[resource] == 0.0 or share <= fixed[resource]:
            raise InputError(
                f"workload.used.{name}: expected more than the {fixed[resource]:.1%} that jobs "
                f"without a curve use, got {share:g}"
            )
        factors[resource] = (share - fixed[resource]) / measured[resource]
    return replace(jobs, curves=replace(jobs.curves, share=jobs.curves.share * factors))


def add_up_use(jobs: JobList, seconds: float) -> Floats:
    """What all jobs use on average over a run, if each runs from its submission on."""
    assert jobs.curves is not None
    end = np.minimum(jobs.submit_s + jobs.duration_s, seconds)
    task_s = jobs.tasks * np.maximum(end - jobs.submit_s, 0.0)
    share = np.where(
        (jobs.curve >= 0)[:, None], jobs.curves.share.mean(axis=1)[jobs.curve], np.float32(1.0)
    )
    use: Floats = (task_s[:, None] * jobs.request * share).sum(axis=0) / seconds
    return use
