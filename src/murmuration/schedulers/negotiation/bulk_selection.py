"""Whom node agents give away, in bulk: every node looks at its tasks once a report period.

A node that is overloaded selects tasks by the same search as a message-level node agent
(`selection`); with the option of section 9 some stable nodes give one task away to be filled more
evenly. The result is a list of movers in random order, for agents act at the same time. Nothing
moves here: whoever runs the round negotiates for each mover (`bulk.negotiate`) and carries it out.

Nodes look in turns, a part of them at a time, because each agent has its own time to look. What a
node forces on another, that one sees when its turn comes: half a period later on average, not a
whole one. On a cell that is overfull every such task pushes others on, and with all nodes looking
at once they wander half as fast. Within a turn all nodes choose before any task moves, so that the
result does not depend on the order of rows.

There is no list of the tasks of a node in the world, because nothing else needs one. It is made
here, for the marked nodes only, in one pass over all tasks (`list_tasks`), as chains through
`first` and `next`: on a cluster of which one node in a hundred is overloaded that pass is what
choosing costs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from murmuration.base.arrays import RandomState, SmallIntegers
from murmuration.base.jit import helper, inlined, loop_kernel, tree
from murmuration.cluster import allocation_types, migration
from murmuration.cluster.allocation_types import DA
from murmuration.schedulers.negotiation import rules, selection
from murmuration.schedulers.negotiation.bulk import (
    SELECTION,
    TURNS,
    Cell,
    log,
    next_double,
    report,
    sras_bands,
)
from murmuration.schedulers.negotiation.selection import SelectionBuffers, Tasks

MEMORY = 1
#: In `first`: a node whose tasks nobody asks for.
UNMARKED = -2

migration_mb = helper(migration.migration_mb)
allocation_type = helper(allocation_types.allocation_type)
select, tabu = tree(selection.select), tree(selection.tabu)
suspend = tree(rules.suspend)


@loop_kernel
def choose_movers(c: Cell, turn: int) -> Any:
    """From this turn on, node agents report and look at their nodes, until some must, or would,
    give tasks away; these are listed. Returns how many, and the turn after."""
    movers = widen(0)
    while movers == 0 and turn < TURNS:
        report(c, turn)
        movers = choose_in_turn(c, turn)
        turn += 1
    return movers, turn


@helper
def choose_in_turn(c: Cell, turn: int) -> Any:
    """The tasks that the nodes of one turn give away; returns how many."""
    count = mark_overloaded(c, turn)
    marked = count
    if turn == 0:
        c.progress[0].looks += 1
        marked = mark_uneven(c, count)
    c.progress[0].overloaded_seen += count
    if marked > 0:
        list_tasks(c)
    split_time(c, count)
    movers = widen(0)
    for k in range(count):
        movers = select_tasks(c, c.pool[2, k], movers)
    for k in range(count, marked):
        slot = uneven_task(c, c.pool[2, k])
        if slot >= 0:
            c.movers[movers] = slot
            movers += 1
    shuffle(c.movers, movers, c.rng[0])
    return movers


@helper
def mark_overloaded(c: Cell, turn: int) -> int:
    """The nodes of this turn that must give tasks away, what is already leaving left out of
    account; returns how many."""
    count = 0
    c.first[:] = UNMARKED
    for node in range(turn, c.total.shape[0], TURNS):
        over = False
        for r in range(c.total.shape[1]):
            # Two kinds of overload: more in use than there is, or more guaranteed to production
            # tasks than there is. What is on its way out counts as gone, or a node would choose
            # new tasks in every round until the first transfer ends.
            over |= (
                c.free[node, r] + c.outgoing[node, r] < 0
                or c.unreserved[node, r] + c.reserved_outgoing[node, r] < 0
            )
        if over:
            c.first[node] = -1
            c.pool[2, count] = node
            count += 1
    return count


@helper
def list_tasks(c: Cell) -> None:
    """Chain the tasks of each marked node, but for those already on their way."""
    for slot in range(c.state[0].slots_high):
        if c.tasks[slot].job >= 0 and c.tasks[slot].source < 0:
            node = c.slots[slot].node
            if c.first[node] >= -1:
                c.next[slot] = c.first[node]
                c.first[node] = slot


@helper
def select_tasks(c: Cell, node: int, movers: int) -> int:
    """Step 1 for one overloaded node: the tasks it gives away join the list of movers; returns how
    long that is now."""
    count = fill_tasks(c, node)
    tasks = Tasks(
        c.use[1 : 1 + count],
        c.amounts[:count],
        c.flags[0, :count],
        c.costs[:count],
        c.flags[1, :count],
    )
    # The rows behind those of the tasks are free, and serve as buffers of the search.
    work = SelectionBuffers(c.amounts[count], c.amounts[count + 1], c.loads, c.listed, c.flags[2])
    used, guaranteed = c.amounts[count + 2], c.amounts[count + 3]
    for r in range(used.shape[0]):
        used[r] = c.total[node, r] - c.free[node, r] - c.outgoing[node, r]
        guaranteed[r] = c.total[node, r] - c.unreserved[node, r] - c.reserved_outgoing[node, r]
    rule = c.settings[0]
    if rule.tabu:
        fitness = tabu(
            c.total[node],
            used,
            guaranteed,
            tasks,
            c.flags[3],
            work,
            c.rng[0],
            restarts=rule.restarts,
            steps=rule.steps,
            patience=rule.patience,
            count_restarts=rule.counts_restarts,
            visited=c.visited,
        )
    else:
        fitness = select(c.total[node], used, guaranteed, tasks, c.flags[3], work, rule.exact_max)
    c.progress[0].selections += 1
    c.progress[0].stuck += 1 if fitness == 0.0 else 0
    log(c, SELECTION, node, -1, count, 0, 0, fitness)
    # A fitness of zero is a set that does not relieve the node; half a relief would pay for
    # transfers and leave the node overloaded, so then nobody leaves.
    for k in range(count):
        if fitness > 0.0 and c.flags[3, k]:
            c.movers[movers] = c.listing[k]
            movers += 1
    return movers


@helper
def fill_tasks(c: Cell, node: int) -> int:
    """What selection reads of a node's tasks; at most as many as there is room for."""
    slot, count = c.first[node], 0
    while slot >= 0 and count < c.listing.shape[0]:
        job = c.tasks[slot].job
        c.listing[count] = slot
        for r in range(c.request.shape[1]):
            c.use[1 + count, r] = c.task_used[slot, r]
            c.amounts[count, r] = c.request[job, r]
        c.flags[0, count] = c.jobs[job].production
        c.costs[count] = cost_of(c, job, slot)
        c.flags[1, count] = may_leave(c, slot)
        count += 1
        slot = c.next[slot]
    return count


@inlined
def may_leave(c: Cell, slot: int) -> bool:
    """Whether a node may give this task away: some other could hold it, and it was not
    forced here just now."""
    return bool(c.movable[c.tasks[slot].job] and c.tasks[slot].stays <= c.state[0].now)


@inlined
def cost_of(c: Cell, job: int, slot: int) -> float:
    """The megabytes it takes to move a task; one that is not measured yet may use all it
    requests."""
    return migration_mb(
        c.request[job, MEMORY] if c.tasks[slot].point < 0 else c.task_used[slot, MEMORY]
    )


@helper
def mark_uneven(c: Cell, count: int) -> int:
    """A few stable nodes that are filled unevenly, after those that are overloaded; returns how
    many there are now."""
    n = c.total.shape[0]
    for _ in range(int(c.settings[0].proactive * n)):
        node = int(next_double(c.rng[0]) * n)
        idle = False
        if (
            c.first[node] == UNMARKED
            and allocation_type(c.total[node], c.free[node], c.guaranteed[node], idle) == DA
        ):
            c.first[node] = -1
            c.pool[2, count] = node
            count += 1
    return count


@helper
def uneven_task(c: Cell, node: int) -> int:
    """The option of section 9: a stable node that is filled unevenly gives away the one task whose
    leaving improves its score most for what it costs; -1 for none."""
    # Above zero only: a task whose leaving makes the node less even stays, however cheap it is.
    best, chosen = 0.0, -1
    fill_loads(c, node, -1)
    before = sras_bands(c.loads)
    slot = c.first[node]
    while slot >= 0:
        fill_loads(c, node, slot)
        job = c.tasks[slot].job
        gain = (sras_bands(c.loads) - before) / cost_of(c, job, slot)
        if gain > best and may_leave(c, slot):
            best, chosen = gain, slot
        slot = c.next[slot]
    return chosen


@inlined
def fill_loads(c: Cell, node: int, without: int) -> None:
    """The loads of a node, without one of its tasks."""
    for r in range(c.total.shape[1]):
        used = c.total[node, r] - c.free[node, r] - c.outgoing[node, r]
        if without >= 0:
            used -= c.task_used[without, r]
        c.loads[r] = used * c.inverse[node, r] if c.total[node, r] > 0 else -1.0


@helper
def split_time(c: Cell, count: int) -> None:
    """During a spike, other tasks are suspended before a production task is short; count both."""
    for k in range(count):
        node = c.pool[2, k]
        here = fill_tasks(c, node)
        wanted = c.amounts[here]
        for r in range(c.total.shape[1]):
            wanted[r] = 0
            for task in range(here):
                wanted[r] += c.use[1 + task, r]
        c.progress[0].suspended += suspend(
            c.total[node], wanted, c.use[1 : 1 + here], c.flags[0, :here], c.flags[3, :here]
        )
        short = False
        for r in range(c.total.shape[1]):
            short |= wanted[r] > c.total[node, r]
        c.progress[0].short += 1 if short else 0


@helper
def shuffle(rows: SmallIntegers, count: int, rng: RandomState) -> None:
    """In no particular order: agents act at the same time."""
    for k in range(count - 1, 0, -1):
        other = int(next_double(rng) * (k + 1))
        rows[k], rows[other] = rows[other], rows[k]


@inlined
def widen(number: int) -> Any:
    """The same number in the one width that kernels pass on: they are compiled once more for
    every other."""
    return np.int64(number)
