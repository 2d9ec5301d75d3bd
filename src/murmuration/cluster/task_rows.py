"""Looking things up in the arrays of jobs and tasks, for kernels of any layer."""

from __future__ import annotations

from typing import Any

from murmuration.base.arrays import Flags, Records
from murmuration.base.jit import inlined


@inlined
def amounts_of(c: Any, slot: int) -> Any:
    """What a task takes of its node: what it uses where that is measured, else what it requests."""
    return c.task_used[slot] if c.task_used.shape[0] > 0 else c.request[c.tasks[slot].job]


@inlined
def mask_of(masks: Flags, jobs: Records, job: int) -> Any:
    """The rows this job may use; an empty mask stands for all of them."""
    mask = jobs[job].mask
    return masks[mask] if mask >= 0 else masks[0][:0]
