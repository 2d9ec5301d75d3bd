"""The loop of a swarm: what arrives is placed as anywhere; then every `step_s` each task decides
whether to move.

A migration takes its room on the destination at once and gives up its room on the source when it
ends; a node sends one task after the other. Pheromones see what the node holds once its queues are
empty (eq. 18).
"""

from __future__ import annotations

from typing import Any

from murmuration.base.arrays import Flags
from murmuration.base.jit import helper, inlined, loop_kernel
from murmuration.cluster.task_rows import mask_of
from murmuration.placement.ranking import RankIndex
from murmuration.schedulers.swarm.bulk import decide_alone, decide_together, measure, renew
from murmuration.schedulers.swarm.bulk_table import BUSY_UNTIL, PHEROMONE, SwarmTable
from murmuration.simulation.architectures.swarm.world import SwarmWorld
from murmuration.simulation.engine.churn import change_node
from murmuration.simulation.engine.event_queue import agents_need_room, needs_room, pop, schedule
from murmuration.simulation.engine.loop import (
    DECIDE,
    GO_ON,
    ONE_JOB,
    PYTHON,
    arrival_is_next,
    arrive,
    attempt_ends,
    decide,
    launch,
    next_attempt,
    requeue,
    step_to_event,
)
from murmuration.simulation.engine.moves import begin_move, leave_source, migration_ends
from murmuration.simulation.engine.steps import (
    end_run,
)
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
)
from murmuration.simulation.results.recording import FINISHED


@helper
def move_task(c: SwarmTable, slot: int, to: int) -> None:
    """A task queues to leave its node: room is taken at its destination at once.

    A node sends one task after the other, so a move ends `migration_s` after the one before it. The
    pheromones of both nodes follow at once: tasks that decide later in the same step see a node
    that is already emptier, or fuller, and do not all leave or arrive together.
    """
    source = c.slots[slot].node
    ends = max(c.state[0].now, c.nodes[BUSY_UNTIL, source]) + c.rules[0].migration_s
    c.nodes[BUSY_UNTIL, source] = ends
    begin_move(c, slot, to, ends)
    renew(c, source)
    renew(c, to)


@helper
def act_alone(c: SwarmTable, slot: int) -> None:
    """One task decides."""
    to = decide_alone(c, slot, mask_of(c.masks, c.jobs, c.tasks[slot].job))
    if to >= 0:
        move_task(c, slot, to)


@helper
def act_together(c: SwarmTable, leader: int) -> None:
    """A group of tasks decides: every one that is not where all shall be goes there."""
    to = decide_together(c, leader, mask_of(c.masks, c.jobs, c.tasks[leader].job))
    slot = leader if to >= 0 else -1
    while slot >= 0:
        if c.slots[slot].node != to:
            move_task(c, slot, to)
        slot = c.slots[slot].next


@inlined
def swarm_of(w: SwarmWorld) -> SwarmTable:
    return SwarmTable(
        state=w.state,
        total=w.total,
        free=w.free,
        guaranteed=w.guaranteed,
        sequence=w.sequence,
        masks=w.masks,
        jobs=w.jobs,
        request=w.request,
        rng=w.rng,
        slots=w.slots,
        event_queue=w.event_queue,
        tasks=w.tasks,
        unreserved=w.unreserved,
        task_used=w.task_used,
        sums=w.sums,
        outgoing=w.outgoing,
        reserved_outgoing=w.reserved_outgoing,
        rules=w.swarm,
        order=w.swarm_order,
        first=w.swarm_first,
        nodes=w.swarm_nodes,
        rows=w.swarm_rows,
        stays=w.stays,
        task_log=w.task_log,
        meters=w.meters,
    )


@helper
def agents_act(c: SwarmTable, grouped: Flags) -> None:
    """Every task that is not under way decides once."""
    measure(c)
    for slot in range(c.state[0].slots_high):
        job = c.tasks[slot].job
        if job >= 0:
            # A group decides once, by its leader. A node without pheromone expels nobody, so its
            # tasks need no draw.
            if grouped[c.jobs[job].workload]:
                if c.tasks[slot].leader == slot:
                    act_together(c, slot)
            elif c.tasks[slot].source < 0 and c.nodes[PHEROMONE, c.slots[slot].node] > 0.0:
                act_alone(c, slot)
    schedule(c.event_queue, c.state, c.state[0].now + c.rules[0].step_s, AGENTS_ACT, 0)


@inlined
def end_agents(w: SwarmWorld, run: int) -> None:
    """The tasks of a run end; one under way leaves both its nodes. Before `end_run`, which frees
    the slots and the room at the destination."""
    slot = w.runs[run].slot
    while slot >= 0:
        if w.tasks[slot].source >= 0:
            leave_source(swarm_of(w), slot, FINISHED)
            w.swarm[0].cut_short += 1
        slot = w.slots[slot].next


@inlined
def dispatch(w: SwarmWorld) -> int:
    """Dispatch the next event; returns the scheduler that may now have something to do, or −1."""
    what = pop(w.event_queue, w.state)
    kind, subject = what & KIND_MASK, what >> KIND_BITS
    scheduler = -1
    if kind == AGENTS_ACT:
        agents_act(swarm_of(w), w.swarm_groups)
    elif kind == MIGRATION_ENDS:
        migration_ends(swarm_of(w), subject)
    elif kind == TASKS_END:
        end_agents(w, subject)
        end_run(w, subject)
    elif kind == USAGE_CHANGES:
        usage_changes(w)
    elif kind == NODE_CHANGES:
        change_node(w, subject)
    elif kind == JOB_RETURNS:
        requeue(w.state, w.schedulers, w.queue, w.jobs, subject)
        scheduler = w.jobs[subject].scheduler
    else:
        attempt_ends(w, subject)
        scheduler = subject
    return scheduler


@loop_kernel
def advance_swarm(
    w: SwarmWorld, place: Any, score: Any, index: RankIndex, ask: int, watch: int, until: float
) -> int:
    """As `advance`, with tasks that move."""
    deciding = w.state[0].pending
    while True:
        if deciding >= 0:
            launch(w, deciding)
            deciding = -1
        full = needs_room(w.state, w.runs, w.event_queue, w.claim.shape[1]) or agents_need_room(
            w.state, w.event_queue, w.slots
        )
        why = step_to_event(w, until, full)
        if why != GO_ON:
            return why
        if arrival_is_next(w.state, w.jobs, w.event_queue):
            scheduler = arrive(w.state, w.schedulers, w.queue, w.jobs)
        else:
            scheduler = dispatch(w)
        job = next_attempt(w, scheduler)
        if job >= 0:
            if ask == PYTHON or (ask == ONE_JOB and job == watch):
                w.state[0].pending = scheduler
                return DECIDE
            decide(w, scheduler, place, score, index)
            deciding = scheduler
