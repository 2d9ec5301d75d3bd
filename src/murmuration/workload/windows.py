"""Measured windows to curves: each point is the mean of what was measured within its step, weighted
by time."""

from __future__ import annotations

import numpy as np

from murmuration.base.arrays import Floats, Integers

Floats = Floats


def resample(
    row: Integers,
    start_s: Floats,
    end_s: Floats,
    used: Floats,
    rows: int,
    points: int,
    step_s: float,
) -> Floats:
    """Points by row, step and column from windows of a row each; times count from the start of the
    row.

    What lies before the start or after the last point is left out. A point without a window repeats
    the one before it, those before the first window repeat that one, and a row without any window
    is NaN.
    """
    start, end = np.clip(start_s, 0.0, points * step_s), np.clip(end_s, 0.0, points * step_s)
    first = np.floor(start / step_s).astype(np.int64)
    count = np.maximum(np.ceil(end / step_s).astype(np.int64) - first, 0)
    # One piece for each step that a window touches.
    piece = np.repeat(np.arange(len(row)), count)
    step = first[piece] + np.arange(len(piece)) - np.repeat(np.cumsum(count) - count, count)
    seconds = np.minimum(end[piece], (step + 1) * step_s) - np.maximum(start[piece], step * step_s)
    cell = row[piece] * points + step
    total = np.bincount(cell, seconds, rows * points)
    sums = [
        np.bincount(cell, seconds * used[piece, k], rows * points) for k in range(used.shape[1])
    ]
    with np.errstate(invalid="ignore"):
        means = np.stack(sums, axis=1) / np.where(total > 0, total, np.nan)[:, None]
    return _fill_gaps(means.reshape(rows, points, used.shape[1]))


def _fill_gaps(means: Floats) -> Floats:
    known = ~np.isnan(means[:, :, 0])
    steps = np.arange(means.shape[1])
    last = np.maximum.accumulate(np.where(known, steps, -1), axis=1)
    last = np.where(last < 0, known.argmax(axis=1)[:, None], last)
    return np.take_along_axis(means, last[:, :, None], axis=1)
