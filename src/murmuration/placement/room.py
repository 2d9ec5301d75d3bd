"""What a compiled placement is given to choose from, and the log of rows that have changed.

The log lets a ranking keep scores from one decision to the next: it needs new ones only for rows in
the log. It is a ring, `changes[1:]`, and `changes[0]` counts every change there ever was. A world
whose changes are not all logged has a log without room (`changes` has one element), and rankings
then score every row for every decision.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from murmuration.base.arrays import Amounts, Counts, Flags, Placement
from murmuration.base.jit import AMOUNTS, VECTOR, helper, inner


class JobRoom(NamedTuple):
    """The table as one job sees it: an empty `allowed` means that every row may be used. `part`
    names this mask of this table among all that share the log."""

    total: Amounts
    free: Amounts
    allowed: Flags
    changes: Counts
    part: int | np.int64


ROOM = types.NamedTuple((AMOUNTS, AMOUNTS, types.boolean[::1], VECTOR, types.int64), JobRoom)


def make_changes(rows: int, logged: bool) -> Counts:
    """An empty log for a table of this many rows; without room where changes are not logged."""
    # A power of two, so that a place in the ring is found without a division.
    return np.zeros(1 + (1 << max(2 * rows, 1024).bit_length()) if logged else 1, np.int64)


@inner
def log_place(changes: Counts, change: int) -> int:
    """Where in the log this change is."""
    return int(1 + (change & (changes.shape[0] - 2)))


@inner
def log_change(changes: Counts, node: int) -> None:
    """What is free of this row, or its size, has changed."""
    if changes.shape[0] > 1:
        changes[log_place(changes, changes[0])] = node
        changes[0] += 1


@helper
def log_all(changes: Counts, nodes: Placement, count: int) -> None:
    """The same for several rows; −1 stands for none."""
    if changes.shape[0] > 1:
        for k in range(count):
            if nodes[k] >= 0:
                log_change(changes, nodes[k])
