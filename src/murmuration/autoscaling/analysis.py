"""One DEPAS cycle of a homogeneous system, exactly: the number of nodes that act is binomial, so a
sum gives the odds of where it ends.

Every node knows the load L and acts independently. Below the band K ~ B(n, (L₀ − L)/L₀) nodes
leave; above it each adds the whole part of (L − L₀)/L₀ and K ~ B(n, fraction) of them one more. The
cycle ends inside the band if the load that is left, n·L / nodes, is within L₀ ± δ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

#: Rounding of the loads that are compared with the band's edges.
EPSILON = 1e-12


def binomial_term(n: int, k: int, p: float) -> float:
    """P(K = k) of B(n, p)."""
    if p <= 0.0 or p >= 1.0:
        return float(k == (n if p >= 1.0 else 0))
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(p) + (n - k) * math.log1p(-p))


def outcomes(n: int, load: float, target: float) -> Iterator[tuple[float, float]]:
    """How far from the target the load may be after the cycle, and how probable that is: one pair
    for each K."""
    indicator = (load - target) / target
    whole = math.floor(indicator) if indicator > 0.0 else 0
    p = indicator - whole if indicator > 0.0 else -indicator
    for k in range(n + 1):
        nodes = n + whole * n + k if indicator > 0.0 else n - k
        left = n * load / nodes if nodes else math.inf
        yield abs(left - target), binomial_term(n, k, p)


def acts(load: float, target: float, band: float) -> bool:
    """Whether a node does anything at this load."""
    return load <= target - band or load >= target + band


def probability_inside(n: int, load: float, target: float, band: float) -> float:
    """The probability that one cycle of n nodes from this load ends inside the band; 1 if nothing
    has to be done."""
    if not acts(load, target, band):
        return 1.0
    return min(
        1.0, math.fsum(p for distance, p in outcomes(n, load, target) if distance <= band + EPSILON)
    )


def smallest_band(n: int, load: float, target: float, probability: float) -> float:
    """The smallest δ with which one cycle of n nodes from this load ends inside the band that
    surely.

    The outcomes nearest to the target are taken until their probabilities suffice. A band wider
    than |L − L₀| needs no action at all, so that is its upper limit.
    """
    limit = abs(load - target)
    reached = 0.0
    for distance, p in sorted(outcomes(n, load, target)):
        reached += p
        if reached >= probability - EPSILON:
            return min(distance, limit)
    return limit
