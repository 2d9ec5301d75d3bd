"""Two fidelities of one architecture side by side: agents that exchange messages, and the bulk
form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from murmuration.experiments.result import Row

#: The difference of two means is believed to be noise up to this many standard errors.
STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class Quantity:
    """A figure of a run, and by which share of the bulk mean the agents' mean may differ; None
    judges nothing."""

    name: str
    tolerance: float | None


def compare(
    quantities: Sequence[Quantity],
    bulk: Sequence[Sequence[float]],
    agents: Sequence[Sequence[float]],
) -> list[Row]:
    """One row per quantity, from one row of figures per run: the bulk mean and range, and in place
    of a paper's figure the agents'. It holds if the means differ by no more than the tolerance and
    what the runs' own scatter explains."""
    rows = []
    for k, quantity in enumerate(quantities):
        ours, theirs = (np.array([run[k] for run in runs], float) for runs in (bulk, agents))
        text = f"{theirs.mean():.4g} ({theirs.min():.4g} to {theirs.max():.4g})"
        holds = None
        if quantity.tolerance is not None:
            scatter = math.sqrt(_squared_error(ours) + _squared_error(theirs))
            tolerance = quantity.tolerance * abs(ours.mean()) + STANDARD_ERRORS * scatter
            holds = bool(abs(ours.mean() - theirs.mean()) <= tolerance)
        low, high = float(ours.min()), float(ours.max())
        rows.append(Row(quantity.name, text, float(ours.mean()), low, high, holds))
    return rows


def _squared_error(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """The square of the standard error of a mean."""
    return float(values.var(ddof=1) / len(values)) if len(values) > 1 else 0.0
