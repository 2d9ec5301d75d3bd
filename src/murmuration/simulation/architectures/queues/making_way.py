"""Jobs that end before their time: lost whole with one of their nodes, or made to give their room
to a job of higher priority."""

from __future__ import annotations

import numpy as np

from murmuration.base.arrays import Amounts
from murmuration.base.jit import helper, tree
from murmuration.placement.room import log_change
from murmuration.schedulers.admission import WAITING
from murmuration.schedulers.queues import backfill, victims
from murmuration.schedulers.queues.victims import SPARED, HeldRoom
from murmuration.simulation.architectures.queues.accounts import count_job
from murmuration.simulation.architectures.queues.batch_world import SUSPEND, BatchWorld
from murmuration.simulation.engine.churn import end_task
from murmuration.simulation.engine.event_queue import schedule
from murmuration.simulation.engine.world import JOB_RETURNS, KIND_BITS, KIND_MASK, TASKS_END
from murmuration.simulation.results.recording import LOST, REVOKED

has_room = tree(backfill.has_room)
choose_victims = tree(victims.choose_victims)


@helper
def end_whole(w: BatchWorld, run: int, why: int) -> int:
    """Every task of a run ends before its time; returns how many."""
    job, slot, count = w.runs[run].job, w.runs[run].slot, w.runs[run].count
    while slot >= 0:
        following = w.slots[slot].next
        log_change(w.changes, w.slots[slot].node)
        end_task(w, job, slot, why)
        slot = following
    w.runs[run].slot = -1
    w.runs[run].count = 0
    w.jobs[job].left += count
    return int(count)


@helper
def lose_jobs(w: BatchWorld) -> None:
    """A job that lost a task with its node is lost as a whole. Jobs start whole, so one that has
    tasks left and tasks running is such a job; its return is scheduled already."""
    for k in range(w.state[0].scheduled):
        if w.event_queue[k].what & KIND_MASK == TASKS_END:
            run = w.event_queue[k].what >> KIND_BITS
            job = w.runs[run].job
            if w.jobs[job].left > 0 and w.runs[run].count > 0:
                lost_s = w.state[0].now - w.runs[run].started
                w.state[0].cpu_s_lost += lost_s * w.request[job, 0] * w.runs[run].count
                end_whole(w, run, LOST)


@helper
def comes_before(w: BatchWorld, a: int, b: int) -> bool:
    """Whether one run has to make way before another: the lower priority first, then the one that
    started last."""
    first, second = w.runs[a].job, w.runs[b].job
    if w.queued[first].priority != w.queued[second].priority:
        return bool(w.queued[first].priority < w.queued[second].priority)
    if w.runs[a].started != w.runs[b].started:
        return bool(w.runs[a].started > w.runs[b].started)
    return bool(first > second)


@helper
def list_victims(w: BatchWorld, job: int) -> int:
    """Write the runs of lower priority than a job that use the same pool to `order`, those that
    make way first in front; returns how many."""
    count, pool = 0, w.batch[w.jobs[job].scheduler].pool
    for k in range(w.state[0].scheduled):
        if w.event_queue[k].what & KIND_MASK == TASKS_END:
            run = w.event_queue[k].what >> KIND_BITS
            other = w.runs[run].job
            same_pool = w.batch[w.jobs[other].scheduler].pool == pool
            lower = w.queued[other].priority < w.queued[job].priority
            if w.runs[run].count > 0 and same_pool and lower and w.queued[other].inside < 0:
                at = count
                while at > 0 and comes_before(w, run, w.order[at - 1]):
                    w.order[at] = w.order[at - 1]
                    at -= 1
                w.order[at] = run
                count += 1
    return count


@helper
def make_way(w: BatchWorld, job: int, need: Amounts, free: Amounts, room: Amounts) -> bool:
    """Let running jobs of lower priority make way, if that gives a job enough room; says whether it
    did. A job that still found no nodes does not try again."""
    if w.queued[job].forced or has_room(free, need):
        return False
    count = list_victims(w, job)
    # A pool is one row, and the job one task that asks for everything.
    for k in range(count):
        w.entries[0, k], w.entries[1, k], w.entries[2, k] = k, 0, k
        for r in range(need.shape[0]):
            w.amounts[k, r] = w.request[w.runs[w.order[k]].job, r] * w.runs[w.order[k]].count
    for r in range(need.shape[0]):
        room[0, r] = free[r]
    held, order = HeldRoom(w.entries[0], w.entries[1], w.amounts), w.entries[2, :count]
    looked_at = choose_victims(room, need, 1, held, order, 1)
    w.queued[job].forced = looked_at > 0
    for k in range(looked_at):
        if order[k] != SPARED:
            preempt(w, w.order[k], free)
    return bool(looked_at > 0)


@helper
def preempt(w: BatchWorld, run: int, free: Amounts) -> None:
    """A job gives up its room and returns to the queue."""
    job, ran_s = w.runs[run].job, w.state[0].now - w.runs[run].started
    count_job(w, job, -w.runs[run].count)
    count = end_whole(w, run, REVOKED)
    for r in range(free.shape[0]):
        free[r] += w.request[job, r] * count
    if w.rules[0].preempt == SUSPEND:
        w.queued[job].done_s += ran_s
    else:
        w.rules[0].cpu_s_preempted += ran_s * w.request[job, 0] * count
    w.rules[0].jobs_preempted += 1
    w.rules[0].tasks_preempted += count
    w.jobs[job].full = np.nan
    w.jobs[job].status = WAITING
    schedule(w.event_queue, w.state, w.state[0].now, JOB_RETURNS, job)
