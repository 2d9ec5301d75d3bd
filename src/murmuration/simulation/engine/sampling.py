"""What is measured as time passes: sums that hold from one event to the next, and samples at even
intervals."""

from __future__ import annotations

from murmuration.base.arrays import Amounts, Floats, Records, Times
from murmuration.base.jit import helper, inlined
from murmuration.cluster import allocation_types, evenness
from murmuration.simulation.engine.steps import room_of
from murmuration.simulation.engine.world import (
    S_FRAGMENTATION,
    S_IMBALANCE,
    S_OFFERED,
    S_POWER,
    S_RESOURCES,
    S_RUNNING,
    S_TIME,
    S_TYPES,
    World,
)
from murmuration.simulation.results.metering import sum_watts

allocation_type = helper(allocation_types.allocation_type)
imbalance = helper(evenness.imbalance)
fragmentation = helper(evenness.fragmentation)


@inlined
def pass_time(w: World, until: float) -> None:
    """Take the samples due before `until`, and add up what holds until then."""
    # Samples come before what happens at the same time: each shows the cluster as it stood until
    # then. Nothing changes between two events, so it does not matter that they are taken late.
    while w.state[0].sample_at <= until and w.state[0].sampled < w.samples.shape[0]:
        sample(w)
    add_up(w.sums, w.sums_s, w.state, until)


@helper
def add_up(sums: Amounts, sums_s: Floats, state: Records, until: float) -> None:
    elapsed = until - state[0].last
    if elapsed > 0.0:
        for kind in range(sums.shape[0]):
            for r in range(sums.shape[1]):
                sums_s[kind, r] += sums[kind, r] * elapsed
        state[0].nodes_s += state[0].nodes * elapsed
        state[0].running_s += state[0].running * elapsed
        state[0].offered_s += state[0].offered * elapsed
        state[0].last = until


@inlined
def sample(w: World) -> None:
    """One row of the time series: the cluster as it stands."""
    row = w.samples[w.state[0].sampled]
    row[S_TIME] = w.state[0].sample_at
    row[S_RUNNING] = w.state[0].running
    row[S_OFFERED] = w.state[0].offered
    # An exclusive scheduler keeps what it has claimed while it decides; nothing runs there yet.
    set_claims_aside(w, 1)
    count_types(w.total, w.free, w.guaranteed, row)
    row[S_IMBALANCE] = imbalance(w.total, w.free)
    row[S_FRAGMENTATION] = fragmentation(w.total, w.free, w.sums, w.state[0].running)
    row[S_POWER] = sum_watts(w.meters, w.state[0].power_off)
    set_claims_aside(w, -1)
    sample_sums(w.sums, w.workloads, w.busy, w.schedulers, row)
    w.state[0].sampled += 1
    # Rounding must not put the last sample after the end.
    w.state[0].sample_at = min(w.state[0].sampled * w.state[0].sample_step, w.state[0].horizon)


@inlined
def set_claims_aside(w: World, sign: int) -> None:
    """Give back what is claimed but not committed (1), or take it again (−1)."""
    for scheduler in range(w.schedulers.shape[0]):
        job = w.schedulers[scheduler].job
        if job >= 0 and not w.schedulers[scheduler].optimistic:
            room = room_of(w, job)
            for k in range(w.schedulers[scheduler].claimed):
                if w.claim[scheduler, k] >= 0:
                    for r in range(room.shape[1]):
                        room[w.claim[scheduler, k], r] += sign * w.request[job, r]


@helper
def count_types(total: Amounts, free: Amounts, guaranteed: Amounts, row: Floats) -> None:
    """The allocation types of all nodes that are there, by what their tasks use (or require, where
    that is not measured)."""
    for i in range(total.shape[0]):
        idle, there = True, False
        for r in range(total.shape[1]):
            idle &= free[i, r] == total[i, r]
            there |= total[i, r] > 0
        if there:
            row[S_TYPES + allocation_type(total[i], free[i], guaranteed[i], idle)] += 1.0


@helper
def sample_sums(
    sums: Amounts, workloads: Records, busy: Times, schedulers: Records, row: Floats
) -> None:
    at = S_RESOURCES
    for r in range(sums.shape[1]):
        for kind in range(sums.shape[0]):
            row[at] = sums[kind, r]
            at += 1
    for workload in range(workloads.shape[0]):
        row[at] = busy[workload, :, 0].sum()
        row[at + 1] = workloads[workload].commits_ok
        row[at + 2] = workloads[workload].commits_failed
        row[at + 3] = workloads[workload].tasks_placed
        at += 4
    for scheduler in range(schedulers.shape[0]):
        row[at + scheduler] = schedulers[scheduler].queued
