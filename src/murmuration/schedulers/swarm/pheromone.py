"""Pheromones: how strongly a node drives its containers away, and how strongly mates attract one.

Amounts are shares of a node's capacity, so that nodes and containers of any size compare; for
identical containers numbers serve as well. Every function here is plain Python on scalars and rows
that kernels compile as it is.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]

#: The one parameter that switches a cluster: expel what is above the threshold, or also empty the
#: nodes below it.
SPREAD, BIN_PACK = 0, 1
STRATEGIES = ("spread", "bin-pack")
QUADRATIC, LINEAR = 0, 1
PHEROMONES = ("quadratic", "linear")


def spread(n: float, n0: float) -> float:
    """Eq. 3: the share of its containers an overloaded node has too many; 0 if it is not
    overloaded."""
    return (n - n0) / n if n > n0 else 0.0


def bin_pack(n: float, n0: float, n_min: float, form: int) -> float:
    """Eq. 9, or eq. 4 in its linear form: 1 on a node with its last container, 0 on a full one."""
    if n >= n0:
        return 0.0
    p = 1.0 if n <= n_min else (n0 - n) / (n0 - n_min)
    return p if form == LINEAR else p * p


def repulsive(spreading: float, packing: float, strategy: int) -> float:
    """Eq. 23: a node that is overloaded spreads; one that is not packs, unless the strategy is to
    spread only."""
    return spreading if spreading > 0.0 or strategy == SPREAD else packing


def weigh_by_size(p: float, size: float, largest: float) -> float:
    """Eq. 25: the largest container of a node leaves with probability p, smaller ones in
    proportion."""
    return p * (size / largest) if largest > 0.0 else p


def attractive(mates_there: int, group: int) -> float:
    """How strongly a node attracts a container: the share of its group that is there already."""
    return mates_there / group


def dominant(used: Array, capacity: Array, counted: Array) -> float:
    """Eq. 1: the largest share taken of any resource; one that the node lacks or nobody counts says
    nothing."""
    share = 0.0
    for r in range(used.shape[0]):
        if counted[r] and capacity[r] > 0:
            share = max(share, used[r] / capacity[r])
    return share


def least_dominant(used: Array, capacity: Array, counted: Array) -> int:
    """Eq. 2: the resource of which the smallest share is taken, −1 if none counts."""
    lowest, resource = 0.0, -1
    for r in range(used.shape[0]):
        if counted[r] and capacity[r] > 0 and (resource < 0 or used[r] / capacity[r] < lowest):
            lowest, resource = used[r] / capacity[r], r
    return resource


def fullness(used: Array, capacity: Array, resource: int) -> float:
    """The share taken of a node's least dominant resource."""
    return float(used[resource] / capacity[resource]) if resource >= 0 else 0.0


def strategy_at(now: float, strategy: int, switch_s: float, switch_to: int) -> int:
    """The strategy in force at a time: it may change once."""
    return switch_to if now >= switch_s else strategy


def container_size(
    request: Array, capacity: Array, counted: Array, resource: int, packing: bool
) -> float:
    """The size of a container on a node: its share of the node's least dominant resource, or, when
    the node spreads, its largest share."""
    if not packing:
        return dominant(request, capacity, counted)
    return fullness(request, capacity, resource)


def leave_probability(p: float, size: float, largest: float, size_weighted: bool) -> float:
    """Eqs. 24 and 25: the probability that a container leaves in one step."""
    return weigh_by_size(p, min(size, largest), largest) if size_weighted else p
