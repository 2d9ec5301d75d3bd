"""The world of a run: named arrays, and nothing else. A snapshot is these arrays saved; a kernel is
a function of them.

Rows with several facts are records (`jobs[j].left`); what differs in width from run to run
(resources, tasks of a job) has an array of its own. Scalars that change are the fields of the one
record in `state`. Times are seconds from the start of the run; NaN is "not yet".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# What an agenda entry is about; the low bits of its payload.
ATTEMPT_ENDS, TASKS_END, JOB_RETURNS, OFFER_MADE, OFFER_TIMES_OUT, AGENTS_ACT, MIGRATION_ENDS = (
    range(7)
)
USAGE_CHANGES, NODE_CHANGES = 7, 8
KIND_BITS = 4
KIND_MASK = (1 << KIND_BITS) - 1

# What became of a job.
WAITING, SCHEDULED, ABANDONED, NEVER = range(4)
STATUS = ("waiting", "scheduled", "abandoned", "never")

# Rows of `sums`, and the columns of a sample per resource.
REQUIRED, GUARANTEED, USED_NOW = range(3)
# Columns of a sample, before those per resource, per workload and per scheduler (queued).
S_TIME, S_RUNNING, S_OFFERED, S_TYPES = 0, 1, 2, 3
S_RESOURCES = S_TYPES + 6
S_PER_WORKLOAD = ("busy_s", "commits_ok", "commits_failed", "tasks_placed")

JOB = np.dtype(
    [
        ("submit", "f8"),
        ("duration", "f8"),
        ("first", "f8"),
        ("full", "f8"),  # start of the first attempt; commit of the last task
        ("tasks", "i8"),
        ("left", "i8"),
        ("workload", "i4"),
        ("agent", "i4"),
        ("level", "i4"),
        ("mask", "i4"),
        ("attempts", "i4"),
        ("empty", "i4"),
        ("conflicts", "i4"),
        ("behind", "i4"),  # the job behind this one in its queue, −1 at the tail
        ("curve", "i4"),
        ("recorded", "i4"),
        ("gang", "?"),
        ("production", "?"),
        ("status", "i1"),
    ],
    align=True,
)

AGENT = np.dtype(
    [
        ("started", "f8"),
        ("queued", "i8"),
        ("claimed", "i8"),
        ("job", "i4"),  # of the attempt under way, −1 when idle
        (
            "optimistic",
            "?",
        ),  # reads what others may take meanwhile, and learns of conflicts when it commits
        ("machine", "?"),
        ("atomic", "?"),
        ("rescinded", "?"),  # its offer went back before it answered
        ("serial", "i8"),  # of its attempts, so that an old time-out is void
    ],
    align=True,
)

# An accepted transaction whose tasks run: a list of slots, one per task. Unused rows and slots form
# free lists.
RUN = np.dtype([("started", "f8"), ("count", "i8"), ("job", "i4"), ("slot", "i4")], align=True)
SLOT = np.dtype([("node", "i4"), ("next", "i4")], align=True)
NOTE = np.dtype([("time", "f8"), ("order", "i8"), ("what", "i8")], align=True)

WORKLOAD = np.dtype(
    [
        ("tasks_placed", "i8"),
        ("commits_ok", "i8"),
        ("commits_failed", "i8"),
        ("policy_refusals", "i8"),
        ("empty_attempts", "i8"),
        ("quota", "f8"),
        ("headroom", "f8"),  # the policy checked at commit
        # What the allocator knows of the framework that serves this workload.
        ("guaranteed", "f8"),
        ("refusals", "i8"),
        ("filter_cpu", "i8"),
        ("short", "?"),
        ("revoked_at", "f8"),  # when tasks of others were last revoked for it
    ],
    align=True,
)

STATE = np.dtype(
    [
        ("now", "f8"),
        ("last", "f8"),
        ("horizon", "f8"),
        ("sample_at", "f8"),
        ("sample_step", "f8"),
        ("running_s", "f8"),
        ("offered_s", "f8"),
        ("nodes_s", "f8"),
        ("arrived", "i8"),
        ("order", "i8"),
        ("events", "i8"),
        ("notes", "i8"),
        ("run_free", "i8"),
        ("slot_free", "i8"),
        ("slots_left", "i8"),
        ("sampled", "i8"),
        ("running", "i8"),
        ("offered", "i8"),
        ("pending", "i8"),  # the scheduler whose decision Python must make, −1 for none
        ("retry_s", "f8"),
        ("attempts_max", "i8"),
        ("empty_max", "i8"),
        # Offers: what is being made, who has the bulk, settings, counts.
        ("offering", "?"),
        ("optimistic", "?"),
        ("bulk", "i8"),
        ("slots", "i8"),
        ("min_cpu", "i8"),
        ("offer_time_s", "f8"),
        ("period_s", "f8"),
        ("timeout_s", "f8"),
        ("short_max_s", "f8"),
        ("offers_made", "i8"),
        ("offers_rejected", "i8"),
        ("offers_rescinded", "i8"),
        ("tasks_revoked", "i8"),
        ("tasks_killed", "i8"),
        # Nodes present; tasks lost with a node; no slot from here on was ever used by a task with a
        # row of its own.
        ("nodes", "i8"),
        ("tasks_lost", "i8"),
        ("slots_high", "i8"),
        # What tasks use is measured every `usage_s` (0: never); a point of a curve lasts `curve_s`.
        ("usage_s", "f8"),
        ("curve_s", "f8"),
        ("cyclic", "?"),
        # Whether others than production tasks get what is not used; what a task counts as using
        # until it is measured.
        ("reclaim", "?"),
        ("unmeasured", "f8"),
        # What migrations cost, whoever decides on them.
        ("migrations", "i8"),
        ("forced", "i8"),
        ("migrated_mb", "f8"),
    ],
    align=True,
)


# A task with a row of its own, by its slot: where tasks move or their usage is measured. `source`
# is the node it is leaving, −1 when it is settled; `leader` the first slot of its run; `serial`
# makes the end of a migration void if the task ended before; its curve began at `began` and stands
# at `point` (−1: not measured yet).
TASK = np.dtype(
    [
        ("began", "f8"),
        ("stays", "f8"),
        ("job", "i4"),
        ("source", "i4"),
        ("leader", "i4"),
        ("serial", "i4"),
        ("point", "i4"),
    ],
    align=True,
)
NODE_EVENT = np.dtype([("time", "f8"), ("node", "i4")], align=True)
SWARM = np.dtype(
    [
        ("overload", "f8"),
        ("underload", "f8"),
        ("step_s", "f8"),
        ("migration_s", "f8"),
        ("switch_s", "f8"),
        ("strategy", "i8"),
        ("switch_to", "i8"),
        ("form", "i8"),
        ("search", "i8"),
        ("candidates", "i8"),
        ("size_weighted", "?"),
        ("messages", "i8"),
        ("failed", "i8"),
        ("cut_short", "i8"),
    ],
    align=True,
)
# Rows of `swarm_order`, of `swarm_nodes` and of `swarm_rows`.
LEVEL, ORDER, PLACE = range(3)
BUSY_UNTIL, FULLNESS, RESOURCE, PACKING, SMALLEST, LARGEST, PHEROMONE = range(7)
COUNTED, MOST, LEAST, GROUP, USED = range(5)


class World(NamedTuple):
    """Everything a run is made of."""

    state: Array
    # The cluster table: one row per node.
    total: Array
    free: Array
    #: Where usage is measured, `free` is what is not used, and this what is not reserved (to
    #: production tasks, or all).
    firm: Array
    guaranteed: Array
    sequence: Array
    totals: Array
    masks: Array
    # One row per job.
    jobs: Array
    request: Array
    # One row per scheduler: its queue (head and tail per priority level), its generator, its times
    # and its claim.
    agents: Array
    queue: Array
    rng: Array
    times: Array
    claim: Array
    seen: Array
    # What runs, and what happens next.
    runs: Array
    slots: Array
    agenda: Array
    # Tasks with rows of their own, what each of them uses, the curves they follow; how nodes
    # change; what is about to leave each node.
    tasks: Array
    task_used: Array
    curves: Array
    node_events: Array
    node_totals: Array
    outgoing: Array
    firm_outgoing: Array
    # What is measured: per workload; (busy, wasted) per workload and scheduler; amounts held; sums
    # of (required, guaranteed, used).
    workloads: Array
    busy: Array
    held: Array
    sums: Array
    sums_s: Array
    samples: Array
    # Offers. One set of free resources is the bulk: all that no other set lists. Every other set is
    # sparse: the rows it has something of, how much of each, and in all. Set s < schedulers is the
    # offer outstanding with scheduler s; the last set is what is available. `long_free` is what is
    # left of each row for tasks that are not short.
    set_rows: Array
    set_size: Array
    set_listed: Array
    set_amount: Array
    set_sum: Array
    weight: Array
    guarantee: Array
    filters: Array
    long_free: Array
    offered: Array
    wants: Array
    offer_rows: Array
    offer_free: Array
    offer_total: Array
    offer_mask: Array
    # Swarm: settings and counts; rows in order of fullness; pheromones.
    swarm: Array
    swarm_order: Array
    swarm_first: Array
    swarm_nodes: Array
    swarm_rows: Array
    swarm_groups: Array
