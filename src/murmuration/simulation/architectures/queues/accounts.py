"""Whose jobs run: what each account uses, how that orders the queue, and what it may not exceed."""

from __future__ import annotations

from murmuration.base.arrays import Floats, Indices
from murmuration.base.jit import helper, tree
from murmuration.schedulers.queues import shares
from murmuration.schedulers.queues.discipline import BY_USE
from murmuration.simulation.architectures.queues.batch_world import BatchWorld
from murmuration.simulation.engine.world import KIND_BITS, KIND_MASK, TASKS_END

add_use = tree(shares.add_use)
fair_factor = tree(shares.fair_factor)
multifactor = tree(shares.multifactor)


@helper
def goes_before(rank: Floats, a: int, b: int) -> bool:
    """Whether a job goes before another: by rank, then as they came."""
    return bool(rank[a] < rank[b] or (rank[a] == rank[b] and a < b))


@helper
def insert_sorted(waiting: Indices, rank: Floats, first: int, at: int) -> None:
    """Move the job at one place of a queue forward to where it belongs."""
    job = waiting[at]
    while at > first and goes_before(rank, job, waiting[at - 1]):
        waiting[at] = waiting[at - 1]
        at -= 1
    waiting[at] = job


@helper
def count_job(w: BatchWorld, job: int, tasks: int) -> None:
    """Tasks of a job start (or end, if negative) for its account."""
    account = w.queued[job].account
    w.using[account] += w.request[job, 0] * tasks
    w.accounts[account].running += 1 if tasks > 0 else -1


@helper
def recount(w: BatchWorld) -> None:
    """What accounts use, from what runs: after tasks were lost with a node."""
    for account in range(w.using.shape[0]):
        w.using[account] = 0.0
        w.accounts[account].running = 0
    for k in range(w.state[0].scheduled):
        if w.event_queue[k].what & KIND_MASK == TASKS_END:
            run = w.event_queue[k].what >> KIND_BITS
            if w.runs[run].count > 0:
                count_job(w, w.runs[run].job, w.runs[run].count)


@helper
def is_held(w: BatchWorld, job: int) -> bool:
    """Whether a job's owner may not run more for now."""
    account = w.queued[job].account
    jobs_max, cpu_max = w.rules[0].jobs_max, w.rules[0].cpu_max
    asked = w.using[account] + w.request[job, 0] * w.jobs[job].left
    return bool(
        (jobs_max > 0 and w.accounts[account].running >= jobs_max)
        or (cpu_max > 0 and asked > cpu_max)
    )


@helper
def pass_use(w: BatchWorld) -> None:
    """Add up use until now."""
    elapsed = w.state[0].now - w.rules[0].used_at
    if elapsed > 0.0:
        add_use(w.recent, w.using, elapsed, w.rules[0].half_life_s)
        w.rules[0].used_at = w.state[0].now


@helper
def set_fairness(w: BatchWorld) -> None:
    """The fair-share factor of every account: its part of all recent use against what it is
    promised."""
    total = 0.0
    for account in range(w.recent.shape[0]):
        total += w.recent[account]
    for account in range(w.recent.shape[0]):
        part = w.recent[account] / total if total > 0.0 else 0.0
        w.accounts[account].fairness = fair_factor(part, w.promised[account])


@helper
def sort_queue(w: BatchWorld, scheduler: int) -> None:
    """Give the waiting jobs of a scheduler the ranks they have now, and sort them; they are nearly
    in order already."""
    first, count = w.batch[scheduler].first, w.batch[scheduler].count
    for k in range(first, first + count):
        job = w.waiting[k]
        account = w.queued[job].account
        if w.rules[0].order == BY_USE:
            w.rank[job] = w.recent[account] / w.promised[account]
        else:
            size = w.request[job, 0] * w.jobs[job].tasks / max(w.totals[0], 1)
            age, fairness = w.state[0].now - w.jobs[job].submit, w.accounts[account].fairness
            w.rank[job] = -multifactor(
                w.weights, age, size, fairness, float(w.queued[job].priority)
            )
    for k in range(first + 1, first + count):
        insert_sorted(w.waiting, w.rank, first, k)
