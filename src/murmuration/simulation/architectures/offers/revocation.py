"""Revocation in bulk: tasks of frameworks above their guaranteed share make room for one that is
below its own (5.2.3).

Whom to revoke is the rule of `schedulers/offers/clearing`, as for the message-level master; here it
is applied to the runs of a world, and for as many tasks as the framework is owed. What is free but
on offer counts as room: it comes back by itself.

Tasks are killed one node at a time. For each task that is owed the search is: a node that has room
already; else a victim (a framework furthest above its guarantee) and a node where killing some of
its tasks makes enough room without taking the victim below its own guarantee. Room that was found
is *promised*, that is, counted out of the table while more is looked for, or the same free gap
would be found for every task; at the end all promises are taken back, and the ordinary offers hand
the room out. Nothing is reserved for the framework: if another takes the room first, it starves on
and may revoke again, but not before time has passed.

Scratch space is borrowed from arrays that are only in use while an offer is made (`offer_free`,
`offer_mask`, `offer_total`) and from the framework's own claim: it is idle, so it has none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from murmuration.base.arrays import Amounts, Records, Shares
from murmuration.base.jit import helper, inlined, tree
from murmuration.cluster.task_rows import mask_of
from murmuration.schedulers.admission import WAITING
from murmuration.schedulers.offers import allocators, clearing
from murmuration.simulation.architectures.offers.claims import end_one, is_short
from murmuration.simulation.architectures.offers.world import OfferWorld
from murmuration.simulation.engine.steps import account, enqueue
from murmuration.simulation.engine.world import (
    KIND_BITS,
    KIND_MASK,
    TASKS_END,
)
from murmuration.simulation.results.recording import REVOKED, record_end

find_revocable = helper(allocators.find_revocable)
is_enough, can_clear = tree(clearing.is_enough), tree(clearing.can_clear)


@helper
def revoke(w: OfferWorld, scheduler: int, job: int) -> None:
    """Make room for what a job of an idle framework still needs, up to its guarantee.

    At most once at any one time, or frameworks that decide in no time could kill and restart the
    same tasks without end.
    """
    framework = scheduler // w.state[0].slots
    # Where part of a node is kept for short tasks, a long one needs room outside that part too,
    # and killing a short task makes none for it.
    reserved = w.long_free.shape[0] > 0 and not is_short(w.state, w.workloads, w.jobs, job)
    wanted, tasks, promised = w.offer_total[0], 0, 0
    if w.workloads[framework].revoked_at < w.state[0].now:
        w.workloads[framework].revoked_at = w.state[0].now
        for r in range(wanted.shape[0]):
            wanted[r] = w.request[job, r]
        wanted[0] = max(wanted[0], w.state[0].min_cpu, w.workloads[framework].filter_cpu)
        mark_usable(w, framework, job)
        tasks = tasks_owed(w.jobs, w.request, w.held, w.totals, w.guarantee, framework, job)
    while tasks > 0:
        tasks -= 1
        node = ready_node(w, wanted, reserved)
        if node < 0:
            node = make_room(w, framework, wanted, reserved)
        if node < 0:
            tasks = 0
        else:
            promise(w, node, job, reserved, -1)
            w.claim[scheduler, promised] = node
            promised += 1
    for k in range(promised):
        promise(w, w.claim[scheduler, k], job, reserved, +1)


@inlined
def make_room(w: OfferWorld, framework: int, wanted: Amounts, reserved: bool) -> int:
    """Kill what is in the way of one task; returns the node, or −1 if nobody may be revoked for
    it."""
    victim = find_revocable(w.held, w.totals, w.guarantee)
    node = -1
    if victim >= 0 and victim != framework:
        count_on_nodes(w, victim, reserved)
        node = node_to_clear(w, victim, wanted, reserved)
    if node >= 0:
        # The framework has refused offers since nothing in them was large enough. That is about to
        # change, so it is asked again from the first one.
        clear(w, victim, node, wanted, reserved)
        w.workloads[framework].refusals = 0
    return node


@inlined
def long_row(w: OfferWorld, node: int, reserved: bool) -> Any:
    """What is left of a node for tasks that are not short; a row without entries where the job may
    use everything."""
    return w.long_free[node] if reserved else w.totals[:0]


@inlined
def ready_node(w: OfferWorld, wanted: Amounts, reserved: bool) -> int:
    """A node that has room as it is, −1 for none."""
    ready = -1
    for node in range(w.free.shape[0]):
        if w.offer_mask[node] and is_enough(w.free[node], long_row(w, node, reserved), wanted):
            ready = node
            break
    return ready


@inlined
def run_at(w: OfferWorld, k: int, victim: int, reserved: bool) -> int:
    """The run whose end is the k-th scheduled event, if its tasks are the victim's and of a kind
    whose room can be used; else −1. Every run that is not over has exactly one such event, so the
    event queue serves as the list of runs."""
    run = -1
    if w.event_queue[k].what & KIND_MASK == TASKS_END:
        ending = w.event_queue[k].what >> KIND_BITS
        job = w.runs[ending].job
        useful = not (reserved and is_short(w.state, w.workloads, w.jobs, job))
        if w.jobs[job].workload == victim and useful:
            run = ending
    return run


@inlined
def count_on_nodes(w: OfferWorld, victim: int, reserved: bool) -> None:
    """What the victim's tasks hold of each node, as `offer_free`."""
    w.offer_free[:] = 0
    for k in range(w.state[0].scheduled):
        run = run_at(w, k, victim, reserved)
        slot = w.runs[run].slot if run >= 0 else -1
        while slot >= 0:
            for r in range(w.request.shape[1]):
                w.offer_free[w.slots[slot].node, r] += w.request[w.runs[run].job, r]
            slot = w.slots[slot].next


@inlined
def node_to_clear(w: OfferWorld, victim: int, wanted: Amounts, reserved: bool) -> int:
    """Of the nodes that can be cleared, the one where the victim started something last; −1 for
    none.

    The last started loses the least work. Runs that began no later than the best so far are
    skipped without a look at their tasks.
    """
    chosen, latest = -1, -1.0
    for k in range(w.state[0].scheduled):
        run = run_at(w, k, victim, reserved)
        slot = w.runs[run].slot if run >= 0 and w.runs[run].started > latest else -1
        while slot >= 0:
            node = w.slots[slot].node
            slot = w.slots[slot].next
            if w.offer_mask[node] and can_clear(
                w.free[node],
                long_row(w, node, reserved),
                w.offer_free[node],
                wanted,
                w.held[victim],
                w.totals,
                w.guarantee[victim],
            ):
                chosen, latest, slot = node, w.runs[run].started, -1
    return chosen


@inlined
def clear(w: OfferWorld, victim: int, node: int, wanted: Amounts, reserved: bool) -> None:
    """Kill the victim's tasks on a node, the last started first, until there is room."""
    while not is_enough(w.free[node], long_row(w, node, reserved), wanted):
        run = find_newest(w, victim, node, reserved)
        kill(w, run, take_slot(w.runs, w.slots, run, node))


@inlined
def find_newest(w: OfferWorld, victim: int, node: int, reserved: bool) -> int:
    """The run the victim started last among those with a task on this node."""
    newest = -1
    for k in range(w.state[0].scheduled):
        run = run_at(w, k, victim, reserved)
        slot = w.runs[run].slot if run >= 0 else -1
        while slot >= 0 and w.slots[slot].node != node:
            slot = w.slots[slot].next
        if slot >= 0 and (newest < 0 or w.runs[run].started > w.runs[newest].started):
            newest = run
    return newest


@inlined
def promise(w: OfferWorld, node: int, job: int, reserved: bool, sign: int) -> None:
    """Count the room for one task out of a node while more is looked for, and back in
    afterwards."""
    for r in range(w.request.shape[1]):
        w.free[node, r] += sign * w.request[job, r]
        if reserved:
            w.long_free[node, r] += sign * w.request[job, r]


@helper
def tasks_owed(
    jobs: Records,
    request: Amounts,
    held: Amounts,
    totals: Amounts,
    guarantee: Shares,
    framework: int,
    job: int,
) -> int:
    """How many tasks of a job its framework may have within its guarantee; none of a gang if not
    all of them."""
    tasks = jobs[job].left
    for r in range(request.shape[1]):
        if request[job, r] > 0:
            gap = guarantee[framework] * totals[r] - held[framework, r]
            tasks = min(tasks, int(gap // request[job, r]))
    return 0 if jobs[job].gang and tasks < jobs[job].left else int(tasks)


@inlined
def mark_usable(w: OfferWorld, framework: int, job: int) -> None:
    """The nodes a job may use and its framework lets through, as `offer_mask`."""
    mask = mask_of(w.masks, w.jobs, job)
    for node in range(w.free.shape[0]):
        allowed = mask.shape[0] == 0 or mask[node]
        w.offer_mask[node] = allowed and (w.filters.shape[1] == 0 or w.filters[framework, node])


@helper
def take_slot(runs: Records, slots: Records, run: int, node: int) -> int:
    """Take a task on this node off the list of its run; returns its slot."""
    slot, before = runs[run].slot, -1
    while slots[slot].node != node:
        slot, before = slots[slot].next, slot
    if before < 0:
        runs[run].slot = slots[slot].next
    else:
        slots[before].next = slots[slot].next
    runs[run].count -= 1
    return int(slot)


@inlined
def kill(w: OfferWorld, run: int, slot: int) -> None:
    """A task ends before its time; its job gets it back to place again."""
    job = w.runs[run].job
    record_end(w, job, slot, REVOKED)
    end_one(w, job, slot)
    w.state[0].slots_left += 1
    w.state[0].events += 1
    w.state[0].tasks_revoked += 1
    account(w.sums, w.held, w.state, w.jobs, w.request, job, -1)
    if w.jobs[job].left == 0:
        w.jobs[job].full = np.nan
        w.jobs[job].status = WAITING
        enqueue(w.schedulers, w.queue, w.jobs, job)
    w.jobs[job].left += 1
