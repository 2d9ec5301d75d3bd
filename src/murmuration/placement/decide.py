"""Asking a plain policy for its decision, and refusing an answer that makes no sense."""

from __future__ import annotations

import traceback

import numpy as np

from murmuration.base.arrays import SmallIntegers
from murmuration.base.errors import InputError
from murmuration.placement.registry import Placement
from murmuration.placement.view import JobView, View


def decide(
    placement: Placement, view: View, job: JobView, rng: np.random.Generator
) -> SmallIntegers:
    """The rows the plain policy chooses for the tasks it places."""
    try:
        chosen = np.asarray(placement.policy.decide(view, job, rng))
    except Exception as error:
        if placement.fast:
            raise
        raise InputError(f"{placement.name}: job {job.id}: {what_failed(error)}") from error
    placed = (
        chosen[chosen >= 0] if chosen.dtype.kind in "iu" and chosen.shape == (job.tasks,) else None
    )
    if (
        placed is None
        or placed.max(initial=-1) >= len(view.names)
        or (len(placed) < job.tasks and chosen.min() < -1)
    ):
        raise InputError(
            f"{placement.name}: job {job.id}: expected {job.tasks} rows from 0 to "
            f"{len(view.names) - 1}, one for each "
            "task, or -1 for a task that is not placed"
        )
    allowed = view.allowed[placed]
    if not allowed.all():
        node = view.names[placed[~allowed][0]]
        raise InputError(f"{placement.name}: job {job.id}: node {node} is not one it may use")
    return placed.astype(np.int32)


def what_failed(error: Exception) -> str:
    """A failure in a user's own code, in one sentence."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({at.filename}, line {at.lineno})"
