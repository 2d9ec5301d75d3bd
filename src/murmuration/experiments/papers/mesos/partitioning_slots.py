"""The slot model of sections 4.6 and 4.8 by Monte Carlo: slots come free at random times, a
framework waits for them.

Times are in units of T, the mean task duration. The framework wants k given slots, each busy with
another's task.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from murmuration.base.random import generator

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SlotTrials:
    """The cells of Table 4.1, one value per trial."""

    ramp_up: Floats
    elastic: Floats
    rigid: Floats
    rigid_utilisation: Floats


def free_times(rng: np.random.Generator, trials: int, k: int, constant: bool) -> Floats:
    """When each of the k slots comes free: tasks of constant length end at uniform times,
    exponential ones forget."""
    return rng.uniform(0.0, 1.0, (trials, k)) if constant else rng.exponential(1.0, (trials, k))


def table(seed: int, k: int, beta: float, constant: bool, trials: int) -> SlotTrials:
    """What happens to a framework with a job of βk slot-times that starts with no slots."""
    rng = generator(seed, "slots", str(k), str(constant))
    free = np.sort(free_times(rng, trials, k, constant), axis=1)
    last = free[:, -1]
    # With the first j slots alone the work would be done at this time; the j in use at the end is
    # the best of them.
    ends = (beta * k + np.cumsum(free, axis=1)) / np.arange(1, k + 1)
    hoarded = (last[:, None] - free).sum(axis=1)
    return SlotTrials(last, ends.min(axis=1), last + beta, beta * k / (beta * k + hoarded))


def full_of_long(seed: int, nodes: int, slots: int, long_share: float) -> float:
    """The share of nodes that hold only long tasks after a random assignment of long and short
    tasks to all slots."""
    tasks = np.arange(nodes * slots) < long_share * nodes * slots
    assigned = generator(seed, "long").permutation(tasks).reshape(nodes, slots)
    return float(assigned.all(axis=1).mean())


def harmonic(k: int) -> float:
    return float((1.0 / np.arange(1, k + 1)).sum())
