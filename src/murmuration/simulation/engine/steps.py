"""The steps every architecture is made of: queueing, claiming, committing, running, ending, and
measuring.

Compiled helpers on the arrays of a world. Small ones take the arrays they touch; those that touch
most take the world.

**An attempt** has three moments. When it begins, its scheduler takes a job off its queue. When it
is decided, nodes are *claimed* for the job's tasks; that takes no simulated time. When its decision
time is over, the claim is *committed*: the tasks start, or some of them fail because the table has
changed since. In between, an exclusive scheduler keeps the claimed room, so that nobody else can
take it; an optimistic one only remembers what it saw.

**Which table.** Where nothing is measured, `free` is what requests leave of a node, and the only
table. Where usage is measured, `free` is what tasks do not *use*, and `unreserved` is what requests
do not *reserve*. A job whose requests are reserved is placed by the second, any other by the first
(`room_of`). Both are kept for every task, whichever it was placed by.

**Lists in arrays.** Queues, the tasks of a run, and unused rows are linked lists: a row names the
next one by its number, −1 ends the list. A kernel makes no arrays, so room for more rows is made by
Python when `needs_room` says that the next step might not fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from murmuration.base.arrays import (
    Amounts,
    Counts,
    Placement,
    Records,
    SmallIntegers,
    Times,
)
from murmuration.base.jit import helper, inlined
from murmuration.base.rows import give_back, take
from murmuration.cluster import transactions
from murmuration.placement.room import log_all, log_change
from murmuration.schedulers.admission import ABANDONED, SCHEDULED, WAITING
from murmuration.simulation.engine.event_queue import schedule
from murmuration.simulation.engine.usage import phase
from murmuration.simulation.engine.world import (
    GUARANTEED,
    JOB_RETURNS,
    REQUIRED,
    TASKS_END,
    USED_NOW,
    World,
)
from murmuration.simulation.results.recording import FINISHED, record_ends, record_start

commit = helper(transactions.commit)
policy_room = helper(transactions.policy_room)

#: A job that took no time and found no room comes back after this long.
IDLE_RETRY_S = 1.0


@helper
def enqueue(schedulers: Records, queue: SmallIntegers, jobs: Records, job: int) -> None:
    """A job goes to the tail of its scheduler's queue at its priority level."""
    scheduler, level = jobs[job].scheduler, jobs[job].level
    # The link is cleared first: a job that was in a queue before still names who was behind it.
    jobs[job].behind = -1
    last = queue[scheduler, level, 1]
    if last < 0:
        queue[scheduler, level, 0] = job
    else:
        jobs[last].behind = job
    queue[scheduler, level, 1] = job
    schedulers[scheduler].queued += 1


@helper
def next_job(queue: SmallIntegers, scheduler: int) -> int:
    """The job at the head of the highest level that is not empty, −1 if the queue is empty."""
    for level in range(queue.shape[1]):
        if queue[scheduler, level, 0] >= 0:
            return int(queue[scheduler, level, 0])
    return -1


@helper
def dequeue(schedulers: Records, queue: SmallIntegers, jobs: Records, scheduler: int) -> int:
    """Take the next job off the queue."""
    job = next_job(queue, scheduler)
    level = jobs[job].level
    queue[scheduler, level, 0] = jobs[job].behind
    # With the last job the tail must go as well, or `enqueue` would hang the next one behind a job
    # that has left.
    if jobs[job].behind < 0:
        queue[scheduler, level, 1] = -1
    schedulers[scheduler].queued -= 1
    return job


@helper
def nth_job(queue: SmallIntegers, jobs: Records, scheduler: int, n: int) -> int:
    """The job with n others before it in the queue, −1 if there is none."""
    for level in range(queue.shape[1]):
        job = queue[scheduler, level, 0]
        while job >= 0:
            if n == 0:
                return int(job)
            n -= 1
            job = jobs[job].behind
    return -1


@helper
def leave_queue(schedulers: Records, queue: SmallIntegers, jobs: Records, job: int) -> None:
    """Take a job out of its queue, wherever in it the job stands. A scheduler that sees
    a part of the table may find room there for a job that is not the first."""
    scheduler, level = jobs[job].scheduler, jobs[job].level
    before, at = -1, queue[scheduler, level, 0]
    while at != job:
        before, at = at, jobs[at].behind
    if before < 0:
        queue[scheduler, level, 0] = jobs[job].behind
    else:
        jobs[before].behind = jobs[job].behind
    if queue[scheduler, level, 1] == job:
        queue[scheduler, level, 1] = before
    schedulers[scheduler].queued -= 1


@helper
def begin_attempt(schedulers: Records, jobs: Records, scheduler: int, job: int, now: float) -> None:
    """The scheduler turns to this job."""
    schedulers[scheduler].job = job
    schedulers[scheduler].started = now
    schedulers[scheduler].claimed = 0
    jobs[job].attempts += 1
    # Waiting time ends with the first attempt, however many follow.
    if np.isnan(jobs[job].first):
        jobs[job].first = now


@helper
def decision_time(times: Times, jobs: Records, scheduler: int, job: int) -> float:
    """Time of one attempt = job time + task time × tasks left."""
    workload = jobs[job].workload
    return float(times[scheduler, workload, 0] + times[scheduler, workload, 1] * jobs[job].left)


@helper
def drop_claim(free: Amounts, claim: Placement, claimed: int, request: Amounts) -> None:
    """Give back what an attempt has taken from the table so far."""
    for k in range(claimed):
        give_back(free, claim[k], request)


@inlined
def room_of(w: World, job: int) -> Any:
    """The table this job's room is counted in: what is not reserved, or for tasks that reserve
    nothing what is not used."""
    return (
        w.unreserved if w.unreserved.shape[0] > 0 and is_reserved(w.state, w.jobs, job) else w.free
    )


@helper
def is_reserved(state: Records, jobs: Records, job: int) -> bool:
    """Whether a job's requests are reserved; production tasks' always are, and all where nothing is
    reclaimed."""
    return bool(jobs[job].production or not state[0].reclaim)


@inlined
def settle_claim(w: World, scheduler: int) -> None:
    """What a fresh claim turns into: a gang that did not fit whole is dropped; an optimistic
    scheduler remembers what it saw and leaves the table as it was; every other one keeps the room
    it claimed until it commits."""
    job = w.schedulers[scheduler].job
    request, claim = w.request[job], w.claim[scheduler]
    # The placement took room for each task it found a node for, so that two tasks of one job do not
    # count on the same room. What a gang took in vain goes back at once, while nobody else has seen
    # it taken.
    if w.jobs[job].gang and w.schedulers[scheduler].claimed < w.jobs[job].left:
        drop_claim(room_of(w, job), claim, w.schedulers[scheduler].claimed, request)
        log_all(w.changes, claim, w.schedulers[scheduler].claimed)
        w.schedulers[scheduler].claimed = 0
    # An optimistic scheduler decided on its own copy of the table. There is only one table here, so
    # what it took is put back; the sequence numbers say at commit time which rows have changed
    # since.
    if w.schedulers[scheduler].optimistic:
        drop_claim(room_of(w, job), claim, w.schedulers[scheduler].claimed, request)
        log_all(w.changes, claim, w.schedulers[scheduler].claimed)
        for k in range(w.schedulers[scheduler].claimed):
            w.seen[scheduler, k] = w.sequence[claim[k]]


@inlined
def commit_claim(w: World, scheduler: int) -> int:
    """End an attempt's decision: apply its claim to the table; returns the number of tasks
    accepted."""
    job, claimed = w.schedulers[scheduler].job, w.schedulers[scheduler].claimed
    workload = w.jobs[job].workload
    accepted = claimed
    # An attempt that found no node makes no transaction: it is neither useful nor wasted, so its
    # time counts in no busy fraction.
    if claimed == 0:
        w.workloads[workload].empty_attempts += 1
        w.jobs[job].empty += 1
    else:
        if w.schedulers[scheduler].optimistic:
            accepted = commit_shared(w, scheduler, job, claimed)
        else:
            accepted = count_claim(w.sequence, w.claim[scheduler], claimed)
        spent = w.state[0].now - w.schedulers[scheduler].started
        count_attempt(w.busy, w.workloads, w.jobs, scheduler, job, spent, accepted < claimed)
    return int(accepted)


@helper
def count_claim(sequence: Counts, claim: Placement, claimed: int) -> int:
    """An exclusive claim is accepted, but for nodes that left in the meantime (−1)."""
    accepted = 0
    for k in range(claimed):
        if claim[k] >= 0:
            # Optimistic schedulers beside this one must notice that the row has changed.
            sequence[claim[k]] += 1
            accepted += 1
    return accepted


@helper
def count_attempt(
    busy: Times,
    workloads: Records,
    jobs: Records,
    scheduler: int,
    job: int,
    spent: float,
    failed: bool,
) -> None:
    """An attempt that found nodes was useful, or wasted if its transaction failed."""
    workload = jobs[job].workload
    busy[workload, scheduler, 0] += spent
    if failed:
        jobs[job].conflicts += 1
        workloads[workload].commits_failed += 1
        busy[workload, scheduler, 1] += spent
    else:
        workloads[workload].commits_ok += 1


@inlined
def commit_shared(w: World, scheduler: int, job: int, claimed: int) -> int:
    """Optimistic commit: the meta-scheduler's policy first, then conflicts with what others
    committed meanwhile."""
    workload, request = w.jobs[job].workload, w.request[job]
    atomic = w.schedulers[scheduler].atomic or w.jobs[job].gang
    quota, headroom = w.workloads[workload].quota, w.workloads[workload].headroom
    # Where what is not used is given away, quota and headroom are about what is used as well, but
    # for production tasks, whose requests are guaranteed.
    held, taken = w.held[workload], w.sums[REQUIRED]
    if w.unreserved.shape[0] > 0 and w.state[0].reclaim:
        taken = w.sums[GUARANTEED]
        if not w.jobs[job].production:
            taken = w.sums[USED_NOW]
            if quota >= 0.0:
                sum_used(w, workload)
                held = w.held_used[workload]
    room = policy_room(held, taken, w.totals, request, quota, headroom)
    if room < claimed:
        w.workloads[workload].policy_refusals += 1
        if atomic:
            room = 0
        # The tasks beyond the quota are dropped from the end of the claim; −1 marks a task that has
        # no node, here as after a conflict.
        for k in range(room, claimed):
            w.claim[scheduler, k] = -1
    machine = w.schedulers[scheduler].machine
    accepted = commit(
        room_of(w, job),
        w.sequence,
        w.claim[scheduler],
        w.seen[scheduler],
        min(room, claimed),
        request,
        machine,
        atomic,
    )
    log_all(w.changes, w.claim[scheduler], claimed)
    return accepted


@inlined
def sum_used(w: World, workload: int) -> None:
    """Add up what all tasks of a workload use: only where a quota asks, for it takes as long as
    there are tasks."""
    for r in range(w.held_used.shape[1]):
        w.held_used[workload, r] = 0
        for slot in range(w.state[0].slots_high):
            if w.tasks[slot].job >= 0 and w.jobs[w.tasks[slot].job].workload == workload:
                w.held_used[workload, r] += w.task_used[slot, r]


@inlined
def start_run(w: World, scheduler: int, accepted: int, lasts: float) -> None:
    """The accepted tasks of an attempt run from now on, all for the same time."""
    job = w.schedulers[scheduler].job
    # An unused run names the next unused one in the field that later names its first slot.
    run = w.state[0].run_free
    w.state[0].run_free = w.runs[run].slot
    w.runs[run].job = job
    w.runs[run].count = accepted
    w.runs[run].started = w.state[0].now
    # A job that lost all its tasks and starts again has started before.
    if np.isnan(w.jobs[job].started):
        w.jobs[job].started = w.state[0].now
    w.runs[run].slot = fill_slots(
        w.slots, w.state, w.claim[scheduler], w.schedulers[scheduler].claimed
    )
    w.state[0].slots_left -= accepted
    if w.jobs[job].production:
        guarantee(w.guaranteed, w.slots, w.runs[run].slot, w.request[job], 1)
    if w.tasks.shape[0] > 0:
        tasks_appear(w, run)
    record_start(w, run)
    account(w.sums, w.held, w.state, w.jobs, w.request, job, accepted)
    w.workloads[w.jobs[job].workload].tasks_placed += accepted
    schedule(w.event_queue, w.state, w.state[0].now + lasts, TASKS_END, run)


@helper
def fill_slots(slots: Records, state: Records, claim: Placement, claimed: int) -> int:
    """A list of slots, one for each accepted task; returns its head."""
    head = -1
    # Each slot goes in front of the list, so the list runs backwards through the claim. The order
    # matters to nobody but must not change: tasks of one run end in it, and their slots are used
    # again in it.
    for k in range(claimed):
        if claim[k] >= 0:
            slot = state[0].slot_free
            state[0].slot_free = slots[slot].next
            slots[slot].node = claim[k]
            slots[slot].next = head
            head = slot
    return head


@helper
def guarantee(guaranteed: Amounts, slots: Records, slot: int, request: Amounts, sign: int) -> None:
    """Count production tasks into the rows they run on, or out of them."""
    while slot >= 0:
        for r in range(request.shape[0]):
            guaranteed[slots[slot].node, r] += sign * request[r]
        slot = slots[slot].next


@helper
def account(
    sums: Amounts,
    held: Amounts,
    state: Records,
    jobs: Records,
    request: Amounts,
    job: int,
    tasks: int,
) -> None:
    """Count tasks that start (or end, if negative) into the cluster's sums."""
    workload = jobs[job].workload
    for r in range(request.shape[1]):
        amount = request[job, r] * tasks
        sums[0, r] += amount
        held[workload, r] += amount
        if jobs[job].production:
            sums[1, r] += amount
    state[0].running += tasks


@helper
def charge(free: Amounts, sums: Amounts, node: int, amounts: Amounts, sign: int) -> None:
    """What a task uses is counted into its node and the cluster's sum, or out of them."""
    for r in range(amounts.shape[0]):
        free[node, r] -= sign * amounts[r]
        sums[USED_NOW, r] += sign * amounts[r]


@inlined
def tasks_appear(w: World, run: int) -> None:
    """The tasks of a run that has just started have rows of their own; until they are measured they
    count as using a share of what they request."""
    job = w.runs[run].job
    slot, ordinal = w.runs[run].slot, 0
    while slot >= 0:
        w.tasks[slot].job = job
        w.tasks[slot].leader = w.runs[run].slot
        w.tasks[slot].source = -1
        w.tasks[slot].point = -1
        w.tasks[slot].stays = 0.0
        w.tasks[slot].began = w.state[0].now - phase(w.state, w.curves.shape[1], job, ordinal)
        w.state[0].slots_high = max(w.state[0].slots_high, slot + 1)
        if w.unreserved.shape[0] > 0:
            assume_usage(
                w.request[job], w.jobs[job].curve, w.state[0].unmeasured, w.task_used[slot]
            )
            charge(w.free, w.sums, w.slots[slot].node, w.task_used[slot], 1)
            # The claim took the whole request from the table the job was placed by. For a job whose
            # requests are reserved that was `unreserved`, where it stays taken. For any other it
            # was `free`, where now what the task uses is counted: the request goes back.
            if not is_reserved(w.state, w.jobs, job):
                give_back(w.free, w.slots[slot].node, w.request[job])
        slot = w.slots[slot].next
        ordinal += 1


@inlined
def tasks_disappear(w: World, run: int) -> None:
    """The tasks of a run end: their rows are free, and what they used is, but for what the caller
    gives back."""
    job = w.runs[run].job
    slot = w.runs[run].slot
    while slot >= 0:
        w.tasks[slot].job = -1
        if w.unreserved.shape[0] > 0:
            charge(w.free, w.sums, w.slots[slot].node, w.task_used[slot], -1)
            # The caller gives the request back to the table the job was placed by (`free_slots`).
            # In `free` only the usage was counted, so the request is taken here, to come out even.
            if not is_reserved(w.state, w.jobs, job):
                take(w.free, w.slots[slot].node, w.request[job])
        slot = w.slots[slot].next


@helper
def assume_usage(request: Amounts, curve: int, share: float, use: Amounts) -> None:
    """What a task counts as using before it is measured; one that uses what it requests is known
    from the start."""
    for r in range(request.shape[0]):
        use[r] = request[r] if curve < 0 else min(request[r], int(request[r] * share) + 1)


@helper
def free_slots(slots: Records, state: Records, free: Amounts, slot: int, request: Amounts) -> None:
    """Every task of a list ends: its row gets back what was assigned, its slot returns to the free
    list."""
    while slot >= 0:
        give_back(free, slots[slot].node, request)
        following = slots[slot].next
        slots[slot].next = state[0].slot_free
        state[0].slot_free = slot
        slot = following


@helper
def log_slots(changes: Counts, slots: Records, slot: int) -> None:
    """The rows under every task of a list are about to change."""
    if changes.shape[0] > 1:
        while slot >= 0:
            log_change(changes, slots[slot].node)
            slot = slots[slot].next


@inlined
def end_run(w: World, run: int) -> None:
    """The tasks of a run end."""
    job, slot, ended = w.runs[run].job, w.runs[run].slot, w.runs[run].count
    record_ends(w, run, FINISHED)
    if w.jobs[job].production:
        guarantee(w.guaranteed, w.slots, slot, w.request[job], -1)
    if w.tasks.shape[0] > 0:
        tasks_disappear(w, run)
    log_slots(w.changes, w.slots, slot)
    free_slots(w.slots, w.state, room_of(w, job), slot, w.request[job])
    count_ended(w.jobs, job, ended, w.state[0].now)
    close_run(w.runs, w.state, run)
    account(w.sums, w.held, w.state, w.jobs, w.request, job, -ended)


@helper
def count_ended(jobs: Records, job: int, ended: int, now: float) -> None:
    """Tasks of a job came to their end. A run may have lost all of its tasks before."""
    if ended > 0:
        jobs[job].done += ended
        jobs[job].ended = now


@helper
def close_run(runs: Records, state: Records, run: int) -> None:
    """The run's row is free again."""
    state[0].slots_left += runs[run].count
    state[0].events += runs[run].count
    runs[run].slot = state[0].run_free
    state[0].run_free = run


@inlined
def finish_job(w: World, job: int, accepted: int, spent: float) -> None:
    """After an attempt: the job is done, abandoned, or returns to its queue."""
    w.jobs[job].left -= accepted
    if w.jobs[job].left == 0:
        # Tasks that are lost with a node or revoked later make this job wait again, and this time
        # is then cleared by whoever takes them away.
        w.jobs[job].full = w.state[0].now
        w.jobs[job].status = SCHEDULED
    elif is_exhausted(w.state, w.jobs, job):
        w.jobs[job].status = ABANDONED
    else:
        w.jobs[job].status = WAITING
        delay = w.state[0].retry_s
        # An attempt that took no time and changed nothing would be repeated at the same instant
        # without end.
        if accepted == 0 and spent == 0.0:
            delay = max(delay, IDLE_RETRY_S)
        if delay > 0.0:
            schedule(w.event_queue, w.state, w.state[0].now + delay, JOB_RETURNS, job)
        else:
            enqueue(w.schedulers, w.queue, w.jobs, job)


@helper
def is_exhausted(state: Records, jobs: Records, job: int) -> bool:
    """Whether the job has been tried as often as it may be."""
    return bool(
        0 < state[0].attempts_max <= jobs[job].attempts or 0 < state[0].empty_max <= jobs[job].empty
    )
