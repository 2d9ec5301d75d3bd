"""The bulk round: what node agents and brokers do in one exchange of messages, over whole columns.

It calls the same rules, scores and selection as the message-level agents (`node_agent`, `broker`).
Messages of one round are answered from the table as it stood when the round began; only the last
check, when a task sets out, sees what others have taken in the meantime, and finding the room gone
is a collision.

Three tables of one cluster are at work, each older than the next, because agents know different
things. A *broker* recommends from `views`: what nodes last reported, up to a report period old, and
of nodes of other brokers what was last exchanged. A *candidate* answers from `asked`, the table at
the start of the round: all questions of a round are under way together, and no answer may know what
another task has got meanwhile. The *target* checks once more against `free` and `unreserved` as
they are now. Merging any two of them would hide the very thing that is simulated: recommendations
that are out of date and nodes that several tasks choose at once.

Everything is written into arrays that were made once (`Cell`): a round on 100,000 nodes negotiates
for some thousand tasks, and a kernel that allocated for each would spend its time on that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmuration.base.arrays import (
    Amounts,
    Column,
    Counts,
    Flags,
    Floats,
    Integers,
    Placement,
    Placements,
    RandomState,
    Records,
    Scores,
    Shares,
    SmallIntegers,
    Weights,
)
from murmuration.base.jit import helper, inlined, tree
from murmuration.base.random import next_double as plain_next_double
from murmuration.placement import allocation_scores
from murmuration.placement.allocation_scores import BASES, FORMS
from murmuration.schedulers.negotiation import candidates as plain_candidates
from murmuration.schedulers.negotiation import rules
from murmuration.schedulers.negotiation.candidates import UNSUITED
from murmuration.schedulers.negotiation.settings import NegotiationSettings

next_double = helper(plain_next_double)
sras_bands = helper(allocation_scores.sras_bands)
base_score = tree(allocation_scores.base_score)
weight = helper(allocation_scores.weight)
is_initial = helper(allocation_scores.is_initial)
accepts = helper(rules.accepts)
fits_at_all = helper(rules.fits_at_all)
holds = tree(plain_candidates.holds)
rate_scores = tree(plain_candidates.rate_scores)

# Rows of `views`: as reported to the node's own broker, and as other brokers last heard of it.
REPORTED, EXCHANGED = range(2)
#: In each report period so many parts of the nodes have their turns, one after another: enough that
#: what is forced on a node waits half a period there on average, as it does for agents that look at
#: times of their own (with 30, 31 of 60 s).
TURNS = 30
# How often decisions are sampled (7.3.2): selections, candidates, targets.
SELECTION, CANDIDATES, TARGET = range(3)
SAMPLED = (50, 5000, 5000)

#: What kernels read of `NegotiationSettings`, see `settings_record`.
SETTINGS = np.dtype(
    [
        ("initial", "i8"),
        ("move", "i8"),
        ("brokers", "i8"),
        ("scored_new", "i8"),
        ("scored_move", "i8"),
        ("candidates", "i8"),
        ("portion", "i8"),
        ("exact_max", "i8"),
        ("answer_s", "f8"),
        ("report_s", "f8"),
        ("exchange_s", "f8"),
        ("expiry_s", "f8"),
        ("mb_per_s", "f8"),
        ("recommendation_s", "f8"),
        ("tabu", "?"),
        ("restarts", "i8"),
        ("steps", "i8"),
        ("patience", "i8"),
        ("counts_restarts", "?"),
        ("underused", "i8"),
        ("underused_load", "f8"),
        ("proactive", "f8"),
    ],
    align=True,
)
#: When nodes last reported and brokers last exchanged, and what has been counted: requests for room
#: that were sent and were too late, broker answers, tasks a node could not give away, megabytes of
#: new tasks, how often nodes looked and how many of them were overloaded then.
PROGRESS = np.dtype(
    [
        ("reported_at", "f8"),
        ("exchanged_at", "f8"),
        ("requests", "i8"),
        ("collisions", "i8"),
        ("answers", "i8"),
        ("selections", "i8"),
        ("stuck", "i8"),
        ("forced_new", "i8"),
        ("suspended", "i8"),
        ("short", "i8"),
        ("placed_mb", "f8"),
        ("looks", "i8"),
        ("overloaded_seen", "i8"),
        ("spikes", "i8", 5),
        ("peaks", "i8", 5),
        ("logged", "i8"),
        ("heard", "i8", 3),
        ("underused_listed", "i8"),
    ],
    align=True,
)
COUNTS = (
    "requests",
    "collisions",
    "answers",
    "selections",
    "stuck",
    "forced_new",
    "suspended",
    "short",
    "placed_mb",
    "looks",
    "overloaded_seen",
)
DECISION = np.dtype(
    [
        ("time", "f8"),
        ("kind", "i4"),
        ("node", "i4"),
        ("job", "i4"),
        ("count", "i4"),
        ("chosen", "i4"),
        ("forced", "i4"),
        ("value", "f8"),
    ],
    align=True,
)


def settings_record(settings: NegotiationSettings, nodes: int) -> Records:
    """The settings as kernels read them."""
    record = np.zeros(1, SETTINGS)
    tabu = settings.tabu
    values = {name: getattr(settings, name, None) for name in SETTINGS.names or ()}
    values |= {"initial": settings.score(new=True), "move": settings.score(new=False)}
    values |= {"brokers": settings.broker_count(nodes), "tabu": settings.selection == "tabu"}
    values |= {"restarts": tabu.restarts, "steps": tabu.steps, "patience": tabu.patience}
    values |= {"counts_restarts": tabu.counts_restarts}
    for name in SETTINGS.names or ():
        record[name] = values[name]
    return record


class Cell(NamedTuple):
    """The arrays a round touches: first those of the world, then those of negotiation itself.

    `views` holds loads, `unguaranteed_views` what is not guaranteed, `scores` the score of each
    node as it is (by all of them), each as reported and as exchanged; `inverse` is 1 ÷ total;
    `asked` is the table when the round began (free, unreserved); `pool` the nodes scored (forced
    ones from its end), the idle ones, those to relieve; `weights` the sums of weights of the pool,
    and its scores; `first` and `next` chain the tasks of nodes that look at theirs; the rest is
    scratch.
    """

    state: Records
    total: Amounts
    free: Amounts
    unreserved: Amounts
    guaranteed: Amounts
    sequence: Counts
    masks: Flags
    jobs: Records
    request: Amounts
    schedulers: Records
    queue: SmallIntegers
    rng: RandomState
    claim: Placements
    runs: Records
    slots: Records
    event_queue: Records
    tasks: Records
    task_used: Amounts
    curves: NDArray[np.float32]
    outgoing: Amounts
    reserved_outgoing: Amounts
    workloads: Records
    held: Amounts
    sums: Amounts
    settings: Records
    progress: Records
    decisions: Records
    views: Shares
    unguaranteed_views: Amounts
    scores: Scores
    inverse: Floats
    idle: Flags
    last_load: Shares
    movable: Flags
    asked: Amounts
    loads: Shares
    pool: SmallIntegers
    weights: Weights
    candidates: Placement
    values: Weights
    first: SmallIntegers
    next: SmallIntegers
    listing: SmallIntegers
    use: Amounts
    amounts: Amounts
    costs: Floats
    flags: Flags
    listed: Integers
    visited: Integers
    movers: SmallIntegers
    stays: Records
    numbers: Records
    numbered: Flags
    task_log: Records
    attempt_log: Records
    meters: Records


@helper
def see(c: Cell, view: int, node: int) -> None:
    """A node's report, as it is now, reaches a view. An idle node has no score yet; one that is
    gone looks full."""
    idle, present = True, False
    for r in range(c.total.shape[1]):
        total, free = c.total[node, r], c.free[node, r]
        present |= total > 0
        idle &= free == total
        # Divided once for each report, multiplied for each of the many tasks a broker is asked
        # about until the next one.
        c.inverse[node, r] = 1.0 / total if total > 0 else 0.0
        # A share below zero is a resource the node does not have: scores leave it out.
        c.views[view, node, r] = (total - free) / total if total > 0 else -1.0
        c.unguaranteed_views[view, node, r] = total - c.guaranteed[node, r]
        c.loads[r] = c.views[view, node, r]
    for base in range(BASES):
        c.scores[view, node, base] = 0.0 if idle else base_score(FORMS * base, c.loads)
    c.idle[node] = idle and present
    if not present:
        # Full to whoever reads loads. Below zero, the resource would only be left out, and the
        # node would pass for underused.
        c.views[view, node, 0] = 2.0


@helper
def copy_rows(rows: Column, to: Column) -> None:
    for i in range(rows.shape[0]):
        for r in range(rows.shape[1]):
            to[i, r] = rows[i, r]


@helper
def report(c: Cell, turn: int) -> None:
    """The node agents whose turn it is report to their broker."""
    for node in range(turn, c.total.shape[0], TURNS):
        see(c, REPORTED, node)
    c.progress[0].reported_at = c.state[0].now


@helper
def exchange(c: Cell) -> None:
    """All nodes have reported; brokers exchange what they know when that is due."""
    now = c.state[0].now
    # All brokers know the cluster as it is at the start.
    due = now == 0.0 or now >= c.progress[0].exchanged_at + c.settings[0].exchange_s
    if c.settings[0].brokers > 1 and due:
        copy_rows(c.views[REPORTED], c.views[EXCHANGED])
        copy_rows(c.unguaranteed_views[REPORTED], c.unguaranteed_views[EXCHANGED])
        copy_rows(c.scores[REPORTED], c.scores[EXCHANGED])
        c.progress[0].exchanged_at = now
    list_underused(c)


@helper
def list_underused(c: Cell) -> None:
    """The nodes that are used little come first in their row of the pool, for the option that
    always scores some of them; by default only idle ones."""
    count = 0
    for node in range(c.total.shape[0]):
        little = c.idle[node]
        if not little and c.settings[0].underused_load > 0.0:
            little = True
            for r in range(c.total.shape[1]):
                little &= c.views[REPORTED, node, r] <= c.settings[0].underused_load
        if little:
            c.pool[1, count] = node
            count += 1
    c.progress[0].underused_listed = count


@inlined
def value_in_view(
    c: Cell, view: int, kind: int, node: int, request: Amounts, use: Amounts, production: bool
) -> float:
    """What a broker thinks of a node for a task: its score with the task (or the gain), `UNSUITED`
    where it does not suit."""
    amounts = request if is_initial(kind) else use
    suits = True
    for r in range(request.shape[0]):
        load = c.views[view, node, r]
        c.loads[r] = load + amounts[r] * c.inverse[node, r] if load >= 0.0 else -1.0
        unreserved = c.unguaranteed_views[view, node, r]
        suits &= holds(request[r], c.total[node, r], unreserved, production)
    value = UNSUITED
    if suits:
        without = c.scores[view, node, kind // FORMS]
        value = rate_scores(kind, base_score(kind, c.loads), without, c.idle[node])
    return value


@inlined
def enlist(c: Cell, kind: int, node: int, value: float, size: int, sum_: float) -> float:
    """A node that suits joins those that may be drawn; returns the sum of their weights."""
    # Running sums, so that one of them is drawn by a binary search (`first_above`).
    sum_ += weight(value, kind)
    c.pool[0, size] = node
    c.weights[0, size] = sum_
    c.weights[1, size] = value
    return sum_


@helper
def gather(
    c: Cell, kind: int, source: int, mask: Flags, request: Amounts, use: Amounts, production: bool
) -> tuple[int, int]:
    """A broker scores nodes from a random place on until it has enough that suit; returns how many,
    and how many that could only be forced (listed from the other end)."""
    n, limit = (
        c.total.shape[0],
        c.settings[0].scored_new if is_initial(kind) else c.settings[0].scored_move,
    )
    # The broker asked is drawn. It has fresh reports of its own nodes (every `brokers`-th) and of
    # the others what it heard at the last exchange; either is ignored once it has expired.
    own = int(next_double(c.rng[0]) * c.settings[0].brokers)
    start = int(next_double(c.rng[0]) * n)
    now, expiry_s = c.state[0].now, c.settings[0].expiry_s
    reported = now - c.progress[0].reported_at < expiry_s
    exchanged = now - c.progress[0].exchanged_at < expiry_s
    size, sum_ = 0, 0.0
    if reported:
        size, sum_ = score_underused(c, kind, source, mask, request, use, production)
    limit, forced = limit + size, 0
    # From a random place on, not from the first row: a broker that always began at the same nodes
    # would recommend the same few to everybody. It stops as soon as it has enough, so that an
    # answer costs about as many scores as `limit` on a cluster with room, however large it is.
    for k in range(n):
        node = start + k if start + k < n else start + k - n
        if node == source or (mask.shape[0] > 0 and not mask[node]):
            continue
        view = (
            REPORTED
            if c.settings[0].brokers == 1 or node % c.settings[0].brokers == own
            else EXCHANGED
        )
        if not (reported if view == REPORTED else exchanged):
            continue
        value = value_in_view(c, view, kind, node, request, use, production)
        if value > UNSUITED:
            sum_ = enlist(c, kind, node, value, size, sum_)
            size += 1
            if size >= limit:
                break
        # Nodes that could hold the task if they were empty, for the last resort. They fill the
        # same row from its other end: both lists together are never longer than all nodes.
        elif forced < c.settings[0].candidates and fits_at_all(c.total[node], request):
            c.pool[0, c.pool.shape[1] - 1 - forced] = node
            forced += 1
    return size, forced


@helper
def score_underused(
    c: Cell, kind: int, source: int, mask: Flags, request: Amounts, use: Amounts, production: bool
) -> tuple[int, float]:
    """With the option on, a few idle nodes are scored whatever else is (section 9)."""
    size, sum_ = 0, 0.0
    count = c.progress[0].underused_listed
    if c.settings[0].underused > 0 and count > 0:
        start = int(next_double(c.rng[0]) * count)
        for k in range(min(c.settings[0].underused, count)):
            node = c.pool[1, (start + k) % count]
            if node != source and (mask.shape[0] == 0 or mask[node]):
                value = value_in_view(c, REPORTED, kind, node, request, use, production)
                if value > UNSUITED:
                    sum_ = enlist(c, kind, node, value, size, sum_)
                    size += 1
    return size, sum_


@helper
def first_above(sums: Weights, size: int, value: float) -> int:
    """The first of the summed weights above a value."""
    low, high = 0, size - 1
    while low < high:
        middle = (low + high) // 2
        if sums[middle] > value:
            high = middle
        else:
            low = middle + 1
    return low


@helper
def draw_candidates(c: Cell, size: int) -> int:
    """Nodes drawn without repetition, the likelier the better they score; returns how many.

    By rejection, on sums of weights that stay as they are: a node drawn twice is drawn again. Where
    one node has nearly all the weight that could go on for long, hence the limit on misses.
    """
    wanted = min(c.settings[0].candidates, size)
    count, misses = 0, 0
    while count < wanted and misses < 4 * c.candidates.shape[0]:
        at = first_above(c.weights[0], size, next_double(c.rng[0]) * c.weights[0, size - 1])
        node = c.pool[0, at]
        known = False
        for k in range(count):
            known |= c.candidates[k] == node
        if known:
            misses += 1
        else:
            c.candidates[count] = node
            count += 1
    return count


@helper
def ask(c: Cell, kind: int, count: int, request: Amounts, use: Amounts, production: bool) -> int:
    """The candidates answer from the table as it stood when the round began; those that accept are
    scored again with what they report, and stand in front. Returns how many there are."""
    accepted = 0
    amounts = request if is_initial(kind) else use
    for k in range(count):
        node = c.candidates[k]
        if accepts(c.total[node], c.asked[0, node], c.asked[1, node], use, request, production):
            idle = True
            for r in range(request.shape[0]):
                total, free = c.total[node, r], c.asked[0, node, r]
                idle &= free == total
                c.loads[r] = (total - free + amounts[r]) * c.inverse[node, r] if total > 0 else -1.0
            # The score without the task is wanted by the kinds that rate a gain. It is computed
            # from the same loads by taking the task out again: the buffer is one row.
            with_task = base_score(kind, c.loads)
            for r in range(request.shape[0]):
                if c.total[node, r] > 0:
                    c.loads[r] -= amounts[r] * c.inverse[node, r]
            without = 0.0 if idle else base_score(kind, c.loads)
            value = rate_scores(kind, with_task, without, idle)
            c.candidates[accepted] = node
            # Above zero: a node that accepts can be drawn even if all score nothing.
            c.values[accepted] = max(weight(value, kind), 1e-6) if value > UNSUITED else 1e-6
            accepted += 1
    return accepted


@helper
def draw_target(c: Cell, count: int) -> int:
    """One of the nodes that accept, drawn by weight; it is taken off the list."""
    sum_ = 0.0
    for k in range(count):
        sum_ += c.values[k]
    left, at = next_double(c.rng[0]) * sum_, 0
    while at < count - 1 and left >= c.values[at]:
        left -= c.values[at]
        at += 1
    node = c.candidates[at]
    # The last one takes its place, so that whoever is refused can draw again from those left.
    c.candidates[at] = c.candidates[count - 1]
    c.values[at] = c.values[count - 1]
    return int(node)


@helper
def negotiate(
    c: Cell,
    kind: int,
    source: int,
    mask: Flags,
    request: Amounts,
    use: Amounts,
    production: bool,
    job: int,
) -> tuple[int, bool]:
    """Steps 2 to 5 for one task: candidates from a broker, their answers, one of them drawn, the
    last check. Returns the node and whether it is forced to take the task; −1 if there is none."""
    size, forced = gather(c, kind, source, mask, request, use, production)
    c.progress[0].answers += 1
    count = draw_candidates(c, size) if size > 0 else 0
    log(c, CANDIDATES, source, job, size, count, forced, c.weights[1, 0] if size > 0 else 0.0)
    accepted = ask(c, kind, count, request, use, production)
    while accepted > 0:
        node = draw_target(c, accepted)
        accepted -= 1
        c.progress[0].requests += 1
        # The answers were given on `asked`; this is the table as it is now, with what other tasks
        # of the round have taken. The message-level target makes the same check when it reserves.
        if accepts(c.total[node], c.free[node], c.unreserved[node], use, request, production):
            log(c, TARGET, source, job, accepted + 1, node, 0, 0.0)
            return node, False
        c.progress[0].collisions += 1
    # Forced candidates are returned only where too few suit, and are the last resort.
    if size < c.settings[0].candidates and forced > 0:
        return int(c.pool[0, c.pool.shape[1] - 1 - int(next_double(c.rng[0]) * forced)]), True
    return -1, False


@helper
def log(
    c: Cell, kind: int, node: int, job: int, count: int, chosen: int, forced: int, value: float
) -> None:
    """Record a small sample of all decisions."""
    heard = c.progress[0].heard[kind]
    c.progress[0].heard[kind] = heard + 1
    if heard % SAMPLED[kind] == 0 and c.progress[0].logged < c.decisions.shape[0]:
        row = c.decisions[c.progress[0].logged]
        row.time, row.kind, row.node, row.job = c.state[0].now, kind, node, job
        row.count, row.chosen, row.forced, row.value = count, chosen, forced, value
        c.progress[0].logged += 1
