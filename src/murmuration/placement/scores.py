"""Scores: how good a node is for one more task. Higher is better; ties are broken at random by the
placement.

A score is `score(total, free, request) -> scores`, one number per row, over the exact integer
columns. Each function here is plain Python that Numba compiles as it is. The Kubernetes ones use
its integer arithmetic (0–100, rounded down) on CPU and memory; like there, a resource that a node
does not have is left out of its mean.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from murmuration.base.arrays import Amounts, Scores

Score = Callable[[Amounts, Amounts, Amounts], Scores]


def best_fit(total: Amounts, free: Amounts, request: Amounts) -> Scores:
    """The fullest node that still fits: smallest free share left, summed over resources."""
    scores = np.zeros(total.shape[0])
    for i in range(total.shape[0]):
        for r in range(total.shape[1]):
            if total[i, r] > 0:
                scores[i] -= (free[i, r] - request[r]) / total[i, r]
    return scores


def worst_fit(total: Amounts, free: Amounts, request: Amounts) -> Scores:
    """The emptiest node: largest free share left, summed over resources."""
    scores = np.zeros(total.shape[0])
    for i in range(total.shape[0]):
        for r in range(total.shape[1]):
            if total[i, r] > 0:
                scores[i] += (free[i, r] - request[r]) / total[i, r]
    return scores


def least_allocated(total: Amounts, free: Amounts, request: Amounts) -> Scores:
    """Kubernetes NodeResourcesFit, LeastAllocated: mean free percentage over CPU and memory."""
    scores = np.zeros(total.shape[0])
    for i in range(total.shape[0]):
        points, had = 0, 0
        for r in range(2):
            if total[i, r] > 0:
                points += (max(free[i, r] - request[r], 0) * 100) // total[i, r]
                had += 1
        scores[i] = points // max(had, 1)
    return scores


def most_allocated(total: Amounts, free: Amounts, request: Amounts) -> Scores:
    """Kubernetes NodeResourcesFit, MostAllocated: mean allocated percentage over CPU and memory."""
    scores = np.zeros(total.shape[0])
    for i in range(total.shape[0]):
        points, had = 0, 0
        for r in range(2):
            if total[i, r] > 0:
                points += (min(total[i, r] - free[i, r] + request[r], total[i, r]) * 100) // total[
                    i, r
                ]
                had += 1
        scores[i] = points // max(had, 1)
    return scores


def balanced(total: Amounts, free: Amounts, request: Amounts) -> Scores:
    """Kubernetes NodeResourcesBalancedAllocation: 100 × (1 − deviation of the allocated shares of
    CPU and memory)."""
    scores = np.zeros(total.shape[0])
    for i in range(total.shape[0]):
        deviation = 0.0
        if total[i, 0] > 0 and total[i, 1] > 0:
            cpu = min(1.0, (total[i, 0] - free[i, 0] + request[0]) / total[i, 0])
            memory = min(1.0, (total[i, 1] - free[i, 1] + request[1]) / total[i, 1])
            deviation = abs((cpu - memory) / 2.0)
        scores[i] = np.floor((1.0 - deviation) * 100.0)
    return scores


SCORES: dict[str, Score] = {
    "best-fit": best_fit,
    "worst-fit": worst_fit,
    "least-allocated": least_allocated,
    "most-allocated": most_allocated,
    "balanced": balanced,
}
