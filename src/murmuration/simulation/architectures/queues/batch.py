"""The loop of a batch queue: one scheduler that starts whole jobs in the order of a discipline.

Whenever something has happened, and after everything else that happens at the same time, the queue
is looked at once: which jobs start now. That takes no simulated time. Who is next and who may
overtake is decided by `schedulers/queues`; where a job's tasks go, by the placement. A job that has
room by amounts but finds no nodes (the room is in pieces, or on nodes it may not use) waits as if
there were none.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from murmuration.base.arrays import Amounts, Floats, Indices, Records, Times
from murmuration.base.jit import helper, inlined, loop_kernel, tree
from murmuration.placement.ranking import RankIndex
from murmuration.placement.room import log_all
from murmuration.schedulers.admission import NEVER
from murmuration.schedulers.queues import backfill
from murmuration.schedulers.queues.discipline import CONSERVATIVE, EASY
from murmuration.simulation.engine.churn import change_node
from murmuration.simulation.engine.event_queue import EVENTS_MAX, needs_room, pop
from murmuration.simulation.engine.loop import (
    GO_ON,
    GROW,
    arrival_is_next,
    decide,
    next_time,
    record_decided,
    step_to_event,
)
from murmuration.simulation.engine.steps import (
    begin_attempt,
    commit_claim,
    drop_claim,
    end_run,
    finish_job,
    room_of,
    start_run,
)
from murmuration.simulation.engine.usage import usage_changes
from murmuration.simulation.engine.world import (
    JOB_RETURNS,
    KIND_BITS,
    KIND_MASK,
    NODE_CHANGES,
    TASKS_END,
    World,
    widen_world,
)

#: A placement or a score as a kernel calls it.
CompiledPolicy = Callable[..., int]

has_room = tree(backfill.has_room)
find_shadow = tree(backfill.find_shadow)
find_start = tree(backfill.find_start)
reserve = tree(backfill.reserve)

#: `waiting` and `tasks`: how many jobs and tasks are in the queue; `changed`: something has
#: happened since it was looked at; `used_at`: up to when past use is added up.
BATCH = np.dtype(
    [
        ("waiting", "i8"),
        ("tasks", "i8"),
        ("overtaking", "i8"),
        ("half_life_s", "f8"),
        ("used_at", "f8"),
        ("changed", "?"),
        ("fair", "?"),
    ],
    align=True,
)


@widen_world
class BatchWorld(World):
    """The world of a batch queue."""

    batch: Records
    #: Per job: its rank, and the run time it asks for.
    rank: Floats
    estimate: Times
    #: The queue, in order.
    waiting: Indices
    #: Recent use by workload (fair share).
    recent: Floats
    # Room to work in: what runs by its end; a profile of what is free; a few vectors.
    ends: Times
    amounts: Amounts
    order: Indices
    points: Times
    profile: Amounts
    vectors: Amounts


@helper
def goes_before(rank: Floats, a: int, b: int) -> bool:
    """Whether a job goes before another: by rank, then as they came."""
    return bool(rank[a] < rank[b] or (rank[a] == rank[b] and a < b))


@helper
def enter_queue(batch: Records, waiting: Indices, rank: Floats, jobs: Records, job: int) -> None:
    """A job takes its place in the queue."""
    at = batch[0].waiting
    while at > 0 and goes_before(rank, job, waiting[at - 1]):
        waiting[at] = waiting[at - 1]
        at -= 1
    waiting[at] = job
    batch[0].waiting += 1
    batch[0].tasks += jobs[job].left


@helper
def drop_started(batch: Records, waiting: Indices, jobs: Records) -> None:
    """Jobs with nothing left to start leave the queue."""
    kept = 0
    batch[0].tasks = 0
    for k in range(batch[0].waiting):
        if jobs[waiting[k]].left > 0:
            waiting[kept] = waiting[k]
            batch[0].tasks += jobs[waiting[k]].left
            kept += 1
    batch[0].waiting = kept


@helper
def sort_fairly(
    batch: Records, waiting: Indices, rank: Floats, recent: Floats, jobs: Records
) -> None:
    """Order the queue by what each job's workload used of late; it is nearly in order already."""
    for k in range(batch[0].waiting):
        rank[waiting[k]] = recent[jobs[waiting[k]].workload]
    for k in range(1, batch[0].waiting):
        job, at = waiting[k], k
        while at > 0 and goes_before(rank, job, waiting[at - 1]):
            waiting[at] = waiting[at - 1]
            at -= 1
        waiting[at] = job


@helper
def add_use(batch: Records, recent: Floats, held: Amounts, now: float) -> None:
    """Recent use of each workload up to now: what it held since the last time counts, and all of it
    halves every half-life (the integral of both, as what is held changes only at events)."""
    elapsed = now - batch[0].used_at
    if elapsed > 0.0:
        left = 0.5 ** (elapsed / batch[0].half_life_s)
        for workload in range(recent.shape[0]):
            gained = held[workload, 0] * batch[0].half_life_s / np.log(2.0) * (1.0 - left)
            recent[workload] = recent[workload] * left + gained
        batch[0].used_at = now


@helper
def list_running(w: BatchWorld) -> int:
    """What runs, in order of the ends that jobs asked for; one that overran is expected to end
    now."""
    count = 0
    for k in range(w.state[0].scheduled):
        if w.event_queue[k].what & KIND_MASK == TASKS_END:
            run = w.event_queue[k].what >> KIND_BITS
            job = w.runs[run].job
            w.ends[count] = max(w.runs[run].started + w.estimate[job], w.state[0].now)
            for r in range(w.request.shape[1]):
                w.amounts[count, r] = w.request[job, r] * w.runs[run].count
            w.order[count] = count
            count += 1
    sort_by_end(w.ends, w.order, count)
    return count


@helper
def sort_by_end(ends: Times, order: Indices, count: int) -> None:
    """Sort by time (Shell's method); equal times may stand in any order."""
    gap = count // 2
    while gap > 0:
        for k in range(gap, count):
            held, at = order[k], k
            while at >= gap and ends[order[at - gap]] > ends[held]:
                order[at] = order[at - gap]
                at -= gap
            order[at] = held
        gap //= 2


# A call of its own, though it copies the headers of all arrays: it is called at three places, and
# what it is made of is long to compile.
@helper
def start_if_placed(
    w: BatchWorld,
    job: int,
    place: CompiledPolicy,
    score: CompiledPolicy,
    index: RankIndex,
    need: Amounts,
) -> bool:
    """Start a job that has room by amounts, if the placement finds nodes for all its tasks; `need`
    is then taken from what is free."""
    begin_attempt(w.schedulers, w.jobs, 0, job, w.state[0].now)
    decide(w, 0, place, score, index)
    claimed = w.schedulers[0].claimed
    whole = bool(claimed == w.jobs[job].left)
    if whole:
        accepted = commit_claim(w, 0)
        start_run(w, 0, accepted, w.jobs[job].duration)
        record_decided(w, 0, job, accepted, 0.0)
        finish_job(w, job, accepted, 0.0)
        for r in range(need.shape[0]):
            w.vectors[0, r] -= need[r]
    else:
        drop_claim(room_of(w, job), w.claim[0], claimed, w.request[job])
        log_all(w.changes, w.claim[0], claimed)
    w.schedulers[0].job = -1
    w.state[0].events += 1
    return whole


@helper
def set_need(w: BatchWorld, job: int, need: Amounts) -> None:
    """What a job's waiting tasks ask for together."""
    for r in range(need.shape[0]):
        need[r] = w.request[job, r] * w.jobs[job].left


@inlined
def look_at_queue(
    w: BatchWorld, place: CompiledPolicy, score: CompiledPolicy, index: RankIndex
) -> None:
    """Start every job that may start now."""
    free, need, extra = w.vectors[0], w.vectors[1], w.vectors[2]
    for r in range(free.shape[0]):
        free[r] = w.totals[r] - w.sums[0, r]
    if w.batch[0].fair:
        sort_fairly(w.batch, w.waiting, w.rank, w.recent, w.jobs)
    first, blocked = 0, False
    while first < w.batch[0].waiting and not blocked and w.batch[0].overtaking != CONSERVATIVE:
        set_need(w, w.waiting[first], need)
        blocked = not has_room(free, need)
        if not blocked:
            blocked = not start_if_placed(w, w.waiting[first], place, score, index, need)
        first += not blocked
    if blocked and w.batch[0].overtaking == EASY:
        running = list_running(w)
        set_need(w, w.waiting[first], need)
        shadow = find_shadow(need, free, w.ends, w.amounts, w.order, running, extra)
        for k in range(first + 1, w.batch[0].waiting):
            job = w.waiting[k]
            set_need(w, job, need)
            in_time = w.state[0].now + w.estimate[job] <= shadow
            starts = has_room(free, need) and (in_time or has_room(extra, need))
            if starts:
                starts = start_if_placed(w, job, place, score, index, need)
            if starts and not in_time:
                for r in range(need.shape[0]):
                    extra[r] -= need[r]
    elif w.batch[0].overtaking == CONSERVATIVE:
        start_reserved(w, place, score, index)
    drop_started(w.batch, w.waiting, w.jobs)
    w.schedulers[0].queued = w.batch[0].waiting


@inlined
def start_reserved(
    w: BatchWorld, place: CompiledPolicy, score: CompiledPolicy, index: RankIndex
) -> None:
    """Give every job in turn the earliest reservation that delays none before it, and start those
    whose time has come."""
    need, points = w.vectors[1], make_profile(w, list_running(w))
    for k in range(w.batch[0].waiting):
        job = w.waiting[k]
        set_need(w, job, need)
        start = find_start(w.points, w.profile, points, need, w.estimate[job])
        if start < points:
            due = w.points[start] == w.state[0].now and has_room(w.vectors[0], need)
            points = reserve(w.points, w.profile, points, start, w.estimate[job], need)
            if due:
                start_if_placed(w, job, place, score, index, need)


@helper
def make_profile(w: BatchWorld, running: int) -> int:
    """What will be free from now on, if everything ends when it is expected to; returns the number
    of points."""
    points = 1
    w.points[0] = w.state[0].now
    for r in range(w.request.shape[1]):
        w.profile[0, r] = w.vectors[0, r]
    for k in range(running):
        if w.ends[w.order[k]] > w.points[points - 1]:
            w.points[points] = w.ends[w.order[k]]
            for r in range(w.request.shape[1]):
                w.profile[points, r] = w.profile[points - 1, r]
            points += 1
        for r in range(w.request.shape[1]):
            w.profile[points - 1, r] += w.amounts[w.order[k], r]
    return points


@inlined
def happen(w: BatchWorld) -> None:
    """The next arrival or event."""
    job = -1
    if arrival_is_next(w.state, w.jobs, w.event_queue):
        arrived = w.state[0].arrived
        w.state[0].arrived += 1
        w.state[0].events += 1
        job = arrived if w.jobs[arrived].status != NEVER else -1
    else:
        what = pop(w.event_queue, w.state)
        kind, subject = what & KIND_MASK, what >> KIND_BITS
        if kind == TASKS_END:
            end_run(w, subject)
        elif kind == JOB_RETURNS:
            job = subject
        elif kind == NODE_CHANGES:
            change_node(w, subject)
        else:
            usage_changes(w)
    if job >= 0:
        enter_queue(w.batch, w.waiting, w.rank, w.jobs, job)
    w.batch[0].changed = True


@helper
def queue_needs_room(w: BatchWorld) -> bool:
    """Whether starting every waiting job at once could outgrow the arrays."""
    rows = w.state[0].scheduled + w.batch[0].waiting + EVENTS_MAX
    return bool(
        w.state[0].slots_left < w.batch[0].tasks
        or rows > w.event_queue.shape[0]
        or rows > w.runs.shape[0]
    )


@loop_kernel
def advance_batch(
    w: BatchWorld, place: CompiledPolicy, score: CompiledPolicy, index: RankIndex, until: float
) -> int:
    """As `advance`; every decision is made here."""
    while True:
        if w.batch[0].changed and next_time(w.state, w.jobs, w.event_queue) > w.state[0].now:
            if queue_needs_room(w):
                return GROW
            look_at_queue(w, place, score, index)
            w.batch[0].changed = False
        full = needs_room(w.state, w.runs, w.event_queue, w.claim.shape[1])
        why = step_to_event(w, until, full)
        if why != GO_ON:
            return why
        if w.batch[0].fair:
            add_use(w.batch, w.recent, w.held, w.state[0].now)
        happen(w)
