"""Who used how much of late, and what that and other things make of a job's priority: plain
functions that kernels compile and the live master calls.

As in Slurm's multifactor priority: use counts half after every half-life, and a priority is a sum
of factors between 0 and 1, each with a weight.
"""

from __future__ import annotations

import numpy as np

from murmuration.base.arrays import Floats
from murmuration.schedulers.queues.discipline import FactorWeights

# Columns of the weights that `multifactor` takes, and the age at which age counts in full.
AGE, SIZE, FAIR_SHARE, PRIORITY, AGE_MAX_S = range(5)


def list_weights(weights: FactorWeights, age_max_s: float) -> Floats:
    """The weights as `multifactor` reads them."""
    row = np.zeros(AGE_MAX_S + 1)
    row[AGE], row[SIZE], row[FAIR_SHARE] = weights.age, weights.size, weights.fair_share
    row[PRIORITY], row[AGE_MAX_S] = weights.priority, age_max_s
    return row


def add_use(recent: Floats, using: Floats, elapsed: float, half_life_s: float) -> None:
    """Recent use of each account after some time in which it used this much: all of it halves every
    half-life (the integral of both, as what is used changes only at events)."""
    left = 0.5 ** (elapsed / half_life_s)
    for account in range(recent.shape[0]):
        gained = using[account] * half_life_s / np.log(2.0) * (1.0 - left)
        recent[account] = recent[account] * left + gained


def fair_factor(use_share: float, promised_share: float) -> float:
    """1 for who used nothing, 0.5 for who used what it was promised, less beyond."""
    return float(0.5 ** (use_share / promised_share))


def multifactor(
    weights: Floats, age_s: float, size_share: float, fairness: float, priority: float
) -> float:
    """The priority of a job that has waited this long, asks for this share of the cluster, and
    whose owner has this fair-share factor."""
    age = min(age_s / weights[AGE_MAX_S], 1.0)
    factors = weights[AGE] * age + weights[SIZE] * size_share + weights[FAIR_SHARE] * fairness
    return float(factors + weights[PRIORITY] * priority)
