"""Offers as the simulator behind the paper makes them (`scheduler.offers.batch_s`): the rules that
decide waits where offers are contended.

- Whatever happens first (a job arrives or returns, tasks end, an offer is answered) starts a timer
  of `batch_s`; nothing else starts one until it is over.
- Then all that is available is locked for one framework with jobs in its queue, the one whose
  running tasks have the smallest dominant share; offers do not count. Less than `batch_min_cpu` in
  all is not offered. The framework gets it `offer_time_s` later.
- The framework tries *every* job of its queue on this one offer, at once; a job that is not placed
  whole returns after `retry_s`. It answers when the decision times of all of them are over, also of
  those that found nothing: then the tasks start, and the rest is available.
- It is not busy meanwhile: it may get what others return and try other jobs on it.

An offer with many jobs is worked through job by job, because a step of a kernel must fit the
arrays; nothing else happens between these steps. What is chosen stays part of the locked offer
until it is answered: `pool` lists it, and while a framework is choosing it is off the table as
well, so that two jobs do not choose the same room.
"""

from __future__ import annotations

from collections.abc import Callable

from murmuration.base.jit import inlined, loop_kernel
from murmuration.base.rows import give_back, take
from murmuration.placement.ranking import RankIndex
from murmuration.schedulers.admission import ABANDONED, SCHEDULED, WAITING
from murmuration.simulation.architectures.offers.claims import (
    drop_offer_claim,
    return_offer,
    run_ends,
)
from murmuration.simulation.architectures.offers.holdings import (
    add,
    amount_held,
    available_set,
    offer_everything,
    remove,
)
from murmuration.simulation.architectures.offers.loop import (
    count_offered,
    decide_offered,
    idle_slot,
)
from murmuration.simulation.architectures.offers.world import (
    OFFER_ANSWERED,
    OFFER_MADE,
    OFFER_SENT,
    OfferWorld,
)
from murmuration.simulation.engine.event_queue import needs_room, pop, schedule
from murmuration.simulation.engine.loop import (
    DECIDE,
    DRAIN,
    GO_ON,
    GROW,
    ONE_JOB,
    PYTHON,
    arrival_is_next,
    arrive,
    step_to_event,
)
from murmuration.simulation.engine.steps import (
    IDLE_RETRY_S,
    begin_attempt,
    decision_time,
    enqueue,
    is_exhausted,
    leave_queue,
    next_job,
    start_run,
)
from murmuration.simulation.engine.world import JOB_RETURNS, KIND_BITS, KIND_MASK, TASKS_END
from murmuration.simulation.results.recording import is_log_full, record_attempt

#: A policy that was compiled, passed as a value.
Compiled = Callable[..., int]
#: No offer is being worked through.
NOBODY = -1


@inlined
def start_timer(w: OfferWorld) -> None:
    """An offer is made after the interval, unless one is to be made already."""
    if not w.state[0].offering:
        w.state[0].offering = True
        at = w.state[0].now + w.state[0].batch_s
        schedule(w.event_queue, w.state, at, OFFER_MADE, 0)


@inlined
def available_cpu(w: OfferWorld) -> int:
    """How much CPU is neither used nor on offer."""
    available = available_set(w)
    if w.state[0].bulk != available:
        return int(w.set_sum[available, 0])
    amount = w.totals[0] - w.sums[0, 0]
    for holder in range(available):
        amount -= w.set_sum[holder, 0]
    return int(amount)


@inlined
def make_batch(w: OfferWorld, allocate: Compiled) -> None:
    """Lock all that is available for the framework that the policy chooses."""
    w.state[0].offering = False
    slots, anybody = w.state[0].slots, False
    for framework in range(w.workloads.shape[0]):
        waits = w.schedulers[framework * slots].queued > 0
        w.wants[framework] = waits and idle_slot(w.schedulers, slots, framework) >= 0
        anybody |= w.wants[framework]
    if anybody and available_cpu(w) >= max(w.state[0].batch_min_cpu, 1):
        # What a framework is offered does not count: only its running tasks do.
        w.offered[:] = 0
        chosen = allocate(w.held, w.offered, w.totals, w.weight, w.wants, 0.0)
        scheduler = idle_slot(w.schedulers, slots, chosen)
        w.schedulers[scheduler].job = next_job(w.queue, chosen * slots)
        w.schedulers[scheduler].claimed = 0
        w.schedulers[scheduler].decided = True
        offer_everything(w, scheduler)
        w.state[0].offers_made += 1
        w.batches[scheduler].thinks = 0.0
        w.batches[scheduler].first = w.batches[scheduler].last = -1
        at = w.state[0].now + w.state[0].offer_time_s
        schedule(w.event_queue, w.state, at, OFFER_SENT, scheduler)
    count_offered(w.state, w.schedulers, w.request, w.sums, w.totals, w.set_sum, w.offered)


@inlined
def is_spent(w: OfferWorld, scheduler: int) -> bool:
    """Whether nothing of some resource is left in an offer. What was chosen before counts as
    gone: it is off the table, or off the set."""
    spent = False
    w.schedulers[scheduler].claimed = 0
    for r in range(w.totals.shape[0]):
        amount = amount_held(
            w.state, w.schedulers, w.request, w.sums, w.totals, w.set_sum, scheduler, r
        )
        if w.state[0].bulk == scheduler:
            amount -= w.batches[scheduler].chosen[r]
        spent |= amount <= 0
    return spent


@inlined
def next_of_offer(w: OfferWorld, scheduler: int) -> int:
    """The framework turns to the next job of its queue; returns the scheduler, or −1 when there is
    none, or nothing left for it: then the offer is answered later."""
    job = next_job(w.queue, scheduler // w.state[0].slots * w.state[0].slots)
    if job < 0 or is_spent(w, scheduler):
        for k in range(w.totals.shape[0]):
            w.batches[scheduler].chosen[k] = 0
        restore(w, scheduler)
        at = w.state[0].now + w.batches[scheduler].thinks
        schedule(w.event_queue, w.state, at, OFFER_ANSWERED, scheduler)
        w.state[0].steps_of = NOBODY
        return -1
    w.schedulers[scheduler].job = job
    w.schedulers[scheduler].claimed = 0
    w.schedulers[scheduler].decided = False
    return scheduler


@inlined
def restore(w: OfferWorld, scheduler: int) -> None:
    """What was chosen is on the table again, as a part of the locked offer."""
    row = w.batches[scheduler].first
    while row >= 0:
        node, request = w.pool[row].node, w.request[w.pool[row].job]
        give_back(w.free, node, request)
        if w.state[0].bulk != scheduler:
            add(
                w.set_rows,
                w.set_size,
                w.set_listed,
                w.set_amount,
                w.set_sum,
                scheduler,
                node,
                request,
            )
        row = w.pool[row].next


@inlined
def settle_choice(w: OfferWorld, scheduler: int) -> None:
    """The framework has chosen nodes for a job: they are listed, and the next job's turn comes at
    the same time."""
    job = w.schedulers[scheduler].job
    if w.jobs[job].gang and w.schedulers[scheduler].claimed < w.jobs[job].left:
        drop_offer_claim(w, scheduler)
    claimed = w.schedulers[scheduler].claimed
    leave_queue(w.schedulers, w.queue, w.jobs, job)
    begin_attempt(w.schedulers, w.jobs, scheduler, job, w.state[0].now)
    spent = decision_time(w.times, w.jobs, scheduler, job)
    w.batches[scheduler].thinks += spent
    w.schedulers[scheduler].decided = True
    keep_choice(w, scheduler, job, claimed)
    count_choice(w, scheduler, job, claimed, spent)
    w.state[0].pending = -1


@inlined
def keep_choice(w: OfferWorld, scheduler: int, job: int, claimed: int) -> None:
    """List what was chosen; each task is listed once, so the pool has room for all."""
    for k in range(claimed):
        row = w.state[0].pooled
        w.state[0].pooled += 1
        w.pool[row].job = job
        w.pool[row].node = w.claim[scheduler, k]
        w.pool[row].next = -1
        if w.batches[scheduler].last < 0:
            w.batches[scheduler].first = row
        else:
            w.pool[w.batches[scheduler].last].next = row
        w.batches[scheduler].last = row
    for r in range(w.totals.shape[0]):
        w.batches[scheduler].chosen[r] += claimed * w.request[job, r]


@inlined
def count_choice(w: OfferWorld, scheduler: int, job: int, claimed: int, spent: float) -> None:
    """Count the attempt. The rest of the job returns after a while, counted from now."""
    workload = w.jobs[job].workload
    if claimed > 0:
        w.busy[workload, scheduler, 0] += spent
        w.workloads[workload].commits_ok += 1
    else:
        w.workloads[workload].empty_attempts += 1
        w.jobs[job].empty += 1
        w.state[0].offers_rejected += 1
    w.state[0].events += 1
    record_attempt(w, scheduler, job, claimed, 0, spent if claimed > 0 else 0.0, 0.0)
    w.jobs[job].left -= claimed
    w.jobs[job].chosen += claimed
    if w.jobs[job].left > 0:
        w.jobs[job].status = WAITING
        if is_exhausted(w.state, w.jobs, job):
            w.jobs[job].status = ABANDONED
        else:
            delay = max(w.state[0].retry_s, 0.0 if claimed > 0 else IDLE_RETRY_S)
            schedule(w.event_queue, w.state, w.state[0].now + delay, JOB_RETURNS, job)


@inlined
def answer_batch(w: OfferWorld, scheduler: int) -> None:
    """The tasks of the next job of an answered offer start; after the last the rest of the offer is
    available."""
    row = w.batches[scheduler].first
    if row >= 0:
        job, count = w.pool[row].job, 0
        while row >= 0 and w.pool[row].job == job:
            node = w.pool[row].node
            take(w.free, node, w.request[job])
            if w.state[0].bulk != scheduler:
                remove(w.set_amount, w.set_sum, scheduler, node, w.request[job])
            w.sequence[node] += 1
            w.claim[scheduler, count] = node
            count += 1
            row = w.pool[row].next
        w.batches[scheduler].first = row
        w.schedulers[scheduler].job = job
        w.schedulers[scheduler].claimed = count
        start_run(w, scheduler, count, w.jobs[job].duration)
        w.schedulers[scheduler].claimed = 0
        # Others of its tasks may have a node in an offer that is answered later.
        w.jobs[job].chosen -= count
        if w.jobs[job].left == 0 and w.jobs[job].chosen == 0:
            w.jobs[job].full = w.state[0].now
            w.jobs[job].status = SCHEDULED
    if row < 0:
        w.state[0].steps_of = NOBODY
        w.schedulers[scheduler].job = -1
        w.schedulers[scheduler].decided = False
        return_offer(w, scheduler)
        start_timer(w)
    count_offered(w.state, w.schedulers, w.request, w.sums, w.totals, w.set_sum, w.offered)


@inlined
def dispatch_batch(w: OfferWorld, allocate: Compiled) -> None:
    """Dispatch the next event."""
    what = pop(w.event_queue, w.state)
    kind, subject = what & KIND_MASK, what >> KIND_BITS
    if kind == OFFER_MADE:
        make_batch(w, allocate)
    elif kind == OFFER_SENT:
        w.state[0].steps_of, w.state[0].answering = subject, False
    elif kind == OFFER_ANSWERED:
        w.state[0].steps_of, w.state[0].answering = subject, True
    elif kind == JOB_RETURNS:
        enqueue(w.schedulers, w.queue, w.jobs, subject)
        start_timer(w)
    elif kind == TASKS_END:
        run_ends(w, subject)
        start_timer(w)


@inlined
def step_through(w: OfferWorld) -> int:
    """One step of an offer that is looked at or answered; returns the scheduler that is to decide
    on a job, or −1."""
    deciding = -1
    if w.state[0].answering:
        answer_batch(w, w.state[0].steps_of)
    else:
        deciding = next_of_offer(w, w.state[0].steps_of)
    return deciding


@loop_kernel
def advance_batches(
    w: OfferWorld,
    place: Compiled,
    score: Compiled,
    index: RankIndex,
    allocate: Compiled,
    ask: int,
    watch: int,
    until: float,
) -> int:
    """As `advance_offers`, by the rules above."""
    deciding = w.state[0].pending
    while True:
        if deciding >= 0:
            settle_choice(w, deciding)
            deciding = -1
        full = needs_room(w.state, w.runs, w.event_queue, w.claim.shape[1])
        stepping = w.state[0].steps_of >= 0
        if stepping:
            why = GROW if full else GO_ON
            if is_log_full(w.state, w.slots, w.task_log, w.attempt_log):
                why = DRAIN
        else:
            why = step_to_event(w, until, full)
        if why != GO_ON:
            return why
        if stepping:
            deciding = step_through(w)
        elif arrival_is_next(w.state, w.jobs, w.event_queue):
            if arrive(w.state, w.schedulers, w.queue, w.jobs) >= 0:
                start_timer(w)
        else:
            dispatch_batch(w, allocate)
        if deciding >= 0:
            job = w.schedulers[deciding].job
            if ask == PYTHON or (ask == ONE_JOB and job == watch):
                w.state[0].pending = deciding
                return DECIDE
            decide_offered(w, deciding, place, score, index)
