"""The world of a run: named arrays, and nothing else. A snapshot is these arrays saved; a kernel is
a function of them.

Rows with several facts are records (`jobs[j].left`); what differs in width from run to run
(resources, tasks of a job) has an array of its own. Scalars that change are the fields of the one
record in `state`. Times are seconds from the start of the run; NaN is "not yet".
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from murmuration.base.arrays import (
    Amounts,
    Column,
    Counts,
    Flags,
    Floats,
    Placements,
    RandomState,
    Records,
    SmallIntegers,
    Times,
)

#: Any array of a world, where a step takes whichever it is given.
Array = NDArray[Any]
#: Shares of a request by curve, point and resource.
Curves = NDArray[np.float32]

# What an event is about; the low bits of its payload. Those from `OWN_FIRST` on are free for the
# events of a single architecture.
ATTEMPT_ENDS, TASKS_END, JOB_RETURNS = 0, 1, 2
AGENTS_ACT, MIGRATION_ENDS, USAGE_CHANGES, NODE_CHANGES = 5, 6, 7, 8
OWN_FIRST = 9
KIND_BITS = 4
KIND_MASK = (1 << KIND_BITS) - 1

#: What became of a job, by its number.
STATUS = ("waiting", "scheduled", "abandoned", "never")

# Rows of `sums`, and the columns of a sample per resource.
REQUIRED, GUARANTEED, USED_NOW = range(3)
# Columns of a sample, before those per resource, per workload and per scheduler (queued).
S_TIME, S_RUNNING, S_OFFERED, S_TYPES = 0, 1, 2, 3
S_IMBALANCE, S_FRAGMENTATION = S_TYPES + 6, S_TYPES + 7
S_POWER = S_FRAGMENTATION + 1
S_RESOURCES = S_POWER + 1
S_PER_WORKLOAD = ("busy_s", "commits_ok", "commits_failed", "tasks_placed")

JOB = np.dtype(
    [
        ("submit", "f8"),
        ("duration", "f8"),
        # Start of the first attempt; commit of the first and of the last task; last end of a task.
        ("first", "f8"),
        ("started", "f8"),
        ("full", "f8"),
        ("ended", "f8"),
        # Tasks in all, still to place, and ended.
        ("tasks", "i8"),
        ("left", "i8"),
        ("done", "i8"),
        ("workload", "i4"),
        ("scheduler", "i4"),
        ("level", "i4"),
        ("mask", "i4"),
        ("attempts", "i4"),
        ("empty", "i4"),
        ("conflicts", "i4"),
        ("chosen", "i4"),  # tasks with a node in an offer that is not answered yet
        ("stuck", "i4"),  # attempts in a row that found no room
        ("behind", "i4"),  # the job behind this one in its queue, −1 at the tail
        ("curve", "i4"),
        ("recorded", "i4"),
        ("returns", "i8"),  # it stands aside until its scheduler has made so many attempts
        ("gang", "?"),
        ("production", "?"),
        ("status", "i1"),
    ],
    align=True,
)

SCHEDULER = np.dtype(
    [
        ("started", "f8"),
        ("queued", "i8"),
        ("claimed", "i8"),
        ("tried", "i8"),  # attempts begun
        ("job", "i4"),  # of the attempt under way, −1 when idle
        # The first and the last job that stand aside for those of lower priority.
        ("aside", "i4"),
        ("aside_last", "i4"),
        (
            "optimistic",
            "?",
        ),  # reads what others may take meanwhile, and learns of conflicts when it commits
        ("machine", "?"),
        ("atomic", "?"),
        ("rescinded", "?"),  # its offer went back before it answered
        ("decided", "?"),  # it holds a batched offer and makes no attempt on it at this moment
        ("serial", "i8"),  # of its attempts, so that an old time-out is void
    ],
    align=True,
)

# An accepted transaction whose tasks run: a list of slots, one per task. Unused rows and slots form
# free lists.
RUN = np.dtype([("started", "f8"), ("count", "i8"), ("job", "i4"), ("slot", "i4")], align=True)
SLOT = np.dtype([("node", "i4"), ("next", "i4")], align=True)
EVENT = np.dtype([("time", "f8"), ("order", "i8"), ("what", "i8")], align=True)

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
        ("scheduled", "i8"),
        ("run_free", "i8"),
        ("slot_free", "i8"),
        ("slots_left", "i8"),
        ("sampled", "i8"),
        ("running", "i8"),
        ("offered", "i8"),
        ("pending", "i8"),  # the scheduler whose decision Python must make, −1 for none
        ("retry_s", "f8"),
        ("retry_max_s", "f8"),
        ("back_off", "?"),
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
        ("batch_s", "f8"),
        ("batch_min_cpu", "i8"),
        ("pooled", "i8"),
        ("steps_of", "i8"),  # whose batched offer is worked through, −1 for nobody's
        ("answering", "?"),
        ("offers_made", "i8"),
        ("offers_rejected", "i8"),
        ("offers_rescinded", "i8"),
        ("tasks_revoked", "i8"),
        ("tasks_killed", "i8"),
        # Nodes present; tasks lost with a node, and the CPU time they had used; no slot from here
        # on was ever used by a task with a row of its own.
        ("nodes", "i8"),
        ("tasks_lost", "i8"),
        ("cpu_s_lost", "f8"),
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
        # Whether a node without tasks draws no power.
        ("power_off", "?"),
        # Rows written to the logs since Python last read them.
        ("stays_logged", "i8"),
        ("attempts_logged", "i8"),
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
# The story of every task and attempt (`results/recording.py`): by slot the stay under way and,
# while its task moves, the one it leaves; the rows of the two logs; by job where its tasks stand in
# `numbered`, and the lowest number that may be free.
STAY = np.dtype(
    [
        ("start", "f8"),
        ("mb", "f8"),
        ("left_start", "f8"),
        ("left_mb", "f8"),
        ("job", "i4"),
        ("index", "i4"),
        ("source", "i4"),
        ("left_source", "i4"),
        ("forced", "?"),
        ("left_forced", "?"),
        ("cut", "?"),
    ],
    align=True,
)
STAY_ROW = np.dtype(
    [
        ("start", "f8"),
        ("end", "f8"),
        ("mb", "f8"),
        ("began", "f8"),
        ("job", "i4"),
        ("index", "i4"),
        ("node", "i4"),
        ("source", "i4"),
        ("forced", "?"),
        ("why", "i1"),
    ],
    align=True,
)
ATTEMPT_ROW = np.dtype(
    [
        ("start", "f8"),
        ("end", "f8"),
        ("busy", "f8"),
        ("wasted", "f8"),
        ("placed", "i8"),
        ("refused", "i8"),
        ("job", "i4"),
        ("scheduler", "i4"),
    ],
    align=True,
)
#: Since when a node draws what it draws now, what it has used until then, and what that depends on.
METER = np.dtype(
    [
        ("since", "f8"),
        ("joules", "f8"),
        ("idle", "f8"),
        ("peak", "f8"),
        ("total", "i8"),
        ("cpu", "i8"),
        ("tasks", "i8"),
    ],
    align=True,
)
NUMBERS = np.dtype([("first", "i8"), ("next", "i8")], align=True)
NODE_EVENT = np.dtype([("time", "f8"), ("node", "i4")], align=True)


class World(NamedTuple):
    """The arrays every run has."""

    state: Records
    # The cluster table: one row per node.
    total: Amounts
    free: Amounts
    #: Where usage is measured, `free` is what is not used, and this what is not reserved (to
    #: production tasks, or all).
    unreserved: Amounts
    guaranteed: Amounts
    sequence: Counts
    totals: Amounts
    masks: Flags
    #: The log of rows that have changed, for rankings (`placement/room`).
    changes: Counts
    # One row per job.
    jobs: Records
    request: Amounts
    # One row per scheduler: its queue (head and tail per priority level), its generator, its times
    # and its claim.
    schedulers: Records
    queue: SmallIntegers
    rng: RandomState
    times: Times
    claim: Placements
    seen: Counts
    # What runs, and what happens next.
    runs: Records
    slots: Records
    event_queue: Records
    # Tasks with rows of their own, what each of them uses, the curves they follow; how nodes
    # change; what is about to leave each node.
    tasks: Records
    task_used: Amounts
    curves: Curves
    node_events: Records
    node_totals: Amounts
    outgoing: Amounts
    reserved_outgoing: Amounts
    # What is measured: per workload; (busy, wasted) per workload and scheduler; amounts held; sums
    # of (required, guaranteed, used).
    workloads: Records
    busy: Times
    held: Amounts
    #: What a workload's tasks used when its quota was last checked.
    held_used: Amounts
    sums: Amounts
    sums_s: Floats
    samples: Floats
    #: The meter of each node's energy; empty where nobody asks.
    meters: Records
    # What is recorded of every task and attempt on request; else empty.
    stays: Records
    numbers: Records
    numbered: Flags
    task_log: Records
    attempt_log: Records


Wider = TypeVar("Wider", bound=type[World])


def widen_world(cls: Wider) -> Wider:
    """The world of an architecture with arrays of its own: those of every world, then those the
    class names.

    Kernels take any tuple that has the fields they touch. So the steps that all architectures share
    are compiled for the wider world as they stand, and an architecture without arrays of its own
    carries none. A named tuple cannot be extended by inheritance, which is why the class that type
    checkers see is replaced by a tuple with all the fields.
    """
    own = tuple(name for name in cls.__annotations__ if name not in World._fields)
    wide = namedtuple(cls.__name__, (*World._fields, *own), module=cls.__module__)  # type: ignore[misc]
    wide.__doc__ = cls.__doc__
    return wide  # type: ignore[return-value]


Wide = TypeVar("Wide", bound=World)


def extend_world(world: World, wide: type[Wide], own: Mapping[str, Column]) -> Wide:
    """A world with an architecture's own arrays."""
    arrays: dict[str, Any] = {**world._asdict(), **own}
    assert arrays.keys() == set(wide._fields), "every array once, and no other"
    return wide(**arrays)
