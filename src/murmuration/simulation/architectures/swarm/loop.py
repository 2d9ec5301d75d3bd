"""The loop of a swarm: what arrives is placed as anywhere; then every `step_s` each task decides
whether to move.

A migration takes its room on the destination at once and gives up its room on the source when it
ends; a node sends one task after the other. Pheromones see what the node holds once its queues are
empty (eq. 18).
"""

from __future__ import annotations

from typing import Any

from murmuration.base.jit import helper, inlined, loop_kernel, tree
from murmuration.base.rows import next_double
from murmuration.schedulers.swarm import pheromone
from murmuration.schedulers.swarm.destinations import SPREADING
from murmuration.schedulers.swarm.pheromone import BIN_PACK
from murmuration.simulation.architectures.swarm.search import (
    Colony,
    dominant,
    fill_used,
    least_dominant,
    relevel,
    search,
    set_order,
    suits,
)
from murmuration.simulation.architectures.swarm.world import (
    BUSY_UNTIL,
    COUNTED,
    FULLNESS,
    GROUP,
    LARGEST,
    PACKING,
    PHEROMONE,
    RESOURCE,
    SMALLEST,
    USED,
    SwarmWorld,
)
from murmuration.simulation.engine.churn import change_node
from murmuration.simulation.engine.event_queue import note, pop
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
    to_next_event,
)
from murmuration.simulation.engine.moves import amounts_of, begin_move, leave_source, migration_ends
from murmuration.simulation.engine.steps import (
    agents_need_room,
    end_run,
    enqueue,
    mask_of,
    needs_room,
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
    Array,
)

spread = helper(pheromone.spread)
bin_pack = helper(pheromone.bin_pack)
repulsive = helper(pheromone.repulsive)
strategy_at = helper(pheromone.strategy_at)
container_size = tree(pheromone.container_size)
fullness = helper(pheromone.fullness)
leave_probability = tree(pheromone.leave_probability)
attractive = helper(pheromone.attractive)


@helper
def size_on(c: Colony, node: int, request: Array, packing: bool) -> float:
    """The size of a task on a node now."""
    resource = int(c.nodes[RESOURCE, node])
    return float(container_size(request, c.total[node], c.rows[COUNTED], resource, packing))


@helper
def strategy_now(c: Colony) -> int:
    """The strategy in force."""
    rules = c.rules[0]
    return int(strategy_at(c.state[0].now, rules.strategy, rules.switch_s, rules.switch_to))


@helper
def look_at(c: Colony, node: int) -> None:
    """What a node holds now: its fullness, by which resource, and whether tasks leave it to pack it
    or for overload."""
    used, capacity = c.rows[USED], c.total[node]
    fill_used(c.total, c.free, c.outgoing, node, used)
    resource = least_dominant(used, capacity, c.rows[COUNTED])
    c.nodes[RESOURCE, node] = resource
    c.nodes[FULLNESS, node] = fullness(used, capacity, resource)
    over = spread(dominant(used, capacity, c.rows[COUNTED]), c.rules[0].overload)
    c.nodes[PACKING, node] = 1.0 if over == 0.0 and strategy_now(c) == BIN_PACK else 0.0
    c.nodes[PHEROMONE, node] = over


@helper
def set_pheromone(c: Colony, node: int) -> None:
    """Eq. 23 for one node."""
    look_at(c, node)
    packing = bin_pack(
        c.nodes[FULLNESS, node], c.rules[0].underload, c.nodes[SMALLEST, node], c.rules[0].form
    )
    c.nodes[PHEROMONE, node] = repulsive(c.nodes[PHEROMONE, node], packing, strategy_now(c))


@helper
def measure(c: Colony) -> None:
    """At the beginning of a step: the smallest and largest task of each node, its pheromone, its
    place in the order."""
    for node in range(c.total.shape[0]):
        look_at(c, node)
    c.nodes[SMALLEST] = 1.0
    c.nodes[LARGEST] = 0.0
    for slot in range(c.state[0].slots_high):
        job, node = c.tasks[slot].job, c.slots[slot].node
        if job >= 0:
            amounts = amounts_of(c, slot)
            size = size_on(c, node, amounts, True)
            c.nodes[SMALLEST, node] = min(c.nodes[SMALLEST, node], size)
            if c.nodes[PACKING, node] == 0.0:
                size = size_on(c, node, amounts, False)
            c.nodes[LARGEST, node] = max(c.nodes[LARGEST, node], size)
    for node in range(c.total.shape[0]):
        set_pheromone(c, node)
    set_order(c)


@helper
def move_task(c: Colony, slot: int, to: int) -> None:
    """A task queues to leave its node: room is taken at its destination at once."""
    source = c.slots[slot].node
    ends = max(c.state[0].now, c.nodes[BUSY_UNTIL, source]) + c.rules[0].migration_s
    c.nodes[BUSY_UNTIL, source] = ends
    begin_move(c, slot, to, ends)


@helper
def renew(c: Colony, node: int) -> None:
    """A node of a migration has changed: so do its place in the order and its pheromone."""
    relevel(c, node)
    set_pheromone(c, node)


@helper
def wants_to_leave(c: Colony, node: int, request: Array) -> Any:
    """One agent draws against the pheromone of its node (eqs. 24 and 25)."""
    p = c.nodes[PHEROMONE, node]
    if p <= 0.0:
        return False
    if c.rules[0].size_weighted:
        size = size_on(c, node, request, c.nodes[PACKING, node] > 0.0)
        p = leave_probability(p, size, c.nodes[LARGEST, node], True)
    return next_double(c.rng[c.rng.shape[0] - 1]) < p


@helper
def find(c: Colony, source: int, request: Array, job: int) -> Any:
    """A destination by the rules that hold for this source, −1 for none; messages are counted."""
    fuller_than = c.nodes[FULLNESS, source] if c.nodes[PACKING, source] > 0.0 else SPREADING
    to, messages = search(c, source, request, mask_of(c.masks, c.jobs, job), fuller_than)
    c.rules[0].messages += messages
    if to < 0:
        c.rules[0].failed += 1
    return to


@helper
def act_alone(c: Colony, slot: int) -> None:
    """One task decides."""
    job, node = c.tasks[slot].job, c.slots[slot].node
    amounts = amounts_of(c, slot)
    if wants_to_leave(c, node, amounts):
        to = find(c, node, amounts, job)
        if to >= 0:
            move_task(c, slot, to)
            renew(c, node)
            renew(c, to)


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


@helper
def gathering_place(c: Colony, leader: int, job: int) -> Any:
    """The node of a mate that attracts most and has room for the others, −1 for none."""
    rest, best, found = c.rows[GROUP], 0.0, -1
    slot = leader
    while slot >= 0:
        node = c.slots[slot].node
        group, mates, _ = count_mates(c.slots, c.tasks, leader, node)
        pull = attractive(mates, group)
        if pull > best:
            for r in range(rest.shape[0]):
                rest[r] = c.request[job, r] * (group - mates)
            mask = mask_of(c.masks, c.jobs, job)
            if suits(c, mask, rest, node, SPREADING):
                best, found = pull, node
        slot = c.slots[slot].next
    return found


@helper
def move_group(c: Colony, leader: int, to: int) -> None:
    """Every task of a group that is not on this node goes there."""
    slot = leader
    while slot >= 0:
        source = c.slots[slot].node
        if source != to:
            move_task(c, slot, to)
            renew(c, source)
            renew(c, to)
        slot = c.slots[slot].next


@helper
def act_together(c: Colony, leader: int) -> None:
    """A group of tasks that must share a node: apart, they gather where most are; together, they
    move as one."""
    job, node = c.tasks[leader].job, c.slots[leader].node
    group, mates, moving = count_mates(c.slots, c.tasks, leader, node)
    if not moving:
        to = -1
        whole = c.rows[GROUP]
        if mates < group:
            to = gathering_place(c, leader, job)
        for r in range(whole.shape[0]):
            whole[r] = c.request[job, r] * group
        if mates < group and to < 0:
            mask = mask_of(c.masks, c.jobs, job)
            to, messages = search(c, node, whole, mask, SPREADING)
            c.rules[0].messages += messages
        if mates == group and wants_to_leave(c, node, whole):
            to = find(c, node, whole, job)
        if to >= 0:
            move_group(c, leader, to)


@inlined
def colony(w: SwarmWorld) -> Colony:
    return Colony(
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
        agenda=w.agenda,
        tasks=w.tasks,
        firm=w.firm,
        task_used=w.task_used,
        sums=w.sums,
        outgoing=w.outgoing,
        firm_outgoing=w.firm_outgoing,
        rules=w.swarm,
        order=w.swarm_order,
        first=w.swarm_first,
        nodes=w.swarm_nodes,
        rows=w.swarm_rows,
    )


@helper
def agents_act(c: Colony, grouped: Array) -> None:
    """Every task that is not under way decides once."""
    measure(c)
    for slot in range(c.state[0].slots_high):
        job = c.tasks[slot].job
        if job >= 0:
            if grouped[c.jobs[job].workload]:
                if c.tasks[slot].leader == slot:
                    act_together(c, slot)
            elif c.tasks[slot].source < 0 and c.nodes[PHEROMONE, c.slots[slot].node] > 0.0:
                act_alone(c, slot)
    note(c.agenda, c.state, c.state[0].now + c.rules[0].step_s, AGENTS_ACT, 0)


@inlined
def agents_die(w: SwarmWorld, run: int) -> None:
    """The tasks of a run end; one under way leaves both its nodes."""
    slot = w.runs[run].slot
    while slot >= 0:
        if w.tasks[slot].source >= 0:
            leave_source(colony(w), slot)
            w.swarm[0].cut_short += 1
        slot = w.slots[slot].next


@inlined
def happen(w: SwarmWorld) -> int:
    """Let the next thing on the agenda happen; returns the scheduler that may now have something to
    do, or −1."""
    what = pop(w.agenda, w.state)
    kind, subject = what & KIND_MASK, what >> KIND_BITS
    agent = -1
    if kind == AGENTS_ACT:
        agents_act(colony(w), w.swarm_groups)
    elif kind == MIGRATION_ENDS:
        migration_ends(colony(w), subject)
    elif kind == TASKS_END:
        agents_die(w, subject)
        end_run(w, subject)
    elif kind == USAGE_CHANGES:
        usage_changes(w)
    elif kind == NODE_CHANGES:
        change_node(w, subject)
    elif kind == JOB_RETURNS:
        enqueue(w.agents, w.queue, w.jobs, subject)
        agent = w.jobs[subject].agent
    else:
        attempt_ends(w, subject)
        agent = subject
    return agent


@loop_kernel
def advance_swarm(w: SwarmWorld, place: Any, score: Any, ask: int, watch: int, until: float) -> int:
    """As `advance`, with tasks that move."""
    deciding = w.state[0].pending
    while True:
        if deciding >= 0:
            launch(w, deciding)
            deciding = -1
        full = needs_room(w.state, w.runs, w.agenda, w.claim.shape[1]) or agents_need_room(
            w.state, w.agenda, w.slots
        )
        why = to_next_event(w, until, full)
        if why != GO_ON:
            return why
        if arrival_is_next(w.state, w.jobs, w.agenda):
            agent = arrive(w.state, w.agents, w.queue, w.jobs)
        else:
            agent = happen(w)
        job = next_attempt(w, agent)
        if job >= 0:
            if ask == PYTHON or (ask == ONE_JOB and job == watch):
                w.state[0].pending = agent
                return DECIDE
            decide(w, agent, place, score)
            deciding = agent
