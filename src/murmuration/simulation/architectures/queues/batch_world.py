"""The arrays of a batch queue beside those of every world."""

from __future__ import annotations

import numpy as np

from murmuration.base.arrays import Amounts, Flags, Floats, Indices, Records, Times
from murmuration.simulation.engine.world import OWN_FIRST, World, widen_world

#: An event: a reservation begins or ends, and the queues are looked at.
LOOK_AGAIN = OWN_FIRST

# What happens to the jobs that have to make way.
KEEP, REQUEUE, SUSPEND = range(3)

#: One row per scheduler. Its queue is `waiting[first:first + count]` and has so many tasks; `pool`
#: is the row of `pools` that its jobs take room from.
BATCH = np.dtype([("first", "i8"), ("count", "i8"), ("tasks", "i8"), ("pool", "i8")], align=True)

#: `changed`: something has happened since the queues were looked at; `used_at`: up to when past use
#: is added up; limits of 0 are none. The rest is what happened: jobs and tasks that made way.
RULES = np.dtype(
    [
        ("overtaking", "i8"),
        ("order", "i8"),
        ("preempt", "i8"),
        ("half_life_s", "f8"),
        ("used_at", "f8"),
        ("jobs_max", "i8"),
        ("cpu_max", "i8"),
        ("changed", "?"),
        ("jobs_preempted", "i8"),
        ("tasks_preempted", "i8"),
        ("cpu_s_preempted", "f8"),
    ],
    align=True,
)

#: One row per job: the run time it asks for, how much of its work is done and kept, whose it is,
#: the reservation it runs in (−1: none), and whether it has made others make way in vain.
QUEUED = np.dtype(
    [
        ("estimate", "f8"),
        ("done_s", "f8"),
        ("account", "i8"),
        ("inside", "i8"),
        ("priority", "i8"),
        ("forced", "?"),
    ],
    align=True,
)

#: One row per user, or per workload where users are not known: recent use, what it uses now and is
#: promised, its fair-share factor, and how many of its jobs run.
ACCOUNT = np.dtype([("fairness", "f8"), ("running", "i8")], align=True)


@widen_world
class BatchWorld(World):
    """The world of a batch queue."""

    batch: Records
    rules: Records
    look: Records
    queued: Records
    #: By job: a smaller one goes first.
    rank: Floats
    #: The queues, one behind the other, each in order.
    waiting: Indices
    #: What is free, by pool.
    pools: Amounts
    #: The pool of each node; −1 for one that nobody uses.
    node_pool: Indices
    # By account: recent use, CPU in use, the share promised.
    accounts: Records
    recent: Floats
    using: Floats
    promised: Floats
    weights: Floats
    # Reservations: from and until, amounts and what is left of them by pool, whose they are.
    windows: Times
    window_left: Amounts
    window_owner: Flags
    # Room to work in: what runs by its end, and by who makes way first; a profile of what is free;
    # a few vectors.
    ends: Times
    amounts: Amounts
    order: Indices
    entries: Indices
    points: Times
    profile: Amounts
    vectors: Amounts
