"""The loop of architectures that act in rounds: events are dispatched here, and jobs that arrive
wait for the next round.

Agents that negotiate and batches that are searched differ in what they do when a round is due,
which is not in here.

A round is an event like any other, so what happens at the same instant is ordered: events that were
scheduled before the round are dispatched before it, and agents see their effect. The kernel stops
*after* it has taken the round off the queue and scheduled the next one (`ACT`); whoever acts may
schedule ends of migrations and runs, and calls again. A run that pauses and one that acts are told
apart by what `advance_rounds` returns, never by the time.
"""

from __future__ import annotations

from murmuration.base.jit import inlined, loop_kernel
from murmuration.simulation.engine.churn import change_node
from murmuration.simulation.engine.event_queue import agents_need_room, needs_room, pop, schedule
from murmuration.simulation.engine.loop import GO_ON, arrival_is_next, arrive, step_to_event
from murmuration.simulation.engine.moves import leave_source, migration_ends
from murmuration.simulation.engine.steps import end_run, enqueue
from murmuration.simulation.engine.usage import usage_changes
from murmuration.simulation.engine.world import (
    AGENTS_ACT,
    JOB_RETURNS,
    KIND_BITS,
    KIND_MASK,
    MIGRATION_ENDS,
    NODE_CHANGES,
    TASKS_END,
    USAGE_CHANGES,
    World,
)
from murmuration.simulation.results.recording import FINISHED

#: Why `advance_rounds` stopped, besides what `advance` says: a round is due.
ACT = 5


@inlined
def dispatch(w: World, round_s: float) -> bool:
    """Dispatch the next event; returns whether a round is due."""
    what = pop(w.event_queue, w.state)
    kind, subject = what & KIND_MASK, what >> KIND_BITS
    if kind == MIGRATION_ENDS:
        migration_ends(w, subject)
    elif kind == TASKS_END:
        tasks_end(w, subject)
    elif kind == USAGE_CHANGES:
        usage_changes(w)
    elif kind == NODE_CHANGES:
        change_node(w, subject)
    elif kind == JOB_RETURNS:
        enqueue(w.schedulers, w.queue, w.jobs, subject)
    elif kind == AGENTS_ACT:
        schedule(w.event_queue, w.state, w.state[0].now + round_s, AGENTS_ACT, 0)
    return bool(kind == AGENTS_ACT)


@inlined
def tasks_end(c: World, run: int) -> None:
    """The tasks of a run end; one under way leaves both its nodes."""
    # `end_run` gives back the room on the node a task counts on, which is the destination once it
    # has set out. Its room on the source must be given back first, while its slot still says which
    # node that is; the event of the migration's end stays in the queue and finds nothing to do.
    slot = c.runs[run].slot
    while slot >= 0:
        if c.tasks[slot].source >= 0:
            leave_source(c, slot, FINISHED)
        slot = c.slots[slot].next
    end_run(c, run)


@loop_kernel
def advance_rounds(w: World, round_s: float, until: float) -> int:
    """As `advance`, up to each round (ACT), the next of which is scheduled `round_s` later."""
    while True:
        full = needs_room(w.state, w.runs, w.event_queue, w.claim.shape[1]) or agents_need_room(
            w.state, w.event_queue, w.slots
        )
        why = step_to_event(w, until, full)
        if why != GO_ON:
            return why
        if arrival_is_next(w.state, w.jobs, w.event_queue):
            arrive(w.state, w.schedulers, w.queue, w.jobs)
        elif dispatch(w, round_s):
            return ACT
