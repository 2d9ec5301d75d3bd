"""What a batch does to the world, compiled: its jobs leave the queue, its tasks start, its
migrations begin."""

from __future__ import annotations

from typing import Any

from murmuration.base.arrays import Counts, Indices, SmallIntegers
from murmuration.base.jit import loop_kernel
from murmuration.base.rows import take
from murmuration.simulation.engine.moves import begin_move
from murmuration.simulation.engine.steps import (
    begin_attempt,
    count_attempt,
    decision_time,
    dequeue,
    finish_job,
    next_job,
    room_of,
    start_run,
)
from murmuration.simulation.engine.world import World
from murmuration.simulation.results.recording import record_attempt


@loop_kernel
def gather(w: World, max_s: float, jobs: SmallIntegers) -> tuple[Any, Any]:
    """Take jobs off the queue for as long as deciding on them takes no longer than this, but one at
    least; returns how many and how long."""
    count, lasts = 0, 0.0
    while count < jobs.shape[0] and next_job(w.queue, 0) >= 0:
        each = decision_time(w.times, w.jobs, 0, next_job(w.queue, 0))
        if count > 0 and lasts + each > max_s:
            break
        jobs[count] = dequeue(w.schedulers, w.queue, w.jobs, 0)
        lasts += each
        count += 1
    return count, lasts


@loop_kernel
def start_jobs(
    w: World, jobs: SmallIntegers, counts: Counts, nodes: Indices, started: float
) -> None:
    """Each job's attempt ends: so many of its tasks start, on the next of these nodes."""
    at = 0
    for k in range(jobs.shape[0]):
        job, claimed = jobs[k], counts[k]
        begin_attempt(w.schedulers, w.jobs, 0, job, started)
        spent = decision_time(w.times, w.jobs, 0, job)
        for i in range(claimed):
            node = nodes[at + i]
            take(room_of(w, job), node, w.request[job])
            w.sequence[node] += 1
            w.claim[0, i] = node
        at += claimed
        w.schedulers[0].claimed = claimed
        if claimed > 0:
            start_run(w, 0, claimed, w.jobs[job].duration)
            count_attempt(w.busy, w.workloads, w.jobs, 0, job, spent, False)
        else:
            w.workloads[w.jobs[job].workload].empty_attempts += 1
            w.jobs[job].empty += 1
        record_attempt(w, 0, job, claimed, 0, spent if claimed > 0 else 0.0, 0.0)
        w.schedulers[0].job = -1
        w.state[0].events += 1
        finish_job(w, job, claimed, spent)


@loop_kernel
def move_task(w: World, slot: int, to: int, ends: float) -> None:
    """A task sets out for another node."""
    begin_move(w, slot, to, ends)
