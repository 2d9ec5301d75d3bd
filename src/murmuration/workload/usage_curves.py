"""Synthetic usage: cyclic curves of shares, which each task enters at a point of its own.

A curve wanders about its own mean (an autoregressive walk), rises and falls with the day, and
spikes now and then. Memory wanders less than CPU, as it does in the recorded cells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from murmuration.base.arrays import Floats
from murmuration.base.resources import Resources
from murmuration.workload.jobs import JobList
from murmuration.workload.usage import Curves

#: Curves are shared by many tasks that begin at different points; this many are enough not to look
#: alike.
CURVES = 256
DAY_S = 86_400.0
#: How much of the last deviation is left one step later, and how much less memory deviates than
#: CPU.
MEMORY_OF_WALK, CALM = 0.8, 0.25


@dataclass(frozen=True)
class UsageRules:
    """Mean shares of the request, and how they vary; as in a scenario's `usage` table."""

    cpu: float = 1.0
    memory: float = 1.0
    spread: float = 0.0
    noise: float = 0.0
    spikes_per_hour: float = 0.0
    spike: float = 2.0
    daily: float = 0.0
    step_s: float = 300.0


def attach_usage(
    jobs: JobList, rules: UsageRules, resources: Resources, rng: np.random.Generator
) -> JobList:
    """The same jobs, each with a curve."""
    curves = Curves(shares(rules, len(resources), rng), rules.step_s, cyclic=True)
    return replace(jobs, curves=curves, curve=rng.integers(0, len(curves), len(jobs)))


def shares(rules: UsageRules, resources: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Shares by curve, point and resource, with the means asked for."""
    points = max(1, round(DAY_S / rules.step_s))
    means = np.ones(resources)
    means[:2] = rules.cpu, rules.memory
    job_means = np.exp(
        rules.spread * rng.standard_normal((CURVES, 1, resources)) - rules.spread**2 / 2.0
    )
    calm = np.where(np.arange(resources) == 1, CALM, 1.0)
    curves = means * job_means * (1.0 + rules.noise * calm * walk(CURVES, points, resources, rng))
    curves *= (
        1.0 + rules.daily * calm * np.sin(2.0 * np.pi * np.arange(points) / points)[None, :, None]
    )
    curves *= 1.0 + (rules.spike - 1.0) * spikes(rules, points, rng)[:, :, None]
    curves = np.clip(curves, 0.001, None)
    return np.asarray(curves * means / np.maximum(curves.mean(axis=(0, 1)), 1e-9), dtype=np.float32)


def walk(count: int, points: int, resources: int, rng: np.random.Generator) -> Floats:
    """Walks about zero with unit deviation, each step mostly the last one."""
    steps = rng.standard_normal((count, points, resources))
    for k in range(1, points):
        steps[:, k] = (
            MEMORY_OF_WALK * steps[:, k - 1] + np.sqrt(1.0 - MEMORY_OF_WALK**2) * steps[:, k]
        )
    return steps


def spikes(rules: UsageRules, points: int, rng: np.random.Generator) -> Floats:
    """1 at the points where a curve spikes."""
    chance = min(rules.spikes_per_hour * rules.step_s / 3600.0, 1.0)
    return (rng.random((CURVES, points)) < chance).astype(np.float64)
