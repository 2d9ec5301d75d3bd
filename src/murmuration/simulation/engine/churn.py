"""Nodes that join, leave or change size while a run goes on. A node that is not there is a row of
zeros.

When a node leaves, its tasks are lost and their jobs place them again; what was claimed on it but
had not started is placed again too.

Rows are never added or removed: every node that will ever be there has a row from the start, and
one that is away has a total of zero, so no placement can choose it. That keeps masks, sequence
numbers and claims valid over a change, and "free" stays what it always is, total minus what is
taken: it may be negative for the moment between the resize and the loss of the tasks.
"""

from __future__ import annotations

import numpy as np

from murmuration.base.arrays import Amounts
from murmuration.base.jit import inlined
from murmuration.base.rows import give_back
from murmuration.placement.room import log_change
from murmuration.schedulers.admission import WAITING
from murmuration.simulation.engine.event_queue import schedule
from murmuration.simulation.engine.moves import depart, leave, leave_source
from murmuration.simulation.engine.steps import account, room_of
from murmuration.simulation.engine.world import (
    JOB_RETURNS,
    KIND_BITS,
    KIND_MASK,
    NODE_CHANGES,
    TASKS_END,
    World,
)
from murmuration.simulation.results.metering import meter_size
from murmuration.simulation.results.recording import LOST, record_end, record_return


@inlined
def change_node(w: World, event: int) -> None:
    """Carry out the next change of a node, and schedule the one after it."""
    node = w.node_events[event].node
    log_change(w.changes, node)
    was, leaves = resize(w, node, w.node_totals[event])
    meter_size(w.meters, w.state, node, w.node_totals[event, 0])
    if was and leaves:
        w.state[0].nodes -= 1
        drop_claims(w, node)
        lose_tasks(w, node)
    elif not was and not leaves:
        w.state[0].nodes += 1
    if event + 1 < w.node_events.shape[0]:
        schedule(w.event_queue, w.state, w.node_events[event + 1].time, NODE_CHANGES, event + 1)


@inlined
def resize(w: World, node: int, total: Amounts) -> tuple[bool, bool]:
    """Give a node its new size; says whether it was there before, and whether it is gone now."""
    was, leaves = False, True
    for r in range(total.shape[0]):
        was |= w.total[node, r] > 0
        leaves &= total[r] == 0
        change = total[r] - w.total[node, r]
        w.total[node, r] = total[r]
        w.totals[r] += change
        w.free[node, r] += change
        if w.unreserved.shape[0] > 0:
            w.unreserved[node, r] += change
    return was, leaves


@inlined
def drop_claims(w: World, node: int) -> None:
    """What exclusive schedulers have claimed of the node but not committed yet is void."""
    # Optimistic schedulers hold no room: their commit meets a row without room and is refused by
    # the ordinary rule. An exclusive scheduler's room is in the table already, and nobody checks it
    # again at the commit, so it has to be taken out here. −1 in a claim is a task without a node.
    for scheduler in range(w.schedulers.shape[0]):
        job = w.schedulers[scheduler].job
        if job >= 0 and not w.schedulers[scheduler].optimistic:
            for k in range(w.schedulers[scheduler].claimed):
                if w.claim[scheduler, k] == node:
                    give_back(room_of(w, job), node, w.request[job])
                    w.claim[scheduler, k] = -1


@inlined
def lose_tasks(w: World, node: int) -> None:
    """Every task on the node is lost. Scheduling the return of a job may move a run to a later
    place in the event queue, where it is looked at again and has nothing left to lose."""
    # There is no list of the tasks of a node: it would cost something at every start and end, and
    # nodes leave rarely. Every run that is not over has one event in the queue, so the queue is
    # the list of all runs.
    k = -1
    while k + 1 < w.state[0].scheduled:
        k += 1
        if w.event_queue[k].what & KIND_MASK == TASKS_END:
            run = w.event_queue[k].what >> KIND_BITS
            lost = lose_of_run(w, run, node)
            if lost > 0:
                return_tasks(w, w.runs[run].job, lost)


@inlined
def lose_of_run(w: World, run: int, node: int) -> int:
    """Take the tasks of a run that are on the node off its list; returns how many."""
    job = w.runs[run].job
    before, slot, lost = -1, w.runs[run].slot, 0
    while slot >= 0:
        # Read before the task ends: its slot then joins the list of free slots by the same field.
        following = w.slots[slot].next
        there = w.slots[slot].node == node
        if (
            w.tasks.shape[0] > 0
            and w.tasks[slot].source >= 0
            and (there or w.tasks[slot].source == node)
        ):
            there = interrupt(w, job, slot, node)
        if there:
            if before < 0:
                w.runs[run].slot = following
            else:
                w.slots[before].next = following
            end_task(w, job, slot, LOST)
            lost += 1
        else:
            before = slot
        slot = following
    w.runs[run].count -= lost
    w.state[0].cpu_s_lost += (w.state[0].now - w.runs[run].started) * w.request[job, 0] * lost
    return lost


@inlined
def interrupt(w: World, job: int, slot: int, node: int) -> bool:
    """One of a migration's nodes is gone. The source owns the task until the end: without the
    destination it stays where it was; without the source it is lost. Returns whether it is lost."""
    source = w.tasks[slot].source
    if source == node:
        leave_source(w, slot, LOST)
        return True
    record_return(w, slot)
    leave(w, job, slot, node)
    depart(w, job, slot, source, -1)
    w.slots[slot].node = source
    w.tasks[slot].source = -1
    w.tasks[slot].serial += 1
    return False


@inlined
def end_task(w: World, job: int, slot: int, why: int) -> None:
    """One task ends before its time."""
    record_end(w, job, slot, why)
    leave(w, job, slot, w.slots[slot].node)
    if w.tasks.shape[0] > 0:
        w.tasks[slot].job = -1
    w.slots[slot].next = w.state[0].slot_free
    w.state[0].slot_free = slot
    w.state[0].slots_left += 1
    w.state[0].events += 1
    if why == LOST:
        w.state[0].tasks_lost += 1
    account(w.sums, w.held, w.state, w.jobs, w.request, job, -1)


@inlined
def return_tasks(w: World, job: int, lost: int) -> None:
    """A job gets its lost tasks back to place again."""
    # A job with tasks left is in a queue or under way already and will meet these there. One that
    # had placed everything comes back by an event of its own and not directly: a step asks at most
    # one scheduler what it does next, and one node may give tasks back to jobs of many.
    if w.jobs[job].left == 0:
        w.jobs[job].full = np.nan
        w.jobs[job].status = WAITING
        schedule(w.event_queue, w.state, w.state[0].now, JOB_RETURNS, job)
    w.jobs[job].left += lost
