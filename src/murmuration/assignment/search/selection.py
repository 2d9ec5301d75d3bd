"""Choosing among placements with several objectives: dominance, NSGA-III's reference points, and
one from the front."""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.assignment.problem import Flags, Floats, Integers
from murmuration.base.jit import compiled

Array = NDArray[Any]


@compiled
def ranks(values: Array, bad: Array) -> Array:
    """The front each placement belongs to, 0 the best: less bad dominates, then no worse everywhere
    and better once."""
    count, objectives = values.shape
    better = np.zeros((count, count), dtype=np.bool_)
    worse_than = np.zeros(count, dtype=np.int64)
    for i in range(count):
        for j in range(count):
            if dominates(values, bad, i, j, objectives):
                better[i, j] = True
                worse_than[j] += 1
    found = np.full(count, -1, dtype=np.int64)
    front, assigned = 0, 0
    while assigned < count:
        for i in range(count):
            if found[i] < 0 and worse_than[i] == 0:
                found[i] = front
                assigned += 1
        for i in range(count):
            if found[i] == front:
                for j in range(count):
                    worse_than[j] -= better[i, j]
        front += 1
    return found


@compiled
def dominates(values: Array, bad: Array, i: int, j: int, objectives: int) -> bool:
    if bad[i] != bad[j]:
        return bad[i] < bad[j]  # type: ignore[no-any-return]
    once = False
    for k in range(objectives):
        if values[i, k] > values[j, k]:
            return False
        once |= values[i, k] < values[j, k]
    return once


def reference_points(objectives: int, partitions: int) -> Floats:
    """Das and Dennis: every vector of multiples of 1/partitions that sums to one."""
    rows = []
    for bars in combinations(range(partitions + objectives - 1), objectives - 1):
        edges = (-1, *bars, partitions + objectives - 1)
        rows.append([b - a - 1 for a, b in pairwise(edges)])
    return np.array(rows, dtype=np.float64) / partitions


def partitions_for(objectives: int, most: int) -> int:
    """The finest division with no more reference points than this."""
    found = 1
    while math.comb(found + objectives, objectives - 1) <= most and found < 200:
        found += 1
    return found


def survivors(
    values: Floats, bad: Floats, points: Floats, size: int, rng: np.random.Generator
) -> Integers:
    """NSGA-III: whole fronts while they fit, then from the last one those in the emptiest
    niches."""
    rank = ranks(values, bad)
    order = np.argsort(rank, kind="stable")
    if len(order) <= size:
        return order
    last = rank[order[size - 1]]
    kept = np.flatnonzero(rank < last)
    candidates = np.flatnonzero(rank == last)
    considered = np.concatenate([kept, candidates])
    niche, distance = associate(normalised(values[considered], rank[considered] == 0), points)
    chosen = _niching(niche, distance, len(kept), size - len(kept), len(points), rng)
    return np.concatenate([kept, considered[chosen]])


def normalised(values: Floats, best: NDArray[np.bool_]) -> Floats:
    """Objectives between the ideal point and where the plane through the extreme points meets the
    axes."""
    front = values[best] if best.any() else values
    ideal = values.min(axis=0)
    moved = front - ideal
    count = values.shape[1]
    span = np.maximum(moved.max(axis=0), 1e-12)
    asf = np.full((count, count), 1e6) - (1e6 - 1.0) * np.eye(count)
    extremes = moved[[int((moved / span * asf[k]).max(axis=1).argmin()) for k in range(count)]]
    scale = span
    try:
        plane = np.linalg.solve(extremes, np.ones(count))
        with np.errstate(divide="ignore"):
            meets = 1.0 / plane
        if (
            np.isfinite(meets).all()
            and (meets > 1e-9 * span).all()
            and (meets <= 1.0001 * span).all()
        ):
            scale = meets
    except np.linalg.LinAlgError:
        pass
    return np.asarray((values - ideal) / scale)


def associate(values: Floats, points: Floats) -> tuple[Integers, Floats]:
    """The reference line nearest to each placement, and how far it is."""
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    along = values @ unit.T
    square = np.maximum((values**2).sum(axis=1)[:, None] - along**2, 0.0)
    niche = square.argmin(axis=1)
    return niche, np.sqrt(square[np.arange(len(values)), niche])


def _niching(
    niche: Integers, distance: Floats, kept: int, wanted: int, niches: int, rng: np.random.Generator
) -> Integers:
    """Candidates, which stand after the kept ones, from the emptiest niches in turn: the nearest,
    then any."""
    count = np.bincount(niche[:kept], minlength=niches)
    waiting = [list[int]() for _ in range(niches)]
    for k in sorted(range(kept, len(niche)), key=lambda k: float(distance[k])):
        waiting[niche[k]].append(k)
    chosen: list[int] = []
    open_niches = [n for n in range(niches) if waiting[n]]
    while len(chosen) < wanted:
        least = min(count[n] for n in open_niches)
        n = int(rng.choice([n for n in open_niches if count[n] == least]))
        place = 0 if count[n] == 0 else int(rng.integers(len(waiting[n])))
        chosen.append(waiting[n].pop(place))
        count[n] += 1
        if not waiting[n]:
            open_niches.remove(n)
    return np.array(chosen, dtype=np.int64)


def sov(values: Floats, weights: Floats) -> Floats:
    """Kapellmeister's single objective value: the weighted mean of objectives normalised over the
    front."""
    low, high = values.min(axis=0), values.max(axis=0)
    scaled = (values - low) / np.where(high > low, high - low, 1.0)
    return np.asarray(scaled @ weights / weights.sum())


def best_of(
    front: Floats, weights: Floats, reference: Floats, counted: Flags, or_equal: bool = False
) -> int:
    """The best mean normalised objective among those better than the reference in something that
    counts and worse in nothing, else (with `or_equal`) among those worse in nothing, else among
    all."""
    merit = sov(front, weights)
    tolerance = 1e-9 * np.abs(reference)
    no_worse = (front <= reference + tolerance)[:, counted].all(axis=1)
    better = no_worse & (front < reference - tolerance)[:, counted].any(axis=1)
    chosen = no_worse if or_equal and not better.any() else better
    if chosen.any():
        merit = np.where(chosen, merit, np.inf)
    return int(merit.argmin())


def hypervolume(values: Floats, reference: Floats) -> float:
    """The volume between a front and a reference point, by slices along the last objective."""
    inside = values[(values < reference).all(axis=1)]
    if not len(inside):
        return 0.0
    if values.shape[1] == 1:
        return float(reference[0] - inside.min())
    if values.shape[1] == 2:
        return _area(inside, reference)
    order = np.argsort(inside[:, -1], kind="stable")
    inside = inside[order]
    heights = np.append(inside[:, -1], reference[-1])
    total = 0.0
    for k in range(len(inside)):
        if heights[k + 1] > heights[k]:
            total += (heights[k + 1] - heights[k]) * hypervolume(
                _front(inside[: k + 1, :-1]), reference[:-1]
            )
    return total


def _area(inside: Floats, reference: Floats) -> float:
    order = np.lexsort((inside[:, 1], inside[:, 0]))
    total, low = 0.0, float(reference[1])
    for x, y in inside[order]:
        if y < low:
            total += (reference[0] - x) * (low - y)
            low = y
    return float(total)


def _front(values: Floats) -> Floats:
    """Only those no other dominates; of equal ones the first."""
    unique = np.unique(values, axis=0)
    return np.asarray(unique[ranks(unique, np.zeros(len(unique))) == 0])
