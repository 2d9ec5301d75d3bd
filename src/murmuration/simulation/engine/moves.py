"""Migrations: a task counts on both its nodes until it has moved, and the node it leaves owns it
until then.

Every function takes any named set of arrays that has the fields it touches: a whole world, or the
part of it that an architecture passes on.

Four sums have to stay right while a task is on its way, and each function here changes exactly the
sums of one node. `free` is what is not in use (or not requested, where nothing is measured) and
counts the task on both nodes. `unreserved` is the same for what production tasks are guaranteed.
`guaranteed` is what non-production tasks leave of a node. `outgoing` is what is about to leave a
node: free + outgoing is what the node will have, and that is what an agent looks at when it asks
whether it must give away still more. Without it an overloaded node would choose new tasks in every
round of the minutes a transfer takes, until it was empty.
"""

from __future__ import annotations

from typing import Any

from murmuration.base.jit import helper
from murmuration.base.rows import give_back, take
from murmuration.cluster import migration
from murmuration.cluster.task_rows import amounts_of
from murmuration.simulation.engine.event_queue import schedule
from murmuration.simulation.engine.steps import charge, is_reserved
from murmuration.simulation.engine.world import MIGRATION_ENDS
from murmuration.simulation.results.recording import MOVED, record_departure, record_move

SLOT_BITS = 32
MEMORY = 1

migration_mb = helper(migration.migration_mb)


@helper
def leave(c: Any, job: int, slot: int, node: int) -> None:
    """A task no longer counts on this node."""
    if c.unreserved.shape[0] > 0:
        charge(c.free, c.sums, node, c.task_used[slot], -1)
        if is_reserved(c.state, c.jobs, job):
            give_back(c.unreserved, node, c.request[job])
    else:
        give_back(c.free, node, c.request[job])
    if c.jobs[job].production:
        take(c.guaranteed, node, c.request[job])


@helper
def enter(c: Any, job: int, slot: int, node: int) -> None:
    """A task counts on this node."""
    if c.unreserved.shape[0] > 0:
        charge(c.free, c.sums, node, c.task_used[slot], 1)
        if is_reserved(c.state, c.jobs, job):
            take(c.unreserved, node, c.request[job])
    else:
        take(c.free, node, c.request[job])
    if c.jobs[job].production:
        give_back(c.guaranteed, node, c.request[job])
    # A row that got fuller conflicts with whoever decided on it before. One that got emptier does
    # not, so `leave` counts nothing.
    c.sequence[node] += 1


@helper
def depart(c: Any, job: int, slot: int, source: int, sign: int) -> None:
    """Count a task into what is about to leave its node, or out of it again."""
    amounts = amounts_of(c, slot)
    for r in range(amounts.shape[0]):
        c.outgoing[source, r] += sign * amounts[r]
        if is_reserved(c.state, c.jobs, job):
            c.reserved_outgoing[source, r] += sign * c.request[job, r]


@helper
def begin_move(c: Any, slot: int, to: int, ends: float) -> None:
    """A task sets out for another node: it has its room there at once."""
    job, source = c.tasks[slot].job, c.slots[slot].node
    amounts = amounts_of(c, slot)
    enter(c, job, slot, to)
    depart(c, job, slot, source, 1)
    c.slots[slot].node = to
    c.tasks[slot].source = source
    # The end of the move names the slot and this number. A slot is used again by other tasks, and
    # a task may be sent back before the event comes up: an event whose number is not the slot's is
    # about a move that is over, and removing it from the middle of a heap would cost more.
    c.tasks[slot].serial += 1
    # Whole words, because plain Python would shift a field of four bytes out of its four bytes.
    subject = (int(c.tasks[slot].serial) << SLOT_BITS) | int(slot)
    schedule(c.event_queue, c.state, ends, MIGRATION_ENDS, subject)
    c.state[0].migrations += 1
    # A task that is not measured yet moves what it may use at most.
    unknown = c.task_used.shape[0] > 0 and c.tasks[slot].point < 0
    megabytes = migration_mb(c.request[job, MEMORY] if unknown else amounts[MEMORY])
    c.state[0].migrated_mb += megabytes
    record_move(c, slot, source, megabytes)


@helper
def leave_source(c: Any, slot: int, why: int) -> None:
    """A task is no longer on the node it came from: it has moved, or ended before."""
    record_departure(c, slot, why)
    job, source = c.tasks[slot].job, c.tasks[slot].source
    leave(c, job, slot, source)
    depart(c, job, slot, source, -1)
    c.tasks[slot].source = -1


@helper
def migration_ends(c: Any, subject: int) -> None:
    """The task runs on its new node alone, unless it ended on the way."""
    slot, serial = subject & ((1 << SLOT_BITS) - 1), subject >> SLOT_BITS
    if c.tasks[slot].serial == serial and c.tasks[slot].source >= 0:
        leave_source(c, slot, MOVED)
