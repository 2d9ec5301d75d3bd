"""Central scalers to compare with: one component sees the whole cluster and says how much capacity
there should be.

`threshold` is the rule of Kubernetes' horizontal autoscaler and of target tracking in the clouds:
capacity in proportion to measured over wanted utilisation, nothing inside a tolerance, and
downwards only to the highest of the recent recommendations (the stabilisation window). `oracle`
knows the workload to come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray


def proportional(present: float, up: float, load: float, target: float, band: float) -> float:
    """What a threshold scaler recommends: what there is (nodes that start count as helping), or in
    proportion."""
    if target - band < load < target + band:
        return present
    return up * load / target


def stabilise(present: float, latest: float, recent: Sequence[float] | NDArray[Any]) -> float:
    """Up to the latest recommendation at once, down only to the highest of the recent ones."""
    if latest >= present:
        return latest
    highest = latest
    for recommendation in recent:
        highest = max(highest, recommendation)
    return min(present, highest)


def perfect(rate: float, target: float) -> float:
    """The optimal capacity for a rate of requests (Theorems 1 and 2)."""
    return rate / target
