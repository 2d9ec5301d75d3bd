"""What becomes of offered rows: a small table to choose from, a claim, and running tasks.

A claim is room that an attempt has chosen and not yet committed. It is taken off `free` at once,
and off the set of the offer if that is listed, so that the sets still add up to `free`
(`holdings`).
"""

from __future__ import annotations

from murmuration.base.arrays import Records
from murmuration.base.jit import helper, inlined
from murmuration.base.rows import give_back, take
from murmuration.simulation.architectures.offers.holdings import (
    add,
    add_freed,
    give_back_offer,
    passes,
    read_held,
    remove,
)
from murmuration.simulation.architectures.offers.world import OfferWorld
from murmuration.simulation.engine.steps import account, close_run, count_ended, start_run
from murmuration.simulation.results.recording import FINISHED, KILLED, record_ends


@helper
def is_short(state: Records, workloads: Records, jobs: Records, job: int) -> bool:
    """Whether the job's tasks may use what is reserved for short ones: by their length, or because
    it says so."""
    return bool(workloads[jobs[job].workload].short or jobs[job].duration <= state[0].short_max_s)


@inlined
def fill_offered_table(w: OfferWorld, scheduler: int, job: int) -> int:
    """The rows of an offer and how much of each may be used, as a small table of their own; returns
    its size.

    An offer that locks its rows was sifted when it was made; an optimistic one is sifted here.
    """
    optimistic = w.state[0].optimistic
    whole = w.state[0].bulk == scheduler or optimistic
    reserved = w.long_free.shape[0] > 0 and not is_short(w.state, w.workloads, w.jobs, job)
    size = 0
    for k in range(w.free.shape[0] if whole else w.set_size[scheduler]):
        node = k if whole else w.set_rows[scheduler, k]
        # Written in place; a row that does not pass is overwritten by the next.
        row = w.offer_free[size]
        read_held(w.free, w.set_amount, whole, scheduler, node, row)
        if optimistic and not passes(
            w.state, w.workloads, w.filters, scheduler // w.state[0].slots, node, row
        ):
            continue
        w.offer_rows[size] = node
        for r in range(row.shape[0]):
            w.offer_total[size, r] = w.total[node, r]
            if reserved:
                # Below zero where the tasks of time 0 already take more than the long part.
                row[r] = max(min(row[r], w.long_free[node, r]), 0)
        size += 1
    return size


@inlined
def claim_rows(w: OfferWorld, scheduler: int, placed: int) -> None:
    """Turn a choice among the offered rows into a claim on the table."""
    request = w.request[w.schedulers[scheduler].job]
    listed = not w.state[0].optimistic and w.state[0].bulk != scheduler
    for k in range(placed):
        # The placement wrote rows of the small table, and deducted from that table alone.
        node = w.offer_rows[w.claim[scheduler, k]]
        w.claim[scheduler, k] = node
        take(w.free, node, request)
        if listed:
            remove(w.set_amount, w.set_sum, scheduler, node, request)
    w.schedulers[scheduler].claimed = placed


@inlined
def drop_offer_claim(w: OfferWorld, scheduler: int) -> None:
    """What was claimed is again part of the offer. In the bulk's case giving it back to `free` is
    enough, since no set lists it."""
    request = w.request[w.schedulers[scheduler].job]
    for k in range(w.schedulers[scheduler].claimed):
        node = w.claim[scheduler, k]
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
    w.schedulers[scheduler].claimed = 0


@inlined
def return_offer(w: OfferWorld, scheduler: int) -> None:
    if not w.state[0].optimistic:
        give_back_offer(w, scheduler)


@inlined
def start_offered(w: OfferWorld, scheduler: int, job: int, accepted: int) -> None:
    """Start the tasks; with a reservation, long ones count against their part, declared short ones
    end at the limit."""
    lasts = w.jobs[job].duration
    if w.long_free.shape[0] > 0:
        if not is_short(w.state, w.workloads, w.jobs, job):
            for k in range(w.schedulers[scheduler].claimed):
                if w.claim[scheduler, k] >= 0:
                    take(w.long_free, w.claim[scheduler, k], w.request[job])
        elif is_killed(w, job):
            lasts = w.state[0].short_max_s
            w.state[0].tasks_killed += accepted
    start_run(w, scheduler, accepted, lasts)


@inlined
def is_killed(w: OfferWorld, job: int) -> bool:
    """Whether a job's tasks were declared short, so that room is reserved for them, and are not."""
    return (
        w.long_free.shape[0] > 0
        and is_short(w.state, w.workloads, w.jobs, job)
        and w.jobs[job].duration > w.state[0].short_max_s
    )


@inlined
def end_one(w: OfferWorld, job: int, slot: int) -> None:
    """One task leaves its node, and what it held is available."""
    node, request = w.slots[slot].node, w.request[job]
    give_back(w.free, node, request)
    add_freed(w, node, request)
    if w.long_free.shape[0] > 0 and not is_short(w.state, w.workloads, w.jobs, job):
        give_back(w.long_free, node, request)
    if w.jobs[job].production:
        take(w.guaranteed, node, request)
    w.slots[slot].next = w.state[0].slot_free
    w.state[0].slot_free = slot


@inlined
def run_ends(w: OfferWorld, run: int) -> None:
    """The tasks of a run end."""
    job, slot, ended = w.runs[run].job, w.runs[run].slot, w.runs[run].count
    record_ends(w, run, KILLED if is_killed(w, job) else FINISHED)
    while slot >= 0:
        following = w.slots[slot].next
        end_one(w, job, slot)
        slot = following
    count_ended(w.jobs, job, ended, w.state[0].now)
    close_run(w.runs, w.state, run)
    account(w.sums, w.held, w.state, w.jobs, w.request, job, -ended)
