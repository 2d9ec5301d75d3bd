"""The load of one node, as it measures it itself."""

from __future__ import annotations


def work_of(counted: int, counted_before: int, seconds: float, execution_s: float) -> float:
    """The work of a node: requests per second that it processed or rejected in a time, times how
    long one takes. Then the capacity that work is compared with is the number of requests in
    parallel."""
    return (counted - counted_before) / seconds * execution_s
