"""The story of every task and every attempt, on request: kernels append rows to two bounded logs,
and Python writes them out when one is nearly full (`results/detail.py`).

A row of `task_log` is a *stay*: one task on one node. It is written when the stay ends; until then
`stays` keeps, by slot, what the row will need. A task that moves has a stay on each of its nodes,
and they overlap while it is under way, as its room does. A row of `attempt_log` is written when an
attempt ends.

Nothing here is read by any decision. Without the request all arrays are empty, and each function
returns at once. The same moments turn the meters of energy (`results/metering.py`).
"""

from __future__ import annotations

from murmuration.base.arrays import Records
from murmuration.base.jit import helper
from murmuration.simulation.engine.world import World
from murmuration.simulation.results.metering import meter_run, meter_task

#: Why a stay ended. A task is `CUT` that ended, or was lost, before it had arrived: its stay on
#: the node it came from says how it ended.
WHY = ("finished", "killed", "lost", "revoked", "moved", "cut", "running")
FINISHED, KILLED, LOST, REVOKED, MOVED, CUT, RUNNING = range(len(WHY))


@helper
def is_log_full(state: Records, slots: Records, task_log: Records, attempt_log: Records) -> bool:
    """Whether the next event could write more rows than there is room for: at most two stays of
    each running task end at once, and one attempt."""
    running = slots.shape[0] - state[0].slots_left
    return bool(
        task_log.shape[0] > 0
        and (
            state[0].stays_logged + 2 * running + 2 > task_log.shape[0]
            or state[0].attempts_logged + 2 > attempt_log.shape[0]
        )
    )


@helper
def record_start(c: World, run: int) -> None:
    """The tasks of a run start; each is the first of its job that is not placed."""
    meter_run(c, run, 1)
    if c.stays.shape[0] == 0:
        return
    job, slot = c.runs[run].job, c.runs[run].slot
    first, number = c.numbers[job].first, c.numbers[job].next
    while slot >= 0:
        while c.numbered[first + number]:
            number += 1
        c.numbered[first + number] = True
        begin_stay(c.stays, slot, c.state[0].now, -1, 0.0)
        c.stays[slot].job = job
        c.stays[slot].index = number
        c.stays[slot].cut = False
        slot = c.slots[slot].next
    c.numbers[job].next = number


@helper
def begin_stay(stays: Records, slot: int, now: float, source: int, megabytes: float) -> None:
    stays[slot].start = now
    stays[slot].source = source
    stays[slot].mb = megabytes
    stays[slot].forced = False


@helper
def record_move(c: World, slot: int, source: int, megabytes: float) -> None:
    """A task sets out: its stay on the source goes on, and one on the destination begins."""
    meter_task(c, c.tasks[slot].job, slot, c.slots[slot].node, 1)
    if c.stays.shape[0] > 0:
        stay = c.stays[slot]
        stay.left_start = stay.start
        stay.left_source = stay.source
        stay.left_mb = stay.mb
        stay.left_forced = stay.forced
        begin_stay(c.stays, slot, c.state[0].now, source, megabytes)


@helper
def record_forced(c: World, slot: int) -> None:
    """The move that has just begun was forced."""
    if c.stays.shape[0] > 0:
        c.stays[slot].forced = True


@helper
def record_departure(c: World, slot: int, why: int) -> None:
    """The stay on the node a task came from ends: it has arrived, or it ended on the way."""
    meter_task(c, c.tasks[slot].job, slot, c.tasks[slot].source, -1)
    if c.stays.shape[0] > 0:
        stay = c.stays[slot]
        write_row(c, slot, c.tasks[slot].source, why, stay.left_start)
        row = c.task_log[c.state[0].stays_logged - 1]
        row.source = stay.left_source
        row.mb = stay.left_mb
        row.forced = stay.left_forced
        if why != MOVED:
            stay.cut = True


@helper
def record_return(c: World, slot: int) -> None:
    """The destination of a task under way is gone: it stays where it was."""
    meter_task(c, c.tasks[slot].job, slot, c.slots[slot].node, -1)
    if c.stays.shape[0] > 0:
        write_row(c, slot, c.slots[slot].node, CUT, c.stays[slot].start)
        stay = c.stays[slot]
        stay.start = stay.left_start
        stay.source = stay.left_source
        stay.mb = stay.left_mb
        stay.forced = stay.left_forced


@helper
def record_end(c: World, job: int, slot: int, why: int) -> None:
    """A task ends. One that will be placed again gives its number back."""
    meter_task(c, job, slot, c.slots[slot].node, -1)
    if c.stays.shape[0] > 0:
        stay = c.stays[slot]
        write_row(c, slot, c.slots[slot].node, CUT if stay.cut else why, stay.start)
        if why in (LOST, REVOKED):
            number = c.stays[slot].index
            c.numbered[c.numbers[job].first + number] = False
            c.numbers[job].next = min(c.numbers[job].next, number)


@helper
def record_ends(c: World, run: int, why: int) -> None:
    """All tasks of a run end."""
    if c.stays.shape[0] > 0 or c.meters.shape[0] > 0:
        slot = c.runs[run].slot
        while slot >= 0:
            record_end(c, c.runs[run].job, slot, why)
            slot = c.slots[slot].next


@helper
def write_row(c: World, slot: int, node: int, why: int, start: float) -> None:
    """A stay that ends now, with what is known of the one under way."""
    row, stay = c.task_log[c.state[0].stays_logged], c.stays[slot]
    c.state[0].stays_logged += 1
    row.job = stay.job
    row.index = stay.index
    row.node = node
    row.start = start
    row.end = c.state[0].now
    row.why = why
    row.source = stay.source
    row.mb = stay.mb
    row.forced = stay.forced
    row.began = c.tasks[slot].began if c.tasks.shape[0] > 0 else start


@helper
def record_attempt(
    c: World, scheduler: int, job: int, placed: int, refused: int, busy: float, wasted: float
) -> None:
    """An attempt ends: how many tasks it placed, how many of those it had chosen nodes for were
    refused, and how much of its time counts as busy, and as wasted."""
    if c.attempt_log.shape[0] > 0:
        row = c.attempt_log[c.state[0].attempts_logged]
        c.state[0].attempts_logged += 1
        row.job = job
        row.scheduler = scheduler
        row.start = c.schedulers[scheduler].started
        row.end = c.state[0].now
        row.placed = placed
        row.refused = refused
        row.busy = busy
        row.wasted = wasted
