"""The loop of negotiating agents: a round of messages every `answer_s`, and once a report period
every node agent looks at its node, reports, and gives tasks away where it is overloaded.

What arrives waits for the next round. The tasks of time 0 are the cell as it is found: they are
placed in small batches, each measured and reported before the next, so that the run does not begin
with a rush on a cell nobody knows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from murmuration.base.jit import helper, inlined, loop_kernel, tree
from murmuration.base.rows import take
from murmuration.cluster import allocation_types, migration
from murmuration.cluster.allocation_types import DA
from murmuration.schedulers.negotiation import rules, selection
from murmuration.schedulers.negotiation.bulk import (
    COUNTS,
    SELECTION,
    Cell,
    copy_rows,
    log,
    negotiate,
    next_double,
    report,
    sras,
)
from murmuration.schedulers.negotiation.selection import Tasks, Work
from murmuration.simulation.architectures.negotiation.world import Negotiation
from murmuration.simulation.engine.moves import begin_move
from murmuration.simulation.engine.steps import (
    begin_attempt,
    dequeue,
    drop_claim,
    finish_job,
    mask_of,
    needs_room,
    room_of,
    start_run,
    unmeasured,
)
from murmuration.simulation.engine.usage import measure_usage
from murmuration.simulation.engine.world import Array, World

MEMORY = 1
#: Of the tasks found at time 0, this share of the nodes' number is placed before nodes report
#: again.
BATCH_SHARE = 0.25
#: All that waits.
EVERYTHING = 1 << 40
#: Rises of a node's load that count as spikes (Table 2).
SPIKES = (0.05, 0.10, 0.15, 0.20, 0.25)
#: The recorded placement: each task goes where it ran when the trace was made, and stays there.
RECORDED, NO_MOVES = 4, 4
#: In `first`: a node whose tasks nobody asks for.
UNMARKED = -2

migration_mb = helper(migration.migration_mb)
allocation_type = helper(allocation_types.allocation_type)
select, tabu = tree(selection.select), tree(selection.tabu)
suspend = tree(rules.suspend)


def make_cell(w: World, n: Negotiation) -> Cell:
    """What agents touch, of the world and of their own, by name."""
    arrays = {**w._asdict(), **n._asdict()}
    return Cell(**{name: arrays[name] for name in Cell._fields})


@inlined
def begin_round(c: Cell) -> None:
    """What nodes answer in this round is what they know now. Tasks of one job ask at the same time,
    and may ask for the same room; those that come later in the round see it taken."""
    copy_rows(c.free, c.asked[0])
    copy_rows(c.firm, c.asked[1])


@inlined
def answered(c: Cell, node: int) -> None:
    """What a node has taken on is in its next answer."""
    for r in range(c.total.shape[1]):
        c.asked[0, node, r] = c.free[node, r]
        c.asked[1, node, r] = c.firm[node, r]


@inlined
def widened(number: int) -> Any:
    """The same number in the one width that kernels pass on: they are compiled anew for every
    other."""
    return np.int64(number)


@helper
def place_job(c: Any, job: Any) -> None:
    """One round for the tasks a job still has to place."""
    begin_attempt(c.agents, c.jobs, 0, job, c.state[0].now)
    request, production = c.request[job], c.jobs[job].production
    use, mask = c.use[0], mask_of(c.masks, c.jobs, job)
    unmeasured(request, c.jobs[job].curve, c.state[0].unmeasured, use)
    claimed, outside = 0, c.total.shape[0]
    for _ in range(c.jobs[job].left):
        node, forced = widened(c.jobs[job].recorded), False
        if c.settings[0].initial != RECORDED:
            node, forced = negotiate(
                c, int(c.settings[0].initial), outside, mask, request, use, production, job
            )
        if node >= 0:
            c.progress[0].forced_new += 1 if forced else 0
            take(room_of(c, job), node, request)
            c.sequence[node] += 1
            c.claim[0, claimed] = node
            claimed += 1
    c.agents[0].claimed = claimed
    if c.jobs[job].gang and claimed < c.jobs[job].left:
        drop_claim(room_of(c, job), c.claim[0], claimed, request)
        claimed = 0
    start_job(c, job, claimed)
    for k in range(claimed):
        answered(c, c.claim[0, k])


@inlined
def start_job(c: Any, job: int, claimed: int) -> None:
    """The tasks that found nodes start; the rest waits for the next round."""
    workload = c.jobs[job].workload
    if claimed > 0:
        start_run(c, 0, claimed, c.jobs[job].duration)
        c.workloads[workload].commits_ok += 1
    else:
        c.workloads[workload].empty_attempts += 1
        c.jobs[job].empty += 1
    c.agents[0].job = -1
    c.state[0].events += 1
    finish_job(c, job, claimed, 0.0)


@helper
def place_queue(c: Cell, most: int) -> None:
    """Every job that waits has its round, or as many as it takes to place this many tasks."""
    waiting = c.agents[0].queued
    placed = 0
    while waiting > 0 and placed < most:
        if needs_room(c.state, c.runs, c.agenda, c.claim.shape[1]):
            break
        job = widened(dequeue(c.agents, c.queue, c.jobs, 0))
        placed += c.jobs[job].left
        place_job(c, job)
        waiting -= 1


@helper
def mark_overloaded(c: Cell) -> int:
    """The nodes that must give tasks away, what is already leaving left out of account; returns how
    many."""
    count = 0
    for node in range(c.total.shape[0]):
        over = False
        for r in range(c.total.shape[1]):
            over |= (
                c.free[node, r] + c.outgoing[node, r] < 0
                or c.firm[node, r] + c.firm_outgoing[node, r] < 0
            )
        c.first[node] = -1 if over else UNMARKED
        if over:
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
    work = Work(c.amounts[count], c.amounts[count + 1], c.loads, c.listed, c.flags[2])
    used, guaranteed = c.amounts[count + 2], c.amounts[count + 3]
    for r in range(used.shape[0]):
        used[r] = c.total[node, r] - c.free[node, r] - c.outgoing[node, r]
        guaranteed[r] = c.total[node, r] - c.firm[node, r] - c.firm_outgoing[node, r]
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
            rule.restarts,
            rule.steps,
            rule.patience,
            rule.counts_restarts,
            c.visited,
        )
    else:
        fitness = select(c.total[node], used, guaranteed, tasks, c.flags[3], work, rule.exact_max)
    c.progress[0].selections += 1
    c.progress[0].stuck += 1 if fitness == 0.0 else 0
    log(c, SELECTION, node, -1, count, 0, 0, fitness)
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
    """Whether a node may give this task away: some other could hold it, and it did not just come
    here by force."""
    return bool(c.movable[c.tasks[slot].job] and c.tasks[slot].stays <= c.state[0].now)


@inlined
def cost_of(c: Cell, job: int, slot: int) -> float:
    """The megabytes it takes to move a task; one that is not measured yet may use all it
    requests."""
    return migration_mb(
        c.request[job, MEMORY] if c.tasks[slot].point < 0 else c.task_used[slot, MEMORY]
    )


@helper
def give_away(c: Any, slot: int) -> None:
    """Find another node for a task, and send it there."""
    job, node = widened(c.tasks[slot].job), widened(c.slots[slot].node)
    production, mask = c.jobs[job].production, mask_of(c.masks, c.jobs, job)
    to, forced = negotiate(
        c, int(c.settings[0].move), node, mask, c.request[job], c.task_used[slot], production, job
    )
    if to >= 0:
        ends = c.state[0].now + cost_of(c, job, slot) / c.settings[0].mb_per_s
        if forced:
            c.state[0].forced += 1
            c.tasks[slot].stays = ends + c.settings[0].recommendation_s
        begin_move(c, slot, to, ends)
        answered(c, to)


@loop_kernel
def choose_movers(c: Cell) -> Any:
    """Every node agent looks at its node; those that must, or would, give tasks away list them.
    Returns how many."""
    count = mark_overloaded(c)
    marked = mark_uneven(c, count)
    if marked > 0:
        list_tasks(c)
    split_time(c, count)
    movers = widened(0)
    for k in range(count):
        movers = select_tasks(c, c.pool[2, k], movers)
    for k in range(count, marked):
        slot = uneven_task(c, c.pool[2, k])
        if slot >= 0:
            c.movers[movers] = slot
            movers += 1
    shuffle(c.movers, movers, c.rng[0])
    return movers


@loop_kernel
def hear(c: Cell, since: bool) -> None:
    """Nodes report to their brokers; rises since the last report are counted."""
    if since:
        count_spikes(c)
    report(c)
    remember_loads(c)


@loop_kernel
def act_round(c: Cell, movers: int, most: int) -> None:
    """Steps 2 to 5 of one round, for the tasks that nodes give away and then for those that
    arrive."""
    begin_round(c)
    for k in range(movers):
        give_away(c, c.movers[k])
    place_queue(c, most)


@helper
def shuffle(rows: Array, count: int, rng: Array) -> None:
    """In no particular order: agents act at the same time."""
    for k in range(count - 1, 0, -1):
        other = int(next_double(rng) * (k + 1))
        rows[k], rows[other] = rows[other], rows[k]


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
def uneven_task(c: Cell, node: int) -> int:
    """The option of section 9: a stable node that is filled unevenly gives away the one task whose
    leaving improves its score most for what it costs; -1 for none."""
    best, chosen = 0.0, -1
    fill_loads(c, node, -1)
    before = sras(c.loads)
    slot = c.first[node]
    while slot >= 0:
        fill_loads(c, node, slot)
        job = c.tasks[slot].job
        gain = (sras(c.loads) - before) / cost_of(c, job, slot)
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
def count_spikes(c: Cell) -> None:
    """How many nodes' load rose by more than each threshold since the last look (5.4)."""
    for k in range(len(SPIKES)):
        rises = 0
        for node in range(c.total.shape[0]):
            rise = 0.0
            for r in range(c.total.shape[1]):
                rise = max(
                    rise,
                    (c.total[node, r] - c.free[node, r]) * c.inverse[node, r]
                    - c.last_load[node, r],
                )
            rises += 1 if rise > SPIKES[k] else 0
        c.progress[0].spikes[k] += rises
        c.progress[0].peaks[k] = max(c.progress[0].peaks[k], rises)


@helper
def remember_loads(c: Cell) -> None:
    """The loads that the next look compares with."""
    for node in range(c.total.shape[0]):
        for r in range(c.total.shape[1]):
            c.last_load[node, r] = (c.total[node, r] - c.free[node, r]) * c.inverse[node, r]


def agents_act(w: World, p: Negotiation) -> None:
    """One round, with monitoring first when it is due. Each part is a kernel of its own, for one
    that holds them all takes minutes to compile."""
    c, now, settings = make_cell(w, p), float(w.state["now"][0]), p.settings[0]
    first = now == 0.0
    movers = 0
    if first or now >= p.progress[0]["reported_at"] + settings["report_s"]:
        hear(c, not first)
        movers = choose_movers(c) if settings["move"] != NO_MOVES else 0
    act_round(c, movers, settle(c) if first else EVERYTHING)
    if first:
        forget_counts(p.progress)


def settle(c: Cell) -> int:
    """Place the tasks found at time 0 in batches, each measured and reported before the next;
    returns the batch."""
    batch = max(int(len(c.total) * BATCH_SHARE), 1)
    left = np.inf
    while c.agents["queued"][0] < left:
        left = c.agents["queued"][0]
        act_round(c, 0, batch)
        measure_all(c)
        hear(c, False)
    return batch


def forget_counts(progress: Array) -> None:
    """How the tasks of time 0 came to be where they are is no part of the run."""
    for name in COUNTS:
        progress[name] = 0


@loop_kernel
def measure_all(c: Any) -> None:
    measure_usage(c)
