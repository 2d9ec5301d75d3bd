"""Admission: jobs that can never run are recognised on submission and reported at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from murmuration.base.resources import Amounts, Resources, format_amount
from murmuration.cluster.constraints import Attributes, Constraint, value_text
from murmuration.cluster.reasons import Never

# What became of a job: it waits (or some of its tasks do), all its tasks have been placed, it was
# given up after too many attempts, or it can never run and entered no queue.
WAITING, SCHEDULED, ABANDONED, NEVER = range(4)
#: So many values of an attribute are named in a sentence.
VALUES_SHOWN = 5


def slots(free: Amounts, allowed: NDArray[np.bool_] | None, request: Amounts) -> int:
    """How many tasks of this size the allowed rows hold at once."""
    rows = free if allowed is None else free[allowed]
    asked = request > 0
    if not asked.any():
        return len(rows) * (2**31)
    return int((rows[:, asked] // request[asked]).min(axis=1).sum()) if len(rows) else 0


def find_oversized(free: Amounts, needs: Amounts) -> NDArray[np.int64]:
    """The places of the needs that no single row holds; the largest rows, tried first, hold nearly
    all of them."""
    left = np.arange(len(needs))
    sizes = np.unique(free, axis=0)
    for size in (
        sizes[np.argsort(-(sizes / np.maximum(sizes.max(axis=0), 1)).sum(axis=1))]
        if len(sizes)
        else sizes
    ):
        left = left[(needs[left] > size).any(axis=1)]
        if not len(left):
            break
    return left


def explain_never(
    resources: Resources,
    free: Amounts,
    allowed: NDArray[np.bool_] | None,
    request: Amounts,
    tasks: int,
    whole: bool,
) -> Never | None:
    """Why a job can never run on these rows as they are when nothing else does, or None.

    `whole`: all tasks must fit at once (a gang, or a job in a static partition, 4.2.1).
    """
    room = slots(free, allowed, request)
    if room >= (tasks if whole else 1):
        return None
    if allowed is not None and not allowed.any():
        return Never("no node meets its constraints")
    if room == 0:
        return Never(_explain_size(resources, free if allowed is None else free[allowed], request))
    return Never(
        f"it needs room for {tasks} tasks at once and its nodes hold {room} when nothing else runs"
    )


def explain_unmet(constraints: Sequence[Constraint], nodes: Sequence[Attributes]) -> str:
    """Which constraint keeps a job from all of these nodes, and what they have instead."""
    for constraint in constraints:
        if not any(map(constraint.meets, nodes)):
            key = constraint.key
            values = sorted({value_text(node[key]) for node in nodes if key in node})
            shown = ", ".join(values[:VALUES_SHOWN]) + (", …" if values[VALUES_SHOWN:] else "")
            have = f"nodes have {key} = {shown}" if values else f"no node has {key}"
            return f"no node meets its constraints: {constraint} ({have})"
    return "no node meets its constraints together, though each is met by some"


def _explain_size(resources: Resources, free: Amounts, request: Amounts) -> str:
    """Name the resource that no node has enough of; if each is had somewhere, say that no node has
    them together."""
    for r, name in enumerate(resources.names):
        largest = int(free[:, r].max())
        if request[r] > largest:
            asked, given = format_amount(name, int(request[r])), format_amount(name, largest)
            return f"a task asks for {asked} and no node has more than {given} to give"
    return f"no node has {resources.describe(request)} together"
