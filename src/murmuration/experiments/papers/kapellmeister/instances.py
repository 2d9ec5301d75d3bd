"""Kapellmeister's clusters: a family of AWS nodes each, equally many of every size, and services of
up to 3 replicas."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from murmuration.assignment.objectives import power_of
from murmuration.assignment.problem import Problem, problem_of
from murmuration.base.random import generator

MB = 1_000_000


class Family(NamedTuple):
    """Nodes (CPUs and memory in MiB of each size, how many of each) and services (whole CPUs,
    memory in MB)."""

    name: str
    sizes: tuple[tuple[int, int], ...]
    each: int
    services: int
    cpu: tuple[int, int]
    memory_mb: tuple[int, int]


#: Bounds are those of the authors' program, the upper ones exclusive.
FAMILIES = {
    "A1": Family("A1", tuple((c, 2048 * c) for c in (1, 2, 4, 8, 16)), 20, 100, (0, 2), (25, 1000)),
    "M4": Family(
        "M4", tuple((c, 4096 * c) for c in (2, 4, 8, 16, 40, 64)), 40, 200, (1, 2), (50, 2000)
    ),
    "M5a": Family(
        "M5a",
        tuple((c, 4096 * c) for c in (2, 4, 8, 16, 32, 48, 64, 96)),
        80,
        400,
        (2, 4),
        (200, 4000),
    ),
}


def instance(family: Family, seed: int) -> Problem:
    """A cluster with nothing placed, as the paper schedules it."""
    rng = generator(seed, "kapellmeister", family.name)
    sizes = np.repeat(np.array(family.sizes), family.each, axis=0)
    group = np.repeat(np.arange(family.services), rng.integers(1, 4, family.services))
    cpu = rng.integers(*family.cpu, size=family.services)
    memory = rng.integers(*family.memory_mb, size=family.services)
    request = np.stack([cpu * 1_000_000, memory * MB], axis=1)[group]
    idle, peak = power_of(sizes[:, 0], sizes[:, 1])
    total = np.stack([sizes[:, 0] * 1_000_000, sizes[:, 1] * MB], axis=1)
    return problem_of(total, request, group=group, idle_watts=idle, peak_watts=peak)


def make_crowded(family: Family, seed: int, load: float) -> Problem:
    """The same nodes and kinds of services, with as many services as ask for this share of CPU or
    memory."""
    rng = generator(seed, "kapellmeister-crowded", family.name)
    sizes = np.repeat(np.array(family.sizes), max(family.each // 5, 1), axis=0)
    total = np.stack([sizes[:, 0] * 1_000_000, sizes[:, 1] * MB], axis=1)
    rows: list[tuple[int, int, int]] = []
    use = np.zeros(2)
    service = 0
    while (use < load * total.sum(axis=0)).all():
        cpu = int(rng.integers(200_000, 2_000_000))
        memory = int(cpu * 2048 * MB / 1_000_000 * rng.uniform(0.6, 1.4))
        for _ in range(int(rng.integers(1, 4))):
            rows.append((cpu, memory, service))
            use += (cpu, memory)
        service += 1
    table = np.array(rows)
    idle, peak = power_of(sizes[:, 0], sizes[:, 1])
    return problem_of(total, table[:, :2], group=table[:, 2], idle_watts=idle, peak_watts=peak)
