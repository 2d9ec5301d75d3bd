"""Choosing among placements with several objectives: dominance, NSGA-III's reference points, and
one from the front.

**Survival in NSGA-III** (Deb and Jain, 2014). Whole fronts survive while they fit; of the first
that does not, those survive that keep the population spread out. With many objectives nearly
everything is non-dominated and a distance between neighbours says little, so the spread is measured
against *reference points* fixed beforehand, evenly on the plane where normalised objectives sum to
one. Each placement belongs to the niche of the reference line it is nearest to, and the emptiest
niches are filled first.

Objectives have different units, so each is normalised between the *ideal* point (the lowest value
of each) and the *intercepts*: where the plane through the extreme placements of the front meets the
axes. The extreme placement of an axis minimises the largest weighted objective with all other axes
weighted a million times. That plane need not exist (extremes coincide) or may meet an axis at a
useless place; then the largest value of the front is used.

**Constraints first.** `bad` is how far a placement is from being allowed; less bad dominates
whatever the objectives say, so that what cannot be used never crowds out what can.
"""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np

from murmuration.base.arrays import Flags, Floats, Indices, Integers, Scores, Weights
from murmuration.base.jit import compiled


@compiled
def rank_fronts(values: Floats, bad: Scores) -> Integers:
    """The front each placement belongs to, 0 the best: those nobody dominates, then those nobody
    else dominates once these are gone, and so on."""
    count, objectives = values.shape
    better = np.zeros((count, count), dtype=np.bool_)
    worse_than = np.zeros(count, dtype=np.int64)
    for i in range(count):
        for j in range(count):
            if dominates(values, bad, i, j, objectives):
                better[i, j] = True
                worse_than[j] += 1
    rank = np.full(count, -1, dtype=np.int64)
    front, assigned = 0, 0
    while assigned < count:
        for i in range(count):
            if rank[i] < 0 and worse_than[i] == 0:
                rank[i] = front
                assigned += 1
        for i in range(count):
            if rank[i] == front:
                for j in range(count):
                    worse_than[j] -= better[i, j]
        front += 1
    return rank


@compiled
def dominates(values: Floats, bad: Scores, i: int, j: int, objectives: int) -> bool:
    """Whether i is less bad than j; if both are as bad, whether it is no worse in any objective and
    better in one."""
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


def finest_partition(objectives: int, max_points: int) -> int:
    """The finest division with no more reference points than this."""
    partitions = 1
    while math.comb(partitions + objectives, objectives - 1) <= max_points and partitions < 200:
        partitions += 1
    return partitions


def select_survivors(
    values: Floats, bad: Scores, points: Floats, size: int, rng: np.random.Generator
) -> Indices:
    """NSGA-III: whole fronts while they fit, then from the last one those in the emptiest
    niches."""
    rank = rank_fronts(values, bad)
    order = np.argsort(rank, kind="stable")
    if len(order) <= size:
        return order
    last = rank[order[size - 1]]
    kept = np.flatnonzero(rank < last)
    candidates = np.flatnonzero(rank == last)
    considered = np.concatenate([kept, candidates])
    niche, distance = associate(normalise(values[considered], rank[considered] == 0), points)
    chosen = _fill_niches(niche, distance, len(kept), size - len(kept), len(points), rng)
    assert len(kept) + len(chosen) == size, "a population keeps its size"
    return np.concatenate([kept, considered[chosen]])


def normalise(values: Floats, best: Flags) -> Floats:
    """Objectives in units of the distance from the ideal point to the intercepts; `best` marks the
    first front, through whose extremes the plane goes."""
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
            intercepts = 1.0 / plane
        # Beyond the largest value of the front, or almost at the ideal point, the plane is nearly
        # parallel to an axis and says nothing.
        if (
            np.isfinite(intercepts).all()
            and (intercepts > 1e-9 * span).all()
            and (intercepts <= 1.0001 * span).all()
        ):
            scale = intercepts
    except np.linalg.LinAlgError:
        pass
    return np.asarray((values - ideal) / scale)


def associate(values: Floats, points: Floats) -> tuple[Indices, Floats]:
    """The reference line nearest to each placement, and how far it is."""
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    along = values @ unit.T
    square = np.maximum((values**2).sum(axis=1)[:, None] - along**2, 0.0)
    niche = square.argmin(axis=1)
    return niche, np.sqrt(square[np.arange(len(values)), niche])


def _fill_niches(
    niche: Indices, distance: Floats, kept: int, wanted: int, niches: int, rng: np.random.Generator
) -> Indices:
    """Choose candidates, which stand after the kept ones, from the emptiest niches in turn: the
    nearest to the line for a niche that is empty, any for one that is not."""
    count = np.bincount(niche[:kept], minlength=niches)
    waiting = [list[int]() for _ in range(niches)]
    for k in sorted(range(kept, len(niche)), key=lambda k: float(distance[k])):
        waiting[niche[k]].append(k)
    chosen: list[int] = []
    open_niches = [n for n in range(niches) if waiting[n]]
    while len(chosen) < wanted:
        fewest = min(count[n] for n in open_niches)
        n = int(rng.choice([n for n in open_niches if count[n] == fewest]))
        place = 0 if count[n] == 0 else int(rng.integers(len(waiting[n])))
        chosen.append(waiting[n].pop(place))
        count[n] += 1
        if not waiting[n]:
            open_niches.remove(n)
    return np.array(chosen, dtype=np.int64)


def sov(values: Floats, weights: Weights) -> Scores:
    """Kapellmeister's single objective value: the weighted mean of objectives normalised over the
    front."""
    low, high = values.min(axis=0), values.max(axis=0)
    scaled = (values - low) / np.where(high > low, high - low, 1.0)
    return np.asarray(scaled @ weights / weights.sum())


def choose_best(
    front: Floats, weights: Weights, reference: Floats, counted: Flags, or_equal: bool = False
) -> int:
    """The first row of `rank_rows`."""
    return int(rank_rows(front, weights, reference, counted, or_equal)[0])


def rank_rows(
    front: Floats,
    weights: Weights,
    reference: Floats,
    counted: Flags,
    or_equal: bool = False,
    ties: Scores | None = None,
) -> Indices:
    """The rows of a front, the best first: by the mean normalised objective, first those better
    than the reference in something that counts and worse in nothing, else (with `or_equal`) those
    worse in nothing. Between equals the lower of `ties` comes first."""
    merit = sov(front, weights).round(9)
    no_worse, better = compare_rows(front, reference, counted)
    first = no_worse if or_equal and not better.any() else better
    return np.lexsort((np.zeros(len(front)) if ties is None else ties, merit, ~first))


def compare_rows(front: Floats, reference: Floats, counted: Flags) -> tuple[Flags, Flags]:
    """Which rows are worse than the reference in nothing that counts, and which of these are better
    in something."""
    tolerance = 1e-9 * np.abs(reference)
    no_worse: Flags = np.asarray((front <= reference + tolerance)[:, counted].all(axis=1))
    lower: Flags = np.asarray((front < reference - tolerance)[:, counted].any(axis=1))
    return no_worse, no_worse & lower


def rank_by_knee(
    front: Floats, reference: Floats, counted: Flags, moves: Scores, limited: bool = False
) -> Indices:
    """The rows of a front, the best first, by what they gain for their moves.

    The gain of a row is the mean share by which the objectives that count are below the reference.
    Gains grow with the moves, fast at first and slowly later; the row farthest above the straight
    line from no move to the greatest gain is the knee. Where the moves are `limited`, the greatest
    gain comes first. Rows that are no gain come last, those with the fewest moves first.
    """
    _, better = compare_rows(front, reference, counted)
    unit = np.where(reference != 0, np.abs(reference), 1.0)
    gain = np.where(better, ((reference - front) / unit)[:, counted].mean(axis=1), -np.inf)
    if not better.any():
        return np.argsort(moves, kind="stable")
    top = int(gain.argmax())
    price = 0.0 if limited else 1.0 / max(moves[top], 1.0)
    height = gain / max(gain[top], 1e-12) - moves * price
    return np.lexsort((moves, np.where(better, -height.round(9), np.inf)))


def hypervolume(values: Floats, reference: Floats) -> float:
    """The volume between a front and a reference point, by slices along the last objective.

    Exact and simple; its time grows steeply with the number of objectives, which is four in every
    comparison.
    """
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
                _keep_nondominated(inside[: k + 1, :-1]), reference[:-1]
            )
    return total


def _area(inside: Floats, reference: Floats) -> float:
    """The same for two objectives: a staircase, from the left."""
    order = np.lexsort((inside[:, 1], inside[:, 0]))
    total, low = 0.0, float(reference[1])
    for x, y in inside[order]:
        if y < low:
            total += (reference[0] - x) * (low - y)
            low = y
    return float(total)


def _keep_nondominated(values: Floats) -> Floats:
    """Only those no other dominates; of equal ones the first."""
    unique = np.unique(values, axis=0)
    return np.asarray(unique[rank_fronts(unique, np.zeros(len(unique))) == 0])
