"""The DEPAS node (Algorithm 1): from the load it estimates it decides to leave, to add nodes, or to do nothing.

Plain functions of plain numbers: the kernel compiles the same ones. Algorithm 1 writes `p < random()`; with it the expected
capacity would not be the optimal one (Theorems 3 and 4), so a node acts when the draw is below p.
"""

from __future__ import annotations

#: What `decide` answers for a node that removes itself; otherwise it answers how many nodes to add.
LEAVE = -1
HETEROGENEOUS, HOMOGENEOUS = 0, 1
FORMULAS = ("heterogeneous", "homogeneous")


def removal_indicator(load: float, target: float) -> float:
    """The probability to remove oneself at a load below the target (equation 2)."""
    return (target - load) / target


def addition_indicator(load: float, target: float, capacity: float, new_capacity: float, formula: int) -> float:
    """How many nodes to add on average: equation 3, or equation 4, which is right only where all capacities are equal."""
    indicator = (load - target) / target
    if formula == HOMOGENEOUS:
        return indicator
    return indicator * capacity / new_capacity


def whole_number(indicator: float, draw: float) -> int:
    """The integer part for certain, and one more with the probability of the fraction."""
    whole = int(indicator)
    return whole + 1 if draw < indicator - whole else whole


def decide(
    load: float, target: float, band: float, capacity: float, new_capacity: float, formula: int, draw: float
) -> int:
    """One cycle of one node: LEAVE, or the number of nodes to add; `draw` is uniform in [0, 1)."""
    if load <= target - band:
        return LEAVE if draw < removal_indicator(load, target) else 0
    if load >= target + band:
        return whole_number(addition_indicator(load, target, capacity, new_capacity, formula), draw)
    return 0
