"""The loop of negotiating agents: a round of messages every `answer_s`, and once a report period
every node agent looks at its node, reports, and gives tasks away where it is overloaded. Nodes look
in turns (`TURNS`), all of them within the first round of the period.

What arrives waits for the next round. The tasks of time 0 are placed in small batches; brokers see
each batch before the next, as they would have over time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from murmuration.base.arrays import Amounts, Records
from murmuration.base.jit import helper, inlined, loop_kernel
from murmuration.base.rows import give_back, take
from murmuration.cluster.task_rows import mask_of
from murmuration.placement.allocation_scores import INITIAL, MOVE
from murmuration.schedulers.negotiation.bulk import (
    COUNTS,
    TURNS,
    Cell,
    copy_rows,
    exchange,
    negotiate,
    report,
)
from murmuration.schedulers.negotiation.bulk_selection import (
    MEMORY,
    choose_movers,
    cost_of,
    migration_mb,
    widen,
)
from murmuration.simulation.engine.event_queue import needs_room
from murmuration.simulation.engine.moves import begin_move
from murmuration.simulation.engine.run import Run, drain
from murmuration.simulation.engine.steps import (
    assume_usage,
    begin_attempt,
    dequeue,
    drop_claim,
    finish_job,
    is_reserved,
    room_of,
    start_run,
)
from murmuration.simulation.engine.usage import measure_usage
from murmuration.simulation.results.recording import record_attempt, record_forced

#: Of the tasks of time 0, this share of the nodes' number is placed before nodes report again.
BATCH_SHARE = 0.25
#: All that waits.
EVERYTHING = 1 << 40
#: Rises of a node's load that count as spikes (Table 2).
SPIKES = (0.05, 0.10, 0.15, 0.20, 0.25)
#: The recorded placement: each task goes where it ran when the trace was made, and stays there.
RECORDED, NO_MOVES = INITIAL.index("recorded"), MOVE.index("none")


@inlined
def begin_round(c: Cell) -> None:
    """What nodes answer in this round is what they know now. Tasks of one job ask at the same time,
    and may ask for the same room; those that come later in the round see it taken."""
    copy_rows(c.free, c.asked[0])
    copy_rows(c.unreserved, c.asked[1])


@inlined
def answered(c: Cell, node: int) -> None:
    """What a node has taken on is in its next answer."""
    for r in range(c.total.shape[1]):
        c.asked[0, node, r] = c.free[node, r]
        c.asked[1, node, r] = c.unreserved[node, r]


@helper
def place_job(c: Any, job: Any) -> None:
    """One round for the tasks a job still has to place."""
    begin_attempt(c.schedulers, c.jobs, 0, job, c.state[0].now)
    request, production = c.request[job], c.jobs[job].production
    use, mask = c.use[0], mask_of(c.masks, c.jobs, job)
    assume_usage(request, c.jobs[job].curve, c.state[0].unmeasured, use)
    claimed, told, outside = 0, 0, c.total.shape[0]
    for _ in range(c.jobs[job].left):
        # Tasks of one portion ask before any of them is placed; those of the next see them there.
        if claimed - told >= c.settings[0].portion > 0:
            told = tell_targets(c, told, claimed)
        node, forced = widen(c.jobs[job].recorded), False
        if c.settings[0].initial != RECORDED:
            node, forced = negotiate(
                c, int(c.settings[0].initial), outside, mask, request, use, production, job
            )
        if node >= 0:
            c.progress[0].forced_new += 1 if forced else 0
            reserve(c, job, node, use)
            c.sequence[node] += 1
            c.claim[0, claimed] = node
            claimed += 1
    c.schedulers[0].claimed = claimed
    claim_requests(c, job, claimed, use)
    if c.jobs[job].gang and claimed < c.jobs[job].left:
        drop_claim(room_of(c, job), c.claim[0], claimed, request)
        claimed = 0
    c.progress[0].placed_mb += claimed * migration_mb(request[MEMORY])
    start_job(c, job, claimed)
    tell_targets(c, 0, claimed)


@inlined
def reserve(c: Cell, job: int, node: int, use: Amounts) -> None:
    """A node keeps room for a task that is to come, as a message-level one does: what it counts as
    using, and what is guaranteed to a production task."""
    take(c.free, node, use)
    if is_reserved(c.state, c.jobs, job):
        take(c.unreserved, node, c.request[job])


@inlined
def claim_requests(c: Cell, job: int, claimed: int, use: Amounts) -> None:
    """From here on the engine counts: a claim takes requests from the table a job is placed by."""
    for k in range(claimed):
        give_back(c.free, c.claim[0, k], use)
        if not is_reserved(c.state, c.jobs, job):
            take(c.free, c.claim[0, k], c.request[job])


@inlined
def tell_targets(c: Cell, first: int, last: int) -> int:
    """The targets of these claims have them in their next answers; returns where those end."""
    for k in range(first, last):
        answered(c, c.claim[0, k])
    return last


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
    record_attempt(c, 0, job, claimed, 0, 0.0, 0.0)
    c.schedulers[0].job = -1
    c.state[0].events += 1
    finish_job(c, job, claimed, 0.0)


@helper
def place_queue(c: Cell, max_tasks: int) -> None:
    """Every job that waits has its round, or as many as it takes to place this many tasks."""
    waiting = c.schedulers[0].queued
    placed = 0
    while waiting > 0 and placed < max_tasks:
        if needs_room(c.state, c.runs, c.event_queue, c.claim.shape[1]):
            break
        job = widen(dequeue(c.schedulers, c.queue, c.jobs, 0))
        placed += c.jobs[job].left
        place_job(c, job)
        waiting -= 1


@helper
def give_away(c: Any, slot: int) -> None:
    """Find another node for a task, and send it there."""
    job, node = widen(c.tasks[slot].job), widen(c.slots[slot].node)
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
        if forced:
            record_forced(c, slot)
        answered(c, to)


@loop_kernel
def hear(c: Cell) -> None:
    """Every node reports to its broker, all at once."""
    for turn in range(TURNS):
        report(c, turn)
    exchange(c)


@loop_kernel
def hear_others(c: Cell) -> None:
    """Brokers exchange what nodes have reported in their turns."""
    exchange(c)


@loop_kernel
def give_tasks_away(c: Cell, movers: int) -> None:
    """Steps 2 to 5 for the tasks that nodes give away in one turn."""
    begin_round(c)
    for k in range(movers):
        give_away(c, c.movers[k])


@loop_kernel
def place_waiting(c: Cell, max_tasks: int) -> None:
    """Steps 2 to 5 of one round for the tasks that arrive."""
    begin_round(c)
    place_queue(c, max_tasks)


@loop_kernel
def compare_loads(c: Cell, since: bool) -> None:
    """Rises since the last look are counted."""
    if since:
        count_spikes(c)
    remember_loads(c)


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


def agents_act(run: Run) -> None:
    """One round, with monitoring first when it is due. Each part is a kernel of its own, for one
    that holds them all takes minutes to compile."""
    # What agents touch, of the world and of their own, by name.
    arrays = {**run.world._asdict(), **run.state._asdict()}
    c = Cell(**{name: arrays[name] for name in Cell._fields})
    p, now, settings = run.state, run.now_s, run.state.settings[0]
    first = now == 0.0
    if first or now >= p.progress[0]["reported_at"] + settings["report_s"]:
        compare_loads(c, not first)
        if first or settings["move"] == NO_MOVES:
            hear(c)
        else:
            look(c)
    place_waiting(c, place_initial(c, lambda: drain(run)) if first else EVERYTHING)
    if first:
        forget_counts(p.progress)


def look(c: Cell) -> None:
    """Every node agent looks at its node when its turn comes, and gives tasks away if it must."""
    turn = 0
    while turn < TURNS:
        movers, turn = choose_movers(c, turn)
        if movers > 0:
            give_tasks_away(c, movers)
    hear_others(c)


def place_initial(c: Cell, between: Callable[[], None]) -> int:
    """Place the tasks of time 0 in batches, each measured and reported before the next; returns the
    size of a batch."""
    batch = max(int(len(c.total) * BATCH_SHARE), 1)
    left = np.inf
    while c.schedulers["queued"][0] < left:
        left = c.schedulers["queued"][0]
        place_waiting(c, batch)
        measure_all(c)
        compare_loads(c, False)
        hear(c)
        between()
    return batch


def forget_counts(progress: Records) -> None:
    """Placing the tasks of time 0 is no part of the run: forget what it counted."""
    for name in COUNTS:
        progress[name] = 0


@loop_kernel
def measure_all(c: Any) -> None:
    measure_usage(c)
