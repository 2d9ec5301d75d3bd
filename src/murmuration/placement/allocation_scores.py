"""Allocation scores: how well a node would be filled (Sliwko and Getov, 5.1, 5.2 and 7.8), for any
number of resources.

A score reads *loads*: the used share of each resource of one node, as if the task were there; a
resource that the node does not have is left out (a negative load). The paper draws the two surfaces
and gives no formula. Ours gives every allocation type a band of its own, so that the paper's
ranking holds everywhere, and is continuous inside each band:

- initial (SIAS): an idle node 4, PA in (2, 3], TA in [1, 2], DA in (0, 1): emptier and more even
  is better;
- re-allocation (SRAS): TA in [2, 3], PA in [1, 2), DA in (0, 1): fuller and more even is better,
  best at 90 % of each;
- super-tight and overloaded nodes score 0 in both.

A GAIN is the score with the task less the score without it, where an idle node has nothing to lose.
"""

from __future__ import annotations

import numpy as np

from murmuration.base.arrays import Shares
from murmuration.cluster.allocation_types import FULL, TIGHT

IDLE_SCORE = 4.0
#: The highest re-allocation score of a node, and of one with a resource below 70 %.
SRAS_BEST, SRAS_BEST_LOOSE = 3.0, 2.0
#: Names of the scores, as scenarios write them; the value says what a kernel computes.
SCORES = ("sias", "sias-gain", "sras", "sras-gain")
SIAS, SIAS_GAIN, SRAS, SRAS_GAIN = range(4)
#: The settings for new tasks and for migrations: a score, "recorded" for where the trace has the
#: task, "none" for no migration.
INITIAL, MOVE = (*SCORES, "recorded"), (*SCORES, "none")
#: A node whose gain is greater by half a band is drawn four to five times as often. Sharper draws
#: fill uneven nodes until they are tight, which takes more migrations later; blunter ones hardly
#: tell gains apart.
SHARPNESS = 3.0

#: The used share of each resource of one node; negative for one it does not have.
Loads = Shares


def sias(loads: Loads) -> float:
    """The initial allocation score of a node that runs something: PA, then TA, then DA."""
    low, high = 2.0, -1.0
    for r in range(loads.shape[0]):
        if loads[r] >= 0.0:
            low, high = min(low, loads[r]), max(high, loads[r])
    if high > FULL:
        return 0.0
    if high < 0.0:
        return 3.0
    if high < TIGHT:
        return 2.0 + 0.5 * (1.0 - high / TIGHT) + 0.5 * (1.0 - (high - low) / TIGHT)
    if low < TIGHT:
        return (1.0 - (high - low) / FULL) * 0.98 + 0.01
    width = FULL - TIGHT
    mean = (high + low) / 2.0
    return 1.0 + 0.5 * max(FULL - mean, 0.0) / width + 0.5 * (1.0 - (high - low) / width)


def sras(loads: Loads) -> float:
    """The re-allocation score: TA, then PA, then DA, with its maximum where every resource is at 90
    %."""
    low, high, sum_, count = 2.0, -1.0, 0.0, 0
    for r in range(loads.shape[0]):
        if loads[r] >= 0.0:
            low, high = min(low, loads[r]), max(high, loads[r])
            sum_ += loads[r]
            count += 1
    if high > FULL:
        return 0.0
    if high < 0.0:
        return 1.5
    mean = sum_ / count
    if low >= TIGHT:
        return min(2.0 + (mean - TIGHT) / (FULL - TIGHT), 3.0)
    if high < TIGHT:
        return 1.0 + 0.5 * mean / TIGHT + 0.5 * (1.0 - (high - low) / TIGHT) * (1.0 - 1e-9)
    return (1.0 - (high - low) / FULL) * 0.98 + 0.01


def base_score(kind: int, loads: Loads) -> float:
    """The score behind a kind: the initial one, or that of re-allocation."""
    return sias(loads) if kind in (SIAS, SIAS_GAIN) else sras(loads)


def compare_scores(kind: int, with_task: float, without: float, idle: bool) -> float:
    """The score of a node for a task by its scores with and without it; `idle`: it runs nothing
    now, and its score without the task is 0."""
    if kind in (SIAS_GAIN, SRAS_GAIN):
        return with_task - without
    return IDLE_SCORE if idle and kind == SIAS else with_task


def weight(score: float, kind: int) -> float:
    """How likely a node with this score is drawn, relative to others: in proportion to its score;
    gains, which are small and of either sign, by their exponential."""
    if kind in (SIAS_GAIN, SRAS_GAIN):
        return float(np.exp(SHARPNESS * score))
    return score
