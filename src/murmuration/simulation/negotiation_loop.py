"""The loop of negotiating agents: a round of messages every `answer_s`, and once a report period every node agent looks
at its node, reports, and gives tasks away where it is overloaded.

What arrives waits for the next round. The tasks of time 0 are the cell as it is found: they are placed in small
batches, each measured and reported before the next, so that the run does not begin with a rush on a cell nobody knows.
"""

from __future__ import annotations

from murmuration.cluster import allocation_types, migration
from murmuration.cluster.allocation_types import DA
from murmuration.cluster.jit import helper, inlined, loop_kernel, tree
from murmuration.placement.kernels import take
from murmuration.schedulers.negotiation import selection
from murmuration.schedulers.negotiation.bulk import (
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
from murmuration.simulation.agenda import note, pop
from murmuration.simulation.churn import change_node
from murmuration.simulation.loop import GO_ON, arrival_is_next, arrive, to_next_event
from murmuration.simulation.moves import begin_move, leave_source, migration_ends
from murmuration.simulation.negotiation_world import Parley
from murmuration.simulation.steps import (
    agents_need_room,
    begin_attempt,
    dequeue,
    drop_claim,
    end_run,
    enqueue,
    finish_job,
    mask_of,
    needs_room,
    room_of,
    start_run,
    unmeasured,
)
from murmuration.simulation.usage import measure_usage, usage_changes
from murmuration.simulation.world import (
    AGENTS_ACT,
    JOB_RETURNS,
    KIND_BITS,
    KIND_MASK,
    MIGRATION_ENDS,
    NODE_CHANGES,
    TASKS_END,
    USAGE_CHANGES,
    Array,
    World,
)

MEMORY = 1
#: Of the tasks found at time 0, this share of the nodes' number is placed before nodes report again.
BATCH_SHARE = 0.25
#: Rises of a node's load that count as spikes (Table 2).
SPIKES = (0.05, 0.10, 0.15, 0.20, 0.25)
#: The recorded placement: each task goes where it ran when the trace was made, and stays there.
RECORDED, NO_MOVES = 4, 4
#: In `first`: a node whose tasks nobody asks for.
UNMARKED = -2

migration_mb = helper(migration.migration_mb)
allocation_type = helper(allocation_types.allocation_type)
select, tabu = tree(selection.select), tree(selection.tabu)


@inlined
def cell(w: World, p: Parley) -> Cell:
    return Cell(
        p.settings, w.total, w.free, w.firm, p.inverse, p.views, p.firm_views, p.scores, p.asked, p.idle, w.rng[0],
        p.loads, p.pool, p.weights, p.candidates, p.values, p.decisions, w.state[0].now,
    )  # fmt: skip


@inlined
def begin_round(w: World, p: Parley) -> None:
    """What nodes answer in this round is what they know now."""
    copy_rows(w.free, p.asked[0])
    copy_rows(w.firm, p.asked[1])


@inlined
def place_job(w: World, p: Parley, job: int) -> None:
    """One round for the tasks a job still has to place."""
    begin_attempt(w.agents, w.jobs, 0, job, w.state[0].now)
    request, production = w.request[job], w.jobs[job].production
    use, mask = p.use[0], mask_of(w.masks, w.jobs, job)
    unmeasured(request, w.jobs[job].curve, use)
    claimed = 0
    for _ in range(w.jobs[job].left):
        node, forced = w.jobs[job].recorded, False
        if p.settings[0].initial != RECORDED:
            node, forced = negotiate(cell(w, p), p.settings[0].initial, -1, mask, request, use, production, job)
        if node >= 0:
            p.settings[0].forced_new += 1 if forced else 0
            take(room_of(w, job), node, request)
            w.sequence[node] += 1
            w.claim[0, claimed] = node
            claimed += 1
    w.agents[0].claimed = claimed
    if w.jobs[job].gang and claimed < w.jobs[job].left:
        drop_claim(room_of(w, job), w.claim[0], claimed, request)
        claimed = 0
    start_job(w, job, claimed)


@inlined
def start_job(w: World, job: int, claimed: int) -> None:
    """The tasks that found nodes start; the rest waits for the next round."""
    workload = w.jobs[job].workload
    if claimed > 0:
        start_run(w, 0, claimed, w.jobs[job].duration)
        w.workloads[workload].commits_ok += 1
    else:
        w.workloads[workload].empty_attempts += 1
        w.jobs[job].empty += 1
    w.agents[0].job = -1
    w.state[0].events += 1
    finish_job(w, job, claimed, 0.0)


@inlined
def place_queue(w: World, p: Parley, most: int) -> None:
    """Every job that waits has its round, or as many as it takes to place this many tasks."""
    begin_round(w, p)
    waiting = w.agents[0].queued
    placed = 0
    while waiting > 0 and placed < most:
        if needs_room(w.state, w.runs, w.agenda, w.claim.shape[1]):
            break
        job = dequeue(w.agents, w.queue, w.jobs, 0)
        placed += w.jobs[job].left
        place_job(w, p, job)
        waiting -= 1


@inlined
def mark_overloaded(w: World, p: Parley) -> int:
    """The nodes that must give tasks away, what is already leaving left out of account; returns how many."""
    count = 0
    for node in range(w.total.shape[0]):
        over = False
        for r in range(w.total.shape[1]):
            over |= w.free[node, r] + w.outgoing[node, r] < 0 or w.firm[node, r] + w.firm_outgoing[node, r] < 0
        p.first[node] = -1 if over else UNMARKED
        if over:
            p.pool[2, count] = node
            count += 1
    return count


@inlined
def list_tasks(w: World, p: Parley) -> None:
    """Chain the tasks of each marked node, but for those already on their way."""
    for slot in range(w.state[0].slots_high):
        if w.tasks[slot].job >= 0 and w.tasks[slot].source < 0:
            node = w.slots[slot].node
            if p.first[node] >= -1:
                p.next[slot] = p.first[node]
                p.first[node] = slot


@inlined
def relieve_node(w: World, p: Parley, node: int) -> None:
    """Steps 1 to 5 for one overloaded node: which tasks to give away, and to whom."""
    count = fill_tasks(w, p, node)
    tasks = Tasks(
        p.use[1 : 1 + count], p.amounts[:count], p.flags[0, :count], p.costs[:count], p.flags[1, :count]
    )  # fmt: skip
    work = Work(p.amounts[count], p.amounts[count + 1], p.loads, p.listed, p.flags[2])
    used, guaranteed = p.amounts[count + 2], p.amounts[count + 3]
    for r in range(used.shape[0]):
        used[r] = w.total[node, r] - w.free[node, r] - w.outgoing[node, r]
        guaranteed[r] = w.total[node, r] - w.firm[node, r] - w.firm_outgoing[node, r]
    if p.settings[0].tabu:
        rule = p.settings[0]
        fitness = tabu(
            w.total[node], used, guaranteed, tasks, p.flags[3], work, w.rng[0], rule.restarts, rule.steps,
            rule.patience, False, p.visited,
        )  # fmt: skip
    else:
        fitness = select(w.total[node], used, guaranteed, tasks, p.flags[3], work, p.settings[0].exact_max)
    p.settings[0].selections += 1
    log(cell(w, p), SELECTION, node, -1, count, 0, 0, fitness)
    if fitness == 0.0:
        p.settings[0].stuck += 1
    for k in range(count):
        if fitness > 0.0 and p.flags[3, k]:
            give_away(w, p, node, p.listing[k])


@inlined
def fill_tasks(w: World, p: Parley, node: int) -> int:
    """What selection reads of a node's tasks; at most as many as there is room for."""
    slot, count = p.first[node], 0
    while slot >= 0 and count < p.listing.shape[0]:
        job = w.tasks[slot].job
        p.listing[count] = slot
        for r in range(w.request.shape[1]):
            p.use[1 + count, r] = w.task_used[slot, r]
            p.amounts[count, r] = w.request[job, r]
        p.flags[0, count] = w.jobs[job].production
        p.costs[count] = cost_of(w, job, slot)
        p.flags[1, count] = p.movable[job]
        count += 1
        slot = p.next[slot]
    return count


@inlined
def cost_of(w: World, job: int, slot: int) -> float:
    """The megabytes it takes to move a task; one that is not measured yet may use all it requests."""
    return migration_mb(w.request[job, MEMORY] if w.tasks[slot].point < 0 else w.task_used[slot, MEMORY])


@inlined
def give_away(w: World, p: Parley, node: int, slot: int) -> None:
    """Find another node for a task, and send it there."""
    job = w.tasks[slot].job
    production, mask = w.jobs[job].production, mask_of(w.masks, w.jobs, job)
    to, forced = negotiate(
        cell(w, p), p.settings[0].move, node, mask, w.request[job], w.task_used[slot], production, job
    )
    if to >= 0:
        w.state[0].forced += 1 if forced else 0
        begin_move(w, slot, to, w.state[0].now + cost_of(w, job, slot) / p.settings[0].mb_per_s)


@inlined
def monitor(w: World, p: Parley) -> None:
    """Once a period every node agent looks at its node, reports, and gives tasks away if it is overloaded."""
    count_spikes(w, p)
    report(cell(w, p), w.guaranteed)
    if p.settings[0].move != NO_MOVES:
        begin_round(w, p)
        count = mark_overloaded(w, p)
        marked = mark_uneven(w, p, count)
        if marked > 0:
            list_tasks(w, p)
        split_time(w, p, count)
        shuffle(p.pool[2], count, w.rng[0])
        for k in range(count):
            relieve_node(w, p, p.pool[2, k])
        for k in range(count, marked):
            off_load(w, p, p.pool[2, k])


@helper
def shuffle(rows: Array, count: int, rng: Array) -> None:
    """In no particular order: agents act at the same time."""
    for k in range(count - 1, 0, -1):
        other = int(next_double(rng) * (k + 1))
        rows[k], rows[other] = rows[other], rows[k]


@inlined
def split_time(w: World, p: Parley, count: int) -> None:
    """During a spike, other tasks are suspended before a production task is short; count both."""
    for k in range(count):
        node = p.pool[2, k]
        for r in range(w.total.shape[1]):
            p.loads[r] = 0.0
        slot, others = p.first[node], 0
        while slot >= 0:
            job = w.tasks[slot].job
            if w.jobs[job].production:
                for r in range(w.total.shape[1]):
                    p.loads[r] += w.task_used[slot, r]
            else:
                others += 1
            slot = p.next[slot]
        over, short = False, False
        for r in range(w.total.shape[1]):
            over |= w.free[node, r] < 0
            short |= p.loads[r] > w.total[node, r]
        p.settings[0].suspended += 1 if over and others > 0 else 0
        p.settings[0].short += 1 if short else 0


@inlined
def off_load(w: World, p: Parley, node: int) -> None:
    """The option of section 9: a stable node that is filled unevenly gives away the one task whose leaving improves its
    score most for what it costs."""
    best, chosen = 0.0, -1
    fill_loads(w, p, node, -1)
    before = sras(p.loads)
    slot = p.first[node]
    while slot >= 0:
        fill_loads(w, p, node, slot)
        job = w.tasks[slot].job
        gain = (sras(p.loads) - before) / cost_of(w, job, slot)
        if gain > best and p.movable[job]:
            best, chosen = gain, slot
        slot = p.next[slot]
    if chosen >= 0:
        give_away(w, p, node, chosen)


@inlined
def fill_loads(w: World, p: Parley, node: int, without: int) -> None:
    """The loads of a node, without one of its tasks."""
    for r in range(w.total.shape[1]):
        used = w.total[node, r] - w.free[node, r] - w.outgoing[node, r]
        if without >= 0:
            used -= w.task_used[without, r]
        p.loads[r] = used * p.inverse[node, r] if w.total[node, r] > 0 else -1.0


@inlined
def mark_uneven(w: World, p: Parley, count: int) -> int:
    """A few stable nodes that are filled unevenly, after those that are overloaded; returns how many there are now."""
    n = w.total.shape[0]
    for _ in range(int(p.settings[0].proactive * n)):
        node = int(next_double(w.rng[0]) * n)
        idle = False
        if p.first[node] == UNMARKED and allocation_type(w.total[node], w.free[node], w.guaranteed[node], idle) == DA:
            p.first[node] = -1
            p.pool[2, count] = node
            count += 1
    return count


@inlined
def count_spikes(w: World, p: Parley) -> None:
    """How many nodes' load rose by more than each threshold since the last look (5.4)."""
    rises = p.rises
    rises[:] = 0
    for node in range(w.total.shape[0]):
        rise = 0.0
        for r in range(w.total.shape[1]):
            load = (w.total[node, r] - w.free[node, r]) * p.inverse[node, r]
            rise = max(rise, load - p.last_load[node, r])
            p.last_load[node, r] = load
        for k in range(rises.shape[0]):
            rises[k] += 1 if rise > SPIKES[k] else 0
    for k in range(rises.shape[0]):
        p.settings[0].spikes[k] += rises[k]
        p.settings[0].peaks[k] = max(p.settings[0].peaks[k], rises[k])


@inlined
def agents_act(w: World, p: Parley) -> None:
    """One round; monitoring first, when it is due."""
    rules_ = p.settings[0]
    if w.state[0].now == 0.0:
        settle(w, p)
    if w.state[0].now >= rules_.reported_at + rules_.report_s:
        monitor(w, p)
    place_queue(w, p, 1 << 40)
    note(w.agenda, w.state, w.state[0].now + rules_.round_s, AGENTS_ACT, 0)


@inlined
def settle(w: World, p: Parley) -> None:
    """The tasks found at time 0, a batch at a time; the measurement due is noted only once."""
    batch = int(max(w.total.shape[0] * BATCH_SHARE, 1.0))
    report(cell(w, p), w.guaranteed)
    left = w.agents[0].queued
    while w.agents[0].queued > 0 and left > 0:
        left = w.agents[0].queued
        place_queue(w, p, batch)
        measure_usage(w)
        report(cell(w, p), w.guaranteed)
        left -= w.agents[0].queued


@inlined
def happen(w: World, p: Parley) -> None:
    """Let the next thing on the agenda happen."""
    what = pop(w.agenda, w.state)
    kind, subject = what & KIND_MASK, what >> KIND_BITS
    if kind == AGENTS_ACT:
        agents_act(w, p)
    elif kind == MIGRATION_ENDS:
        migration_ends(w, subject)
    elif kind == TASKS_END:
        tasks_end(w, subject)
    elif kind == USAGE_CHANGES:
        usage_changes(w)
    elif kind == NODE_CHANGES:
        change_node(w, subject)
    elif kind == JOB_RETURNS:
        enqueue(w.agents, w.queue, w.jobs, subject)


@inlined
def tasks_end(w: World, run: int) -> None:
    """The tasks of a run end; one under way leaves both its nodes."""
    slot = w.runs[run].slot
    while slot >= 0:
        if w.tasks[slot].source >= 0:
            leave_source(w, slot)
        slot = w.slots[slot].next
    end_run(w, run)


@loop_kernel
def advance_negotiation(w: World, p: Parley, until: float) -> int:
    """As `advance`, with agents that negotiate."""
    while True:
        full = needs_room(w.state, w.runs, w.agenda, w.claim.shape[1]) or agents_need_room(w.state, w.agenda, w.slots)
        why = to_next_event(w, until, full)
        if why != GO_ON:
            return why
        if arrival_is_next(w.state, w.jobs, w.agenda):
            arrive(w.state, w.agents, w.queue, w.jobs)
        else:
            happen(w, p)
