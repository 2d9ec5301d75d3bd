"""Allocation scores: how well a node would be filled (Sliwko and Getov, 5.1, 5.2 and 7.8), for any
number of resources.

A score reads *loads*: the used share of each resource of one node, as if the task were there; a
resource that the node does not have is left out (a negative load). Super-tight and overloaded
nodes score 0 in all of them.

The paper draws the two surfaces and gives no formula. For re-allocation (SRAS) it prints two lists
of candidates with what they have left and their fitness (6.2, 6.4); on nodes of 0.5 by 0.4995 they
follow, but for a factor of each list, `e^(1.55 (cpu + memory) − 0.25 |cpu − memory|)` within 2 %,
smooth through 70 %. That is `sras`: fuller is better, best at 90 % of each.

Where a ranking by allocation type is wanted, each type has a band of its own, continuous inside:

- initial (SIAS): an idle node 4, PA in (2, 3], TA in [1, 2], DA in (0, 1): emptier and more even
  is better;
- re-allocation in bands (`sras_bands`): TA in [2, 3], PA in [1, 2), DA in (0, 1): fuller and more
  even is better, best at 90 % of each.

A GAIN is the score with the task less the score without it, where an idle node has nothing to lose.
"""

from __future__ import annotations

import math

from murmuration.base.arrays import Shares
from murmuration.cluster.allocation_types import FULL, TIGHT

IDLE_SCORE = 4.0
#: ln of the re-allocation score: of an empty node, per mean load, and per difference of loads. The
#: lists of 6.2 and 6.4 give 1.54 … 1.58 per load of two resources, and 0.14 … 0.36.
SRAS_EMPTY, SRAS_LOAD, SRAS_UNEVEN = -0.95, 3.1, 0.25
#: The highest re-allocation score.
SRAS_BEST = math.exp(SRAS_EMPTY + SRAS_LOAD * FULL)
#: What a kernel computes: one of three scores, in one of three forms: the score itself, its gain,
#: or its gain drawn in proportion.
BASES, FORMS = 3, 3
PLAIN, GAIN, LINEAR_GAIN = range(FORMS)
#: Names of the scores, as scenarios write them, by base and form.
SCORES = (
    *("sias", "sias-gain", "sias-gain-linear"),
    *("sras", "sras-gain", "sras-gain-linear"),
    *("sras-bands", "sras-bands-gain", "sras-bands-gain-linear"),
)
SIAS, SIAS_GAIN, SIAS_LINEAR, SRAS, SRAS_GAIN, SRAS_LINEAR = range(2 * FORMS)
SRAS_BANDS, SRAS_BANDS_GAIN, SRAS_BANDS_LINEAR = range(2 * FORMS, BASES * FORMS)
#: The settings for new tasks and for migrations: a score, "recorded" for where the trace has the
#: task, "none" for no migration.
INITIAL, MOVE = (*SCORES[: 2 * FORMS], "recorded"), (*SCORES, "none")
#: A node whose gain is greater by half a band of SIAS is drawn four to five times as often. The
#: paper does not say how gains, which are small and of either sign, become weights. On Google's
#: cell this gives its Table 3 and its collisions; 1 gives 3 points more DA, 1 less of TA and of STA
#: and half the collisions; in proportion, STA and DA are 3 and 8 points too many, PA 14 too few.
SHARPNESS = 3.0
#: In proportion, the weight of a node that gains nothing or loses: it is drawn where too few gain.
NO_GAIN = 1e-3

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
    """The re-allocation score of the paper's own log: the fuller and the more even the better, up
    to 90 % of every resource."""
    low, high, sum_, count = 2.0, -1.0, 0.0, 0
    for r in range(loads.shape[0]):
        if loads[r] >= 0.0:
            low, high = min(low, loads[r]), max(high, loads[r])
            sum_ += loads[r]
            count += 1
    if high > FULL:
        return 0.0
    if high < 0.0:
        return math.exp(SRAS_EMPTY)
    return math.exp(SRAS_EMPTY + SRAS_LOAD * sum_ / count - SRAS_UNEVEN * (high - low))


def sras_bands(loads: Loads) -> float:
    """The re-allocation score in bands: TA, then PA, then DA, with its maximum where every resource
    is at 90 %."""
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


def is_initial(kind: int) -> bool:
    """Whether the initial score is behind a kind."""
    return kind < SRAS


def base_score(kind: int, loads: Loads) -> float:
    """The score behind a kind: the initial one, or one of those of re-allocation."""
    if kind < SRAS:
        return sias(loads)
    return sras_bands(loads) if kind >= SRAS_BANDS else sras(loads)


def compare_scores(kind: int, with_task: float, without: float, idle: bool) -> float:
    """The score of a node for a task by its scores with and without it; `idle`: it runs nothing
    now, and its score without the task is 0."""
    if kind % FORMS != PLAIN:
        return with_task - without
    return IDLE_SCORE if idle and kind == SIAS else with_task


def weight(score: float, kind: int) -> float:
    """How likely a node with this score is drawn, relative to others: in proportion to its score;
    gains, which are small and of either sign, by their exponential, or in proportion too."""
    if kind % FORMS == GAIN:
        return math.exp(SHARPNESS * score)
    if kind % FORMS == LINEAR_GAIN:
        return max(score, NO_GAIN)
    return score
