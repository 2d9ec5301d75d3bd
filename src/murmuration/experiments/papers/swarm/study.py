"""Many runs of the paper's simulator of large clouds, on as many threads as there are workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

import numpy as np

from murmuration.base.random import state
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


def study(
    settings: ReproductionSettings, points: Sequence[StudyPoint], runs: int
) -> dict[StudyPoint, Outcomes]:
    """Every point as many times as asked."""
    chunks = [(point, k) for point in sorted(points, reverse=True) for k in range(0, runs, CHUNK)]
    outcomes: dict[tuple[StudyPoint, int], Outcomes] = {}
    with ThreadPoolExecutor(max(settings.workers, 1)) as pool:
        futures = {
            pool.submit(_chunk, settings.seed, point, k, min(CHUNK, runs - k)): (point, k)
            for point, k in chunks
        }
        for future in as_completed(futures):
            outcomes[futures[future]] = future.result()
            settings.progress("runs", len(outcomes) / len(chunks))
    return {point: _join_chunks(outcomes, point) for point in points}


def _chunk(seed: int, point: StudyPoint, first: int, runs: int) -> Outcomes:
    names = (
        str(point.nodes),
        str(point.filling),
        SEARCHES[point.search],
        PHEROMONES[point.form],
        str(first),
    )
    start = np.full(point.nodes, point.filling, dtype=np.int64)
    return run_to_equilibrium(
        start, CAPACITY, state(seed, "swarm", *names), runs, point.form, point.search
    )


def _join_chunks(
    outcomes: Mapping[tuple[StudyPoint, int], Outcomes], point: StudyPoint
) -> Outcomes:
    parts = [outcomes[key] for key in sorted(key for key in outcomes if key[0] == point)]
    return Outcomes(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def line(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float]:
    """Intercept, slope and R² of the straight line through these points."""
    slope, intercept = np.polyfit(x, y, 1)
    rest = np.asarray(y) - (intercept + slope * np.asarray(x))
    return float(intercept), float(slope), float(1.0 - rest.var() / np.var(y))
