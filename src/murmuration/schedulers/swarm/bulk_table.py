"""The arrays that the tasks of a swarm read when they decide in bulk: of the cluster, and what a
step knows of every node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from murmuration.base.arrays import (
    Amounts,
    Counts,
    Flags,
    Floats,
    RandomState,
    Records,
    SmallIntegers,
)
from murmuration.base.jit import helper

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
COUNTED, LARGEST_NODE, SMALLEST_NODE, GROUP, USED = range(5)


class SwarmTable(NamedTuple):
    """What tasks read, and what moving one of them changes. A part of the world, because small
    functions that are passed few arrays compile quickly.

    `rules` has the settings and the counts; `order` the level of each node, the nodes in order of
    fullness and the place of each in it; `first` where each level begins; `nodes` what is known of
    each node; `rows` amounts by resource, two of them to reckon in.
    """

    state: Records
    total: Amounts
    free: Amounts
    guaranteed: Amounts
    sequence: Counts
    masks: Flags
    jobs: Records
    request: Amounts
    rng: RandomState
    slots: Records
    event_queue: Records
    tasks: Records
    unreserved: Amounts
    task_used: Amounts
    sums: Amounts
    outgoing: Amounts
    reserved_outgoing: Amounts
    rules: Records
    order: SmallIntegers
    first: SmallIntegers
    nodes: Floats
    rows: Amounts
    stays: Records
    task_log: Records
    meters: Records


@helper
def fill_used(total: Amounts, free: Amounts, outgoing: Amounts, node: int, row: Amounts) -> None:
    """What a node holds once its queues are empty: n − Q + R of eq. 18, for each resource."""
    for r in range(row.shape[0]):
        row[r] = total[node, r] - free[node, r] - outgoing[node, r]
