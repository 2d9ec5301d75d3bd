"""The DEPAS node (Algorithm 1): from the load it estimates it decides to leave, to add nodes, or to
do nothing.

Plain functions of plain numbers; the kernel compiles `indicator` and `act`. Algorithm 1 writes `p <
random()`; with it the expected capacity would not be the optimal one (Theorems 3 and 4), so a node
acts when the draw is below p.
"""

from __future__ import annotations

#: What `decide` answers for a node that removes itself; otherwise it answers how many nodes to add.
LEAVE = -1
HETEROGENEOUS, HOMOGENEOUS = 0, 1
FORMULAS = ("heterogeneous", "homogeneous")


def indicator(
    load: float, target: float, band: float, capacity: float, new_capacity: float, formula: int
) -> float:
    """The probability indicator: −p to remove oneself (equation 2), the nodes to add on average, or
    0 in the band.

    Additions follow equation 3, or the older equation 4, which is right only where all nodes have
    one capacity.
    """
    if target - band < load < target + band:
        return 0.0
    if load < target or formula == HOMOGENEOUS:
        return (load - target) / target
    return (load - target) / target * capacity / new_capacity


def act(indicator: float, draw: float) -> int:
    """LEAVE with the probability of a negative indicator; else add its whole part and, by its
    fraction, one more."""
    if indicator < 0.0:
        return LEAVE if draw < -indicator else 0
    whole = int(indicator)
    return whole + 1 if draw < indicator - whole else whole


def decide(
    load: float,
    target: float,
    band: float,
    capacity: float,
    new_capacity: float,
    draw: float,
    formula: int = HETEROGENEOUS,
) -> int:
    """One cycle of one node: LEAVE, or the number of nodes to add; `draw` is uniform in [0, 1)."""
    return act(indicator(load, target, band, capacity, new_capacity, formula), draw)
