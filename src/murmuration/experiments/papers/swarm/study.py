"""Many runs of the paper's simulator of large clouds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from murmuration.base.random import state
from murmuration.experiments.replicates import measure_each
from murmuration.experiments.result import ReproductionSettings
from murmuration.schedulers.swarm.pheromone import PHEROMONES, QUADRATIC
from murmuration.schedulers.swarm.search import RING, SEARCHES
from murmuration.simulation.architectures.swarm.cloud import (
    Outcomes,
    fewest_migrations,
    run_to_equilibrium,
)

CAPACITY = 50
FILLINGS = (49, 25, 1)
SIZES = tuple(range(50, 1001, 50))
#: Runs that draw from one generator, so that the results do not depend on the number of workers.
CHUNK = 50


class StudyPoint(NamedTuple):
    """A cloud of this many nodes, each filled alike."""

    nodes: int
    filling: int
    search: int = RING
    form: int = QUADRATIC

    @property
    def fewest(self) -> float:
        return fewest_migrations(self.nodes, self.filling, CAPACITY)


class StudyChunk(NamedTuple):
    """So many runs of a point, from this one on."""

    point: StudyPoint
    first: int
    runs: int


def study(
    settings: ReproductionSettings, points: Sequence[StudyPoint], runs: int
) -> dict[StudyPoint, Outcomes]:
    """Every point as many times as asked."""
    order = sorted(points, reverse=True)
    chunks = [StudyChunk(p, k, min(CHUNK, runs - k)) for p in order for k in range(0, runs, CHUNK)]
    outcomes = measure_each(settings, "runs", partial(_run_chunk, settings.seed), chunks)
    return {
        point: _join(
            [made for chunk, made in zip(chunks, outcomes, strict=True) if chunk.point == point]
        )
        for point in points
    }


def _run_chunk(seed: int, chunk: StudyChunk) -> Outcomes:
    point = chunk.point
    names = (
        str(point.nodes),
        str(point.filling),
        SEARCHES[point.search],
        PHEROMONES[point.form],
        str(chunk.first),
    )
    start = np.full(point.nodes, point.filling, dtype=np.int64)
    return run_to_equilibrium(
        start, CAPACITY, state(seed, "swarm", *names), chunk.runs, point.form, point.search
    )


def _join(parts: Sequence[Outcomes]) -> Outcomes:
    return Outcomes(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def line(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float]:
    """Intercept, slope and R² of the straight line through these points."""
    slope, intercept = np.polyfit(x, y, 1)
    rest = np.asarray(y) - (intercept + slope * np.asarray(x))
    return float(intercept), float(slope), float(1.0 - rest.var() / np.var(y))
