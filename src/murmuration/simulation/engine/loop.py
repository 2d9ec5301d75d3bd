"""The loop of schedulers that take jobs off a queue and read the table themselves.

Architectures that use it differ only in data: which scheduler has which jobs, which rows its masks
allow, and whether it commits optimistically. `advance` runs until something that only Python can do
is due, and says what.

An event is one of four things: a job arrives, an attempt ends, the tasks of a transaction end, or
something outside changes (a node, a usage, a job that comes back). Only the first two and a job
that comes back can give a scheduler something to do, so every step ends in the same question, and
for at most one scheduler: is it idle, and is anything in its queue? That is why there is no event
"scheduler begins": a scheduler begins in the same step in which it could.

Time is not a variable of the loop but a field of the world, as is everything else that outlives a
step. The kernel can therefore return between any two steps and be called again, on the same arrays
or on copies of them read from a snapshot, without a difference in a single bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from murmuration.base.arrays import Records, SmallIntegers
from murmuration.base.jit import helper, inlined, loop_kernel
from murmuration.cluster.task_rows import mask_of
from murmuration.placement.ranking import RankIndex
from murmuration.placement.room import JobRoom
from murmuration.schedulers.admission import ABANDONED, NEVER, WAITING
from murmuration.simulation.engine.churn import change_node
from murmuration.simulation.engine.event_queue import needs_room, pop, schedule
from murmuration.simulation.engine.sampling import pass_time
from murmuration.simulation.engine.steps import (
    IDLE_RETRY_S,
    begin_attempt,
    commit_claim,
    decision_time,
    dequeue,
    end_run,
    enqueue,
    finish_job,
    is_exhausted,
    next_job,
    room_of,
    settle_claim,
    start_run,
)
from murmuration.simulation.engine.usage import usage_changes
from murmuration.simulation.engine.world import (
    ATTEMPT_ENDS,
    JOB_RETURNS,
    KIND_BITS,
    KIND_MASK,
    NODE_CHANGES,
    TASKS_END,
    USAGE_CHANGES,
    World,
)
from murmuration.simulation.results.recording import is_log_full, record_attempt

# Why `advance` stopped.
FINISHED, PAUSED, DECIDE, GROW, GO_ON = range(5)
#: Why a loop stopped, besides: the logs of tasks and attempts are to be read (`detail`). Five is
#: what rounds add.
DRAIN = 6
# Whom to ask for decisions: the compiled placement, or Python for every job, or for one job only.
COMPILED, PYTHON, ONE_JOB = range(3)


@helper
def next_time(state: Records, jobs: Records, event_queue: Records) -> float:
    """When the next event happens."""
    arrived = state[0].arrived
    # Arrivals are a sorted column and never enter the event queue: a million jobs that are known
    # from the start would make every operation of the heap dearer. Past the last one, a time
    # beyond the horizon stands for "none".
    at = jobs[arrived].submit if arrived < jobs.shape[0] else state[0].horizon + 1.0
    if state[0].scheduled > 0 and event_queue[0].time < at:
        return float(event_queue[0].time)
    return float(at)


@helper
def arrival_is_next(state: Records, jobs: Records, event_queue: Records) -> bool:
    """Arrivals were known before everything else, so they come first at equal times."""
    arrived = state[0].arrived
    if arrived >= jobs.shape[0]:
        return False
    return bool(state[0].scheduled == 0 or jobs[arrived].submit <= event_queue[0].time)


@helper
def arrive(state: Records, schedulers: Records, queue: SmallIntegers, jobs: Records) -> int:
    """The next job of the list is submitted; returns its scheduler, −1 if it can never run and
    enters no queue."""
    job = state[0].arrived
    state[0].arrived += 1
    state[0].events += 1
    if jobs[job].status == NEVER:
        return -1
    enqueue(schedulers, queue, jobs, job)
    return int(jobs[job].scheduler)


@inlined
def launch(w: World, scheduler: int) -> None:
    """The claim is made: the scheduler is busy until its decision time is over.

    The decision was made on the table as it is now, and takes effect when the decision time is
    over. Between the two lies what the architectures are compared by: an exclusive scheduler keeps
    its claim out of everybody's sight, an optimistic one gives it back at once and finds out at
    the end whether somebody else took it.
    """
    settle_claim(w, scheduler)
    ends = w.state[0].now + decision_time(w.times, w.jobs, scheduler, w.schedulers[scheduler].job)
    schedule(w.event_queue, w.state, ends, ATTEMPT_ENDS, scheduler)
    w.state[0].pending = -1


@inlined
def decide(w: World, scheduler: int, place: Any, score: Any, index: RankIndex) -> None:
    """The compiled placement answers for the attempt under way."""
    job = w.schedulers[scheduler].job
    mask = mask_of(w.masks, w.jobs, job)
    w.schedulers[scheduler].claimed = place(
        JobRoom(w.total, room_of(w, job), mask, w.changes, np.int64(w.jobs[job].mask)),
        w.request[job],
        w.jobs[job].left,
        w.rng[scheduler],
        w.claim[scheduler],
        score,
        index,
    )


@loop_kernel
def choose(w: World, scheduler: int, place: Any, score: Any, index: RankIndex) -> None:
    """The decision alone, for the explainer."""
    decide(w, scheduler, place, score, index)


@inlined
def attempt_ends(w: World, scheduler: int) -> None:
    """The decision time is over: commit, and see what is left of the job."""
    job = w.schedulers[scheduler].job
    spent = w.state[0].now - w.schedulers[scheduler].started
    refusals = w.workloads[w.jobs[job].workload].policy_refusals
    accepted = commit_claim(w, scheduler)
    if accepted > 0:
        start_run(w, scheduler, accepted, w.jobs[job].duration)
    record_decided(w, scheduler, job, accepted, spent)
    w.schedulers[scheduler].job = -1
    w.state[0].events += 1
    # A conflict is no sign that there is no room: the next attempt may succeed at once.
    refused = w.workloads[w.jobs[job].workload].policy_refusals > refusals
    if accepted == 0 and (w.schedulers[scheduler].claimed == 0 or refused):
        w.jobs[job].stuck += 1
        retry_later(w, job, spent)
    else:
        w.jobs[job].stuck = 0
        finish_job(w, job, accepted, spent)


@inlined
def record_decided(w: World, scheduler: int, job: int, accepted: int, spent: float) -> None:
    """Record an attempt that took its time; it counts as busy if it chose nodes at all, and as
    wasted if they were refused or its offer was gone."""
    claimed, rescinded = w.schedulers[scheduler].claimed, w.schedulers[scheduler].rescinded
    busy = spent if claimed > 0 or rescinded else 0.0
    wasted = spent if accepted < claimed or rescinded else 0.0
    record_attempt(w, scheduler, job, accepted, claimed - accepted, busy, wasted)


@inlined
def retry_later(w: World, job: int, spent: float) -> None:
    """A job that found no room is abandoned, or returns: after a while, or when others have been
    tried."""
    if is_exhausted(w.state, w.jobs, job):
        w.jobs[job].status = ABANDONED
    else:
        w.jobs[job].status = WAITING
        delay = retry_delay(w.state, w.jobs[job].stuck, spent)
        if delay > 0.0:
            schedule(w.event_queue, w.state, w.state[0].now + delay, JOB_RETURNS, job)
        else:
            requeue(w.state, w.schedulers, w.queue, w.jobs, job)


@helper
def retry_delay(state: Records, stuck: int, spent: float) -> float:
    """How long a job that found no room stays away: with back-off twice as long each time."""
    delay = float(state[0].retry_s)
    # An attempt that took no time and changed nothing would be repeated at the same instant without
    # end.
    if spent == 0.0 or state[0].back_off:
        delay = max(delay, IDLE_RETRY_S)
    if state[0].back_off:
        delay = min(delay * 2.0 ** min(stuck - 1, 60), max(delay, state[0].retry_max_s))
    return delay


@helper
def requeue(
    state: Records, schedulers: Records, queue: SmallIntegers, jobs: Records, job: int
) -> None:
    """A job returns to its queue. One that found no room would, at the head of its priority, be
    tried again and again before all of lower priority: it stands aside until its scheduler has
    made as many attempts as jobs are waiting now."""
    scheduler = jobs[job].scheduler
    waits_lower = False
    for level in range(jobs[job].level + 1, queue.shape[1]):
        waits_lower |= queue[scheduler, level, 0] >= 0
    if jobs[job].stuck == 0 or state[0].back_off or not waits_lower:
        enqueue(schedulers, queue, jobs, job)
        return
    jobs[job].behind = -1
    jobs[job].returns = schedulers[scheduler].tried + schedulers[scheduler].queued
    last = schedulers[scheduler].aside_last
    if last < 0:
        schedulers[scheduler].aside = job
    else:
        jobs[last].behind = job
    schedulers[scheduler].aside_last = job


@helper
def readmit(schedulers: Records, queue: SmallIntegers, jobs: Records, scheduler: int) -> None:
    """Those that stood aside long enough, or that nobody else waits with, are in the queue again.
    They went aside in the order in which they may return: an attempt takes one job off a queue, so
    `tried + queued` never falls."""
    job, alone = schedulers[scheduler].aside, next_job(queue, scheduler) < 0
    while job >= 0 and (alone or jobs[job].returns <= schedulers[scheduler].tried):
        following = jobs[job].behind
        enqueue(schedulers, queue, jobs, job)
        job = following
    schedulers[scheduler].aside = job
    if job < 0:
        schedulers[scheduler].aside_last = -1


@inlined
def dispatch(w: World) -> int:
    """Dispatch the next event; returns the scheduler that may now have something to do, or −1."""
    what = pop(w.event_queue, w.state)
    kind, subject = what & KIND_MASK, what >> KIND_BITS
    scheduler = -1
    if kind == TASKS_END:
        end_run(w, subject)
    elif kind == JOB_RETURNS:
        requeue(w.state, w.schedulers, w.queue, w.jobs, subject)
        scheduler = w.jobs[subject].scheduler
    elif kind == USAGE_CHANGES:
        usage_changes(w)
    elif kind == NODE_CHANGES:
        change_node(w, subject)
    else:
        attempt_ends(w, subject)
        scheduler = subject
    return scheduler


@inlined
def step_to_event(w: World, until: float, full: bool) -> int:
    """Let time pass to the next event and GO_ON, or say why to stop before it: it is past the
    horizon (then time passes to that), past `until`, the arrays are too
    full for it, or the logs are (DRAIN)."""
    time, horizon = next_time(w.state, w.jobs, w.event_queue), w.state[0].horizon
    why = GO_ON
    # The order matters. A run that is over must say so even where its arrays are full, and a pause
    # must not grow them, or a run in pieces would have larger arrays than a run in one.
    if time > horizon:
        why = FINISHED
    elif time > until:
        why = PAUSED
    elif full:
        why = GROW
    elif is_log_full(w.state, w.slots, w.task_log, w.attempt_log):
        why = DRAIN
    # At a pause no time passes: sums over time are products of a level and a length, and cutting a
    # length in two can change the last bit of the sum.
    if why in (GO_ON, FINISHED):
        pass_time(w, min(time, horizon))
    if why == GO_ON:
        w.state[0].now = time
    return why


@inlined
def next_attempt(w: World, scheduler: int) -> int:
    """An idle scheduler with something in its queue begins an attempt; returns the job, or −1."""
    job = -1
    if scheduler >= 0 and w.schedulers[scheduler].job < 0:
        if w.schedulers[scheduler].aside >= 0:
            readmit(w.schedulers, w.queue, w.jobs, scheduler)
        if next_job(w.queue, scheduler) >= 0:
            job = dequeue(w.schedulers, w.queue, w.jobs, scheduler)
    if job >= 0:
        w.schedulers[scheduler].tried += 1
        begin_attempt(w.schedulers, w.jobs, scheduler, job, w.state[0].now)
    return job


@loop_kernel
def advance(
    w: World, place: Any, score: Any, index: RankIndex, ask: int, watch: int, until: float
) -> int:
    """Run until the horizon (FINISHED), past `until` (PAUSED), a decision for Python (DECIDE) or
    full arrays (GROW).

    Pausing leaves no trace: a run in one piece and a run in many give the same world.
    """
    # A decision that Python made since the last call: its claim is in place, and is launched here
    # exactly as one of a compiled placement would have been.
    deciding = w.state[0].pending
    while True:
        # Launching is the first thing in a turn, not the last, so that one line does it for both
        # kinds of placement: after DECIDE the kernel has returned and comes back here. The event it
        # schedules has room: the check of the turn that decided asked for it.
        if deciding >= 0:
            launch(w, deciding)
            deciding = -1
        why = step_to_event(w, until, needs_room(w.state, w.runs, w.event_queue, w.claim.shape[1]))
        if why != GO_ON:
            return why
        if arrival_is_next(w.state, w.jobs, w.event_queue):
            scheduler = arrive(w.state, w.schedulers, w.queue, w.jobs)
        else:
            scheduler = dispatch(w)
        job = next_attempt(w, scheduler)
        if job >= 0:
            if ask == PYTHON or (ask == ONE_JOB and job == watch):
                w.state[0].pending = scheduler
                return DECIDE
            decide(w, scheduler, place, score, index)
            deciding = scheduler
