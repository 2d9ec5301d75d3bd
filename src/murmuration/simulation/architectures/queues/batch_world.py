"""The arrays of a batch queue, from the jobs and the discipline of a scenario."""

from __future__ import annotations

import numpy as np

from murmuration.base.arrays import Column
from murmuration.schedulers.queues.discipline import QueuedJobs, find_discipline
from murmuration.simulation.architectures.queues.batch import BATCH, BatchWorld
from murmuration.simulation.engine.setup import Setup
from murmuration.simulation.engine.world import World, extend_world


def widen_for_queue(setup: Setup, world: World) -> World:
    """The world as it is, or with the arrays of a batch queue where a discipline is named."""
    rules = setup.scenario.scheduler
    if not rules.queue:
        return world
    discipline, settings = find_discipline(rules.queue), rules.queue_settings
    jobs, resources = setup.jobs, len(setup.resources)
    estimate = jobs.duration_s * settings.estimate_factor
    queued = QueuedJobs(jobs.submit_s, estimate, jobs.priority)
    batch = np.zeros(1, BATCH)
    batch["overtaking"], batch["fair"] = discipline.overtaking, discipline.fair
    batch["half_life_s"] = settings.half_life_s
    # A profile has a point for now, one for each end, and at most two for each reservation.
    count = len(jobs)
    own: dict[str, Column] = {
        "batch": batch,
        "rank": np.ascontiguousarray(discipline.rank(queued, settings), dtype=np.float64),
        "estimate": estimate,
        "waiting": np.zeros(count, np.int64),
        "recent": np.zeros(len(jobs.workloads)),
        "ends": np.zeros(count),
        "amounts": np.zeros((count, resources), np.int64),
        "order": np.zeros(count, np.int64),
        "points": np.zeros(3 * count + 2),
        "profile": np.zeros((3 * count + 2, resources), np.int64),
        "vectors": np.zeros((3, resources), np.int64),
    }
    return extend_world(world, BatchWorld, own)
