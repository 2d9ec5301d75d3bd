"""Central scalers to compare with: one part sees the whole cluster and says how much capacity there should be.

`threshold` is the rule of Kubernetes' horizontal autoscaler and of target tracking in the clouds: capacity in proportion to
measured over wanted utilisation, nothing inside a tolerance, and downwards only to the highest of the recent
recommendations (the stabilisation window). `oracle` knows the workload to come.
"""

from __future__ import annotations

from collections.abc import Sequence


def proportional(capacity: float, load: float, target: float, band: float) -> float:
    """The capacity a threshold scaler recommends at a measured load."""
    if target - band < load < target + band:
        return capacity
    return capacity * load / target


def stabilised(capacity: float, recent: Sequence[float]) -> float:
    """Up to the latest recommendation at once, down only to the highest of the recent ones; `recent` ends with the latest."""
    latest = recent[len(recent) - 1]
    if latest >= capacity:
        return latest
    highest = latest
    for recommendation in recent:
        highest = max(highest, recommendation)
    return min(capacity, highest)


def perfect(rate: float, target: float) -> float:
    """The optimal capacity for a rate of requests (Theorems 1 and 2)."""
    return rate / target
