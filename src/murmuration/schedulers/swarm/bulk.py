"""The decisions of a swarm in bulk: one step in which every task decides once, over whole columns.

The rules are those of the message-level agents (`pheromone`, `destinations`); here they are applied
to every task of a cluster in turn. A function that decides returns the node a task wants to go to,
−1 for none. Whoever runs the step moves the task and then calls `renew` for both nodes, so that the
next task decides on what is true by then.

What is kept of a node and what is looked up. A task's decision reads one number of its node, the
pheromone; that number rests on the node's fullness and on its smallest and largest task, which
would cost a walk over all tasks. So these two are measured once, at the beginning of a step
(`measure`), and only fullness and pheromone follow each move. A node that has lost its smallest
task in this step is thus judged by one that has gone; in the next step it is not.

Fullness is by the *least* dominant resource (eq. 2), overload by the *dominant* one: a node suffers
as soon as one resource is short. `look_at` computes both and remembers by which resource, because
the size of a task must be measured by the same one.
"""

from __future__ import annotations

from typing import Any

from murmuration.base.arrays import Amounts, Flags, Records
from murmuration.base.jit import helper, tree
from murmuration.base.rows import next_double
from murmuration.cluster.task_rows import amounts_of
from murmuration.schedulers.swarm import pheromone
from murmuration.schedulers.swarm.bulk_search import (
    dominant,
    is_suitable,
    relevel,
    search,
    set_order,
)
from murmuration.schedulers.swarm.bulk_table import (
    COUNTED,
    FULLNESS,
    GROUP,
    LARGEST,
    PACKING,
    PHEROMONE,
    RESOURCE,
    SMALLEST,
    USED,
    SwarmTable,
    fill_used,
)
from murmuration.schedulers.swarm.destinations import SPREADING
from murmuration.schedulers.swarm.pheromone import BIN_PACK

spread = helper(pheromone.spread)
bin_pack = helper(pheromone.bin_pack)
repulsive = helper(pheromone.repulsive)
least_dominant = helper(pheromone.least_dominant)
strategy_at = helper(pheromone.strategy_at)
container_size = tree(pheromone.container_size)
fullness = helper(pheromone.fullness)
leave_probability = tree(pheromone.leave_probability)
attractive = helper(pheromone.attractive)


@helper
def measure(c: SwarmTable) -> None:
    """At the beginning of a step: the smallest and largest task of each node, its pheromone, its
    place in the order."""
    # Three passes in this order: sizes of tasks need the resource that `look_at` chooses, and the
    # pheromone needs the sizes.
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
def look_at(c: SwarmTable, node: int) -> None:
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
def set_pheromone(c: SwarmTable, node: int) -> None:
    """Eq. 23 for one node."""
    look_at(c, node)
    packing = bin_pack(
        c.nodes[FULLNESS, node], c.rules[0].underload, c.nodes[SMALLEST, node], c.rules[0].form
    )
    c.nodes[PHEROMONE, node] = repulsive(c.nodes[PHEROMONE, node], packing, strategy_now(c))


@helper
def renew(c: SwarmTable, node: int) -> None:
    """A node of a migration has changed: so do its place in the order and its pheromone."""
    relevel(c, node)
    set_pheromone(c, node)


@helper
def size_on(c: SwarmTable, node: int, request: Amounts, packing: bool) -> float:
    """The size of a task on a node now."""
    resource = int(c.nodes[RESOURCE, node])
    return float(container_size(request, c.total[node], c.rows[COUNTED], resource, packing))


@helper
def strategy_now(c: SwarmTable) -> int:
    """The strategy in force."""
    rules = c.rules[0]
    return int(strategy_at(c.state[0].now, rules.strategy, rules.switch_s, rules.switch_to))


@helper
def wants_to_leave(c: SwarmTable, node: int, request: Amounts) -> Any:
    """One agent draws against the pheromone of its node (eqs. 24 and 25)."""
    p = c.nodes[PHEROMONE, node]
    # Without a draw: at rest nearly all nodes have no pheromone, and a step costs no random
    # numbers for their tasks.
    if p <= 0.0:
        return False
    if c.rules[0].size_weighted:
        size = size_on(c, node, request, c.nodes[PACKING, node] > 0.0)
        p = leave_probability(p, size, c.nodes[LARGEST, node], True)
    return next_double(c.rng[c.rng.shape[0] - 1]) < p


@helper
def find(c: SwarmTable, source: int, request: Amounts, mask: Flags) -> Any:
    """A destination by the rules that hold for this source, −1 for none; messages are counted."""
    fuller_than = c.nodes[FULLNESS, source] if c.nodes[PACKING, source] > 0.0 else SPREADING
    to, messages = search(c, source, request, mask, fuller_than)
    c.rules[0].messages += messages
    if to < 0:
        c.rules[0].failed += 1
    return to


@helper
def decide_alone(c: SwarmTable, slot: int, mask: Flags) -> Any:
    """Where one task goes."""
    node, amounts = c.slots[slot].node, amounts_of(c, slot)
    to = -1
    if wants_to_leave(c, node, amounts):
        to = find(c, node, amounts, mask)
    return to


@helper
def count_mates(slots: Records, tasks: Records, leader: int, node: int) -> tuple[int, int, bool]:
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
def find_gathering_place(c: SwarmTable, leader: int, job: int, mask: Flags) -> Any:
    """The node of a mate that attracts most and has room for the others, −1 for none."""
    rest, best, place = c.rows[GROUP], 0.0, -1
    # Groups are small, so counting the mates of every mate's node again is cheaper than a table.
    slot = leader
    while slot >= 0:
        node = c.slots[slot].node
        group, mates, _ = count_mates(c.slots, c.tasks, leader, node)
        pull = attractive(mates, group)
        if pull > best:
            for r in range(rest.shape[0]):
                rest[r] = c.request[job, r] * (group - mates)
            if is_suitable(c, mask, rest, node, SPREADING):
                best, place = pull, node
        slot = c.slots[slot].next
    return place


@helper
def decide_together(c: SwarmTable, leader: int, mask: Flags) -> Any:
    """Where a group of tasks that must share a node goes: apart, they gather where most are;
    together, they move as one. While one of them is under way, the others wait."""
    job, node = c.tasks[leader].job, c.slots[leader].node
    group, mates, moving = count_mates(c.slots, c.tasks, leader, node)
    to = -1
    if not moving:
        whole = c.rows[GROUP]
        if mates < group:
            to = find_gathering_place(c, leader, job, mask)
        # The search for a mate's node reckons in the same row, so the whole is set after it.
        for r in range(whole.shape[0]):
            whole[r] = c.request[job, r] * group
        if mates < group and to < 0:
            to, messages = search(c, node, whole, mask, SPREADING)
            c.rules[0].messages += messages
        if mates == group and wants_to_leave(c, node, whole):
            to = find(c, node, whole, mask)
    return to
