"""The steps of plans that make room: running tasks that are to move, and the nodes promised to
tasks that wait for it.

Steps stand in the order in which they can be done. One begins when its node has room for it and no
earlier step waits for the same node; so nothing is overloaded, and nobody takes what an earlier
step needs.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from murmuration.base.arrays import Amounts, Flags, Records
from murmuration.schedulers.admission import WAITING

#: The task that a job is promised a node for has no slot yet.
NEW = -1
STEP = np.dtype([("job", "i4"), ("slot", "i4"), ("origin", "i4"), ("node", "i4")], align=True)


class BatchTable(NamedTuple):
    """What a batch reads: the cluster table, jobs and what they request, and the running tasks with
    their nodes, by slot."""

    state: Records
    total: Amounts
    free: Amounts
    unreserved: Amounts
    reserved_outgoing: Amounts
    masks: Flags
    jobs: Records
    request: Amounts
    tasks: Records
    slots: Records


class Due(NamedTuple):
    """Steps by what becomes of them: moves that begin, tasks that start, and those that wait on."""

    moves: list[int]
    starts: list[int]
    rest: list[int]


def room_table(table: BatchTable) -> Amounts:
    """The rows that tasks' requests are counted in."""
    return table.unreserved if len(table.unreserved) else table.free


def split_due(steps: Records, table: BatchTable, jobs: Collection[int]) -> Due:
    """What can be done now, where only these jobs may start tasks; steps whose task is gone are in
    no list."""
    # A step that cannot begin blocks its node for those after it: were a small later task let
    # through, a large one could wait without end while room that is meant for it is used up.
    have, waiting = room_table(table).copy(), set()
    moves: list[int] = []
    starts: list[int] = []
    rest: list[int] = []
    for k, (job, slot, origin, node) in enumerate(steps.tolist()):
        request = table.request[job]
        if is_void(table, job, slot, node):
            continue
        # A new task starts with its job's batch; a running one must have arrived where the plan
        # thinks it is.
        ready = job in jobs if slot == NEW else is_settled(table, slot, origin)
        if ready and node not in waiting and (request <= have[node]).all():
            have[node] -= request
            (starts if slot == NEW else moves).append(k)
        else:
            waiting.add(node)
            rest.append(k)
    return keep_gangs_whole(Due(moves, starts, rest), steps, table)


def is_void(table: BatchTable, job: int, slot: int, node: int) -> bool:
    """Whether the task of a step is gone, or its node."""
    if (table.total[node] < table.request[job]).any():
        return True
    return bool(
        table.jobs["status"][job] != WAITING if slot == NEW else table.tasks["job"][slot] != job
    )


def is_settled(table: BatchTable, slot: int, origin: int) -> bool:
    return bool(table.slots["node"][slot] == origin and table.tasks["source"][slot] < 0)


def keep_gangs_whole(due_steps: Due, steps: Records, table: BatchTable) -> Due:
    """A gang starts whole or waits on."""
    starting, whole = steps["job"][due_steps.starts], []
    for k in due_steps.starts:
        job = steps["job"][k]
        if not table.jobs["gang"][job] or (starting == job).sum() == table.jobs["left"][job]:
            whole.append(k)
    return Due(due_steps.moves, whole, sorted({*due_steps.rest, *due_steps.starts} - {*whole}))


def sum_reserved(steps: Records, table: BatchTable) -> Amounts:
    """What steps will need of each node."""
    amounts = np.zeros_like(table.total)
    np.add.at(amounts, steps["node"], table.request[steps["job"]])
    return amounts


def has_moving_tasks(table: BatchTable) -> bool:
    """Whether any task is between two nodes."""
    return bool((table.tasks["source"][: table.state["slots_high"][0]] >= 0).any())


def keep_possible(steps: Records, table: BatchTable) -> Records:
    """The promises that can be fulfilled now, if no migration under way can still make room. A plan
    whose moves are stuck by then is out of date: the cluster has changed since it was made."""
    ready = split_due(steps, table, {*steps["job"].tolist()})
    return steps[ready.starts]
