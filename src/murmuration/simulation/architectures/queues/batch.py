"""The loop of batch queues: schedulers that start whole jobs in the order of a discipline.

Whenever something has happened, and after everything else that happens at the same time, the queue
of each scheduler is looked at once: which jobs start now. That takes no simulated time. Who is next
and who may overtake is decided by `schedulers/queues`; where a job's tasks go, by the placement. A
job that has room by amounts but finds no nodes (the room is in pieces, or on nodes it may not use)
waits as if there were none.

Schedulers with rows of their own (partitioned) have a pool of room each; all others share one.

**Two views of room.** A discipline reasons in amounts: how much of each resource a pool has now and
will have at any later time (the *profile*, made of the ends that jobs asked for). A placement
reasons in nodes. The amounts are kept beside the table (`w.pools`) and changed with every start and
end, because summing ten thousand rows for each look would cost more than the look. They can only be
too optimistic: room in pieces counts as room. So a job that may start by amounts is started only if
the placement finds nodes for all of its tasks (`start_if_placed`), and otherwise waits like one for
which there is no room; the order in which jobs are tried does not depend on it.

**One look for each instant.** Ten jobs that end at the same time are ten events. Looking after each
of them would start jobs on the first one's room which the discipline would have given to another
had it seen all ten. So an event only sets `changed`, and the loop looks when the next event is
later than now (`advance_batch`). A look may start every job that waits, and an attempt may be
recorded for each; whether there is room for all of that is asked before it begins, since a kernel
can stop between two events and not within one.

**Making way.** Where running jobs may make way, the job at the head that found no room has
others ended (`make_way`), and the look ends there: those that made way return to the queue by an
event at this same time, and the next look sees them in their places.
"""

from __future__ import annotations

from collections.abc import Callable

from murmuration.base.arrays import Amounts, Indices, Times
from murmuration.base.jit import helper, inlined, loop_kernel, tree
from murmuration.placement.ranking import RankIndex
from murmuration.placement.room import log_all
from murmuration.schedulers.admission import NEVER
from murmuration.schedulers.queues import look as looking
from murmuration.schedulers.queues.discipline import BY_FACTORS, BY_RANK
from murmuration.schedulers.queues.look import CONSERVATIVE, EASY, QueueLook
from murmuration.simulation.architectures.queues.accounts import (
    count_job,
    insert_sorted,
    is_held,
    pass_use,
    recount,
    set_fairness,
    sort_queue,
)
from murmuration.simulation.architectures.queues.batch_world import KEEP, BatchWorld
from murmuration.simulation.architectures.queues.making_way import has_room, lose_jobs, make_way
from murmuration.simulation.engine.churn import change_node
from murmuration.simulation.engine.event_queue import EVENTS_MAX, needs_room, pop
from murmuration.simulation.engine.loop import (
    DRAIN,
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
    USAGE_CHANGES,
)
from murmuration.simulation.results.recording import is_log_full

#: A placement or a score as a kernel calls it.
CompiledPolicy = Callable[..., int]

begin_look = tree(looking.begin_look)
set_profile = tree(looking.set_profile)
keep_for_others = tree(looking.keep_for_others)
is_over = tree(looking.is_over)
may_start = tree(looking.may_start)
note_start = tree(looking.note_start)
note_wait = tree(looking.note_wait)


@helper
def enter_queue(w: BatchWorld, job: int) -> None:
    """A job takes its place in the queue of its scheduler."""
    queue = w.batch[w.jobs[job].scheduler]
    w.waiting[queue.first + queue.count] = job
    insert_sorted(w.waiting, w.rank, queue.first, queue.first + queue.count)
    queue.count += 1
    queue.tasks += w.jobs[job].left


@helper
def drop_started(w: BatchWorld, scheduler: int) -> None:
    """Jobs with nothing left to start leave the queue."""
    queue, kept = w.batch[scheduler], 0
    queue.tasks = 0
    for k in range(queue.first, queue.first + queue.count):
        job = w.waiting[k]
        if w.jobs[job].left > 0:
            w.waiting[queue.first + kept] = job
            queue.tasks += w.jobs[job].left
            kept += 1
    queue.count = kept
    w.schedulers[scheduler].queued = kept


@helper
def list_running(w: BatchWorld, pool: int) -> int:
    """What runs in a pool, in order of the ends that jobs asked for; one that overran is expected
    to end now. The room of a job inside a reservation is not free before the reservation ends."""
    # Runs are found by way of the event queue, where each has exactly one end; one that lost its
    # tasks before their time has a count of 0 by now. What the queue says of *when* a run ends is
    # not used, for a discipline knows what was asked for and not what will be.
    count, now = 0, w.state[0].now
    for k in range(w.state[0].scheduled):
        if w.event_queue[k].what & KIND_MASK == TASKS_END:
            run = w.event_queue[k].what >> KIND_BITS
            job = w.runs[run].job
            if w.runs[run].count > 0 and w.batch[w.jobs[job].scheduler].pool == pool:
                end = w.runs[run].started + w.queued[job].estimate - w.queued[job].done_s
                if w.queued[job].inside >= 0:
                    end = max(end, w.windows[w.queued[job].inside, 1])
                w.ends[count] = max(end, now)
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


# A call of its own, though it copies the headers of all arrays: it is called at two places, and
# what it is made of is long to compile.
@helper
def start_if_placed(
    w: BatchWorld, job: int, place: CompiledPolicy, score: CompiledPolicy, index: RankIndex
) -> bool:
    """Start a job that has room by amounts, if the placement finds nodes for all its tasks."""
    scheduler = w.jobs[job].scheduler
    begin_attempt(w.schedulers, w.jobs, scheduler, job, w.state[0].now)
    decide(w, scheduler, place, score, index)
    claimed = w.schedulers[scheduler].claimed
    whole = bool(claimed == w.jobs[job].left)
    if whole:
        accepted = commit_claim(w, scheduler)
        start_run(w, scheduler, accepted, w.jobs[job].duration - w.queued[job].done_s)
        record_decided(w, scheduler, job, accepted, 0.0)
        finish_job(w, job, accepted, 0.0)
        count_job(w, job, accepted)
        w.queued[job].forced = False
    else:
        drop_claim(room_of(w, job), w.claim[scheduler], claimed, w.request[job])
        log_all(w.changes, w.claim[scheduler], claimed)
        w.schedulers[scheduler].claimed = 0
        record_decided(w, scheduler, job, 0, 0.0)
    w.schedulers[scheduler].job = -1
    w.state[0].events += 1
    return whole


@helper
def find_window(w: BatchWorld, job: int, pool: int, need: Amounts, lasts: float) -> int:
    """The reservation of its owner that a job fits into from now on, −1 for none."""
    now = w.state[0].now
    for k in range(w.windows.shape[0]):
        is_open = w.windows[k, 0] <= now and now + lasts <= w.windows[k, 1]
        mine = w.window_owner[k, w.queued[job].account]
        if is_open and mine and has_room(w.window_left[k, pool], need):
            return k if has_room(w.pools[pool], need) else -1
    return -1


@helper
def build_profile(w: BatchWorld, look: QueueLook, pool: int) -> None:
    """Make the profile of a pool: what runs, and what is kept for reservations."""
    set_profile(look, (w.ends, w.amounts, w.order), list_running(w, pool))
    for k in range(w.windows.shape[0]):
        keep_for_others(look, w.windows[k, 0], w.windows[k, 1], w.window_left[k, pool])


@inlined
def look_at_queue(
    w: BatchWorld,
    scheduler: int,
    place: CompiledPolicy,
    score: CompiledPolicy,
    index: RankIndex,
) -> None:
    """Start every job of a scheduler that may start now."""
    pool, need, overtaking = w.batch[scheduler].pool, w.vectors[0], w.rules[0].overtaking
    free = w.pools[pool]
    look = QueueLook(w.look, free, w.points, w.profile)
    if w.rules[0].order != BY_RANK:
        sort_queue(w, scheduler)
    begin_look(look, w.state[0].now, overtaking)
    if overtaking == CONSERVATIVE or w.windows.shape[0] > 0:
        build_profile(w, look, pool)
    for k in range(w.batch[scheduler].count):
        if is_over(look):
            break
        job = w.waiting[w.batch[scheduler].first + k]
        if is_held(w, job):
            continue
        for r in range(need.shape[0]):
            need[r] = w.request[job, r] * w.jobs[job].left
        lasts = max(w.queued[job].estimate - w.queued[job].done_s, 0.0)
        window = find_window(w, job, pool, need, lasts)
        asks = window >= 0 or may_start(look, need, lasts)
        started = asks and start_if_placed(w, job, place, score, index)
        may_force = not started and w.rules[0].preempt != KEEP and not look.state[0].blocked
        if may_force and make_way(w, job, need, free, w.vectors[1:]):
            take_made_room(w, look, job, lasts, place, score, index)
            # Those that made way are about to return: the queue is looked at again with them. Going
            # on here would let jobs behind this one take room that theirs may be.
            break
        if started and window >= 0:
            w.queued[job].inside = window
            for r in range(need.shape[0]):
                w.window_left[window, pool, r] -= need[r]
                free[r] -= need[r]
        elif started:
            note_start(look, need, lasts)
        else:
            if overtaking == EASY and not look.state[0].profiled:
                build_profile(w, look, pool)
            note_wait(look, need, lasts)
    drop_started(w, scheduler)


@helper
def take_made_room(
    w: BatchWorld,
    look: QueueLook,
    job: int,
    lasts: float,
    place: CompiledPolicy,
    score: CompiledPolicy,
    index: RankIndex,
) -> None:
    """Others have made way for a job: start it, unless the room is promised or in pieces."""
    if look.state[0].profiled:
        build_profile(w, look, w.batch[w.jobs[job].scheduler].pool)
    if may_start(look, w.vectors[0], lasts) and start_if_placed(w, job, place, score, index):
        note_start(look, w.vectors[0], lasts)


@helper
def leave_window(w: BatchWorld, job: int, tasks: int) -> None:
    """A job inside a reservation has ended: its part of it is free again."""
    window, pool = w.queued[job].inside, w.batch[w.jobs[job].scheduler].pool
    if window >= 0:
        for r in range(w.request.shape[1]):
            w.window_left[window, pool, r] += w.request[job, r] * tasks
        w.queued[job].inside = -1


@inlined
def finish_run(w: BatchWorld, run: int) -> None:
    """The tasks of a run end; their room goes back to its pool."""
    job, tasks = w.runs[run].job, w.runs[run].count
    if tasks > 0:
        free = w.pools[w.batch[w.jobs[job].scheduler].pool]
        for r in range(free.shape[0]):
            free[r] += w.request[job, r] * tasks
        count_job(w, job, -tasks)
        leave_window(w, job, tasks)
    end_run(w, run)


@inlined
def change_nodes(w: BatchWorld, event: int) -> None:
    """A node comes, goes or changes; jobs that lose a task with it are lost whole. Its pool has
    more or less by the difference, for all of a job's tasks are in one pool."""
    before, pool = w.vectors[1], w.node_pool[w.node_events[event].node]
    for r in range(before.shape[0]):
        before[r] = w.totals[r] - w.sums[0, r]
    change_node(w, event)
    lose_jobs(w)
    for r in range(before.shape[0]):
        if pool >= 0:
            w.pools[pool, r] += w.totals[r] - w.sums[0, r] - before[r]
    recount(w)


@inlined
def dispatch(w: BatchWorld) -> None:
    """Handle the next arrival or event. Nothing is started here: that is the look's part. The end
    of a run that made way long ago calls for no look, which matters where the order of a queue
    depends on the time."""
    job, is_stale = -1, False
    if arrival_is_next(w.state, w.jobs, w.event_queue):
        arrived = w.state[0].arrived
        w.state[0].arrived += 1
        w.state[0].events += 1
        job = arrived if w.jobs[arrived].status != NEVER else -1
    else:
        what = pop(w.event_queue, w.state)
        kind, subject = what & KIND_MASK, what >> KIND_BITS
        if kind == TASKS_END:
            is_stale = w.runs[subject].count == 0
            finish_run(w, subject)
        elif kind == JOB_RETURNS:
            job = subject
            leave_window(w, job, w.jobs[job].left)
        elif kind == NODE_CHANGES:
            change_nodes(w, subject)
        elif kind == USAGE_CHANGES:
            usage_changes(w)
    if job >= 0:
        enter_queue(w, job)
    w.rules[0].changed |= not is_stale


@helper
def queue_needs_room(w: BatchWorld) -> bool:
    """Whether starting every waiting job at once could outgrow the arrays. Those that make way for
    others return by an event each."""
    waiting, tasks = 0, 0
    for scheduler in range(w.batch.shape[0]):
        waiting += w.batch[scheduler].count
        tasks += w.batch[scheduler].tasks
    rows = w.state[0].scheduled + waiting + EVENTS_MAX
    returning = w.state[0].scheduled if w.rules[0].preempt != KEEP else 0
    return bool(
        w.state[0].slots_left < tasks
        or rows + returning > w.event_queue.shape[0]
        or rows > w.runs.shape[0]
    )


@helper
def logs_need_room(w: BatchWorld) -> bool:
    """Whether an attempt for every waiting job could outgrow the logs."""
    waiting = 0
    for scheduler in range(w.batch.shape[0]):
        waiting += w.batch[scheduler].count
    full = is_log_full(w.state, w.slots, w.task_log, w.attempt_log)
    attempts = w.state[0].attempts_logged + 2 * waiting + 2
    return bool(full or (w.attempt_log.shape[0] > 0 and attempts > w.attempt_log.shape[0]))


@loop_kernel
def advance_batch(
    w: BatchWorld, place: CompiledPolicy, score: CompiledPolicy, index: RankIndex, until: float
) -> int:
    """As `advance`; every decision is made here."""
    while True:
        if w.rules[0].changed and next_time(w.state, w.jobs, w.event_queue) > w.state[0].now:
            if queue_needs_room(w):
                return GROW
            if logs_need_room(w):
                return DRAIN
            if w.rules[0].order == BY_FACTORS:
                set_fairness(w)
            for scheduler in range(w.batch.shape[0]):
                look_at_queue(w, scheduler, place, score, index)
            w.rules[0].changed = False
        full = needs_room(w.state, w.runs, w.event_queue, w.claim.shape[1])
        why = step_to_event(w, until, full)
        if why != GO_ON:
            return why
        if w.rules[0].order != BY_RANK:
            pass_use(w)
        dispatch(w)
