"""The energy that nodes use, added up whenever a task comes to a node or leaves it.

A node draws its idle watts and, linearly in the CPU that its tasks take, up to its peak watts. Both
are constant between two changes on the node, so its joules are added up at each change and the
sum is exact; no other node is looked at. What is claimed but has not started draws nothing.

Where a scenario has no costs there are no meters, and each function returns at once.
"""

from __future__ import annotations

from murmuration.base.arrays import Records
from murmuration.base.jit import helper
from murmuration.simulation.engine.world import World


@helper
def watts_of(meters: Records, node: int, power_off: bool) -> float:
    """What a node draws now: nothing if it is not there, or is switched off because it has no
    task."""
    meter = meters[node]
    if meter.total <= 0 or (power_off and meter.tasks == 0):
        return 0.0
    return float(meter.idle + (meter.peak - meter.idle) * (meter.cpu / meter.total))


@helper
def settle(meters: Records, state: Records, node: int) -> None:
    """Add up what a node has used since its last change."""
    elapsed = state[0].now - meters[node].since
    meters[node].joules += watts_of(meters, node, state[0].power_off) * elapsed
    meters[node].since = state[0].now


@helper
def meter_change(meters: Records, state: Records, node: int, cpu: int, tasks: int) -> None:
    """So many tasks more (or fewer) are on a node, with so much CPU in all."""
    if meters.shape[0] > 0:
        settle(meters, state, node)
        meters[node].cpu += cpu
        meters[node].tasks += tasks


@helper
def meter_task(c: World, job: int, slot: int, node: int, sign: int) -> None:
    """A task comes to a node (1) or leaves it (−1)."""
    if c.meters.shape[0] > 0:
        cpu = c.task_used[slot, 0] if c.task_used.shape[0] > 0 else c.request[job, 0]
        meter_change(c.meters, c.state, node, sign * cpu, sign)


@helper
def meter_run(c: World, run: int, sign: int) -> None:
    """All tasks of a run start (1) or end (−1)."""
    if c.meters.shape[0] > 0:
        slot = c.runs[run].slot
        while slot >= 0:
            meter_task(c, c.runs[run].job, slot, c.slots[slot].node, sign)
            slot = c.slots[slot].next


@helper
def meter_size(meters: Records, state: Records, node: int, total: int) -> None:
    """A node has another number of CPUs from now on; none if it is gone."""
    if meters.shape[0] > 0:
        settle(meters, state, node)
        meters[node].total = total


@helper
def sum_watts(meters: Records, power_off: bool) -> float:
    """What all nodes draw now."""
    drawn = 0.0
    for node in range(meters.shape[0]):
        drawn += watts_of(meters, node, power_off)
    return drawn
