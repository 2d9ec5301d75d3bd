"""The loop of offers (Mesos, 4.3 and 5.2): an allocator, and frameworks that see only what they
were offered.

When something is free and a framework wants more, the allocator makes an offer of all that is
available to the framework its policy chooses. A framework looks at what it was offered when its
attempt began; that stays locked until it answers. An offer in which nothing fits is rejected at
once, and not repeated until something has changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from murmuration.base.arrays import Amounts, Records
from murmuration.base.jit import helper, inlined, loop_kernel
from murmuration.base.rows import next_double
from murmuration.cluster.task_rows import mask_of
from murmuration.placement.ranking import RankIndex
from murmuration.placement.room import JobRoom
from murmuration.schedulers.offers import allocators
from murmuration.simulation.architectures.offers.claims import (
    claim_rows,
    drop_offer_claim,
    fill_offered_table,
    is_short,
    return_offer,
    run_ends,
    start_offered,
)
from murmuration.simulation.architectures.offers.holdings import (
    amount_held,
    any_passes,
    hide_others,
    is_selective,
    offer_everything,
    offer_some,
)
from murmuration.simulation.architectures.offers.revocation import revoke
from murmuration.simulation.architectures.offers.world import (
    OFFER_MADE,
    OFFER_TIMES_OUT,
    OfferWorld,
)
from murmuration.simulation.engine.event_queue import needs_room, pop, schedule
from murmuration.simulation.engine.loop import (
    DECIDE,
    GO_ON,
    ONE_JOB,
    PYTHON,
    arrival_is_next,
    arrive,
    record_decided,
    step_to_event,
)
from murmuration.simulation.engine.steps import (
    begin_attempt,
    commit_claim,
    decision_time,
    enqueue,
    finish_job,
    leave_queue,
    next_job,
    nth_job,
    settle_claim,
)
from murmuration.simulation.engine.world import (
    ATTEMPT_ENDS,
    JOB_RETURNS,
    KIND_BITS,
    KIND_MASK,
    TASKS_END,
)

keep_entitled = helper(allocators.keep_entitled)

#: Rejections after which a framework waits for a change; it may try this many jobs of its queue on
#: what is available.
REFUSALS_MAX = 16
#: The subject of a time-out packs the serial number of an offer above the row of its scheduler. An
#: event cannot be taken off the queue; one whose serial is no longer the scheduler's is stale.
SERIAL_BITS = 16


@helper
def idle_slot(schedulers: Records, slots: int, framework: int) -> int:
    """An idle scheduler of a framework, −1 for none. It has one, or several where double booking is
    allowed."""
    for scheduler in range(framework * slots, (framework + 1) * slots):
        if schedulers[scheduler].job < 0:
            return scheduler
    return -1


@helper
def wants_offer(state: Records, schedulers: Records, workloads: Records, framework: int) -> bool:
    """Whether a framework would look at an offer now.

    `refusals` counts the jobs at the head of its queue that found nothing in what is available now;
    the next offer is for the job after them (`open_offer`). When all have been tried, or
    `REFUSALS_MAX` of them, another offer would be the same again: it waits for a change.
    """
    slots = state[0].slots
    queued = schedulers[framework * slots].queued
    if queued == 0 or workloads[framework].refusals >= min(queued, REFUSALS_MAX):
        return False
    return idle_slot(schedulers, slots, framework) >= 0


@helper
def schedule_offer(
    state: Records, schedulers: Records, workloads: Records, event_queue: Records
) -> None:
    """If some framework wants an offer and none is in the making, the allocator starts on one."""
    if state[0].offering:
        return
    for framework in range(workloads.shape[0]):
        if wants_offer(state, schedulers, workloads, framework):
            period, at = state[0].period_s, state[0].now
            if period > 0.0:
                # `max`, because the product can be rounded to just below `at`.
                at = max(np.ceil(at / period) * period, at)
            schedule(event_queue, state, at + state[0].offer_time_s, OFFER_MADE, 0)
            state[0].offering = True
            return


@helper
def something_changed(
    state: Records, schedulers: Records, workloads: Records, event_queue: Records
) -> None:
    """Resources have become free: frameworks that had refused look again."""
    for framework in range(workloads.shape[0]):
        workloads[framework].refusals = 0
    schedule_offer(state, schedulers, workloads, event_queue)


@helper
def count_offered(
    state: Records,
    schedulers: Records,
    request: Amounts,
    sums: Amounts,
    totals: Amounts,
    set_sum: Amounts,
    offered: Amounts,
) -> None:
    """Bring up to date what each framework, and all of them, have been offered.

    Summed from scratch: what the bulk holds is implicit and changes whenever another set does, so
    there is no amount that could be added or taken off. Schedulers are few, nodes are not visited.
    """
    offered[:] = 0
    state[0].offered = 0
    if state[0].optimistic:
        return
    for scheduler in range(schedulers.shape[0]):
        if schedulers[scheduler].job >= 0 and not schedulers[scheduler].rescinded:
            for r in range(totals.shape[0]):
                amount = amount_held(
                    state, schedulers, request, sums, totals, set_sum, scheduler, r
                )
                offered[scheduler // state[0].slots, r] += amount
                if r == 0:
                    state[0].offered += amount


@inlined
def choose_framework(w: OfferWorld, allocate: Any) -> Any:
    """The framework the policy gives the next offer to; those below their guaranteed share come
    first."""
    for framework in range(w.workloads.shape[0]):
        w.wants[framework] = wants_offer(w.state, w.schedulers, w.workloads, framework)
    count_offered(w.state, w.schedulers, w.request, w.sums, w.totals, w.set_sum, w.offered)
    keep_entitled(w.held, w.totals, w.guarantee, w.wants)
    # The last generator is the allocator's own. It draws even where the policy uses no draw, so
    # that a policy cannot shift the stream.
    draw = next_double(w.rng[w.rng.shape[0] - 1])
    chosen = allocate(w.held, w.offered, w.totals, w.weight, w.wants, draw)
    # A user's own allocator may name one that wants nothing, or none at all: then nobody gets the
    # offer.
    if chosen >= w.wants.shape[0] or (chosen >= 0 and not w.wants[chosen]):
        chosen = -1
    return chosen


@inlined
def make_offer(w: OfferWorld, scheduler: int, framework: int) -> None:
    """Lock what is offered; an optimistic offer locks nothing."""
    if not w.state[0].optimistic:
        if is_selective(w.state, w.workloads, w.filters, framework):
            offer_some(w, scheduler, framework)
        else:
            offer_everything(w, scheduler)


@inlined
def decide_offered(w: OfferWorld, scheduler: int, place: Any, score: Any, index: RankIndex) -> None:
    """The compiled placement chooses among the rows of the offer: on the table itself if it was
    offered whole rows."""
    job = w.schedulers[scheduler].job
    request, count, rng, claim = (
        w.request[job],
        w.jobs[job].left,
        w.rng[scheduler],
        w.claim[scheduler],
    )
    mask = mask_of(w.masks, w.jobs, job)
    reserved = w.long_free.shape[0] > 0 and not is_short(w.state, w.workloads, w.jobs, job)
    sifted = w.state[0].optimistic and is_selective(
        w.state, w.workloads, w.filters, scheduler // w.state[0].slots
    )
    if not reserved and not sifted and (w.state[0].optimistic or w.state[0].bulk == scheduler):
        # Whole rows of the bulk: the placement can read the table itself, which spares copying ten
        # thousand rows. While it runs, the table is short of what other sets list; the claim it
        # deducts stays deducted.
        hide_others(w.free, w.set_rows, w.set_size, w.set_amount, scheduler, -1)
        room = JobRoom(w.total, w.free, mask, w.changes, np.int64(w.jobs[job].mask))
        w.schedulers[scheduler].claimed = place(room, request, count, rng, claim, score, index)
        hide_others(w.free, w.set_rows, w.set_size, w.set_amount, scheduler, +1)
    else:
        # A few rows, or less than all that is free on them: the placement gets a table of its own.
        size = fill_offered_table(w, scheduler, job)
        allowed = mask
        if mask.shape[0] > 0:
            allowed = w.offer_mask[:size]
            for k in range(size):
                allowed[k] = mask[w.offer_rows[k]]
        room = JobRoom(
            w.offer_total[:size], w.offer_free[:size], allowed, w.changes[:1], np.int64(-1)
        )
        placed = place(room, request, count, rng, claim, score, index)
        claim_rows(w, scheduler, placed)


@loop_kernel
def choose_offered(w: OfferWorld, scheduler: int, place: Any, score: Any, index: RankIndex) -> None:
    """The decision alone, for the explainer."""
    decide_offered(w, scheduler, place, score, index)


@inlined
def launch_offer(w: OfferWorld, scheduler: int) -> None:
    """The framework has looked at the offer: it rejects it if nothing fits, else it is busy until
    it answers."""
    job, framework = w.schedulers[scheduler].job, scheduler // w.state[0].slots
    # `settle_claim` drops an incomplete gang too, but gives back to the table alone; what was taken
    # out of a listed offer must also return to that offer.
    if (
        w.jobs[job].gang
        and w.schedulers[scheduler].claimed < w.jobs[job].left
        and not w.schedulers[scheduler].optimistic
    ):
        drop_offer_claim(w, scheduler)
    settle_claim(w, scheduler)
    # `begin_attempt` resets the claim, which was made before it here.
    claimed = w.schedulers[scheduler].claimed
    if claimed == 0:
        w.schedulers[scheduler].job = -1
        return_offer(w, scheduler)
        w.workloads[framework].refusals += 1
        w.state[0].offers_rejected += 1
    else:
        leave_queue(w.schedulers, w.queue, w.jobs, job)
        begin_attempt(w.schedulers, w.jobs, scheduler, job, w.state[0].now)
        w.schedulers[scheduler].claimed = claimed
        schedule_answer(
            w.state,
            w.schedulers,
            w.event_queue,
            scheduler,
            decision_time(w.times, w.jobs, scheduler, job),
        )
    count_offered(w.state, w.schedulers, w.request, w.sums, w.totals, w.set_sum, w.offered)
    w.state[0].pending = -1


@helper
def schedule_answer(
    state: Records, schedulers: Records, event_queue: Records, scheduler: int, lasts: float
) -> None:
    """Schedule the framework's answer, and the time-out of its offer if that is sooner."""
    now, timeout = state[0].now, state[0].timeout_s
    schedule(event_queue, state, now + lasts, ATTEMPT_ENDS, scheduler)
    schedulers[scheduler].serial += 1
    if 0.0 < timeout < lasts:
        schedule(
            event_queue,
            state,
            now + timeout,
            OFFER_TIMES_OUT,
            (schedulers[scheduler].serial << SERIAL_BITS) | scheduler,
        )


@inlined
def answer(w: OfferWorld, scheduler: int) -> None:
    """The framework answers its offer: its tasks start, and what it did not use is available
    again."""
    job = w.schedulers[scheduler].job
    spent = w.state[0].now - w.schedulers[scheduler].started
    accepted = 0
    if w.schedulers[scheduler].rescinded:
        # Its offer was gone before it had decided: busy time, and all of it wasted.
        w.busy[w.jobs[job].workload, scheduler, 0] += spent
        w.busy[w.jobs[job].workload, scheduler, 1] += spent
    else:
        accepted = commit_claim(w, scheduler)
        return_offer(w, scheduler)
    if accepted > 0:
        start_offered(w, scheduler, job, accepted)
    record_decided(w, scheduler, job, accepted, spent)
    w.schedulers[scheduler].rescinded = False
    w.schedulers[scheduler].job = -1
    w.state[0].events += 1
    finish_job(w, job, accepted, spent)
    count_offered(w.state, w.schedulers, w.request, w.sums, w.totals, w.set_sum, w.offered)


@inlined
def rescind(w: OfferWorld, subject: int) -> None:
    """The framework took too long: its offer goes back, and its answer will come too late.

    Its answer stays scheduled. It does not know that the offer is gone, so it is busy, and makes no
    other attempt, until it has decided.
    """
    scheduler, serial = subject & ((1 << SERIAL_BITS) - 1), subject >> SERIAL_BITS
    if w.schedulers[scheduler].serial == serial and w.schedulers[scheduler].job >= 0:
        if not w.state[0].optimistic:
            drop_offer_claim(w, scheduler)
            return_offer(w, scheduler)
        w.schedulers[scheduler].claimed = 0
        w.schedulers[scheduler].rescinded = True
        w.state[0].offers_rescinded += 1
        count_offered(w.state, w.schedulers, w.request, w.sums, w.totals, w.set_sum, w.offered)


@inlined
def dispatch(w: OfferWorld) -> bool:
    """Dispatch the next event; True if it is time to make an offer."""
    what = pop(w.event_queue, w.state)
    kind, subject = what & KIND_MASK, what >> KIND_BITS
    due = kind == OFFER_MADE
    if due:
        w.state[0].offering = False
    elif kind == JOB_RETURNS:
        enqueue(w.schedulers, w.queue, w.jobs, subject)
        schedule_offer(w.state, w.schedulers, w.workloads, w.event_queue)
    else:
        if kind == TASKS_END:
            run_ends(w, subject)
        elif kind == ATTEMPT_ENDS:
            answer(w, subject)
        else:
            rescind(w, subject)
        something_changed(w.state, w.schedulers, w.workloads, w.event_queue)
    return bool(due)


@inlined
def open_offer(w: OfferWorld, framework: int) -> int:
    """Offer what is available to a framework, for the first job of its queue; returns the scheduler
    that looks.

    Nothing is no offer: then the scheduler stays idle, and the framework waits until something
    comes free.
    """
    scheduler = idle_slot(w.schedulers, w.state[0].slots, framework)
    queue, refusals = framework * w.state[0].slots, w.workloads[framework].refusals
    w.schedulers[scheduler].job = nth_job(w.queue, w.jobs, queue, refusals)
    w.schedulers[scheduler].claimed = 0
    make_offer(w, scheduler, framework)
    if is_nothing(w, scheduler):
        w.schedulers[scheduler].job = -1
        return_offer(w, scheduler)
        # No other job of the queue would find more in nothing.
        w.workloads[framework].refusals = REFUSALS_MAX
    else:
        w.state[0].offers_made += 1
    return scheduler


@inlined
def is_nothing(w: OfferWorld, scheduler: int) -> bool:
    """Whether there is nothing in an offer."""
    framework, amount = scheduler // w.state[0].slots, 0
    if w.state[0].optimistic:
        amount = int(any_passes(w.state, w.workloads, w.filters, framework, w.free))
    else:
        for r in range(w.totals.shape[0]):
            amount += amount_held(
                w.state, w.schedulers, w.request, w.sums, w.totals, w.set_sum, scheduler, r
            )
    return amount == 0


@loop_kernel
def advance_offers(
    w: OfferWorld,
    place: Any,
    score: Any,
    index: RankIndex,
    allocate: Any,
    ask: int,
    watch: int,
    until: float,
) -> int:
    """As `advance`, with an allocator between the schedulers and the table."""
    looking = w.state[0].pending
    while True:
        if looking >= 0:
            # Read before the launch, which takes the job off the queue. A refused or
            # empty offer is the moment to revoke: what is free was no use to the framework.
            job = next_job(w.queue, looking // w.state[0].slots * w.state[0].slots)
            if w.schedulers[looking].job >= 0:
                launch_offer(w, looking)
            if w.schedulers[looking].job < 0 and w.guarantee[looking // w.state[0].slots] > 0.0:
                revoke(w, looking, job)
            schedule_offer(w.state, w.schedulers, w.workloads, w.event_queue)
            looking = -1
        why = step_to_event(w, until, needs_room(w.state, w.runs, w.event_queue, w.claim.shape[1]))
        if why != GO_ON:
            return why
        framework = -1
        if arrival_is_next(w.state, w.jobs, w.event_queue):
            scheduler = arrive(w.state, w.schedulers, w.queue, w.jobs)
            if scheduler >= 0:
                w.workloads[scheduler // w.state[0].slots].refusals = 0
                schedule_offer(w.state, w.schedulers, w.workloads, w.event_queue)
        elif dispatch(w):
            framework = choose_framework(w, allocate)
        if framework >= 0:
            looking = open_offer(w, framework)
        if looking >= 0 and w.schedulers[looking].job >= 0:
            if ask == PYTHON or (ask == ONE_JOB and w.schedulers[looking].job == watch):
                w.state[0].pending = looking
                return DECIDE
            decide_offered(w, looking, place, score, index)
