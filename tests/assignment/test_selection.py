"""Dominance, reference points and hypervolume against pymoo; NSGA-III's survival; the choice from a
front."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.assignment.problems import SEEDS

from murmuration.assignment.search.archive import Archive
from murmuration.assignment.search.selection import (
    associate,
    finest_partition,
    hypervolume,
    normalise,
    rank_fronts,
    reference_points,
    select_survivors,
    sov,
)

pymoo = pytest.importorskip("pymoo")


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(2, 5), st.integers(1, 40))
def test_fronts_are_pymoos(seed: int, objectives: int, count: int) -> None:
    from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting

    values = np.random.default_rng(seed).integers(0, 6, (count, objectives)).astype(float)
    found = rank_fronts(values, np.zeros(count))
    for rank, front in enumerate(NonDominatedSorting().do(values)):
        assert sorted(front) == np.flatnonzero(found == rank).tolist()


def test_less_bad_comes_before_better() -> None:
    values = np.array([[1.0, 1.0], [9.0, 9.0], [5.0, 5.0]])
    assert rank_fronts(values, np.array([2.0, 0.0, 0.0])).tolist() == [2, 1, 0]


@pytest.mark.parametrize(("objectives", "partitions"), [(2, 5), (3, 4), (4, 6), (5, 3)])
def test_reference_points_are_pymoos(objectives: int, partitions: int) -> None:
    from pymoo.util.ref_dirs import get_reference_directions

    theirs = get_reference_directions("das-dennis", objectives, n_partitions=partitions)
    ours = reference_points(objectives, partitions)
    assert sorted(map(tuple, ours.round(9))) == sorted(map(tuple, theirs.round(9)))
    assert len(reference_points(objectives, finest_partition(objectives, 100))) <= 100


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.integers(2, 4), st.integers(1, 12))
def test_hypervolume_is_pymoos(seed: int, objectives: int, count: int) -> None:
    from pymoo.indicators.hv import HV

    values = np.random.default_rng(seed).random((count, objectives)) * 1.3
    reference = np.full(objectives, 1.1)
    assert hypervolume(values, reference) == pytest.approx(
        float(HV(ref_point=reference)(values)), abs=1e-12
    )


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_niches_are_pymoos(seed: int) -> None:
    from pymoo.algorithms.moo.nsga3 import associate_to_niches

    values = np.random.default_rng(seed).random((30, 3))
    points = reference_points(3, 5)
    theirs, distance, _ = associate_to_niches(values, points, np.zeros(3), np.ones(3))
    niche, mine = associate(values, points)
    np.testing.assert_allclose(mine, distance, atol=1e-9)
    assert (niche == theirs).mean() > 0.95


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_survivors_hold_whole_fronts_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 8, (40, 3)).astype(float)
    kept = select_survivors(values, np.zeros(40), reference_points(3, 4), 15, rng)
    rank = rank_fronts(values, np.zeros(40))
    assert len(set(kept.tolist())) == 15
    left = np.setdiff1d(np.arange(40), kept)
    assert rank[kept].max() <= rank[left].min() or rank[kept].max() == rank[left].min()


def test_survivors_spread_over_the_niches() -> None:
    """From a crowd in one corner and one point in each other niche, the lone points survive."""
    points = reference_points(3, 3)
    crowd = np.array([[0.02, 0.02, 0.96]]) + np.random.default_rng(1).random((50, 3)) * 1e-3
    values = np.concatenate([points, crowd])
    kept = select_survivors(
        values, np.zeros(len(values)), points, len(points), np.random.default_rng(2)
    )
    niches = associate(normalise(values, np.ones(len(values), dtype=bool)), points)[0]
    assert len(set(niches[kept].tolist())) >= len(points) - 1


def test_sov_is_the_mean_of_normalised_objectives() -> None:
    values = np.array([[0.0, 10.0, 5.0], [10.0, 0.0, 5.0], [2.0, 2.0, 5.0]])
    assert sov(values, np.ones(3)).tolist() == pytest.approx([1 / 3, 1 / 3, 0.4 / 3])
    assert sov(values, np.array([3.0, 1.0, 0.0])).argmin() == 2


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(1, 80))
def test_the_archive_is_the_front_of_all_it_was_shown(seed: int, count: int) -> None:
    values = np.random.default_rng(seed).integers(0, 12, (count, 3)).astype(float)
    archive = Archive(1, 3)
    for value in values:
        archive.add(value, 0.0, np.zeros(1, dtype=np.int32))
    unique = np.unique(values, axis=0)
    expected = unique[rank_fronts(unique, np.zeros(len(unique))) == 0]
    assert sorted(map(tuple, archive.front)) == sorted(map(tuple, expected))


def test_a_full_archive_never_loses_the_choose_best_an_objective() -> None:
    archive = Archive(1, 2)
    archive.values, archive.placements = archive.values[:50], archive.placements[:50]
    rng = np.random.default_rng(3)
    best = np.full(2, np.inf)
    for x in rng.random(600):
        value = np.array([x, 1.0 - x + rng.random() * 1e-6])
        archive.add(value, 0.0, np.zeros(1, dtype=np.int32))
        best = np.minimum(best, value)
        assert archive.front.min(axis=0).tolist() == best.tolist()


def test_a_less_bad_placement_clears_the_archive() -> None:
    archive = Archive(1, 2)
    archive.add(np.array([1.0, 1.0]), 2.0, np.zeros(1, dtype=np.int32))
    assert archive.add(np.array([9.0, 9.0]), 0.0, np.ones(1, dtype=np.int32))
    assert not archive.add(np.array([0.0, 0.0]), 1.0, np.zeros(1, dtype=np.int32))
    assert archive.front.tolist() == [[9.0, 9.0]]
