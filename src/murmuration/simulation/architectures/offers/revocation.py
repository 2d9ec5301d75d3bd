"""Revocation: tasks of frameworks above their guaranteed share make room for one that is below its
own (5.2.3).

Room is made node by node, so that what is killed is what the other framework can use: on the node
where the victim started something last, and there the last started first. What is free but on offer
counts as room: it comes back by itself.
"""

from __future__ import annotations

import numpy as np

from murmuration.base.jit import helper, inlined
from murmuration.schedulers.offers import allocators
from murmuration.simulation.architectures.offers.claims import end_one, is_short
from murmuration.simulation.architectures.offers.world import OfferWorld
from murmuration.simulation.engine.steps import account, enqueue, mask_of
from murmuration.simulation.engine.world import (
    KIND_BITS,
    KIND_MASK,
    TASKS_END,
    WAITING,
    Array,
)

revocable = helper(allocators.revocable)


@helper
def revoke(w: OfferWorld, agent: int, job: int) -> None:
    """Make room for what a job of an idle framework still needs, up to its guarantee.

    At most once at any one time, or frameworks that decide in no time could kill and restart the
    same tasks for ever.
    """
    framework = agent // w.state[0].slots
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
        node = ready_node(w.free, w.long_free, w.offer_mask, wanted, reserved)
        if node < 0:
            node = make_room(w, framework, wanted, reserved)
        if node < 0:
            tasks = 0
        else:
            promise(w, node, job, reserved, -1)
            w.claim[agent, promised] = node
            promised += 1
    for k in range(promised):
        promise(w, w.claim[agent, k], job, reserved, +1)


@inlined
def make_room(w: OfferWorld, framework: int, wanted: Array, reserved: bool) -> int:
    """Kill what is in the way of one task; returns the node, or −1 if nobody may be revoked for
    it."""
    victim = revocable(w.held, w.totals, w.guarantee)
    node = -1
    if victim >= 0 and victim != framework:
        count_on_nodes(
            w.state,
            w.agenda,
            w.runs,
            w.slots,
            w.jobs,
            w.request,
            w.workloads,
            victim,
            reserved,
            w.offer_free,
        )
        node = node_to_clear(w, victim, wanted, reserved)
    if node >= 0:
        clear(w, victim, node, wanted, reserved)
        w.workloads[framework].refusals = 0
    return node


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
    jobs: Array,
    request: Array,
    held: Array,
    totals: Array,
    guarantee: Array,
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
def room(free: Array, long_free: Array, node: int, r: int, reserved: bool) -> int:
    """How much of a node a job could have if every offer came back."""
    return int(min(free[node, r], long_free[node, r]) if reserved else free[node, r])


@helper
def is_enough(free: Array, long_free: Array, node: int, wanted: Array, reserved: bool) -> bool:
    for r in range(wanted.shape[0]):
        if room(free, long_free, node, r, reserved) < wanted[r]:
            return False
    return True


@helper
def ready_node(free: Array, long_free: Array, allowed: Array, wanted: Array, reserved: bool) -> int:
    """A node that has room as it is, −1 for none."""
    for node in range(free.shape[0]):
        if allowed[node] and is_enough(free, long_free, node, wanted, reserved):
            return int(node)
    return -1


@helper
def is_revocable(
    state: Array, workloads: Array, jobs: Array, job: int, victim: int, reserved: bool
) -> bool:
    """Whether the tasks of a job are the victim's, and of a kind whose room can be used."""
    return bool(
        jobs[job].workload == victim and not (reserved and is_short(state, workloads, jobs, job))
    )


@helper
def count_on_nodes(
    state: Array,
    agenda: Array,
    runs: Array,
    slots: Array,
    jobs: Array,
    request: Array,
    workloads: Array,
    victim: int,
    reserved: bool,
    amount: Array,
) -> None:
    """What the victim's tasks hold of each node."""
    amount[:] = 0
    for k in range(state[0].notes):
        if agenda[k].what & KIND_MASK == TASKS_END:
            run = agenda[k].what >> KIND_BITS
            slot, job = runs[run].slot, runs[run].job
            if not is_revocable(state, workloads, jobs, job, victim, reserved):
                continue
            while slot >= 0:
                for r in range(request.shape[1]):
                    amount[slots[slot].node, r] += request[job, r]
                slot = slots[slot].next


@helper
def can_clear(
    free: Array,
    long_free: Array,
    amount: Array,
    held: Array,
    totals: Array,
    guarantee: float,
    node: int,
    wanted: Array,
    reserved: bool,
) -> bool:
    """Whether the victim's tasks make enough room on a node, and it keeps its guarantee without
    what is lacking."""
    share = 0.0
    for r in range(wanted.shape[0]):
        lacking = max(wanted[r] - room(free, long_free, node, r, reserved), 0)
        if lacking > amount[node, r]:
            return False
        if totals[r] > 0:
            share = max(share, (held[r] - lacking) / totals[r])
    return bool(share >= guarantee)


@inlined
def node_to_clear(w: OfferWorld, victim: int, wanted: Array, reserved: bool) -> int:
    """Of the nodes that can be cleared, the one where the victim started something last; −1 for
    none."""
    chosen, latest = -1, -1.0
    for k in range(w.state[0].notes):
        if w.agenda[k].what & KIND_MASK != TASKS_END:
            continue
        run = w.agenda[k].what >> KIND_BITS
        revocable_run = is_revocable(
            w.state, w.workloads, w.jobs, w.runs[run].job, victim, reserved
        )
        slot = w.runs[run].slot if revocable_run and w.runs[run].started > latest else -1
        while slot >= 0:
            node = w.slots[slot].node
            slot = w.slots[slot].next
            if w.offer_mask[node] and can_clear(
                w.free,
                w.long_free,
                w.offer_free,
                w.held[victim],
                w.totals,
                w.guarantee[victim],
                node,
                wanted,
                reserved,
            ):
                chosen, latest, slot = node, w.runs[run].started, -1
    return chosen


@inlined
def clear(w: OfferWorld, victim: int, node: int, wanted: Array, reserved: bool) -> None:
    """Kill the victim's tasks on a node, the last started first, until there is room."""
    while not is_enough(w.free, w.long_free, node, wanted, reserved):
        run = newest_on(
            w.state, w.agenda, w.runs, w.slots, w.jobs, w.workloads, victim, node, reserved
        )
        kill(w, run, take_slot(w.runs, w.slots, run, node))


@helper
def newest_on(
    state: Array,
    agenda: Array,
    runs: Array,
    slots: Array,
    jobs: Array,
    workloads: Array,
    victim: int,
    node: int,
    reserved: bool,
) -> int:
    """The run the victim started last among those with a task on this node."""
    newest = -1
    for k in range(state[0].notes):
        if agenda[k].what & KIND_MASK != TASKS_END:
            continue
        run = agenda[k].what >> KIND_BITS
        if not is_revocable(state, workloads, jobs, runs[run].job, victim, reserved):
            continue
        slot = runs[run].slot
        while slot >= 0 and slots[slot].node != node:
            slot = slots[slot].next
        if slot >= 0 and (newest < 0 or runs[run].started > runs[newest].started):
            newest = run
    return int(newest)


@helper
def take_slot(runs: Array, slots: Array, run: int, node: int) -> int:
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
    end_one(w, job, slot)
    w.state[0].slots_left += 1
    w.state[0].events += 1
    w.state[0].tasks_revoked += 1
    account(w.sums, w.held, w.state, w.jobs, w.request, job, -1)
    if w.jobs[job].left == 0:
        w.jobs[job].full = np.nan
        w.jobs[job].status = WAITING
        enqueue(w.agents, w.queue, w.jobs, job)
    w.jobs[job].left += 1
