"""What becomes of offered rows: a small table to choose from, a claim, running tasks, and tasks that are revoked."""

from __future__ import annotations

import numpy as np

from murmuration.cluster.jit import helper, inlined
from murmuration.placement.kernels import give_back, take
from murmuration.schedulers.offers import allocators
from murmuration.simulation.holdings import add, freed, give_back_offer, held, remove
from murmuration.simulation.steps import account, close_run, enqueue, start_run
from murmuration.simulation.world import KIND_BITS, KIND_MASK, TASKS_END, WAITING, Array, World

revocable = helper(allocators.revocable)


@helper
def is_short(state: Array, workloads: Array, jobs: Array, job: int) -> bool:
    """Whether the job's tasks may use what is reserved for short ones: by their length, or because it says so."""
    return bool(workloads[jobs[job].workload].short or jobs[job].duration <= state[0].short_max_s)


@inlined
def offered_table(w: World, agent: int, job: int) -> int:
    """The rows of an offer and how much of each may be used, as a small table of their own; returns its size."""
    bulk, optimistic = w.state[0].bulk == agent, w.state[0].optimistic
    whole = bulk or optimistic
    size = w.free.shape[0] if whole else w.set_size[agent]
    reserved = w.long_free.shape[0] > 0 and not is_short(w.state, w.workloads, w.jobs, job)
    for k in range(size):
        node = k if whole else w.set_rows[agent, k]
        row = w.offer_free[k]
        w.offer_rows[k] = node
        held(w.free, w.set_amount, whole, agent, node, row)
        for r in range(row.shape[0]):
            w.offer_total[k, r] = w.total[node, r]
            if reserved:
                row[r] = min(row[r], w.long_free[node, r])
    return size


@inlined
def claim_rows(w: World, agent: int, placed: int) -> None:
    """Turn a choice among the offered rows into a claim on the table."""
    request = w.request[w.agents[agent].job]
    listed = not w.state[0].optimistic and w.state[0].bulk != agent
    for k in range(placed):
        node = w.offer_rows[w.claim[agent, k]]
        w.claim[agent, k] = node
        take(w.free, node, request)
        if listed:
            remove(w.set_amount, w.set_sum, agent, node, request)
    w.agents[agent].claimed = placed


@inlined
def drop_offer_claim(w: World, agent: int) -> None:
    """What was claimed is again part of the offer."""
    request = w.request[w.agents[agent].job]
    for k in range(w.agents[agent].claimed):
        node = w.claim[agent, k]
        give_back(w.free, node, request)
        if w.state[0].bulk != agent:
            add(w.set_rows, w.set_size, w.set_listed, w.set_amount, w.set_sum, agent, node, request)
    w.agents[agent].claimed = 0


@inlined
def return_offer(w: World, agent: int) -> None:
    if not w.state[0].optimistic:
        give_back_offer(w, agent)


@inlined
def start_offered(w: World, agent: int, job: int, accepted: int) -> None:
    """Start the tasks; with a reservation, long ones count against their part and declared short ones end at the limit."""
    lasts = w.jobs[job].duration
    if w.long_free.shape[0] > 0:
        if not is_short(w.state, w.workloads, w.jobs, job):
            for k in range(w.agents[agent].claimed):
                if w.claim[agent, k] >= 0:
                    take(w.long_free, w.claim[agent, k], w.request[job])
        elif lasts > w.state[0].short_max_s:
            lasts = w.state[0].short_max_s
            w.state[0].tasks_killed += accepted
    start_run(w, agent, accepted, lasts)


@inlined
def end_one(w: World, job: int, slot: int) -> None:
    """One task leaves its node, and what it held is available."""
    node, request = w.slots[slot].node, w.request[job]
    give_back(w.free, node, request)
    freed(w, node, request)
    if w.long_free.shape[0] > 0 and not is_short(w.state, w.workloads, w.jobs, job):
        give_back(w.long_free, node, request)
    if w.jobs[job].production:
        take(w.guaranteed, node, request)
    w.slots[slot].next = w.state[0].slot_free
    w.state[0].slot_free = slot


@inlined
def run_ends(w: World, run: int) -> None:
    """The tasks of a run end."""
    job, slot, ended = w.runs[run].job, w.runs[run].slot, w.runs[run].count
    while slot >= 0:
        following = w.slots[slot].next
        end_one(w, job, slot)
        slot = following
    close_run(w.runs, w.state, run)
    account(w.sums, w.held, w.state, w.jobs, w.request, job, -ended)


@inlined
def revoke(w: World, framework: int, tasks: int, job: int) -> None:
    """Kill tasks of frameworks above their guaranteed share for one that is below its own and short of room (5.2.3)."""
    for r in range(w.request.shape[1]):
        if w.request[job, r] > 0:
            gap = w.guarantee[framework] * w.totals[r] - w.held[framework, r]
            tasks = min(tasks, int(gap // w.request[job, r]))
    while tasks > 0:
        tasks -= 1
        victim = revocable(w.held, w.totals, w.guarantee)
        run = -1
        if victim >= 0 and victim != framework:
            run = latest_run(w.state, w.agenda, w.runs, w.jobs, victim)
        if run >= 0:
            kill_one(w, run)
            w.workloads[framework].refusals = 0


@helper
def latest_run(state: Array, agenda: Array, runs: Array, jobs: Array, framework: int) -> int:
    """The run of a framework that started last: its tasks have the least work to lose."""
    latest = -1
    for k in range(state[0].notes):
        run = agenda[k].what >> KIND_BITS
        if agenda[k].what & KIND_MASK != TASKS_END or runs[run].count == 0 or jobs[runs[run].job].workload != framework:
            continue
        if latest < 0 or runs[run].started > runs[latest].started:
            latest = run
    return int(latest)


@inlined
def kill_one(w: World, run: int) -> None:
    """One task of a run is killed; its job gets it back to place again."""
    job, slot = w.runs[run].job, w.runs[run].slot
    w.runs[run].slot = w.slots[slot].next
    w.runs[run].count -= 1
    end_one(w, job, slot)
    w.state[0].slots_left += 1
    account(w.sums, w.held, w.state, w.jobs, w.request, job, -1)
    if w.jobs[job].left == 0:
        w.jobs[job].full = np.nan
        w.jobs[job].status = WAITING
        enqueue(w.agents, w.queue, w.jobs, job)
    w.jobs[job].left += 1
    w.state[0].tasks_revoked += 1
