"""The loop of a swarm: what arrives is placed as anywhere; then every `step_s` each task decides as an agent whether to move.

A migration takes its room on the destination at once and gives up its room on the source when it ends; a node sends one task
after the other. Pheromones see what the node holds once its queues are empty (eq. 18).
"""

from __future__ import annotations

from typing import Any

from murmuration.cluster import migration
from murmuration.cluster.jit import helper, inlined, loop_kernel
from murmuration.placement.kernels import fits, give_back, next_double, take
from murmuration.schedulers.swarm import pheromone
from murmuration.schedulers.swarm.pheromone import BIN_PACK
from murmuration.simulation.agenda import note, pop
from murmuration.simulation.loop import (
    DECIDE, FINISHED, GROW, ONE_JOB, PAUSED, PYTHON, arrival_is_next, arrive, attempt_ends, decide, launch, next_time,
)  # fmt: skip
from murmuration.simulation.steps import (
    NOTES_MAX, begin_attempt, dequeue, end_run, enqueue, mask_of, needs_room, next_job, pass_time,
)  # fmt: skip
from murmuration.simulation.swarm_search import (
    dominant, fill_used, has_room, least_dominant, relevel, search, set_order, suits,
)  # fmt: skip
from murmuration.simulation.world import (
    AGENTS_ACT, BUSY_UNTIL, COUNTED, GROUP, JOB_RETURNS, KIND_BITS, KIND_MASK, LARGEST, MIGRATION_ENDS, PHEROMONE,
    SMALLEST, SOURCE, TASKS_END, USED, Array, World,
)  # fmt: skip

SLOT_BITS = 32
MEMORY = 1
SPREADING = -1.0

spread = helper(pheromone.spread)
bin_pack = helper(pheromone.bin_pack)
repulsive = helper(pheromone.repulsive)
weighted = helper(pheromone.weighted)
attractive = helper(pheromone.attractive)
migration_mb = helper(migration.migration_mb)


@helper
def size_of(request: Array, capacity: Array, counted: Array, resource: int, packing: bool) -> float:
    """The size of a task on a node: its share of the node's least dominant resource, or when spreading its largest share."""
    if not packing:
        return float(dominant(request, capacity, counted))
    return float(request[resource] / capacity[resource]) if resource >= 0 else 0.0


@inlined
def strategy_now(w: World) -> Any:
    """The strategy in force."""
    return w.swarm[0].switch_to if w.state[0].now >= w.swarm[0].switch_s else w.swarm[0].strategy


@inlined
def fullness(w: World, node: int) -> Any:
    """The share taken of the node's least dominant resource, and which that is."""
    used = w.swarm_rows[SOURCE]
    fill_used(w.total, w.free, w.outgoing, node, used)
    resource = least_dominant(used, w.total[node], w.swarm_rows[COUNTED])
    return (used[resource] / w.total[node, resource] if resource >= 0 else 0.0), resource


@inlined
def set_pheromone(w: World, node: int) -> None:
    """Eq. 23 for one node, from what it holds now."""
    share, _ = fullness(w, node)
    highest = dominant(w.swarm_rows[SOURCE], w.total[node], w.swarm_rows[COUNTED])
    packing = bin_pack(share, w.swarm[0].underload, w.swarm_nodes[SMALLEST, node], w.swarm[0].form)
    w.swarm_nodes[PHEROMONE, node] = repulsive(spread(highest, w.swarm[0].overload), packing, strategy_now(w))


@inlined
def is_packing(w: World, node: int) -> Any:
    """Whether tasks leave this node to pack it, not because it is overloaded."""
    used = w.swarm_rows[SOURCE]
    fill_used(w.total, w.free, w.outgoing, node, used)
    return strategy_now(w) == BIN_PACK and dominant(used, w.total[node], w.swarm_rows[COUNTED]) <= w.swarm[0].overload


@inlined
def measure(w: World) -> None:
    """At the beginning of a step: the smallest and the largest task on each node, its pheromone, its place in the order."""
    w.swarm_nodes[SMALLEST] = 1.0
    w.swarm_nodes[LARGEST] = 0.0
    for slot in range(w.tasks.shape[0]):
        job, node = w.tasks[slot].job, w.slots[slot].node
        if job >= 0:
            _, resource = fullness(w, node)
            packing = is_packing(w, node)
            least = size_of(w.request[job], w.total[node], w.swarm_rows[COUNTED], resource, True)
            size = size_of(w.request[job], w.total[node], w.swarm_rows[COUNTED], resource, packing)
            w.swarm_nodes[SMALLEST, node] = min(w.swarm_nodes[SMALLEST, node], least)
            w.swarm_nodes[LARGEST, node] = max(w.swarm_nodes[LARGEST, node], size)
    for node in range(w.total.shape[0]):
        set_pheromone(w, node)
    set_order(w)


@inlined
def move_task(w: World, slot: int, to: int) -> None:
    """A task queues to leave its node: room is taken at its destination at once."""
    job, source = w.tasks[slot].job, w.slots[slot].node
    take(w.free, to, w.request[job])
    for r in range(w.outgoing.shape[1]):
        w.outgoing[source, r] += w.request[job, r]
        if w.jobs[job].production:
            w.guaranteed[to, r] += w.request[job, r]
    w.sequence[to] += 1
    w.slots[slot].node = to
    w.tasks[slot].source = source
    w.tasks[slot].serial += 1
    ends = max(w.state[0].now, w.swarm_nodes[BUSY_UNTIL, source]) + w.swarm[0].migration_s
    w.swarm_nodes[BUSY_UNTIL, source] = ends
    note(w.agenda, w.state, ends, MIGRATION_ENDS, (w.tasks[slot].serial << SLOT_BITS) | slot)
    w.swarm[0].migrations += 1
    w.swarm[0].migrated_mb += migration_mb(w.request[job, MEMORY])


@inlined
def renew(w: World, node: int) -> None:
    """A node of a migration has changed: so do its place in the order and its pheromone."""
    relevel(w, node)
    set_pheromone(w, node)


@inlined
def leave_source(w: World, slot: int) -> None:
    """A task is no longer on the node it came from."""
    job, source = w.tasks[slot].job, w.tasks[slot].source
    give_back(w.free, source, w.request[job])
    for r in range(w.outgoing.shape[1]):
        w.outgoing[source, r] -= w.request[job, r]
        if w.jobs[job].production:
            w.guaranteed[source, r] -= w.request[job, r]
    w.tasks[slot].source = -1


@inlined
def migration_ends(w: World, subject: int) -> None:
    """The task runs on its new node alone, unless it ended on the way."""
    slot, serial = subject & ((1 << SLOT_BITS) - 1), subject >> SLOT_BITS
    if w.tasks[slot].serial == serial and w.tasks[slot].source >= 0:
        leave_source(w, slot)


@inlined
def wants_to_leave(w: World, node: int, request: Array) -> Any:
    """One agent draws against the pheromone of its node (eqs. 24 and 25)."""
    p = w.swarm_nodes[PHEROMONE, node]
    if p <= 0.0:
        return False
    if w.swarm[0].size_weighted:
        _, resource = fullness(w, node)
        size = size_of(request, w.total[node], w.swarm_rows[COUNTED], resource, is_packing(w, node))
        p = weighted(p, min(size, w.swarm_nodes[LARGEST, node]), w.swarm_nodes[LARGEST, node])
    return next_double(w.rng[w.rng.shape[0] - 1]) < p


@inlined
def find(w: World, source: int, request: Array, job: int) -> Any:
    """A destination by the rules that hold for this source, −1 for none; messages are counted."""
    fuller_than = SPREADING
    if is_packing(w, source):
        fuller_than, _ = fullness(w, source)
    to, messages = search(w, source, request, mask_of(w.masks, w.jobs, job), fuller_than)
    w.swarm[0].messages += messages
    if to < 0:
        w.swarm[0].failed += 1
    return to


@inlined
def act_alone(w: World, slot: int) -> None:
    """One task decides."""
    job, node = w.tasks[slot].job, w.slots[slot].node
    if wants_to_leave(w, node, w.request[job]):
        to = find(w, node, w.request[job], job)
        if to >= 0:
            move_task(w, slot, to)
            renew(w, node)
            renew(w, to)


@helper
def count_mates(slots: Array, tasks: Array, leader: int, node: int) -> tuple[int, int, bool]:
    """The size of a group, how many of it are on a node, and whether any is under way."""
    group, mates, moving = 0, 0, False
    slot = leader
    while slot >= 0:
        group += 1
        mates += 1 if slots[slot].node == node else 0
        moving |= tasks[slot].source >= 0
        slot = slots[slot].next
    return group, mates, moving


@inlined
def gathering_place(w: World, leader: int, job: int) -> Any:
    """The node of a mate that attracts most and has room for the others, −1 for none."""
    rest, best, found = w.swarm_rows[GROUP], 0.0, -1
    slot = leader
    while slot >= 0:
        node = w.slots[slot].node
        group, mates, _ = count_mates(w.slots, w.tasks, leader, node)
        pull = attractive(mates, group)
        if pull > best:
            for r in range(rest.shape[0]):
                rest[r] = w.request[job, r] * (group - mates)
            mask = mask_of(w.masks, w.jobs, job)
            if suits(w.total, w.free, w.outgoing, w.swarm_rows, mask, rest, node, w.swarm[0].overload, SPREADING):
                best, found = pull, node
        slot = w.slots[slot].next
    return found


@inlined
def move_group(w: World, leader: int, to: int) -> None:
    """Every task of a group that is not on this node goes there."""
    slot = leader
    while slot >= 0:
        source = w.slots[slot].node
        if source != to:
            move_task(w, slot, to)
            renew(w, source)
            renew(w, to)
        slot = w.slots[slot].next


@inlined
def act_together(w: World, leader: int) -> None:
    """A group of tasks that must share a node: apart, they gather where most are; together, they move as one."""
    job, node = w.tasks[leader].job, w.slots[leader].node
    group, mates, moving = count_mates(w.slots, w.tasks, leader, node)
    if not moving:
        to = -1
        whole = w.swarm_rows[GROUP]
        if mates < group:
            to = gathering_place(w, leader, job)
        for r in range(whole.shape[0]):
            whole[r] = w.request[job, r] * group
        if mates < group and to < 0:
            mask = mask_of(w.masks, w.jobs, job)
            to, messages = search(w, node, whole, mask, SPREADING)
            w.swarm[0].messages += messages
        if mates == group and wants_to_leave(w, node, whole):
            to = find(w, node, whole, job)
        if to >= 0:
            move_group(w, leader, to)


@inlined
def agents_act(w: World) -> None:
    """Every task that is not under way decides once."""
    measure(w)
    for slot in range(w.tasks.shape[0]):
        job = w.tasks[slot].job
        if job >= 0:
            if w.swarm_groups[w.jobs[job].workload]:
                if w.tasks[slot].leader == slot:
                    act_together(w, slot)
            elif w.tasks[slot].source < 0:
                act_alone(w, slot)
    note(w.agenda, w.state, w.state[0].now + w.swarm[0].step_s, AGENTS_ACT, 0)


@inlined
def agents_appear(w: World, run: int) -> None:
    """The tasks of a run that has just started are agents from now on."""
    slot = w.runs[run].slot
    while slot >= 0:
        w.tasks[slot].job = w.runs[run].job
        w.tasks[slot].leader = w.runs[run].slot
        w.tasks[slot].source = -1
        slot = w.slots[slot].next


@inlined
def agents_die(w: World, run: int) -> None:
    """The tasks of a run end; one under way leaves both its nodes."""
    slot = w.runs[run].slot
    while slot >= 0:
        if w.tasks[slot].source >= 0:
            leave_source(w, slot)
            w.swarm[0].cut_short += 1
        w.tasks[slot].job = -1
        slot = w.slots[slot].next


@inlined
def happen(w: World) -> int:
    """Let the next thing on the agenda happen; returns the scheduler that may now have something to do, or −1."""
    what = pop(w.agenda, w.state)
    kind, subject = what & KIND_MASK, what >> KIND_BITS
    agent = -1
    if kind == AGENTS_ACT:
        agents_act(w)
    elif kind == MIGRATION_ENDS:
        migration_ends(w, subject)
    elif kind == TASKS_END:
        agents_die(w, subject)
        end_run(w, subject)
    elif kind == JOB_RETURNS:
        enqueue(w.agents, w.queue, w.jobs, subject)
        agent = w.jobs[subject].agent
    else:
        run = w.state[0].run_free
        attempt_ends(w, subject)
        if w.state[0].run_free != run:
            agents_appear(w, run)
        agent = subject
    return agent


@helper
def agents_need_room(state: Array, agenda: Array, slots: Array) -> bool:
    """Whether a step in which every agent moves could outgrow the agenda."""
    if state[0].notes == 0 or agenda[0].what & KIND_MASK != AGENTS_ACT:
        return False
    return bool(state[0].notes + slots.shape[0] - state[0].slots_left + NOTES_MAX > agenda.shape[0])


@loop_kernel
def advance_swarm(w: World, place: Any, score: Any, ask: int, watch: int, until: float) -> int:
    """As `advance`, with tasks that move."""
    deciding = w.state[0].pending
    while True:
        if deciding >= 0:
            launch(w, deciding)
            deciding = -1
        time = next_time(w.state, w.jobs, w.agenda)
        ended = time > w.state[0].horizon
        if not ended and time > until:
            return PAUSED
        if not ended and (
            needs_room(w.state, w.runs, w.agenda, w.claim.shape[1]) or agents_need_room(w.state, w.agenda, w.slots)
        ):
            return GROW
        pass_time(w, min(time, w.state[0].horizon))
        if ended:
            return FINISHED
        w.state[0].now = time
        if arrival_is_next(w.state, w.jobs, w.agenda):
            agent = arrive(w.state, w.agents, w.queue, w.jobs)
        else:
            agent = happen(w)
        if agent >= 0 and w.agents[agent].job < 0 and next_job(w.queue, agent) >= 0:
            job = dequeue(w.agents, w.queue, w.jobs, agent)
            begin_attempt(w.agents, w.jobs, agent, job, time)
            if ask == PYTHON or (ask == ONE_JOB and job == watch):
                w.state[0].pending = agent
                return DECIDE
            decide(w, agent, place, score)
            deciding = agent
